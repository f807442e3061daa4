# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of ``metadata.managedFields`` that move the ownership of a field without touching the field. Pure.

The API server accepts the list that an update sends, as long as it can be read and is not empty, and only then records what the update
itself changed (apimachinery, pkg/util/managedfields/internal/fieldmanager.go). Replacing the list and nothing else therefore moves
ownership in one atomic write; client-go's csaupgrade does the same. Such a write always carries the resource version that was read.

fieldsV1 is a tree: ``f:name`` is a field, ``k:{"ip":"10.0.0.1"}`` an item of a list with keys, ``.`` the object itself
(sigs.k8s.io/structured-merge-diff). A path is a tuple of such steps, from the root.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ..facts.cluster import WriterFacts

Entry: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

APPLY: Final = "Apply"
UPDATE: Final = "Update"


class Owner(NamedTuple):
    """Field manager with the operation by which it owns fields: the API server keeps the two apart."""

    manager: str
    operation: str

    def __str__(self) -> str:
        return f"{self.manager} ({self.operation})"


def entries_of(writers: Iterable[WriterFacts]) -> list[Entry]:
    """Return the managedFields entries as they were read; [] if they were not kept whole."""
    return [json.loads(writer.entry) for writer in writers if writer.entry]


def data_key(key: str) -> Path:
    """Return the path of a key in a Secret's or ConfigMap's data."""
    return ("f:data", f"f:{key}")


def annotation(name: str) -> Path:
    """Return the path of an annotation."""
    return ("f:metadata", "f:annotations", f"f:{name}")


def label(name: str) -> Path:
    """Return the path of a label."""
    return ("f:metadata", "f:labels", f"f:{name}")


def owners(entries: Iterable[Entry], path: Path) -> tuple[Owner, ...]:
    """Return the owners of the field at ``path``, in the order of the list."""
    return tuple(_owner(entry) for entry in entries if not entry.get("subresource") and _holds(entry.get("fieldsV1"), path))


def remove_owners(entries: Iterable[Entry], paths: Iterable[Path], *, but: Owner | None = None) -> list[Entry]:
    """Return the entries with ``paths`` removed from every owner except ``but``. An entry without fields is dropped."""
    wanted = tuple(paths)
    found = []
    for entry in entries:
        kept = entry
        if not entry.get("subresource") and _owner(entry) != but and any(_holds(entry.get("fieldsV1"), path) for path in wanted):
            kept = copy.deepcopy(entry)
            for path in wanted:
                _remove(kept["fieldsV1"], path)
        if kept.get("fieldsV1"):
            found.append(kept)
    return found


def add_owner(entries: Iterable[Entry], owner: Owner, paths: Iterable[Path], *, time: str, api_version: str = "v1") -> list[Entry]:
    """Return the entries with ``paths`` added to those of ``owner``, in a new entry if it has none.

    :param time: RFC 3339, for a new entry.
    """
    found = [copy.deepcopy(entry) for entry in entries]
    wanted = tuple(paths)
    if not wanted:
        return found
    entry = next((e for e in found if _owner(e) == owner and not e.get("subresource") and e.get("apiVersion") == api_version), None)
    if entry is None:
        entry = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
        found.append(entry)
    for path in wanted:
        _add(entry["fieldsV1"], path)
    return found


def without_manager(entries: Iterable[Entry], manager: str) -> list[Entry]:
    """Return the entries without those of ``manager``; the fields themselves stay."""
    return [entry for entry in entries if entry.get("manager") != manager or entry.get("subresource")]


def fields_of_manager(entries: Iterable[Entry], manager: str, under: Path = ()) -> tuple[Path, ...]:
    """Return every field below ``under`` that ``manager`` owns by any operation, each once."""
    found: dict[Path, None] = {}
    for entry in entries:
        if entry.get("manager") == manager and not entry.get("subresource"):
            found.update((path, None) for path in _leaves(entry.get("fieldsV1") or {}) if path[: len(under)] == under)
    return tuple(found)


def summary(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the fields of each owner as names for printing: ``{"cilium (Update)": ["data.c2", …]}``."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        names = found.setdefault(str(_owner(entry)), set())
        names.update(".".join(step.removeprefix("f:") for step in path) for path in _leaves(entry.get("fieldsV1") or {}))
    return {owner: sorted(names) for owner, names in sorted(found.items())}


def _owner(entry: Mapping[str, Any]) -> Owner:
    return Owner(str(entry.get("manager", "")), str(entry.get("operation", "")))


def _holds(tree: Any, path: Path) -> bool:
    for step in path:
        if not isinstance(tree, Mapping) or step not in tree:
            return False
        tree = tree[step]
    return True


def _remove(tree: dict[str, Any], path: Path) -> None:
    """Remove a field and everything below it; a parent that held nothing else is removed as well."""
    head, *rest = path
    if head not in tree:
        return
    if rest:
        _remove(tree[head], tuple(rest))
        if tree[head]:
            return
    del tree[head]


def _add(tree: dict[str, Any], path: Path) -> None:
    for step in path:
        tree = tree.setdefault(step, {})


def _leaves(tree: Mapping[str, Any], above: Path = ()) -> Iterator[Path]:
    for step, below in tree.items():
        if step == ".":
            continue
        if below:
            yield from _leaves(below, (*above, step))
        else:
            yield (*above, step)
