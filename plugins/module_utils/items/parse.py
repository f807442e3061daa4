# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lists of items of ``cilium_mesh`` -> ``Desired``.

An item whose spec is wrong is refused alone (``Refused``): it may be one of many, written by others. What has no usable name, or a name
twice, cannot be told apart, and is an error of the whole variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from ..exposure.parse import parse_exposed_service
from ..model import Mesh
from ..policies.parse import parse_intent
from ..problems import SUBDOMAIN, Problems, generation_of, items_of, kind_of, shown
from ..services.parse import parse_global_service
from .bounds import beyond, told
from .desired import Desired, Item, Refused
from .kinds import ItemKind, ItemRef

ItemParser = Callable[[Problems, str, Mapping[str, Any], tuple[str, ...]], Item | None]
"""(problems, name, the item's mapping without ``name``, ``meshRef`` and ``METADATA``, members) -> the item; None, or a problem added: it is
refused. Paths of problems begin at the spec, e.g. ``ports[0].port``."""

METADATA: Final = ("generation",)
"""What a custom resource adds to its spec: metadata.generation."""

PARSERS: Final[Mapping[ItemKind, ItemParser]] = {
    ItemKind.GLOBAL_SERVICE: parse_global_service,
    ItemKind.INTENT: parse_intent,
    ItemKind.EXPOSURE: parse_exposed_service,
}

UNTOLD: Final = "the spec cannot be meant"


def desired_of(raw: Any, mesh: Mesh, *, kinds: Collection[ItemKind] = tuple(ItemKind)) -> Desired:
    """The items of ``kinds`` that ``raw``, the variable ``cilium_mesh``, asks for.

    A list that is absent says nothing about its kind; an empty one says that there is none.
    :raises InvalidInput: a list is none, or an item has no name of its own; listing all of that.
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
            too_large = beyond(spec)
            if too_large:
                refused.append(Refused(ref=ref, problems=(f"the spec {too_large}",)))
                continue
            generation = generation_of(own, "generation", spec.get("generation"))
            item = _parsed(own, kind, name, spec, mesh)
            if own.found or item is None:
                refused.append(Refused(ref=ref, problems=told(own.found) or (UNTOLD,), generation=generation))
            else:
                found[kind].append(replace(item, generation=generation))
    problems.raise_any()
    return Desired(
        mesh=mesh,
        services=tuple(found[ItemKind.GLOBAL_SERVICE]),  # type: ignore[arg-type]  # each parser makes its own kind
        intents=tuple(found[ItemKind.INTENT]),  # type: ignore[arg-type]
        exposures=tuple(found[ItemKind.EXPOSURE]),  # type: ignore[arg-type]
        refused=tuple(refused),
        order=tuple(order),
        kinds=frozenset(given),
    )


def _named(problems: Problems, kind: ItemKind, value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    found: dict[str, Mapping[str, Any]] = {}
    for where, entry in items_of(problems, kind.value, value, "items"):
        if not isinstance(entry, Mapping):
            problems.add(where, f"must be a mapping with a name, not {kind_of(entry)}")
            continue
        name = entry.get("name")
        if not isinstance(name, str) or not SUBDOMAIN.fullmatch(name):
            problems.add(f"{where}.name", f"{shown(str(name))} is not a DNS-1123 name" if name is not None else "is missing")
        elif name in found:
            problems.add(f"{where}.name", f"{shown(name)} is there twice; a name is unique within {kind.value}")
        else:
            found[str(name)] = {str(key): item for key, item in entry.items() if key != "name"}
    return list(found.items())


def _parsed(problems: Problems, kind: ItemKind, name: str, spec: Mapping[str, Any], mesh: Mesh) -> Item | None:
    rest = {key: value for key, value in spec.items() if key != "meshRef" and key not in METADATA}
    ref = spec.get("meshRef")
    if ref is not None:
        given = problems.mapping("meshRef", ref, ("name",), optional=False).get("name")
        if given != mesh.binding.name:
            problems.add("meshRef.name", f"{shown(str(given))} is not the binding of this run, {shown(mesh.binding.name)}")
    return PARSERS[kind](problems, name, rest, mesh.clusters)
