# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All that an operator needs around it, for a file of tests: a kcp, a management plane, and clusters with a Service each.

with open_operator_lab(folder) as lab:
    shop = lab.workspace("shop", "c1", "c2")
    with lab.operator("--no-leader-elect") as operator:
        shop.create("ClusterMeshBinding", "edge", clusterRefs=shop.refs("c1", "c2"))
        operator.wait(lambda: shop.phase("ClusterMeshBinding", "edge"), "the mesh is connected", until=equals("Connected"))

Tests take it from the fixture `operator_lab`, which all files of one worker share.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BY_KIND, CLUSTER, FLEET_GROUP, GROUP, ROWS, VERSION
from mesh_operator.meshes.records import name_of
from tests.integration.everything import everything
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import NAMESPACE as SHOP
from tests.integration.shop import furnish
from tests.lab.options import LabOptions
from tests.testing.kcp_client import Client, path_of
from tests.testing.kcp_world import Tenant, World, open_world
from tests.testing.management_plane import NAMESPACE, ManagementPlane
from tests.testing.namespace_world import HOME as OPERATOR_HOME
from tests.testing.namespace_world import LABEL, NamespaceWorld, open_namespaces
from tests.testing.operator_process import OperatorProcess

Object = dict[str, Any]
CHECK: Final = 2  # seconds between two looks at a mesh


@dataclass(frozen=True)
class Workspace:
    """A tenant at work. ``clusters``: names of his Clusters on the management plane, by those of his KubernetesClusters."""

    tenant: Tenant
    management: ManagementPlane
    lab: MeshLab
    clusters: dict[str, str]

    @property
    def client(self) -> Client:
        return self.tenant.client

    def add(self, name: str, *, kubeconfig: Path | None = None, ready: bool = True) -> None:
        """A KubernetesCluster and what the platform makes of it. It is the lab's cluster of that name, unless a kubeconfig is given."""
        path = kubeconfig or self.lab.lab.clusters[name].kubeconfig
        self.clusters[name] = self.management.add(self.tenant.cluster, name, path, ready=ready)
        self.create(CLUSTER, name, providerRef={"name": "kind"})

    def rotate(self, name: str, kubeconfig: Path) -> None:
        """The cluster of that name has another kubeconfig."""
        self.management.rotate(self.clusters[name], kubeconfig)

    def set_ready(self, name: str, ready: bool) -> None:
        """The management plane says that the cluster is ready, or not."""
        self.management.set_status(self.clusters[name], ready=ready)

    def lose(self, name: str) -> None:
        """The cluster is deleted, and the management plane knows it no more."""
        self.management.remove(self.clusters[name])
        self.delete(CLUSTER, name)

    def refs(self, *names: str) -> list[Object]:
        return [{"name": name} for name in names or self.clusters]

    def create(self, kind: str, name: str, *, namespace: str = "", **spec: Any) -> Object:
        return self.client.create({**_head(kind, name, namespace or self.tenant.home), "spec": spec})

    def get(self, kind: str, name: str, *, namespace: str = "") -> Object | None:
        return self.client.get(path_of(_head(kind, name, namespace or self.tenant.home)))

    def change(self, kind: str, name: str, *, namespace: str = "", **spec: Any) -> Object:
        """Some fields of its spec."""
        return self.merge(kind, name, {"spec": spec}, namespace=namespace)

    def merge(self, kind: str, name: str, body: Object, *, namespace: str = "") -> Object:
        return self.client.merge(path_of(_head(kind, name, namespace or self.tenant.home)), body)

    def delete(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Ask for it; it goes when no finalizer is left."""
        self.client.delete(path_of(_head(kind, name, namespace or self.tenant.home)))

    def status(self, kind: str, name: str, *, namespace: str = "") -> Object:
        """{} where there is none."""
        found: Object = (self.get(kind, name, namespace=namespace) or {}).get("status") or {}
        return found

    def phase(self, kind: str, name: str, *, namespace: str = "") -> str:
        return str(self.status(kind, name, namespace=namespace).get("phase", ""))

    def condition(self, kind: str, name: str, of: str = "Ready", *, namespace: str = "") -> Object:
        """{} where there is none."""
        conditions = self.status(kind, name, namespace=namespace).get("conditions") or []
        return next((entry for entry in conditions if entry["type"] == of), {})

    def resources(self) -> dict[str, Object]:
        """Everything that the operator has to do with, in all namespaces, by "kind/name"."""
        kinds = [row for row in ROWS if row.kind != CLUSTER]
        return {
            f"{row.kind}/{found['metadata']['name']}": found for row in kinds for found in self.client.list(self.path_of_all(row.plural))
        }

    def path_of_all(self, plural: str) -> str:
        """Path of all objects of one of our kinds that the tenant has."""
        return f"/apis/{GROUP}/{VERSION}/{plural}"

    @property
    def _records(self) -> str:
        """The namespace of the operator's records."""
        return NAMESPACE

    def key(self, binding: str, *, namespace: str = "") -> MeshKey:
        return MeshKey(self.tenant.cluster, namespace or self.tenant.home, binding)

    def owner(self, binding: str, *, namespace: str = "") -> str:
        """Value of the label that everything has which the mesh made in clusters."""
        return _owner(self.key(binding, namespace=namespace))

    def record(self, binding: str, *, namespace: str = "") -> Object | None:
        """What the operator remembers of a mesh."""
        name = name_of(self.key(binding, namespace=namespace))
        found = self.management.api.get(f"/api/v1/namespaces/{self._records}/configmaps/{name}")
        return None if found is None else dict(json.loads(found["data"]["record"]))


@dataclass(frozen=True)
class NamespaceWorkspace(Workspace):
    """A tenant of an operator without kcp: a namespace, with the kubeconfigs in Secrets of its own.

    ``clusters``: names of the Secrets, by those of the clusters. Nothing says whether a cluster is ready: one that is not has no Secret.
    """

    files: dict[str, Path] = field(default_factory=dict)  # kubeconfigs by the names of the clusters

    def add(self, name: str, *, kubeconfig: Path | None = None, ready: bool = True) -> None:
        """A Secret of the tenant's own with the kubeconfig of a cluster."""
        self.files[name] = kubeconfig or self.lab.lab.clusters[name].kubeconfig
        self.clusters[name] = f"{name}-of-{self.tenant.home}"
        if ready:
            self.set_ready(name, True)

    def rotate(self, name: str, kubeconfig: Path) -> None:
        """The cluster of that name has another kubeconfig."""
        self.files[name] = kubeconfig
        self.client.merge(path_of(self._secret(name)), {"data": self._secret(name)["data"]})

    def set_ready(self, name: str, ready: bool) -> None:
        """The Secret of the cluster is there, or not."""
        if ready:
            self.client.ensure(self._secret(name))
        else:
            self.client.delete(path_of(self._secret(name)))

    def lose(self, name: str) -> None:
        """The Secret of the cluster is deleted."""
        self.set_ready(name, False)

    def _secret(self, name: str) -> Object:
        data = {"kubeconfig": base64.b64encode(self.files[name].read_bytes()).decode()}
        metadata = {"name": self.clusters[name], "namespace": self.tenant.home, "labels": {LABEL: name}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}

    def path_of_all(self, plural: str) -> str:
        """Path of all objects of one of our kinds in the namespace."""
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.tenant.home}/{plural}"

    @property
    def _records(self) -> str:
        return OPERATOR_HOME


