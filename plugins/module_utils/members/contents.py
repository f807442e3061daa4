# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is in a namespace of a member, and who it is of. Pure.

A namespace is deleted only if nothing but this project's objects is in it, so what cannot be listed counts as something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..base.json_fields import annotations_of, items, labels_of, text, texts
from ..observe.namespaces import NamespaceContents
from .names import CORE, MANAGED_LABEL

_PASSING: Final = ("events", "leases")  # of controllers; they say nothing about what a user keeps
_DEFAULTS: Final = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))


class Found(NamedTuple):
    """Object that is to go with a membership, as it was found."""

    path: str
    name: str  # for people
    uid: str
    going: bool  # it is being deleted
    finalizers: tuple[str, ...]
    said: tuple[str, ...]  # by the conditions of a namespace that is being deleted: what of it is left


def found_at(path: str, name: str, observed: Mapping[str, Any]) -> Found:
    """Return what an object says of its end.

    :param name: for people.
    """
    # Kubernetes: pkg/controller/namespace/deletion/status_condition_utils.go
    rows = [row for row in items(observed, "status", "conditions") if text(row, "type").startswith("Namespace")]
    return Found(
        path=path,
        name=name,
        uid=text(observed, "metadata", "uid"),
        going=bool(text(observed, "metadata", "deletionTimestamp")),
        finalizers=texts(observed, "metadata", "finalizers"),
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


def judge(found: NamespaceContents | None, own: Iterable[tuple[str, str]] = ()) -> Contents | None:
    """Return what counts among the objects of a namespace; None if there is no such namespace.

    :param own: further objects that do not count, as (plural, name).
    """
    if found is None:
        return None
    namespace, every = found.namespace, found.listed
    unread = [f"{kind.plural} (not readable)" for kind in found.unread]
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
