# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of clusters in the namespaces of an ordinary cluster: Secrets with our label, of Cluster API, or of Argo CD.

A Secret of the tenant's own namespace is the tenant's. One of the namespace of the management plane is used for the namespace that the
platform named in its label. What a Secret holds stays sealed here: only a confined process opens it (dry_runs.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError

from ..base.api import Cluster
from ..base.keys import UnitKey
from ..source.store import Stored
from .clusters import Clusters
from .management_plane import CAPI_LABEL, ELB_ANNOTATION, NAME_LABEL, WORKSPACE_LABEL, NotUsable, SealedKubeconfig, sealed_text

CLUSTER_LABEL: Final = "networking.edge-portal.eu/cluster"
"""Label of a Secret with a kubeconfig: the name under which ClusterMeshBindings of its namespace refer to the cluster."""

ARGO_LABEL: Final = "argocd.argoproj.io/secret-type"
NO_SECRET: Final = (
    f"The namespace has no Secret whose label {CLUSTER_LABEL} has this name, none of Cluster API or Argo CD for the cluster, and no "
    "KubernetesCluster."
)
_LABEL_LENGTH: Final = 63  # of a value; names of clusters may be longer
_SELECTORS: Final = (CLUSTER_LABEL, CAPI_LABEL, f"{ARGO_LABEL}=cluster")

Object = dict[str, Any]


class NamespaceClusters:
    """Clusters of namespaces. Thread-safe.

    :param clusters: of KubernetesClusters, for namespaces that have some.
    :param platform: namespace of the Secrets that the platform keeps for its tenants.
    :param touched: called with the workspace of a namespace whose Secrets changed.
    """

    def __init__(self, api: Cluster, clusters: Clusters, platform: str, touched: Callable[[str], None]) -> None:
        self._api, self._clusters, self._platform, self._touched = api, clusters, platform, touched
        self._lock = Lock()
        self._seen: dict[str, frozenset[tuple[str, str]]] = {}  # by namespace: names and versions of its Secrets

    def resolve(self, key: UnitKey, name: str, kubernetes_cluster: Stored | None) -> SealedKubeconfig | NotUsable:
        """Return the kubeconfig of a cluster of that namespace, unread, or the reason why there is none."""
        try:
            found = self._secrets_of(key.namespace, name)
        except ClusterError as error:
            message = f"The Secrets of the namespace cannot be read ({error.code})."
            return NotUsable(name=name, reason="ManagementPlaneUnavailable", message=message)
        if len(found) > 1:
            message = f"{len(found)} Secrets are about this cluster; exactly one is needed."
            return NotUsable(name=name, reason="ClusterAmbiguous", message=message, fatal=True)
        if found:
            return _sealed(name, found[0])
        if kubernetes_cluster is not None:
            return self._clusters.resolve(key, name, kubernetes_cluster)
        return NotUsable(name=name, reason="ClusterNotFound", message=NO_SECRET)

    def poll(self, places: Iterable[tuple[str, str]]) -> None:
        """Look for changes of Secrets in (workspace, namespace). Metadata alone is read. A namespace that cannot be read is left out."""
        for workspace, namespace in places:
            try:
                now = frozenset(
                    (str(obj["metadata"]["name"]), str(obj["metadata"].get("resourceVersion")))
                    for selector in _SELECTORS
                    for obj in self._api.list(_path(namespace), label_selector=selector, metadata_only=True)
                )
            except ClusterError:
                continue
            with self._lock:
                before, self._seen[namespace] = self._seen.get(namespace), now
            if before is not None and before != now:
                self._touched(workspace)

    def _secrets_of(self, namespace: str, name: str) -> list[Object]:
        """Return the Secrets about a cluster, from the first place that has any.

        :raises ClusterError: when they cannot be read.
        """
        is_label = len(name) <= _LABEL_LENGTH
        labelled = self._list(namespace, f"{CLUSTER_LABEL}={name}") if is_label else []
        if labelled:
            return labelled
        own = self._api.get(f"{_path(namespace)}/{name}-kubeconfig")  # as the controllers of Cluster API name it
        if own is not None and (own["metadata"].get("labels") or {}).get(CAPI_LABEL) == name:
            return [own]
        argo = [obj for obj in self._list(namespace, f"{ARGO_LABEL}=cluster") if obj["metadata"]["name"] == name]
        if argo or not is_label or not self._platform or self._platform == namespace:
            return argo
        return self._list(self._platform, f"{WORKSPACE_LABEL}={namespace},{NAME_LABEL}={name}")

    def _list(self, namespace: str, selector: str) -> list[Object]:
        return list(self._api.list(_path(namespace), label_selector=selector))


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


def _sealed(name: str, secret: Object) -> SealedKubeconfig | NotUsable:
    metadata, data = secret["metadata"], secret.get("data") or {}
    text = str(data.get("kubeconfig") or data.get("value") or "")
    if not text and (metadata.get("labels") or {}).get(ARGO_LABEL) == "cluster":
        text = json.dumps({"server": data.get("server"), "config": data.get("config")})
    if not text:
        message = "Its Secret has neither a key kubeconfig nor a key value."
        return NotUsable(name=name, reason="KubeconfigMissing", message=message)
    return sealed_text(name, text, str((metadata.get("annotations") or {}).get(ELB_ANNOTATION) or ""), secret)
