# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A management plane on a real kube-apiserver: Cluster objects with conditions and kubeconfig Secrets, as cluster-operator leaves them."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.lab.api import ApiError
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for

GROUP: Final = "platform.edge-portal.eu"
VERSION: Final = "v1alpha1"
NAMESPACE: Final = "default"
_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class ManagementPlane(OneServer):
    """Use as a context manager, as OneServer."""

    def install(self) -> None:
        """The definition of Cluster, and the namespace that a new API server makes a second late."""
        names = {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"}
        version = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}},
        }
        self.api.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"clusters.{GROUP}"},
                "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
            },
        )
        for path in (f"/apis/{GROUP}/{VERSION}/clusters", f"/api/v1/namespaces/{NAMESPACE}"):
            self.wait_served(path)

    def wait_served(self, path: str) -> None:
        wait_for(partial(self._is_served, path), what=f"{path} is served")

    def add(self, workspace: str, name: str, kubeconfig: Path, *, object_name: str = "", ready: bool = True, cilium: str = "ready") -> str:
        """A Cluster of that workspace, with its Secret; neither has labels where the workspace is "". Returns the name of the object, which
        differs where tenants use equal names."""
        own = object_name or f"{name}-{workspace[:6]}".lower()
        labels = {"edge-connect.eu/source-workspace": workspace, "edge-connect.eu/source-name": name} if workspace else {}
        self.rotate(own, kubeconfig, workspace)
        metadata = {"name": own, "namespace": NAMESPACE, "labels": labels}
        self.api.create({"apiVersion": f"{GROUP}/{VERSION}", "kind": "Cluster", "metadata": metadata, "spec": {"provider": "KIND"}})
        self.set_status(own, ready=ready, cilium=cilium)
        return own

    def set_status(self, name: str, *, ready: bool, cilium: str = "ready") -> None:
        """What the cluster-operator says of it."""
        status: dict[str, Any] = {
            "conditions": [{"type": "Ready", "status": str(ready), "reason": "Provisioned" if ready else "Provisioning"}],
            "kubeconfigSecretRef": {"name": f"{name}-kubeconfig", "key": "kubeconfig"},
            "capabilities": [{"name": "cilium-cni", "details": {"status": cilium, "version": "1.20.2"}}],
        }
        self.api.patch(f"{self._path(name)}/status", {"status": status})

    def rotate(self, name: str, kubeconfig: Path, workspace: str = "") -> None:
        """Write the Secret, or write it anew. ``workspace``: label of a new one."""
        text = yaml.safe_dump(yaml.safe_load(kubeconfig.read_text(encoding="utf-8")))
        data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}-kubeconfig"
        if self.api.get(path) is None:
            labels = {"edge-connect.eu/source-workspace": workspace} if workspace else {}
            metadata = {"name": f"{name}-kubeconfig", "namespace": NAMESPACE, "labels": labels}
            self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        else:
            self.api.patch(path, {"data": data})

    def remove(self, name: str) -> None:
        """The Cluster and its Secret are gone."""
        self.api.delete(self._path(name))
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}-kubeconfig")

    def _is_served(self, path: str) -> bool:
        try:
            return self.api.get(path) is not None
        except ApiError as error:  # 429 while the storage of a new definition is made
            if error.status != 429:
                raise
            return False

    def _path(self, name: str) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/clusters/{name}"
