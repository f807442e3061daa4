# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the lists of items of ``cilium_mesh`` into ``Desired``.

An item whose spec is not valid is refused alone (``Refused``): it may be one of many, written by others. An item without a usable
name, or with the name of another one, cannot be identified, and is an error of the whole variable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from ..base.input_problems import SUBDOMAIN, Problems, generation_of, json_type_name, list_items, quoted
from ..base.spec_limits import exceeded_limit, truncate_problems
from ..items.desired import Desired, Refused
from ..items.item import Item
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.binding.model import Mesh
from .kinds import ROWS

METADATA: Final = ("generation",)
"""Keys that a custom resource adds to its spec: metadata.generation."""

UNTOLD: Final = "the spec is not valid"


def desired_of(raw: Any, mesh: Mesh, *, kinds: Collection[ItemKind] = tuple(ItemKind)) -> Desired:
    """Return the items of ``kinds`` that ``raw``, the variable ``cilium_mesh``, asks for.

    An absent list says nothing about its kind; an empty one says that there is none.

    :raises InvalidInput: a value is not a list, or an item has no unique name; the message lists all of them.
    """
    problems = Problems()
    top: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    found: dict[ItemKind, list[Item]] = {kind: [] for kind in ItemKind}
    refused: list[Refused] = []
    given = [kind for kind in kinds if top.get(kind.value) is not None]
    order: list[ItemRef] = []
    for kind in given:
        for name, spec in _named(problems, kind, top.get(kind.value)):
            ref, own = ItemRef(kind, name), Problems()
            order.append(ref)
            too_large = exceeded_limit(spec)
            if too_large:
                refused.append(Refused(ref=ref, problems=(f"the spec {too_large}",)))
                continue
            generation = generation_of(own, "generation", spec.get("generation"))
            item = _parsed(own, kind, name, spec, mesh)
            if own.found or item is None:
                refused.append(Refused(ref=ref, problems=truncate_problems(own.found) or (UNTOLD,), generation=generation))
            else:
                found[kind].append(replace(item, generation=generation))
    problems.raise_any()
    return Desired(
        mesh=mesh,
        items={kind: tuple(items) for kind, items in found.items()},
        refused=tuple(refused),
        order=tuple(order),
        kinds=frozenset(given),
    )


def _named(problems: Problems, kind: ItemKind, value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    found: dict[str, Mapping[str, Any]] = {}
    for where, entry in list_items(problems, kind.value, value, "items"):
        if not isinstance(entry, Mapping):
            problems.add(where, f"must be a mapping with a name, not {json_type_name(entry)}")
            continue
        name = entry.get("name")
        if not isinstance(name, str) or not SUBDOMAIN.fullmatch(name):
            problems.add(f"{where}.name", f"{quoted(str(name))} is not a DNS-1123 name" if name is not None else "is missing")
        elif name in found:
            problems.add(f"{where}.name", f"{quoted(name)} is there twice; a name is unique within {kind.value}")
        else:
            found[str(name)] = {str(key): item for key, item in entry.items() if key != "name"}
    return list(found.items())


def _parsed(problems: Problems, kind: ItemKind, name: str, spec: Mapping[str, Any], mesh: Mesh) -> Item | None:
    rest = {key: value for key, value in spec.items() if key != "meshRef" and key not in METADATA}
    ref = spec.get("meshRef")
    if ref is not None:
        given = problems.mapping("meshRef", ref, ("name",), optional=False).get("name")
        if given != mesh.binding.name:
            problems.add("meshRef.name", f"{quoted(str(given))} is not the binding of this run, {quoted(mesh.binding.name)}")
    return ROWS[kind].parse(problems, name, rest, mesh.clusters)
