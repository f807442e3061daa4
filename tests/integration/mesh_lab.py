# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A lab as a user of the collection sees it: an inventory, playbooks to run, and a way to look at everything in a cluster."""

from __future__ import annotations

import base64
import copy
import json
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.lab.addresses import NETWORK
from tests.lab.api import LabApi
from tests.lab.lab import Lab
from tests.lab.options import LabOptions
from tests.lab.played import ADMIN
from tests.testing.playbooks import PlaybookRun, run_playbook, run_warm
from tests.testing.result_schema import hold_to_schema
from tests.testing.waiting import wait_for

NAMESPACE = "kube-system"
LAB_VARIABLES = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "cilium_mesh_endpoint_networks": [NETWORK],
}
"""Variables of every host of a lab."""
COUNTERS = ("deployment.kubernetes.io/", "deprecated.daemonset.template.generation")
"""Annotations in which controllers count the changes of a pod template."""
_ETCDCTL = (
    "/usr/bin/etcdctl",
    "--endpoints=https://127.0.0.1:2379",
    "--cacert=/var/lib/cilium/etcd-secrets/ca.crt",
    "--cert=/var/lib/cilium/etcd-secrets/tls.crt",
    "--key=/var/lib/cilium/etcd-secrets/tls.key",
)
KINDS = (
    f"/api/v1/namespaces/{NAMESPACE}/secrets",
    f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    f"/api/v1/namespaces/{NAMESPACE}/services",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
)
"""Collections of everything that the collection may write."""


