# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Item: what the models of all kinds have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..mesh.binding.item_kinds import ItemKind, ItemRef


@dataclass(frozen=True, kw_only=True)
class Item:
    """Item of any kind. Its model is a class below it: in items/models.py, or in the package of its kind if no other package reads it."""

    KIND: ClassVar[ItemKind]
    name: str  # metadata name, unique within the kind
    generation: int = 0  # metadata.generation of the custom resource; 0 in a file

    @property
    def ref(self) -> ItemRef:
        """Return how findings, steps and annotations name the item."""
        return ItemRef(self.KIND, self.name)
