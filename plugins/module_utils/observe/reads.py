# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Requests of one observation, the same number for any size of the mesh (lists of more than 500 objects: one per page).

    1 namespace · 1 /version · 2 ConfigMaps (cilium-config, clustermesh-remote-users) · 7 Secrets (cilium-ca, four of TLS, two of peers)
    1 DaemonSet · 1 Deployment · 1 Service · 3 lists (nodes, ciliumnodes, pods) · 1 list of Cilium's Deployments           18 in all
    1 ConfigMap with the leases of the mesh, if it is requested                                                            19
    1 Lease with the lock of the mesh, if the run may write; it is read before all others but the namespace               20
    1 more for each of: IPsec is on (its Secret), ipam is multi-pool (list of pools), tls.caBundle is on (its object)

To measure links, 8 of the 18 are enough (``FOR_LINKS``).

Only named objects are read; Secrets are never listed. RBAC wanted: ``get`` on Cilium's namespace, on the named configmaps, secrets,
services, deployments and daemonsets of Cilium's namespace; ``list`` on nodes, ciliumnodes, and that namespace's pods and deployments.
Reads that a mesh can be made without are ``optional``: if RBAC forbids one, the facts say so (``ClusterFacts.unread``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.json_fields import text
from ..kube.client import Cluster
from ..mesh.versions.cilium_config import value_of
from . import bundle, ipsec
from .config import config_data

POD_LABELS: Final = "k8s-app in (cilium,clustermesh-apiserver)"  # labels of the charts' selectors; the cilium CLI uses the same

PART_LABELS: Final = "app.kubernetes.io/part-of=cilium"  # of the operator, Hubble Relay and Hubble UI in the charts since 1.13

FOR_LINKS: Final = frozenset({"config", "agent", "apiserver", "remote_cert", "clustermesh", "kvstoremesh", "nodes"})
"""What the status of links is made of. All other facts are then as those of a cluster that lacks the objects, so nothing is checked or
planned with them."""


@dataclass(frozen=True, kw_only=True)
class Read:
    """One request: an object, or a collection when ``many``.

    ``if_served``: the answer is None instead of [] where the collection is not served.
    """

    path: str
    many: bool = False
    label_selector: str = ""
    optional: bool = False
    if_served: bool = False
    metadata_only: bool = False

    def run(self, cluster: Cluster) -> Any:
        """Return the object (None: absent), or the list of objects.

        :raises ClusterError: when the cluster refuses the request or does not answer.
        """
        if not self.many:
            return cluster.get(self.path)
        brief: dict[str, Any] = {"metadata_only": True} if self.metadata_only else {}
        return (cluster.list_if_served if self.if_served else cluster.list)(self.path, label_selector=self.label_selector, **brief)


def first_read(namespace: str) -> Read:
    """Return the read of Cilium's namespace, whose uid identifies the installation.

    It is sent alone, so that a cluster that cannot be reached costs one timeout.
    """
    return Read(path=f"/api/v1/namespaces/{namespace}")


def pods_read(namespace: str) -> Read:
    """Return the read of the pods of the agents and of clustermesh-apiserver."""
    return Read(path=f"/api/v1/namespaces/{namespace}/pods", many=True, label_selector=POD_LABELS)


def other_reads(namespace: str, registry: str = "") -> dict[str, Read]:
    """Return all other reads by the names that ``assemble`` uses; those of one cluster are sent at the same time.

    :param registry: name of the ConfigMap with the leases; "" reads none.
    """
    core = f"/api/v1/namespaces/{namespace}"
    apps = f"/apis/apps/v1/namespaces/{namespace}"
    return {
        "version": Read(path="/version", optional=True),
        "config": Read(path=f"{core}/configmaps/cilium-config"),
        "agent": Read(path=f"{apps}/daemonsets/cilium"),
        "apiserver": Read(path=f"{apps}/deployments/clustermesh-apiserver"),
        "service": Read(path=f"{core}/services/clustermesh-apiserver"),
        "users": Read(path=f"{core}/configmaps/clustermesh-remote-users"),
        **({"registry": Read(path=f"{core}/configmaps/{registry}")} if registry else {}),
        "ca": Read(path=f"{core}/secrets/cilium-ca", optional=True),
        "server_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-server-cert"),
        "remote_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-remote-cert"),
        "local_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-local-cert"),
        "admin_cert": Read(path=f"{core}/secrets/clustermesh-apiserver-admin-cert"),
        "clustermesh": Read(path=f"{core}/secrets/cilium-clustermesh"),
        "kvstoremesh": Read(path=f"{core}/secrets/cilium-kvstoremesh"),
        "nodes": Read(path="/api/v1/nodes", many=True),
        "cilium_nodes": Read(path="/apis/cilium.io/v2/ciliumnodes", many=True),
        "pods": pods_read(namespace),
        "parts": Read(path=f"{apps}/deployments", many=True, label_selector=PART_LABELS, optional=True),
    }


def further_reads(namespace: str, found: Mapping[str, Any]) -> dict[str, Read]:
    """Return the reads that the answers to the others require, to be sent after them. Most clusters need none."""
    core = f"/api/v1/namespaces/{namespace}"
    config = config_data(found["config"]) or {}
    reads: dict[str, Read] = {}
    if ipsec.ipsec_enabled(config):
        reads["ipsec"] = Read(path=f"{core}/secrets/{ipsec.secret_name(found['agent'])}", optional=True)
    if value_of(config, None, "ipam").lower() == "multi-pool":
        reads["pod_pools"] = Read(path="/apis/cilium.io/v2alpha1/ciliumpodippools", many=True, optional=True)
    ref = bundle.bundle_of(found)
    if ref is not None:
        reads["ca_bundle"] = Read(path=f"{core}/{'secrets' if ref.kind == 'Secret' else 'configmaps'}/{ref.name}", optional=True)
    return reads


def deployment_named(found: Mapping[str, Any], name: str) -> Any:
    """Return one of Cilium's Deployments; None if it does not exist or could not be read."""
    return next((d for d in found.get("parts") or () if text(d, "metadata", "name") == name), None)
