# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects as a workspace shows them <-> objects as the real API server keeps them. Nothing but names differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from tests.testing.kcp_double.places import CLUSTER_LABEL, NAME_ANNOTATION, Places

Object = dict[str, Any]
CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
TOUCHED: Final = "kcp-double.test/touched"  # changes when an object has to show up, or vanish, on watches that are under way
BUILT_IN_ROLES: Final = frozenset({"cluster-admin", "admin", "edit", "view", "system:kcp:workspace:access"})
_RBAC: Final = "rbac.authorization.k8s.io"
_REAL_NAMESPACE: Final = re.compile(r"[0-9a-z]+-(?:root|[0-9a-f]{12})")
_METADATA_NAME: Final = "kubernetes.io/metadata.name"


class Scope(Enum):
    """Where the real server keeps a resource."""

    NAMESPACED = auto()
    ROOTED = auto()  # cluster-scoped for a workspace; kept in a namespace of its own, as a namespaced resource
    PREFIXED = auto()  # cluster-scoped on both sides: "<logical cluster>:<name>"
    NAMESPACES = auto()  # namespaces themselves


@dataclass(frozen=True)
class Resource:
    """A resource of a workspace."""

    group: str
    plural: str
    scope: Scope = Scope.NAMESPACED


class Translator:
    """See the module."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def name(self, resource: Resource, cluster: str, name: str) -> str:
        """The real name of an object."""
        if resource.scope is Scope.NAMESPACES:
            return self._places.real(cluster, name)
        if resource.scope is Scope.PREFIXED and name not in BUILT_IN_ROLES:
            return f"{cluster}:{name}"
        return name

    def inward(self, resource: Resource, cluster: str, namespace: str, body: Any) -> Any:
        """What a client sends, whole objects and merge patches alike; of a JSON patch only what names a namespace or the object."""
        if isinstance(body, list):
            return [self._operation(resource, cluster, one) for one in body if isinstance(one, dict)]
        if not isinstance(body, dict):
            return body
        metadata = body["metadata"] = _dict(body.get("metadata"))
        if metadata.get("namespace"):
            metadata["namespace"] = self._places.real(cluster, metadata["namespace"])
        elif resource.scope is Scope.ROOTED and metadata:
            metadata["namespace"] = self._places.real(cluster, "")
        if resource.scope is Scope.NAMESPACES and metadata.get("name"):
            metadata["annotations"] = {**_dict(metadata.get("annotations")), NAME_ANNOTATION: metadata["name"]}
        for key in ("name", "generateName"):
            if metadata.get(key):
                metadata[key] = self.name(resource, cluster, metadata[key])
        if resource.scope is Scope.NAMESPACES:
            metadata["labels"] = {**_dict(metadata.get("labels")), CLUSTER_LABEL: cluster}
            metadata["labels"].pop(_METADATA_NAME, None)
        self._references(body, lambda real: self._places.real(cluster, real), lambda name: self._subject_in(cluster, name), cluster, True)
        return body

    def outward(self, resource: Resource, obj: Object, asked: str = "") -> str:
        """Translate an object in place. Returns its logical cluster; "" when it belongs to none. ``asked``: the logical cluster of the
        request, for what belongs to all (built-in roles)."""
        metadata = _dict(obj.get("metadata"))
        cluster = self._rename(resource, metadata, asked)
        if not cluster:
            return ""
        annotations = metadata["annotations"] = {**_dict(metadata.get("annotations")), CLUSTER_ANNOTATION: cluster}
        for ours in (TOUCHED, NAME_ANNOTATION):
            annotations.pop(ours, None)
        self._references(obj, self._origin_name, lambda name: name.partition("/")[2] or name, cluster, False)
        return cluster

    def text(self, text: str, cluster: str) -> str:
        """A message of the real server, with the names that the client knows."""

        def known(found: re.Match[str]) -> str:
            origin = self._places.origin(found[0])
            return origin[1] if origin else found[0]

        return _REAL_NAMESPACE.sub(known, text).replace(f"{cluster}:", "")

    def _rename(self, resource: Resource, metadata: Object, asked: str) -> str:
        if resource.scope is Scope.PREFIXED:
            cluster, found, name = str(metadata.get("name", "")).partition(":")
            if found and self._places.find(cluster):
                metadata["name"] = name
                return cluster
            return asked if metadata.get("name") in BUILT_IN_ROLES else ""
        where = "name" if resource.scope is Scope.NAMESPACES else "namespace"
        origin = self._places.origin(str(metadata.get(where, "")))
        if origin is None:
            return ""
        metadata[where] = origin[1]
        if resource.scope is Scope.ROOTED:
            del metadata["namespace"]
        if resource.scope is Scope.NAMESPACES:
            labels = metadata["labels"] = {**_dict(metadata.get("labels")), _METADATA_NAME: origin[1]}
            labels.pop(CLUSTER_LABEL, None)
            return origin[0] if origin[1] else ""
        return origin[0]

    def _operation(self, resource: Resource, cluster: str, operation: Object) -> Object:
        path, value = operation.get("path"), operation.get("value")
        if isinstance(value, str) and path == "/metadata/namespace":
            return {**operation, "value": self._places.real(cluster, value)}
        if isinstance(value, str) and path == "/metadata/name":
            return {**operation, "value": self.name(resource, cluster, value)}
        return operation

    def _references(self, obj: Object, namespace: Callable[[str], str], subject: Callable[[str], str], cluster: str, inward: bool) -> None:
        """Names inside: subjects and roles of bindings, the object of an event."""
        for key in ("involvedObject", "regarding"):
            if _dict(obj.get(key)).get("namespace"):
                obj[key]["namespace"] = namespace(obj[key]["namespace"])
        for one in obj["subjects"] if isinstance(obj.get("subjects"), list) else ():
            if one.get("namespace"):
                one["namespace"] = namespace(one["namespace"])
            if one.get("kind") in ("User", "Group") and one.get("name"):
                one["name"] = subject(one["name"])
        role = _dict(obj.get("roleRef"))
        if role.get("kind") == "ClusterRole":
            plain = str(role.get("name", "")).removeprefix(f"{cluster}:")
            role["name"] = self.name(Resource(_RBAC, "clusterroles", Scope.PREFIXED), cluster, plain) if inward else plain

    def _origin_name(self, real: str) -> str:
        origin = self._places.origin(real)
        return origin[1] if origin else real

    @staticmethod
    def _subject_in(cluster: str, name: str) -> str:
        """Users and groups are the same everywhere; what they may do differs between logical clusters."""
        return f"{cluster}/{name}"


def _dict(value: Any) -> Object:
    return value if isinstance(value, dict) else {}
