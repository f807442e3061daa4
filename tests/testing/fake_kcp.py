# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Custom resources of a few workspaces in memory: what is written is seen by the store at once, as a quick watch would bring it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from mesh_operator.base.keys import CLUSTER_ANNOTATION, ObjectKey
from mesh_operator.base.kinds import BY_KIND
from mesh_operator.source.store import Store

URL = "https://kcp.example.com/services/apiexport/provider/networking"


class FakeKcp:
    """The one virtual workspace. ``writes`` lists what was written: (kind, name, what)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.add_url(URL, BY_KIND)
        for kind in BY_KIND:
            store.replace(URL, kind, ())
        self._objects: dict[str, dict[str, Any]] = {}
        self._version = 0
        self.writes: list[tuple[str, str, str]] = []
        self.before_write: list[Any] = []  # called, and taken off, before the next write

    def at(self, url: str) -> Any:
        assert url == URL, url
        return self

    def put(
        self, kind: str, name: str, spec: Mapping[str, Any], *, workspace: str = "ws1", namespace: str = "default", **metadata: Any
    ) -> None:
        """Create, or replace the spec: the generation counts up."""
        path = path_of(ObjectKey(kind, workspace, namespace, name))
        old = self._objects.get(path, {"metadata": {"generation": 0, "uid": f"uid-{name}-{workspace}"}})
        base = {**old["metadata"], "name": name, "namespace": namespace, "generation": old["metadata"]["generation"] + 1}
        annotations = {CLUSTER_ANNOTATION: workspace, **metadata.pop("annotations", {})}
        obj = {**old, "apiVersion": "networking.edge-portal.eu/v1alpha1", "kind": kind, "spec": dict(spec)}
        self._save(path, {**obj, "metadata": {**base, "annotations": annotations, **metadata}})

    def delete(self, kind: str, name: str, *, workspace: str = "ws1", namespace: str = "default", at: str = "2026-11-01T00:00:00Z") -> None:
        """As kcp does it: gone at once without finalizers, else marked."""
        path = path_of(ObjectKey(kind, workspace, namespace, name))
        metadata = self._objects[path]["metadata"]
        generation = metadata["generation"] + 1  # as registry/rest/delete.go of Kubernetes does it
        self._settle(path, {**self._objects[path], "metadata": {**metadata, "deletionTimestamp": at, "generation": generation}})

    def get(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self._objects.get(path))

    def find(self, kind: str, name: str, *, workspace: str = "ws1", namespace: str = "default") -> dict[str, Any] | None:
        return self.get(path_of(ObjectKey(kind, workspace, namespace, name)))

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        while self.before_write:
            self.before_write.pop()()
        status = path.endswith("/status")
        path = path.removesuffix("/status")
        obj = self._objects[path]
        version = body["metadata"].get("resourceVersion")
        if version is not None and version != obj["metadata"]["resourceVersion"]:
            raise WriteConflict("the object changed since it was read")
        self.writes.append((obj["kind"], obj["metadata"]["name"], "status" if status else "metadata"))
        if status:
            self._save(path, {**obj, "status": merged(obj.get("status") or {}, body["status"])})
        else:
            self._settle(path, {**obj, "metadata": merged(obj["metadata"], body["metadata"])})
        return self._objects.get(path, {})

    def _settle(self, path: str, obj: dict[str, Any]) -> None:
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            self._objects.pop(path)
            self._store.missing(URL, obj["kind"], obj)
        else:
            self._save(path, obj)

    def _save(self, path: str, obj: dict[str, Any]) -> None:
        self._version += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self._version)}
        self._objects[path] = obj
        self._store.put(URL, obj["kind"], copy.deepcopy(obj))


def path_of(key: ObjectKey) -> str:
    return f"{BY_KIND[key.kind].collection(key.workspace, key.namespace)}/{key.name}"


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7386)."""
    found = dict(old)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = merged(found[key] if isinstance(found.get(key), Mapping) else {}, value)
        else:
            found[key] = value
    return found
