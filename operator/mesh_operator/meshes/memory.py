# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator remembers of each mesh between its turns. All of it may be lost: a restart costs a dry run, and no truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.keys import MeshKey
from .awaited_links import AwaitedLinks


@dataclass(frozen=True, kw_only=True)
class GoodLinks:
    """Links that needed nothing in the last dry run or run."""

    linked: str  # MeshRequest.linked
    at: float  # monotonic seconds
    status: Mapping[str, Any]  # of the binding
    findings: tuple[Mapping[str, Any], ...] = ()  # of no item


@dataclass(kw_only=True)
class MeshMemory:
    """Memory of one mesh. Used by one thread at a time, that of its turn."""

    good_links: GoodLinks | None = None
    awaited: AwaitedLinks = field(default_factory=AwaitedLinks)
    held: Mapping[str, str] = field(default_factory=dict)  # item whose objects the last run kept -> why


class MeshMemories:
    """Memories by mesh. Thread-safe for different meshes."""

    def __init__(self) -> None:
        self._memories: dict[MeshKey, MeshMemory] = {}

    def recall(self, key: MeshKey) -> MeshMemory:
        """Return the memory of a mesh; of a mesh that is not known, an empty one, which is kept."""
        return self._memories.setdefault(key, MeshMemory())

    def forget(self, key: MeshKey) -> None:
        """Forget a mesh that is gone."""
        self._memories.pop(key, None)

    def __len__(self) -> int:
        """Return how many meshes are remembered."""
        return len(self._memories)
