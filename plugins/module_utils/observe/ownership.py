# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ownership of fields, read from ``metadata.managedFields``.

fieldsV1 is a tree: ``f:name`` is a field, ``k:{"ip":"10.0.0.1"}`` an item of a list with keys, ``.`` the object itself
(sigs.k8s.io/structured-merge-diff). An entry of a subresource (status) owns none of the fields read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ..base.json_fields import items, mapping, text
from ..base.json_reader import NotJson, load_json
from ..mesh.facts.cluster import WriterFacts

_WRITTEN: Final = {
    "clustermesh": "Secret cilium-clustermesh",
    "kvstoremesh": "Secret cilium-kvstoremesh",
    "users": "ConfigMap clustermesh-remote-users",
    "apiserver": "Deployment clustermesh-apiserver",
    "agent": "DaemonSet cilium",
}
"""Objects in which this collection writes next to others, by the name of their read: their entries are kept whole."""

_READ: Final = {
    "config": "ConfigMap cilium-config",
    "service": "Service clustermesh-apiserver",
    "server_cert": "Secret clustermesh-apiserver-server-cert",
    "remote_cert": "Secret clustermesh-apiserver-remote-cert",
}
"""Objects of the installation whose writers show when it was last upgraded."""


def all_writers(found: Mapping[str, Any]) -> dict[str, tuple[WriterFacts, ...]]:
    """Return the writers of each object by "Kind name".

    :param found: the answers by the names of ``reads.other_reads``.
    """
    return {
        title: entries
        for names, whole in ((_WRITTEN, True), (_READ, False))
        for name, title in names.items()
        if (entries := writers(found.get(name), whole=whole))
    }


def writers(value: Any, *, whole: bool = False) -> tuple[WriterFacts, ...]:
    """Return the entries of managedFields as facts.

    :param whole: with the entries themselves; an edit has to send back those of subresources as well.
    """
    return tuple(
        WriterFacts(
            manager=text(entry, "manager"),
            operation=text(entry, "operation"),
            time=text(entry, "time"),
            entry=json.dumps(entry, separators=(",", ":")) if whole else "",
        )
        for entry in items(value, "metadata", "managedFields")
    )


def managers(value: Any) -> tuple[str, ...]:
    """Return every field manager of the object, sorted."""
    return tuple(sorted({text(entry, "manager") for entry in items(value, "metadata", "managedFields")} - {""}))


def owners_of_fields(value: Any, *path: str) -> dict[str, tuple[str, ...]]:
    """Return field name -> managers that own it, for the fields under ``path``; e.g. ``owners_of_fields(secret, "data")``."""
    return _owners(value, path, _field_name)


def owners_of_items(value: Any, *path: str, key: str) -> dict[str, tuple[str, ...]]:
    """Return value of ``key`` -> managers that own that item, for the keyed list under ``path``."""

    def name(entry: str) -> str | None:
        return _item_key(entry, key)

    return _owners(value, path, name)


def _owners(value: Any, path: tuple[str, ...], name: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for entry in items(value, "metadata", "managedFields"):
        manager = text(entry, "manager")
        tree: Mapping[str, Any] = mapping(entry, "fieldsV1", *(f"f:{step}" for step in path))
        for field in tree:
            owned = name(field)
            if manager and owned is not None:
                found.setdefault(owned, set()).add(manager)
    return {owned: tuple(sorted(by)) for owned, by in found.items()}


def _field_name(entry: str) -> str | None:
    return entry[2:] if entry.startswith("f:") else None


def _item_key(entry: str, key: str) -> str | None:
    if not entry.startswith("k:"):
        return None
    try:
        keys = load_json(entry[2:])
    except NotJson:
        return None
    found = keys.get(key) if isinstance(keys, dict) else None
    return found if isinstance(found, str) else None
