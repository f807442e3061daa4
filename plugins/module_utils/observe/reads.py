# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The requests of one observation: 17, whatever the size of the mesh (lists of more than 500 objects take a request per page).

Only what is named is read; Secrets are never listed. RBAC wanted: ``get`` on namespaces kube-system, on the named configmaps, secrets,
services, deployments and daemonsets of Cilium's namespace; ``list`` on nodes, ciliumnodes and that namespace's pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..kube import Cluster

POD_LABELS: Final = "k8s-app in (cilium,clustermesh-apiserver)"  # labels of the charts' selectors; the cilium CLI uses the same


@dataclass(frozen=True, kw_only=True)
class Read:
    """One request: an object, or a collection when ``many``."""

    path: str
    many: bool = False
    label_selector: str = ""

    def run(self, cluster: Cluster) -> Any:
        """The object (None: absent), or the list of objects."""
        return cluster.list(self.path, label_selector=self.label_selector) if self.many else cluster.get(self.path)


def first_read() -> Read:
    """Asked alone, so that a cluster that cannot be reached costs one timeout. Its uid tells clusters apart."""
    return Read(path="/api/v1/namespaces/kube-system")


def pods_read(namespace: str) -> Read:
    """The pods of the agents and of clustermesh-apiserver."""
    return Read(path=f"/api/v1/namespaces/{namespace}/pods", many=True, label_selector=POD_LABELS)


def other_reads(namespace: str) -> dict[str, Read]:
    """Everything else, by the name that ``assemble`` knows it by; one cluster's are asked at the same time."""
    core = f"/api/v1/namespaces/{namespace}"
    apps = f"/apis/apps/v1/namespaces/{namespace}"
    return {
        "version": Read(path="/version"),
        "config": Read(path=f"{core}/configmaps/cilium-config"),
        "agent": Read(path=f"{apps}/daemonsets/cilium"),
        "apiserver": Read(path=f"{apps}/deployments/clustermesh-apiserver"),
        "service": Read(path=f"{core}/services/clustermesh-apiserver"),
        "users": Read(path=f"{core}/configmaps/clustermesh-remote-users"),
        "ca": Read(path=f"{core}/secrets/cilium-ca"),
        "server_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-server-cert"),
        "remote_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-remote-cert"),
        "local_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-local-cert"),
        "admin_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-admin-cert"),
        "clustermesh": Read(path=f"{core}/secrets/cilium-clustermesh"),
        "kvstoremesh": Read(path=f"{core}/secrets/cilium-kvstoremesh"),
        "nodes": Read(path="/api/v1/nodes", many=True),
        "cilium_nodes": Read(path="/apis/cilium.io/v2/ciliumnodes", many=True),
        "pods": pods_read(namespace),
    }
