# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Document of a kubeconfig as its entries, and several documents as one, in the way of kubectl (client-go, tools/clientcmd/loader.go)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.redact import one_line
from .fields import FIELDS, FILES, Entry, WrongValue, text
from .invalid import KubeconfigInvalid, RefusedSubject

Entries = Mapping[str, Entry]
_LISTS: Final = {"cluster": "clusters", "user": "users", "context": "contexts"}


@dataclass(frozen=True)
class Kubeconfig:
    """Entries by name, in the order of the file. Paths in them are absolute."""

    clusters: Entries = field(default_factory=dict)
    users: Entries = field(default_factory=dict)
    contexts: Entries = field(default_factory=dict)
    current_context: str = ""

    def __repr__(self) -> str:
        return f"<Kubeconfig of {len(self.contexts)} contexts>"  # users hold secrets


def parse_kubeconfig(document: Any, folder: str | None) -> Kubeconfig:
    """Return the entries of one document.

    :param document: of YAML or JSON; None, which an empty file has, is a kubeconfig without entries.
    :param folder: absolute path of the folder of its file; None if it is in no file, and then it may name no file by a relative path.
    :raises KubeconfigInvalid: as kubectl refuses it: a value has another type than its field, or two entries of a kind have one name.
    """
    if document is None:
        return Kubeconfig()
    if not isinstance(document, Mapping):
        raise KubeconfigInvalid("is no mapping")
    for key, wanted in (("apiVersion", "v1"), ("kind", "Config")):
        if document.get(key) not in (None, "", wanted):
            raise KubeconfigInvalid(f"is none of v1: its {key} is not {wanted}")
    found = {kind: _entries(kind, document.get(name), folder) for kind, name in _LISTS.items()}
    current = document.get("current-context")
    name = "" if current is None else _text(RefusedSubject("its current-context", "its current-context"), current)
    return Kubeconfig(found["cluster"], found["user"], found["context"], name)


def merge_kubeconfigs(kubeconfigs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Return several kubeconfigs as one: of entries with one name the first counts, whole, and so does the first current-context."""
    merged = Kubeconfig()
    for one in kubeconfigs:
        merged = Kubeconfig(
            _with_others(merged.clusters, one.clusters),
            _with_others(merged.users, one.users),
            _with_others(merged.contexts, one.contexts),
            merged.current_context or one.current_context,
        )
    return merged


def _with_others(first: Entries, second: Entries) -> Entries:
    return {**first, **{name: entry for name, entry in second.items() if name not in first}}


def entry_subject(kind: str, name: str) -> RefusedSubject:
    """Return the words for an entry: cluster, user or context."""
    return RefusedSubject(f'{kind} "{one_line(name, 80)}"', f"a {kind}")


def _entries(kind: str, listed: Any, folder: str | None) -> Entries:
    if listed is None:
        return {}
    if not isinstance(listed, (list, tuple)):
        raise KubeconfigInvalid(f"has {_LISTS[kind]} that are no list")
    found: dict[str, Entry] = {}
    for number, entry in enumerate(listed, start=1):
        where = f"entry {number} of its {_LISTS[kind]}"
        if not isinstance(entry, Mapping):
            raise KubeconfigInvalid("is no mapping", subject=RefusedSubject(where, where))
        given = entry.get("name")
        name = "" if given is None else _text(RefusedSubject(f"the name of {where}", f"the name of {where}"), given)
        subject = entry_subject(kind, name)
        if name in found:
            raise KubeconfigInvalid(f"stands twice in its {_LISTS[kind]}", subject=subject)
        content = entry.get(kind)
        try:
            fields = FIELDS[kind]({} if content is None else content)
        except WrongValue as wrong:
            raise _wrong(subject, wrong) from None
        found[name] = _with_absolute_paths(subject, kind, fields, folder)
    return found


def _with_absolute_paths(subject: RefusedSubject, kind: str, fields: Entry, folder: str | None) -> Entry:
    """Return an entry whose paths are absolute. The command of an exec plugin is a path where it has a slash; else PATH has it."""
    named = {key: fields[key] for key in FILES[kind] if key in fields}
    plugin = fields.get("exec", {})
    if os.sep in plugin.get("command", ""):
        named["exec"] = plugin["command"]
    if folder is None and (relative := [key for key, path in named.items() if not os.path.isabs(path)]):
        what = f"has a relative path as {relative[0]}, and a kubeconfig that is in no file has no folder"
        raise KubeconfigInvalid(what, subject=subject)
    placed = {key: os.path.normpath(os.path.join(folder or "/", path)) for key, path in named.items()}
    command = placed.pop("exec", None)
    return {**fields, **placed, **({"exec": {**plugin, "command": command}} if command else {})}


def _text(subject: RefusedSubject, value: Any) -> str:
    try:
        return text(value)
    except WrongValue as wrong:
        raise _wrong(subject, wrong) from None


def _wrong(subject: RefusedSubject, wrong: WrongValue) -> KubeconfigInvalid:
    place = wrong.place.lstrip(".")
    return KubeconfigInvalid(wrong.why if not place else f"has a wrong value: {place} {wrong.why}", subject=subject)
