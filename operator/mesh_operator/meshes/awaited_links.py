# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""When a mesh is looked at whose links were written and are not ready yet: closely at first, then less and less. Pure.

No play waits for links, since it would hold a worker meanwhile. Kubelet shows a changed Secret to the pods after up to two minutes.
"""

from __future__ import annotations

from typing import Final

from ..base.keys import MeshKey

FIRST: Final = 1.0  # seconds
LONGEST: Final = 15.0  # seconds between two looks within PATIENCE
PATIENCE: Final = 300.0  # seconds, as the option wait_timeout of the role mesh_connect
LATER: Final = 60.0  # seconds between two looks afterwards


class AwaitedLinks:
    """Meshes whose links are awaited, by the time of the play that wrote them, in monotonic seconds. Thread-safe."""

    def __init__(self) -> None:
        self._since: dict[MeshKey, float] = {}

    def written(self, key: MeshKey, now: float) -> None:
        """Take note that a play wrote the links of a mesh."""
        self._since[key] = now

    def pause(self, key: MeshKey, phase: str, now: float) -> float | None:
        """Return the seconds until the next look at a mesh of this phase; None if nothing is awaited of it."""
        since = self._since.get(key)
        if phase not in ("Connecting", "Degraded") or since is None:
            self._since.pop(key, None)
            return None
        if now - since < PATIENCE:
            return min(LONGEST, max(FIRST, (now - since) / 3))
        if phase == "Degraded":  # part of it works: it is checked as every mesh is
            self._since.pop(key, None)
            return None
        return LATER

    def forget(self, key: MeshKey) -> None:
        """Forget a mesh."""
        self._since.pop(key, None)
