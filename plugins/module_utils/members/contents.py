# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is in a namespace of a member: everything that its API server stores, by discovery.

A namespace is deleted only if nothing but this project's objects is in it, so what cannot be listed counts as something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..base.errors import Forbidden, ServerRefused
from ..base.json_fields import annotations_of, items, labels_of, mapping, text, texts
from ..kube.client import Cluster
from .names import CORE, MANAGED_LABEL

_NOT_STORED: Final = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
"""Groups whose objects are made of others at each request."""

_PASSING: Final = ("events", "leases")  # of controllers; they say nothing about what a user keeps
_DEFAULTS: Final = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))


class Kind(NamedTuple):
    """Resource type with a namespace: path of its group and version, and its name in paths."""

    root: str
    plural: str


class Found(NamedTuple):
    """Object that is to go with a membership, as it was found."""

    path: str
    name: str  # for people
    uid: str
    going: bool  # it is being deleted
    finalizers: tuple[str, ...]
    said: tuple[str, ...]  # by the conditions of a namespace that is being deleted: what of it is left


def found_at(path: str, name: str, there: Mapping[str, Any]) -> Found:
    """Return what an object says of its end.

    :param name: for people.
    """
    # Kubernetes: pkg/controller/namespace/deletion/status_condition_utils.go
    rows = [row for row in items(there, "status", "conditions") if text(row, "type").startswith("Namespace")]
    return Found(
        path=path,
        name=name,
        uid=text(there, "metadata", "uid"),
        going=bool(text(there, "metadata", "deletionTimestamp")),
        finalizers=texts(there, "metadata", "finalizers"),
        said=tuple(said for row in rows if text(row, "status") == "True" and (said := text(row, "message"))),
    )


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A namespace and what is in it, without what every namespace has, and what follows from other objects in it.

    :param itself: the namespace.
    :param foreign: objects of other users, such as "configmaps notes"; resource types that cannot be listed are there too.
    :param brought: objects that Karmada brought.
    """

    itself: Found
    labels: Mapping[str, str]
    brought: tuple[Found, ...] = ()
    foreign: tuple[str, ...] = ()


def read_contents(cluster: Cluster, namespace: str, kinds: Iterable[Kind], own: Iterable[tuple[str, str]] = ()) -> Contents | None:
    """Return what is in a namespace; None if there is no such namespace.

    :param kinds: from ``namespaced_kinds``.
    :param own: further objects that do not count, as (plural, name).
    :raises ClusterError: when the cluster does not answer.
    """
    found = cluster.get(f"{CORE}/{namespace}")
    if found is None:
        return None
    listed: list[tuple[Kind, Mapping[str, Any]]] = []
    unread: list[str] = []
    for kind in kinds:
        try:
            listed += [(kind, entry) for entry in cluster.list(f"{kind.root}/namespaces/{namespace}/{kind.plural}", metadata_only=True)]
        except (Forbidden, ServerRefused):
            unread.append(f"{kind.plural} (not readable)")
    return judge(found, listed, unread, own)


def judge(
    namespace: Mapping[str, Any],
    listed: Iterable[tuple[Kind, Mapping[str, Any]]],
    unread: Iterable[str],
    own: Iterable[tuple[str, str]] = (),
) -> Contents:
    """Return what counts among the objects of a namespace.

    :param listed: objects with their resource types.
    :param unread: resource types that cannot be listed, in words.
    """
    every = list(listed)
    uids = {text(entry, "metadata", "uid") for kind, entry in every}
    passed = {*_DEFAULTS, *own}
    name_of_namespace = text(namespace, "metadata", "name")
    brought: dict[str, Found] = {}
    foreign: dict[str, None] = {}
    for kind, entry in every:
        name = text(entry, "metadata", "name")
        if kind.plural in _PASSING or (kind.plural, name) in passed or _follows(entry, uids):
            continue
        if labels_of(entry).get(MANAGED_LABEL) == "true":
            path = f"{kind.root}/namespaces/{name_of_namespace}/{kind.plural}/{name}"
            one = found_at(path, f"{kind.plural} {name}", entry)
            brought.setdefault(one.uid, one)  # several groups may serve one object
        else:
            foreign[f"{kind.plural} {name}"] = None
    return Contents(
        itself=found_at(f"{CORE}/{name_of_namespace}", f"Namespace {name_of_namespace}", namespace),
        labels=labels_of(namespace),
        brought=tuple(brought.values()),
        foreign=(*foreign, *unread),
    )


def _follows(entry: Mapping[str, Any], uids: set[str]) -> bool:
    """Return whether an object goes with another one of the namespace, or with the default ServiceAccount."""
    if any(text(owner, "uid") in uids for owner in items(entry, "metadata", "ownerReferences")):
        return True
    return annotations_of(entry).get("kubernetes.io/service-account.name") == "default"


def namespaced_kinds(cluster: Cluster) -> tuple[Kind, ...]:
    """Return every resource type of the API server that has a namespace and can be listed, each in its preferred version.

    :raises ClusterError: when the cluster does not answer.
    """
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
