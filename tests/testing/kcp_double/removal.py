# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How things go: bound objects with their binding or namespace, bindings with their workspace. Finalizers hold up all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from tests.lab.api import ApiError, LabApi
from tests.testing.kcp_double.kcp_crds import APIS
from tests.testing.kcp_double.places import CLUSTER_LABEL, Places

Object = dict[str, Any]
_CONTENT: Final = ("configmaps", "secrets", "serviceaccounts")  # what else goes with a namespace
_VERSION: Final = "v1alpha1"  # of all bound kinds; one version is all that a provider should have


class Removal:
    """Of everything, and again until nothing is left; see Controllers."""

    def __init__(self, api: LabApi, places: Places) -> None:
        self._api = api
        self._places = places

    def namespaces(self, cluster: str) -> list[str]:
        """Real namespaces of a logical cluster, the one for what lies in none included."""
        return [one["metadata"]["name"] for one in self._api.list("/api/v1/namespaces", label_selector=f"{CLUSTER_LABEL}={cluster}")]

    def objects(self, namespace: str, group: str, plural: str) -> list[tuple[str, Object]]:
        """(path, object) in a real namespace; [] when the resource is not there."""
        home = f"/apis/{group}/{_VERSION}/namespaces/{namespace}/{plural}"
        try:
            return [(f"{home}/{obj['metadata']['name']}", obj) for obj in self._api.list(home)]
        except ApiError as error:
            if error.status == 404:
                return []
            raise

    def empty_resources(self, cluster: str, resources: Iterable[tuple[str, str]]) -> Counter[str]:
        """Delete all objects of bound resources. Returns how many are held by which finalizer; "" for those that just went."""
        left: Counter[str] = Counter()
        for namespace in self.namespaces(cluster):
            left.update(self._empty(namespace, resources))
        return left

    def empty_workspace(self, cluster: str) -> bool:
        """Delete all namespaces, then the bindings. True when they are gone."""
        for namespace in self.namespaces(cluster):
            if not namespace.endswith("-root"):
                self._api.delete(f"/api/v1/namespaces/{namespace}")
        if len(self.namespaces(cluster)) > 1:
            return False
        for path, _ in self.objects(self._places.real(cluster, ""), APIS, "apibindings"):
            self._api.delete(path)
        return self.is_empty(cluster)

    def forget(self, cluster: str) -> None:
        self._places.forget(cluster)
        self._api.delete(f"/api/v1/namespaces/{self._places.real(cluster, '')}")

    def is_empty(self, cluster: str) -> bool:
        return len(self.namespaces(cluster)) <= 1 and not self.objects(self._places.real(cluster, ""), APIS, "apibindings")

    def finish_namespaces(self) -> bool:
        """What the namespace controller does. True while one is on its way out."""
        busy = False
        for obj in self._api.list("/api/v1/namespaces", label_selector=CLUSTER_LABEL):
            name = obj["metadata"]["name"]
            if not obj["metadata"].get("deletionTimestamp"):
                continue
            busy = True
            if not self._empty(name, self._bound_resources()):
                for plural in _CONTENT:
                    self._api._call("DELETE", f"/api/v1/namespaces/{name}/{plural}")
                self._api._call("PUT", f"/api/v1/namespaces/{name}/finalize", {**obj, "spec": {"finalizers": []}})
        return busy

    def _empty(self, namespace: str, resources: Iterable[tuple[str, str]]) -> Counter[str]:
        left: Counter[str] = Counter()
        for group, plural in resources:
            for path, obj in self.objects(namespace, group, plural):
                left.update(obj["metadata"].get("finalizers") or [""])
                if not obj["metadata"].get("deletionTimestamp"):
                    self._api.delete(path)
        return left

    def _bound_resources(self) -> list[tuple[str, str]]:
        """All custom resources that are not kcp's own."""
        found = self._api.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        pairs = [(one["spec"]["group"], one["spec"]["names"]["plural"]) for one in found]
        return [pair for pair in pairs if not pair[0].endswith("kcp.io")]
