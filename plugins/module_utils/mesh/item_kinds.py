# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kinds of items, and the reference to one item in findings, steps, statuses and on the objects of the item."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from ..base.input_problems import SUBDOMAIN


class ItemKind(StrEnum):
    """Kind of an item. The value is the key of its list in the variable ``cilium_mesh`` and in ``mesh_result.status``."""

    GLOBAL_SERVICE = "globalServices"
    INTENT = "connectivityIntents"
    EXPOSURE = "exposedServices"

    @property
    def crd(self) -> str:
        """Kind of the custom resource."""
        return _CRDS[self]


_CRDS: Final = {
    ItemKind.GLOBAL_SERVICE: "GlobalService",
    ItemKind.INTENT: "ConnectivityIntent",
    ItemKind.EXPOSURE: "ExposedService",
}


class ItemRef(NamedTuple):
    """Reference to one item of the mesh."""

    kind: ItemKind
    name: str  # metadata name

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> ItemRef | None:
        """Parse ``globalServices/nginx``; None for anything else, since the text may stand on a tenant's object."""
        kind, _sep, name = text.partition("/")
        return cls(ItemKind(kind), name) if kind in tuple(ItemKind) and SUBDOMAIN.fullmatch(name) else None
