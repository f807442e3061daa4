# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of a workspace's KubernetesCluster, found by the objects of the management plane. Pure.

What the Secret holds is a tenant's, and stays a sealed text here: only a confined process opens it (dry_runs.py).

The Cluster has to carry the workspace's own labels, edge-connect.eu/source-workspace and source-name, as cluster-operator sets them: a
name alone could be that of another tenant's cluster. No message to a tenant reveals whether another tenant's cluster exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line

from .tenant_kubeconfigs import LIMIT, TOO_LONG

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
WORKSPACE_LABEL: Final = "edge-connect.eu/source-workspace"
NAME_LABEL: Final = "edge-connect.eu/source-name"
NAMESPACE_LABEL: Final = "edge-connect.eu/source-namespace"
ELB_ANNOTATION: Final = "networking.edge-portal.eu/elb-id"
# Name of a Secret: the API server permits parts between dots that are longer than those of a DNS name (apimachinery, IsDNS1123Subdomain).
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LABEL_LENGTH: Final = 63  # of a value; names may be longer
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # as the host variable cilium_mesh_elb_id demands it


@dataclass(frozen=True, kw_only=True)
class Usable:
    """Cluster that can be contacted."""

    name: str
    kubeconfig: Mapping[str, Any]
    elb_id: str = ""
    endpoint_domains: tuple[str, ...] = ()  # as the host variable cilium_mesh_endpoint_domains
    endpoint_networks: tuple[str, ...] = ()  # as the host variable cilium_mesh_endpoint_networks

    def __repr__(self) -> str:
        return f"<Usable {self.name}>"


@dataclass(frozen=True, kw_only=True)
class SealedKubeconfig:
    """Cluster whose kubeconfig nobody has read yet. ``text``: base64, as the Secret has it."""

    name: str
    text: str = field(repr=False)
    elb_id: str = ""


@dataclass(frozen=True, kw_only=True)
class NotUsable:
    """Cluster that cannot be contacted, with the reason.

    ``reason`` is CamelCase for a condition; ``fatal``: waiting does not cure it (phase Error, else Pending). ``message`` is a
    sentence about the cluster that does not name it.
    """

    name: str
    reason: str
    message: str
    fatal: bool = False


@dataclass(frozen=True, kw_only=True)
class SecretRef:
    """``status.kubeconfigSecretRef`` of a Cluster. ``key`` "" means the first of ``kubeconfig`` and ``value`` that exists."""

    name: str
    key: str = ""


def cluster_of(clusters: Iterable[Mapping[str, Any]], workspace: str, namespace: str, name: str) -> Mapping[str, Any] | NotUsable:
    """Return the Cluster object of the management plane behind a KubernetesCluster of that workspace, or the reason why there is none."""
    found = [cluster for cluster in clusters if _belongs(cluster.get("metadata") or {}, workspace, namespace, name)]
    if len(found) == 1:
        return found[0]
    if found:
        message = f"The management plane has {len(found)} Clusters with the labels of this KubernetesCluster; exactly one is needed."
        return NotUsable(name=name, reason="ClusterAmbiguous", message=message, fatal=True)
    return NotUsable(name=name, reason="ClusterNotFound", message="The management plane has no Cluster for this KubernetesCluster.")


def _belongs(metadata: Mapping[str, Any], workspace: str, namespace: str, name: str) -> bool:
    labels = metadata.get("labels") or {}
    called = labels.get(NAME_LABEL) if len(name) <= _LABEL_LENGTH else None
    return (
        bool(workspace)
        and labels.get(WORKSPACE_LABEL) == workspace
        and labels.get(NAMESPACE_LABEL, namespace) == namespace
        and (metadata.get("name") if called is None else called) == name
    )


def secret_of(cluster: Mapping[str, Any], name: str) -> SecretRef | NotUsable:
    """Return the Secret with the kubeconfig of a cluster that is ready for a mesh, or the reason why it is not.

    The cluster has to be ready, with a capability cilium-cni that is not ``not-installed`` or ``error``, and name a Secret. Understands
    cluster-operator's Cluster and Cluster API's (v1beta1 and v1beta2: condition Ready or Available; Secret <name>-kubeconfig, key value).
    """
    status = cluster.get("status") or {}
    conditions = [*(status.get("conditions") or ()), *((status.get("v1beta2") or {}).get("conditions") or ())]
    states = {c.get("type"): (c.get("status"), c.get("reason")) for c in reversed(conditions)}  # of two of a type the first counts
    state, why = states.get("Ready") or states.get("Available") or ("", "")
    if state != "True":
        message = f"The management plane does not report it as ready (reason: {one_line(why, 60) or 'none'})."
        return NotUsable(name=name, reason="ClusterNotReady", message=message)
    details = next((c.get("details") or {} for c in status.get("capabilities") or () if c.get("name") == "cilium-cni"), {})
    if details.get("status") in ("not-installed", "error"):
        message = f"The management plane says of Cilium in it: {details['status']} (capability cilium-cni of its Cluster)."
        return NotUsable(name=name, reason="CiliumNotReady", message=message, fatal=True)
    ref = status.get("kubeconfigSecretRef") or {}
    if not ref and str(cluster.get("apiVersion")).startswith("cluster.x-k8s.io/"):
        ref = {"name": f"{cluster['metadata']['name']}-kubeconfig", "key": "value"}
    # The name becomes part of a path, and for an imported cluster its tenant chose it.
    if not _NAME.fullmatch(str(ref.get("name") or "")):
        return NotUsable(name=name, reason="KubeconfigMissing", message="The management plane names no Secret with its kubeconfig.")
    return SecretRef(name=str(ref["name"]), key=str(ref.get("key") or ""))


def sealed_kubeconfig(
    name: str, kubernetes_cluster: Mapping[str, Any] | None, ref: SecretRef, secret: Mapping[str, Any] | None
) -> SealedKubeconfig | NotUsable:
    """Return the cluster with the Secret's kubeconfig, unread, or the reason why it cannot be used."""
    if kubernetes_cluster is None:
        return NotUsable(name=name, reason="ClusterNotFound", message="There is no KubernetesCluster of this name in the namespace.")
    annotations = kubernetes_cluster["metadata"].get("annotations") or {}
    owner = ((secret or {}).get("metadata") or {}).get("labels") or {}
    data = (secret or {}).get("data") or {}
    key = ref.key or ("kubeconfig" if "kubeconfig" in data else "value")
    # An imported cluster's Secret is named by its tenant, who must not name another tenant's. A label on the Secret shows its tenant.
    if not data.get(key) or owner.get(WORKSPACE_LABEL, annotations.get(CLUSTER_ANNOTATION)) != annotations.get(CLUSTER_ANNOTATION):
        return NotUsable(name=name, reason="KubeconfigMissing", message="The Secret for its kubeconfig holds no kubeconfig.")
    elb_id = annotations.get(ELB_ANNOTATION) or ""
    if elb_id and not _UUID.fullmatch(elb_id):
        message = f"Its annotation {ELB_ANNOTATION} is not the id of a load balancer, a UUID."
        return NotUsable(name=name, reason="LoadBalancerIdInvalid", message=message, fatal=True)
    text = str(data[key])
    if len(text) > 4 * (LIMIT // 3 + 1):  # in base64
        return NotUsable(name=name, reason="KubeconfigRefused", message=TOO_LONG, fatal=True)
    return SealedKubeconfig(name=name, text=text, elb_id=elb_id)
