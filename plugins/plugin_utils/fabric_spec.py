# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the options of mesh_fabric: which bindings are measured, and which have a given status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import SUBDOMAIN, Problems, clip, is_list, list_items, quoted, sentence, suggest
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.status.fabric import BindingRow
from .play import Play, mesh_of, plain


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """Fabric as the options describe it: bindings whose status is given, and bindings to measure."""

    name: str
    names: tuple[str, ...]  # of the bindings, in their order
    known: tuple[BindingRow, ...]
    meshes: tuple[Mesh, ...]

    def in_order(self, rows: Iterable[BindingRow]) -> list[BindingRow]:
        """Sort rows in the order in which the option names the bindings."""
        return sorted(rows, key=lambda row: self.names.index(row.name))


def fabric_of(play: Play, raw: Any, statuses: Mapping[str, Any]) -> Fabric:
    """Parse the fabric that the options describe.

    Clusters of a binding whose status is given need not be in the inventory.

    :param raw: the option ``fabric``.
    :param statuses: ``mesh_result`` or its ``status.binding``, by name of the binding.
    :raises InvalidInput: when the form is wrong, a binding is there twice, a binding to measure would not be valid as
        ``cilium_mesh.binding``, or a status belongs to no binding.
    """
    problems = Problems()
    given = problems.mapping("fabric", plain(raw), ("name", "bindings"), optional=False)
    name = _name(problems, "fabric.name", given)
    entries = list_items(problems, "fabric.bindings", given.get("bindings"), "bindings")
    names = [_name(problems, f"{where}.name", e) for where, e in entries]
    for (where, _entry), own in zip(entries, names, strict=True):
        if names.count(own) > 1:
            problems.add(where, f"the name {quoted(own)} is there more than once")
    given_statuses = {str(key): _status(problems, str(key), value) for key, value in plain(statuses).items()}
    for stranger in sorted(set(given_statuses) - set(names)):
        problems.add(f"statuses.{clip(stranger)}", f"is no binding of the fabric; {suggest(stranger, names, 'it has')}")
    if problems.found:
        raise InvalidInput(sentence(problems.found), remedy="See docs/fabric.md; no cluster was asked.")
    known = [_row(entry, given_statuses[n]) for (_where, entry), n in zip(entries, names, strict=True) if n in given_statuses]
    meshes = [_mesh(play, where, entry) for (where, entry), n in zip(entries, names, strict=True) if n not in given_statuses]
    return Fabric(name=name, names=tuple(names), known=tuple(known), meshes=tuple(meshes))


def _name(problems: Problems, where: str, entry: Any) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    if not isinstance(name, str) or not SUBDOMAIN.fullmatch(name):
        problems.add(where, f"{quoted(str(name))} is not a DNS-1123 name" if name is not None else "is missing")
    return str(name)


def _status(problems: Problems, name: str, value: Any) -> Mapping[str, Any] | None:
    """Return ``status.binding`` of a ``mesh_result``, given as itself or with the whole result; None: it was not measured."""
    if isinstance(value, Mapping) and isinstance(value.get("status"), Mapping):
        value = value["status"].get("binding")
    if value is None or (isinstance(value, Mapping) and isinstance(value.get("phase"), str)):
        return value
    problems.add(f"statuses.{clip(name)}", "is no status of a binding: it has no phase; give status.binding of a mesh_result")
    return None


def _row(entry: Mapping[str, Any], status: Mapping[str, Any] | None) -> BindingRow:
    """Return the row of a binding with a given status; its members are those in the status, else those that the binding names."""
    given, refs = (status or {}).get("meshStatus"), entry.get("clusterRefs")
    rows = [row.get("clusterName") for row in _list(given) if isinstance(row, Mapping)]
    named = [ref.get("name") if isinstance(ref, Mapping) else ref for ref in _list(refs)]
    return BindingRow(name=str(entry["name"]), clusters=tuple(str(host) for host in rows or named if host), status=status)


def _list(value: Any) -> list[Any]:
    return list(value) if is_list(value) else []


def _mesh(play: Play, where: str, entry: Any) -> Mesh:
    try:
        return mesh_of(play, {"binding": entry}, limited=True)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}", remedy=error.remedy) from None
