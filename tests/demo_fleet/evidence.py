# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the clusters and Karmada say themselves, asked with the kubernetes client: past the collection, and past the lab."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from tests.demo_fleet.verdict import Copy, Snapshot

TRACES: Final = ("kcp-", "karmada-")  # how namespaces, accounts and names of rights begin that come with a membership
NAMESPACES: Final = ("kcp-", "karmada-es-")  # how namespaces in Karmada begin: of tenants, and of what is on its way to a member
CREDENTIALS: Final = "karmada-cluster"  # namespace of the tokens of memberships, in Karmada and in the members
PAUSE: Final = 0.1  # seconds between two rounds of questions
_KARMADA: Final = (
    "clusters.cluster",
    "propagationpolicies.policy",
    "clusterpropagationpolicies.policy",
    "resourcebindings.work",
    "clusterresourcebindings.work",
    "works.work",
)
_OWN_WORKS: Final = "karmada-impersonator"


class Watcher(AbstractContextManager["Watcher"]):
    """Asks every cluster again and again which copy of a Deployment it has, in a thread. Each round is one snapshot."""

    def __init__(self, kubeconfigs: Mapping[str, Path], deployment: str) -> None:
        self._deployment = deployment
        self._clients = {name: config.new_client_from_config(str(path)) for name, path in kubeconfigs.items()}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.snapshots: list[Snapshot] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        for api in self._clients.values():
            api.close()

    def now(self) -> Snapshot:
        """Return what each cluster has at this moment."""
        return {name: _copy(api, self._deployment) for name, api in self._clients.items()}

    def _watch(self) -> None:
        while not self._ended.is_set():
            try:
                snapshot = self.now()
            except (client.ApiException, HTTPError):
                continue  # no proof, which the verdict says
            if not self.snapshots or self.snapshots[-1] != snapshot:
                self.snapshots.append(snapshot)
            time.sleep(PAUSE)


def _copy(api: client.ApiClient, name: str) -> Copy:
    """Return the copy of a Deployment in the tenants' namespaces of a cluster."""
    found = client.AppsV1Api(api).list_deployment_for_all_namespaces(field_selector=f"metadata.name={name}").items
    for deployment in found:
        if not deployment.metadata.namespace.startswith("kcp-"):
            continue
        status, wanted = deployment.status, deployment.spec.replicas
        counts = (status.replicas or 0, status.updated_replicas or 0, status.ready_replicas or 0)
        current = status.observed_generation == deployment.metadata.generation
        tag = deployment.spec.template.spec.containers[0].image.rpartition(":")[2]
        return Copy(tag=tag, ready=counts[2], whole=current and counts == (wanted, wanted, wanted))
    return Copy()


def left_in_cluster(name: str, kubeconfig: Path, of: Sequence[str] = ()) -> list[str]:
    """Return a line for each object that a membership or a workload left in a cluster.

    :param of: names of a tenant's namespace and members, if those of others do not count.
    """
    with config.new_client_from_config(str(kubeconfig)) as api:
        core, rights = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
        found = {
            "Namespace": core.list_namespace().items,
            "ServiceAccount": core.list_namespaced_service_account(CREDENTIALS).items,
            "ClusterRole": rights.list_cluster_role().items,
            "ClusterRoleBinding": rights.list_cluster_role_binding().items,
        }
    return [
        f"{kind} {entry.metadata.name} in {name}"
        for kind, rows in found.items()
        for entry in rows
        if entry.metadata.name.startswith(TRACES) and _is_of(of, [entry.metadata.name])
    ]


def left_in_karmada(kubeconfig: Path, of: Sequence[str] = ()) -> list[str]:
    """Return a line for each Cluster, Secret of one, policy, binding, work and namespace that is left in Karmada.

    :param of: see `left_in_cluster`.
    """
    lines: list[str] = []
    with config.new_client_from_config(str(kubeconfig)) as api:
        core = client.CoreV1Api(api)
        namespaces = [entry.metadata.name for entry in core.list_namespace().items]
        lines += [f"Namespace {name} in Karmada" for name in namespaces if name.startswith(NAMESPACES) and _is_of(of, [name])]
        secrets = [entry.metadata.name for entry in core.list_namespaced_secret(CREDENTIALS).items]
        lines += [f"Secret {name} in Karmada" for name in secrets if _is_of(of, [name])]
        for resource in _KARMADA:
            plural, group = resource.split(".", 1)
            version = "v1alpha2" if plural.endswith("resourcebindings") else "v1alpha1"
            rows: Any = client.CustomObjectsApi(api).list_cluster_custom_object(f"{group}.karmada.io", version, plural)
            for row in rows["items"]:
                name, namespace = row["metadata"]["name"], row["metadata"].get("namespace", "")
                if _OWN_WORKS not in name and _is_of(of, [name, namespace]):
                    lines.append(f"{plural} {name} in Karmada")
    return lines


def _is_of(of: Sequence[str], names: Iterable[str]) -> bool:
    """Return whether one of the names has that of a tenant's namespace or member in it; without any of those, every object counts."""
    return not of or any(own in name for own in of for name in names)
