# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The variable ``cilium_mesh`` as a whole: the binding, and the items that refer to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..model import Mesh
from .kinds import ItemKind, ItemRef
from .models import ConnectivityIntent, ExposedService, GlobalService

Item: TypeAlias = GlobalService | ConnectivityIntent | ExposedService


@dataclass(frozen=True, kw_only=True)
class Refused:
    """An item whose spec cannot be meant. It gets Accepted=False; what an earlier spec of that name made is left as it is."""

    ref: ItemRef
    problems: tuple[str, ...]  # each with its path: "ports[0].port: must be 1 to 65535, not 70000"
    generation: int = 0


@dataclass(frozen=True, kw_only=True)
class Desired:
    """What the user wants. Names are unique within a kind."""

    mesh: Mesh
    services: tuple[GlobalService, ...] = ()
    intents: tuple[ConnectivityIntent, ...] = ()
    exposures: tuple[ExposedService, ...] = ()
    refused: tuple[Refused, ...] = ()
    kinds: frozenset[ItemKind] = (
        frozenset()
    )  # lists that there are, also empty ones; of other kinds nothing is known, and nothing is taken away

    order: tuple[ItemRef, ...] = ()  # all items, also refused ones, as the file has them

    def of(self, kind: ItemKind) -> tuple[Item, ...]:
        items: Mapping[ItemKind, tuple[Item, ...]] = {
            ItemKind.GLOBAL_SERVICE: self.services,
            ItemKind.INTENT: self.intents,
            ItemKind.EXPOSURE: self.exposures,
        }
        return items[kind]

    def kept(self, kind: ItemKind) -> frozenset[str]:
        """Names whose objects are not to be taken away: those in the file, also those that are refused."""
        names = {item.name for item in self.of(kind)} | {entry.ref.name for entry in self.refused if entry.ref.kind is kind}
        return frozenset(names)
