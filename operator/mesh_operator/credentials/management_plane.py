# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of a workspace's KubernetesCluster, found by the objects of the management plane. Pure.

What the Secret holds is a tenant's, and stays a sealed text here: only a confined process opens it (dry_runs.py).

The Cluster has to carry the workspace's own labels, edge-connect.eu/source-workspace and source-name: a name alone could be that of
another tenant's cluster (docs/decisions/0055). Without kcp the first one has the name of the namespace, of which clusters.py knows the
workspace. No message to a tenant reveals whether another tenant's cluster exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import WORKSPACE_LABEL, stands_for

from ..base.keys import CLUSTER_ANNOTATION
from .tenant_kubeconfigs import LIMIT, TOO_LONG

CAPI_LABEL: Final = "cluster.x-k8s.io/cluster-name"
"""Label of a kubeconfig Secret that the controllers of Cluster API set (cluster-api, util/kubeconfig, GenerateSecretWithOwner)."""

ELB_ANNOTATION: Final = "networking.edge-portal.eu/elb-id"
OWNER_ANNOTATIONS: Final = {
    "networking.edge-portal.eu/cilium-namespace": "cilium_mesh_namespace",
    "networking.edge-portal.eu/endpoint": "cilium_mesh_endpoint_override",
}
"""Annotations of the object with the credentials, and the host variables that they become. The provider of the credentials sets them."""

