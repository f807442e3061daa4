# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""When a mesh is checked whose links were written and are not ready yet: closely at first, then less and less. Pure.

No run waits for links, since it would hold a worker meanwhile. Kubelet shows a changed Secret to the pods after up to two minutes.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 1.0  # seconds
LONGEST: Final = 15.0  # seconds between two checks within PATIENCE
PATIENCE: Final = 300.0  # seconds, as the option wait_timeout of the role mesh_connect
LATER: Final = 60.0  # seconds between two checks afterwards


class AwaitedLinks:
    """Links of one mesh, and the time of the run that wrote them, in monotonic seconds, while they are awaited."""

    def __init__(self) -> None:
        self._since: float | None = None

    def written(self, now: float) -> None:
        """Take note that a run wrote the links."""
        self._since = now

    def pause(self, phase: str, now: float) -> float | None:
        """Return the seconds until the next check of the mesh in this phase; None if nothing is awaited of it."""
        since = self._since
        if phase not in ("Connecting", "Degraded") or since is None:
            self._since = None
            return None
        if now - since < PATIENCE:
            return min(LONGEST, max(FIRST, (now - since) / 3))
        if phase == "Degraded":  # part of it works: it is checked as every mesh is
            self._since = None
            return None
        return LATER
