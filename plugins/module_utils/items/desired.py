# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The variable ``cilium_mesh`` as a whole: the binding, and the items that refer to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.binding.model import Mesh
from .item import Item

ItemType = TypeVar("ItemType", bound=Item)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Item whose spec is not valid. It gets Accepted=False; objects of an earlier spec of that name are left as they are."""

    ref: ItemRef
    problems: tuple[str, ...]  # each with its path: "ports[0].port: must be 1 to 65535, not 70000"
    generation: int = 0


@dataclass(frozen=True, kw_only=True)
class Desired:
    """Binding and items of the user. Names are unique within a kind."""

    mesh: Mesh
    items: Mapping[ItemKind, tuple[Item, ...]] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    kinds: frozenset[ItemKind] = (
        frozenset()
    )  # lists that there are, also empty ones; of other kinds nothing is known, and nothing is taken away

    order: tuple[ItemRef, ...] = ()  # all items, also refused ones, as the file has them
    keeping: frozenset[ItemKind] = frozenset()  # kinds of which nothing is pruned (items/keeping.py)

    def of(self, kind: ItemKind) -> tuple[Item, ...]:
        """Return the items of the kind, in the order of the file."""
        return self.items.get(kind, ())

    def each(self, model: type[ItemType]) -> tuple[ItemType, ...]:
        """Return the items of one model, in the order of the file."""
        return tuple(item for items in self.items.values() for item in items if isinstance(item, model))

    def kept(self, kind: ItemKind) -> frozenset[str]:
        """Return the names whose objects are not to be pruned: those in the variable, also those that are refused."""
        names = {item.name for item in self.of(kind)} | {entry.ref.name for entry in self.refused if entry.ref.kind is kind}
        return frozenset(names)