# Name of a Secret: the API server permits parts between dots that are longer than those of a DNS name (apimachinery, IsDNS1123Subdomain).
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
NO_KUBECONFIG: Final = (
    "The management plane has no Secret of this workspace with its kubeconfig. The owner of the management plane gives such a Secret"
    f" the label {WORKSPACE_LABEL} with the logical cluster of the workspace, or without kcp with the name of the namespace."
)
"""Sentence for each of: no Secret, no kubeconfig in it, another workspace's, no workspace's. A tenant cannot distinguish them."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # as the host variable cilium_mesh_elb_id demands it


@dataclass(frozen=True, kw_only=True)
class Usable:
    """Cluster that can be contacted."""

    name: str
    kubeconfig: Mapping[str, Any]
    variables: Mapping[str, Any] = field(default_factory=dict)  # further host variables of a run, without empty ones

    def __repr__(self) -> str:
        return f"<Usable {self.name}>"


@dataclass(frozen=True, kw_only=True)
class SealedKubeconfig:
    """Cluster whose kubeconfig has not been read yet. ``text``: base64, as the Secret has it."""

    name: str
    text: str = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)  # host variables of a run, without empty ones


@dataclass(frozen=True, kw_only=True)
class NotUsable:
    """Cluster that cannot be contacted, with the reason.

    ``reason`` is CamelCase for a condition; ``fatal``: waiting does not cure it (phase Error, else Pending). ``message`` is a
    sentence about the cluster that does not name it. ``detail``: CamelCase word for the platform's log, which no tenant sees.
    """

    name: str
    reason: str
    message: str
    fatal: bool = False
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class SecretRef:
    """``status.kubeconfigSecretRef`` of a Cluster. ``key`` "" means the first of ``kubeconfig`` and ``value`` that exists.

    ``capi_cluster``: the Cluster of Cluster API whose own Secret it is; no user chose the Secret's name then.
    """

    name: str
    key: str = ""
    capi_cluster: str = ""


def owner_of(cluster: Mapping[str, Any], by_name: str = "") -> str:
    """Return the workspace whose Cluster it is, "" for none. Where there is the label, also an empty one, it alone decides.

    :param by_name: workspace of the Clusters without the label; "" for none.
    """
    labels = (cluster.get("metadata") or {}).get("labels") or {}
    return str(labels.get(WORKSPACE_LABEL, by_name))


def cluster_of(
    clusters: Iterable[Mapping[str, Any]], workspace: str, namespace: str, name: str, by_name: str = ""
) -> Mapping[str, Any] | NotUsable:
    """Return the Cluster object of the management plane behind a KubernetesCluster of that workspace, or the reason why there is none.

    :param by_name: as in ``owner_of``.
    """
    own = [cluster for cluster in clusters if workspace and owner_of(cluster, by_name) == workspace]
    found = [cluster for cluster in own if stands_for(cluster, namespace, name)]
    if len(found) == 1:
        return found[0]
    if found:
        message = f"The management plane has {len(found)} Clusters with the labels of this KubernetesCluster; exactly one is needed."
        return NotUsable(name=name, reason="ClusterAmbiguous", message=message, fatal=True)
    return NotUsable(name=name, reason="ClusterNotFound", message="The management plane has no Cluster for this KubernetesCluster.")


def secret_of(cluster: Mapping[str, Any], name: str, *, with_cilium: bool = True) -> SecretRef | NotUsable:
    """Return the Secret with the kubeconfig of a cluster that is ready for a mesh, or the reason why it is not.

    The cluster has to be ready, with a capability cilium-cni that is not ``not-installed`` or ``error``, and name a Secret. Understands
    cluster-operator's Cluster and Cluster API's (v1beta1 and v1beta2: condition Ready or Available; Secret <name>-kubeconfig, key value).

    :param with_cilium: whether its Cilium matters: not to Karmada.
    """
    status = cluster.get("status") or {}
    conditions = [*(status.get("conditions") or ()), *((status.get("v1beta2") or {}).get("conditions") or ())]
    states = {c.get("type"): (c.get("status"), c.get("reason")) for c in reversed(conditions)}  # of two of a type the first counts
    state, why = states.get("Ready") or states.get("Available") or ("", "")
    if state != "True":
        message = f"The management plane does not report it as ready (reason: {one_line(why, 60) or 'none'})."
        return NotUsable(name=name, reason="ClusterNotReady", message=message)
    details = next((c.get("details") or {} for c in status.get("capabilities") or () if c.get("name") == "cilium-cni"), {})
    if with_cilium and details.get("status") in ("not-installed", "error"):
        message = f"The management plane says of Cilium in it: {details['status']} (capability cilium-cni of its Cluster)."
        return NotUsable(name=name, reason="CiliumNotReady", message=message, fatal=True)
    # The name becomes part of a path, and for an imported cluster its tenant chose it.
    ref = secret_ref(cluster)
    if not _NAME.fullmatch(ref.name):
        return NotUsable(name=name, reason="KubeconfigMissing", message="The management plane names no Secret with its kubeconfig.")
    return ref


def secret_ref(cluster: Mapping[str, Any]) -> SecretRef:
    """Return the Secret that a Cluster names, whether it is ready or not; its name is "" or no name at all where it names none."""
    ref = (cluster.get("status") or {}).get("kubeconfigSecretRef") or {}
    if ref or not str(cluster.get("apiVersion")).startswith("cluster.x-k8s.io/"):
        return SecretRef(name=str(ref.get("name") or ""), key=str(ref.get("key") or ""))
    own = str(cluster["metadata"]["name"])
    return SecretRef(name=f"{own}-kubeconfig", key="value", capi_cluster=own)


def sealed_kubeconfig(
    name: str,
    kubernetes_cluster: Mapping[str, Any] | None,
    ref: SecretRef,
    secret: Mapping[str, Any] | None,
    *,
    owner: Mapping[str, Any] | None = None,
    unlabelled: Callable[[], bool] = lambda: False,
) -> SealedKubeconfig | NotUsable:
    """Return the cluster with the Secret's kubeconfig, unread, or the reason why it cannot be used.

    :param owner: the Cluster of the management plane.
    :param unlabelled: whether the Secret may be used although no label tells whose it is; called only then.
    """
    if kubernetes_cluster is None:
        return NotUsable(name=name, reason="ClusterNotFound", message="There is no KubernetesCluster of this name in the namespace.")
    annotations = kubernetes_cluster["metadata"].get("annotations") or {}
    data = (secret or {}).get("data") or {}
    key = ref.key or ("kubeconfig" if "kubeconfig" in data else "value")
    labels = ((secret or {}).get("metadata") or {}).get("labels") or {}
    detail = "" if data.get(key) else "NoKubeconfig"
    detail = detail or _not_owned(labels, str(annotations.get(CLUSTER_ANNOTATION) or ""), ref, unlabelled)
    if detail:
        return NotUsable(name=name, reason="KubeconfigMissing", message=NO_KUBECONFIG, detail=detail)
    return sealed_text(name, str(data[key]), str(annotations.get(ELB_ANNOTATION) or ""), owner or {})


def sealed_text(name: str, text: str, elb_id: str, owner: Mapping[str, Any]) -> SealedKubeconfig | NotUsable:
    """Return the cluster with a kubeconfig, unread, or the reason why it cannot be used.

    :param text: base64, or what Argo CD has in place of a kubeconfig (tenant_kubeconfigs.py).
    :param elb_id: annotation ELB_ANNOTATION; "" if there is none.
    :param owner: the object with the credentials, which may have OWNER_ANNOTATIONS.
    """
    if elb_id and not _UUID.fullmatch(elb_id):
        message = f"Its annotation {ELB_ANNOTATION} is not the id of a load balancer, a UUID."
        return NotUsable(name=name, reason="LoadBalancerIdInvalid", message=message, fatal=True)
    if len(text) > 4 * (LIMIT // 3 + 1):  # in base64
        return NotUsable(name=name, reason="KubeconfigRefused", message=TOO_LONG, fatal=True)
    annotations = (owner.get("metadata") or {}).get("annotations") or {}
    variables = {"cilium_mesh_elb_id": elb_id} | {to: str(annotations.get(key) or "") for key, to in OWNER_ANNOTATIONS.items()}
    return SealedKubeconfig(name=name, text=text, variables={key: value for key, value in variables.items() if value})


def _not_owned(labels: Mapping[str, Any], workspace: str, ref: SecretRef, unlabelled: Callable[[], bool]) -> str:
    """Return why the workspace may not use the Secret with these labels; "" if it may.

    The name of an imported cluster's Secret is its tenant's choice, so the name alone would open any tenant's Secret.
    """
    if not workspace:
        return "WorkspaceUnknown"
    if WORKSPACE_LABEL in labels:
        return "" if labels[WORKSPACE_LABEL] == workspace else "SecretOfAnotherWorkspace"
    if (ref.capi_cluster and labels.get(CAPI_LABEL) == ref.capi_cluster) or unlabelled():
        return ""
    return "SecretWithoutWorkspaceLabel"
