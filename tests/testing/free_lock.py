# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A lock of a mesh that no other run ever holds, for tests of what runs do with it. It keeps what was asked of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.lock import Terms


class FreeLock:
    """As ``MeshLock``, over no API server."""

    def __init__(self, terms: Terms, **_: Any) -> None:
        self.terms = terms
        self.held: set[str] = set()

    def take(
        self, clusters: Mapping[str, Any], states: Mapping[str, Any], stay: Iterable[str], *, write: bool, leaving: Collection[str] = ()
    ) -> bool:
        if write:
            self.held |= set(clusters)
        return True

    def allow(self, cluster: str) -> None:
        assert cluster in self.held, f"a write to {cluster} without the lock"

    def settle(self) -> None:
        return

    def register(self, cluster: str, *, stays: bool) -> None:
        assert cluster in self.held

    def release(self) -> dict[str, int]:
        self.held.clear()
        return {}