@dataclass(frozen=True)
class OperatorLab:
    """See the module."""

    world: World
    management: ManagementPlane
    clusters: MeshLab
    folder: Path
    namespaces: NamespaceWorld | None = None  # the source of custom resources in place of the kcp

    @contextmanager
    def without_kcp(self) -> Iterator[OperatorLab]:
        """The same lab with tenants in namespaces of the management plane."""
        with open_namespaces(self.management) as namespaces:
            yield replace(self, namespaces=namespaces)

    @property
    def source(self) -> World | NamespaceWorld:
        """Where the custom resources are."""
        return self.namespaces or self.world

    def workspace(self, name: str, *clusters: str) -> Workspace:
        """A new tenant who has these clusters of the lab."""
        kind = NamespaceWorkspace if self.namespaces else Workspace
        made = kind(self.source.tenant(name), self.management, self.clusters, {})
        for cluster in clusters:
            made.add(cluster)
        return made

    def operator(self, *flags: str, node: str = "node-1") -> OperatorProcess:
        """Not started yet. With short intervals, which ``flags`` override."""
        path = self.folder / f"{self.source.kind}.kubeconfig"
        if not path.exists():
            path.write_text(json.dumps(self.source.operator().kubeconfig()), encoding="utf-8")
        kcp, management = (None, path) if self.namespaces else (path, self.management.kubeconfig)
        places = ("--mgmt-namespace", OPERATOR_HOME, "--namespace", OPERATOR_HOME) if self.namespaces else ()
        short = ("--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", "2s", "--max-runs", "4")
        return OperatorProcess(self.folder, kcp, management, *places, *short, *flags, node=node)


