# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything that the API server of a cluster stores in a namespace, by discovery: one list for each resource type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..base.errors import Forbidden, ServerRefused
from ..base.json_fields import items, mapping, text, texts
from ..kube.client import Cluster
from . import Observation

_NOT_STORED: Final = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
"""Groups whose objects are made of others at each request."""


class Kind(NamedTuple):
    """Resource type with a namespace: path of its group and version, and its name in paths."""

    root: str
    plural: str


@dataclass(frozen=True, kw_only=True)
class NamespaceContents:
    """A namespace, the metadata of its objects with their resource types, and the types that cannot be listed."""

    namespace: Mapping[str, Any]
    listed: tuple[tuple[Kind, Mapping[str, Any]], ...] = ()
    unread: tuple[Kind, ...] = ()


def read_namespaces(opened: Observation, host: str, names: Iterable[str]) -> dict[str, NamespaceContents | None]:
    """Return what is in some namespaces of an open cluster; None for one that does not exist.

    :raises ClusterError: when the cluster does not answer.
    """
    cluster = opened.clusters[host]
    kinds = _namespaced_kinds(cluster)
    return {name: _contents(cluster, name, kinds) for name in names}


def _contents(cluster: Cluster, name: str, kinds: Iterable[Kind]) -> NamespaceContents | None:
    found = cluster.get(f"/api/v1/namespaces/{name}")
    if found is None:
        return None
    listed: list[tuple[Kind, Mapping[str, Any]]] = []
    unread: list[Kind] = []
    for kind in kinds:
        try:
            listed += [(kind, entry) for entry in cluster.list(f"{kind.root}/namespaces/{name}/{kind.plural}", metadata_only=True)]
        except (Forbidden, ServerRefused):
            unread.append(kind)
    return NamespaceContents(namespace=found, listed=tuple(listed), unread=tuple(unread))


def _namespaced_kinds(cluster: Cluster) -> tuple[Kind, ...]:
    """Return every resource type that has a namespace and can be listed, each in its preferred version."""
    roots = ["/api/v1", *(f"/apis/{version}" for version in _versions(cluster.get("/apis") or {}))]
    return tuple(kind for root in roots for kind in _kinds(root, cluster.get(root) or {}))


def _versions(groups: Mapping[str, Any]) -> Iterator[str]:
    for group in items(groups, "groups"):
        if text(group, "name") not in _NOT_STORED:
            yield text(mapping(group, "preferredVersion"), "groupVersion")


def _kinds(root: str, listed: Mapping[str, Any]) -> Iterator[Kind]:
    for entry in items(listed, "resources"):
        name = text(entry, "name")
        if entry.get("namespaced") is True and "/" not in name and "list" in texts(entry, "verbs"):
            yield Kind(root, name)
