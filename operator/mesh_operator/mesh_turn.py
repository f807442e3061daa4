# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The turn of one mesh under way, and its early end by another thread."""

from __future__ import annotations

from typing import Protocol

from .runs import Cancel


class Interruptible(Protocol):
    """Process that answers a question of the turn. ``dry_runs.MeshProcess`` is one."""

    def interrupt(self) -> None:
        """Make the question fail."""
        ...


class MeshTurn:
    """Turn of one mesh. ``removes``: it removes the mesh, so a deletion is no reason to end it. ``ended``: early.

    :param stop: ends all turns.
    """

    def __init__(self, stop: Cancel) -> None:
        self._stop, self.ended = stop, False
        self.process: Interruptible | None = None
        self.removes = False

    def is_set(self) -> bool:
        """Return whether the turn has to end now, as a run asks it."""
        return self.ended or self._stop.is_set()

    def end(self) -> None:
        """End the turn: its dry run fails, and its run is canceled."""
        self.ended = True
        if (process := self.process) is not None:
            process.interrupt()