class MeshLab:
    """A running lab. Use as a context manager."""

    def __init__(self, options: LabOptions) -> None:
        self._options = options
        self.names: tuple[str, ...] = tuple(cluster.name for cluster in options.cluster_options())
        self.runs_that_wrote: list[str] = []
        """Playbooks of which a task changed something, of this lab and of every `part` of it."""
        self.last_runs: deque[str] = deque(maxlen=3)
        """What the last playbooks printed, the newest last. A test that fails shows it (conftest.py)."""

    def __enter__(self) -> Self:
        self.lab = Lab(self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.lab.close()

    def part(self, clusters: int | None) -> MeshLab:
        """Return the same lab as a user sees it whose inventory has only the first ``clusters`` of it; None: all."""
        part = copy.copy(self)
        part.names = self.names[:clusters]
        return part

    def api(self, cluster: str) -> LabApi:
        return self.lab.clusters[cluster].api

    def inventory(self, hosts: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
        """A plain inventory, one host per cluster; ``hosts`` adds or overrides host variables."""
        rows = {name: {"cilium_mesh_kubeconfig": str(self.lab.clusters[name].kubeconfig)} for name in self.names}
        for name, extra in (hosts or {}).items():
            rows[name] = {**rows.get(name, {}), **extra}
        return {"all": {"vars": dict(LAB_VARIABLES), "hosts": rows}}

    def mesh(self, *names: str, binding: str = "edge-mesh-eu", **config: Any) -> dict[str, Any]:
        """The ``cilium_mesh`` variable for some clusters (default all)."""
        spec: dict[str, Any] = {"name": binding, "clusterRefs": [{"name": name} for name in names or self.names]}
        return {"binding": {**spec, "meshConfig": config} if config else spec}

    def play(
        self,
        playbook: str,
        *,
        mesh: Mapping[str, Any] | None = None,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
        arguments: Sequence[str] = (),
        verbosity: int = 0,
        environment: Mapping[str, str] | None = None,
        own_process: bool = False,
        **variables: Any,
    ) -> PlaybookRun:
        """Run a playbook of the collection over all clusters of the lab, and hold the file of its result to the schema and the statistic.

        :param own_process: start ansible-playbook through ansible-runner, as AWX does, and not as a fork of a warm process. ``verbosity``
            and ``environment`` imply it: they belong to the start of a process.
        """
        with TemporaryDirectory() as folder:
            file = Path(folder, "result.json")
            inventory, every = (
                self.inventory(hosts),
                {"cilium_mesh": mesh or self.mesh(), "cilium_mesh_result_file": str(file), **variables},
            )
            if own_process or verbosity or environment is not None:
                run = run_playbook(
                    playbook, inventory=inventory, variables=every, arguments=arguments, verbosity=verbosity, environment=environment
                )
            else:
                run = run_warm(playbook, inventory=inventory, variables=every, arguments=arguments)
            if every["cilium_mesh_result_file"] == str(file):
                _hold_file(file, run)
        if run.changed or (run.mesh_result or {}).get("changed", True):
            self.runs_that_wrote.append(playbook)
        self.last_runs.append(f"{playbook}.yml ended with status {run.rc}\n{run.output}")
        return run

    def snapshot(self, *, volatile: bool = False) -> dict[str, Any]:
        """Everything that could have been written, by cluster and path, without what servers write by themselves.

        ``volatile`` keeps resourceVersion and managedFields, for the proof that nothing at all was written.
        """
        found: dict[str, Any] = {}
        for name in self.names:
            api = self.api(name)
            for path in KINDS:
                for item in api.list(path):
                    found[f"{name}{path}/{item['metadata']['name']}"] = _comparable(item, volatile=volatile)
        return found

    def secret(self, cluster: str, name: str) -> dict[str, bytes]:
        """Decoded data of a Secret; {} when there is none."""
        item = self.api(cluster).get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        return {key: base64.b64decode(value) for key, value in ((item or {}).get("data") or {}).items()}

    def users(self, cluster: str) -> list[dict[str, str]]:
        """The per-peer users of a cluster's etcd; [] without the ConfigMap."""
        item = self.api(cluster).get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/clustermesh-remote-users")
        return (yaml.safe_load(((item or {}).get("data") or {}).get("users.yaml", "")) or {}).get("users") or []

    def etcdctl(self, cluster: str, *command: str) -> str:
        """Run etcdctl as the administrator of a cluster's mesh etcd and return what it prints."""
        return self._exec(cluster, ADMIN, [*_ETCDCTL, *command])

    def kvstoremesh_status(self, cluster: str) -> dict[str, dict[str, Any]]:
        """What the real kvstoremesh process says of its peers, by their names."""
        answer = self._exec(cluster, "kvstoremesh", ["clustermesh-apiserver", "kvstoremesh-dbg", "status", "-o", "json"])
        return {row["name"]: row for row in json.loads(answer) or []}

    def _exec(self, cluster: str, container: str, command: list[str]) -> str:
        """Run a command in a container of a cluster's living mesh pod and return what it prints."""
        access = ClusterAccess(host=cluster, kubeconfig=str(self.lab.clusters[cluster].kubeconfig), context=None)
        found = self.api(cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=clustermesh-apiserver")
        alive = [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
        with open_cluster(access) as client:
            answer = client.exec(alive[-1], container, command)
        assert answer.exit_code == 0, answer.stderr
        return answer.stdout

    def wait_connected(self) -> None:
        """Wait until kvstoremesh of every cluster is ready for every other one. It takes up to 25 s to notice that a connection is gone or
        back."""

        def late() -> dict[str, str]:
            rows = {name: self.kvstoremesh_status(name) for name in self.names}
            links = [(name, peer) for name in self.names for peer in self.names if peer != name]
            found = {f"{name} -> {peer}": rows[name].get(peer, {}) for name, peer in links}
            return {link: str(row.get("status")) for link, row in found.items() if not row.get("ready")}

        self.wait_for_mesh_pods()
        # While a container starts, there is no process to ask.
        wait_for(
            late,
            lambda found: not found,
            what="kvstoremesh of every cluster is ready for its peers",
            passing=(AssertionError, ClusterError),
            every=0.7,  # each probe runs a program in every mesh pod
        )

    def wait_for_mesh_pods(self) -> None:
        """Wait until every pod of clustermesh-apiserver is ready."""

        def late() -> list[str]:
            path, label = f"/api/v1/namespaces/{NAMESPACE}/pods", "k8s-app=clustermesh-apiserver"
            pods = [pod for name in self.names for pod in self.api(name).list(path, label_selector=label)]
            return [f"{pod['metadata']['name']}: {pod['status'].get('conditions')}" for pod in pods if not _is_ready(pod)]

        wait_for(late, lambda found: not found, what="every pod of clustermesh-apiserver is ready")


def _hold_file(file: Path, run: PlaybookRun) -> None:
    assert file.exists() or run.mesh_result is None, f"no file of the result\n{run.output}"
    if file.exists():
        result = json.loads(file.read_text(encoding="ascii"))
        hold_to_schema(result)
        end = result.pop("run")
        assert result == run.mesh_result, "the file and the statistic differ"
        assert end["failed"] is (run.rc != 0), f"{end}, and the status is {run.rc}\n{run.output}"


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


def _comparable(item: Mapping[str, Any], *, volatile: bool) -> dict[str, Any]:
    metadata = dict(item["metadata"])
    for key in ("generation", "uid", "creationTimestamp"):
        metadata.pop(key, None)
    if not volatile:
        for key in ("resourceVersion", "managedFields"):
            metadata.pop(key, None)
        annotations = metadata.get("annotations", {}).items()
        metadata["annotations"] = {key: value for key, value in annotations if not key.startswith(COUNTERS)}
    kept = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    if volatile and "status" in item:  # controllers write the status of workloads whenever pods change; that is no write of ours
        metadata.pop("resourceVersion", None)
        metadata.pop("managedFields", None)
    if not volatile and item["metadata"]["name"] == "clustermesh-remote-users":
        # Lists without entries are "users:" or "users: []", as the chart and people write them; Cilium reads both alike.
        kept["data"] = {"users": (yaml.safe_load(item["data"]["users.yaml"]) or {}).get("users") or []}
    return {"metadata": metadata, **kept}