class SharedOperatorLab:
    """The operator lab of a test run. A file of tests gets it as it was when it was new: what the one before left is looked for, and
    where there is something, the lab is made anew."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lab: OperatorLab | None = None
        self._untouched: Object = {}

    def lend(self, folder: Path) -> OperatorLab:
        """``folder``: for the logs and kubeconfigs of the borrower's operators."""
        if self._lab is not None and (left := _left_in(self._lab, self._untouched)):
            print(f"The operator lab is made anew; left by the file before: {left}")
            self.close()
        if self._lab is None:
            self._lab = self._stack.enter_context(open_operator_lab(folder))
            self._untouched = everything(self._lab.clusters)
        return replace(self._lab, folder=folder)

    def close(self) -> None:
        """End it, if there is one; it may be asked for again."""
        self._lab = None
        self._stack.close()


SHARED: Final = SharedOperatorLab()


def _left_in(lab: OperatorLab, untouched: Object) -> list[str]:
    """Names of what is in the clusters or in kcp and was not when the lab was new. What operators remember is forgotten."""
    places = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for found in lab.management.api.list(places):
        if "record" in (found.get("data") or {}):
            lab.management.api.delete(f"{places}/{found['metadata']['name']}")
    if lab.world.double is not None:
        lab.world.faults.clear()
    now = everything(lab.clusters)
    changed = [place for place in sorted(now.keys() | untouched.keys()) if now.get(place) != untouched.get(place)]
    urls = lab.world.urls()  # none while no workspace binds the export: then no workspace has anything of ours
    return changed + [
        f"{row.kind} {found['metadata']['name']}"
        for url in urls[:1]
        for row in ROWS
        if row.kind != CLUSTER
        for found in lab.world.virtual("*", url=url).list(f"/apis/{row.group}/{VERSION}/{row.plural}")
    ]


@contextmanager
def open_operator_lab(folder: Path, *, clusters: int = 3) -> Iterator[OperatorLab]:
    """Clusters c1, c2, ... with Service production/nginx and a pod behind it in each, and Service production/quiet with none, of no mesh
    and of no tenant yet.

    :raises ToolUnavailable: a program is missing. The text says why.
    """
    options = LabOptions(name=f"operator-{os.getpid()}-{time.monotonic_ns()}", clusters=clusters, cilium="1.20")
    with ExitStack() as stack, ThreadPoolExecutor(1) as aside:
        lab = aside.submit(_furnished, options)  # it takes longest; the servers here have to be started by the main thread
        stack.callback(lambda: None if lab.exception() else lab.result().lab.close())
        management = stack.enter_context(ManagementPlane())
        management.install()
        world = stack.enter_context(open_world(which_kcp()))
        yield OperatorLab(world, management, lab.result(), folder)


def which_kcp() -> str:
    """Return the kind of kcp that tests of the operator have: its double, or with OPERATOR_TESTS_KCP=kcp a real one."""
    kind = os.environ.get("OPERATOR_TESTS_KCP", "double")
    assert kind in ("double", "kcp"), f"OPERATOR_TESTS_KCP is {kind!r}; it can be double or kcp"
    return kind


def is_on_the_way(status: Object) -> bool:
    """Whether a status says that an object waits for its turn, or that a run is at work for it."""
    phases = {row.going_on for row in ROWS if row.going_on}
    ready: Object = next((entry for entry in status.get("conditions") or () if entry["type"] == "Ready"), {})
    return ready.get("reason") in phases | {"Queued"}


def run_folders(key: MeshKey) -> list[Path]:
    """Of plays of one mesh that are under way, or were left."""
    places = ("/dev/shm", tempfile.gettempdir())
    return [folder for place in places for folder in Path(place).glob(f"mesh-operator-[0-9]*/run-{_owner(key)}-*")]


def run_processes(key: MeshKey) -> dict[int, str]:
    """Processes of plays of one mesh, and the folder of each one's run, in which they work."""
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone, or another user's
            folder = os.readlink(place / "cwd")
            if f"/run-{_owner(key)}-" in folder:
                found[int(place.name)] = folder
    return found


def _owner(key: MeshKey) -> str:
    return Binding(name=key.name, cluster_refs=(), workspace=key.workspace, namespace=key.namespace).owner


def _furnished(options: LabOptions) -> MeshLab:
    lab = MeshLab(options)
    lab.__enter__()
    try:
        furnish(lab)
        for name in lab.names:
            spec = {"selector": {"app": "quiet"}, "ports": [{"name": "http", "port": 80}]}
            metadata = {"name": "quiet", "namespace": SHOP}
            lab.api(name).create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    except BaseException:
        lab.lab.close()
        raise
    return lab


def _head(kind: str, name: str, namespace: str) -> Object:
    group = FLEET_GROUP if kind == CLUSTER else GROUP
    assert kind in BY_KIND, f"there is no kind {kind}"
    return {"apiVersion": f"{group}/{VERSION}", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
