# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The kinds of items, and how one item is named everywhere: in findings, steps, statuses and on the objects that it made."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from ..problems import SUBDOMAIN


class ItemKind(StrEnum):
    """The value is the key of the list in the variable ``cilium_mesh`` and in ``mesh_result.status``."""

    GLOBAL_SERVICE = "globalServices"
    INTENT = "connectivityIntents"
    EXPOSURE = "exposedServices"

    @property
    def crd(self) -> str:
        """The CRD's kind."""
        return _CRDS[self]


_CRDS: Final = {
    ItemKind.GLOBAL_SERVICE: "GlobalService",
    ItemKind.INTENT: "ConnectivityIntent",
    ItemKind.EXPOSURE: "ExposedService",
}


class ItemRef(NamedTuple):
    """One item of the mesh."""

    kind: ItemKind
    name: str  # metadata name

    def __str__(self) -> str:
        return f"{self.kind.value}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> ItemRef | None:
        """``globalServices/nginx`` -> the reference; None for anything else: it may stand on a tenant's object."""
        kind, _sep, name = text.partition("/")
        return cls(ItemKind(kind), name) if kind in tuple(ItemKind) and SUBDOMAIN.fullmatch(name) else None
