# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Queue of meshes: fair between workspaces, changes before resyncs, each mesh at most once at a time, later after failures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from threading import Condition
from typing import Final

from .keys import MeshKey


class Urgency(IntEnum):
    """Urgency of a mesh. Lower goes first."""

    CHANGE = 0
    RESYNC = 1


RESYNC_TURN: Final = 8  # every so many turns resyncs go first: tenants with endless changes do not keep others from being checked


class FairQueue:
    """Queue of meshes. Thread-safe.

    Workspaces take turns (round robin) within an urgency; of one workspace at most ``per_workspace`` are out at a time. A mesh that is
    added while it is out comes back when it is done. ``clock`` is monotonic seconds.
    """

    def __init__(self, *, per_workspace: int = 1, clock: Callable[[], float], first_delay: float = 5.0, last_delay: float = 300.0) -> None:
        self._per_workspace, self._clock, self._first, self._last = per_workspace, clock, first_delay, last_delay
        self._changed, self._closed, self._turn = Condition(), False, 0
        # Due meshes by workspace. Workspaces are in the order of their turns, the meshes of each in the order of their arrival.
        self._due: dict[Urgency, dict[str, dict[MeshKey, None]]] = {urgency: {} for urgency in Urgency}
        self._out: set[MeshKey] = set()
        self._later: dict[MeshKey, tuple[float, Urgency]] = {}  # also meshes that were added while they are out
        self._failures: dict[MeshKey, tuple[int, float]] = {}  # how many in a row, and the earliest time for the next try

    def add(self, key: MeshKey, urgency: Urgency = Urgency.CHANGE) -> None:
        """Add a mesh that is due now."""
        self.add_after(key, 0.0, urgency)

    def add_after(self, key: MeshKey, seconds: float, urgency: Urgency = Urgency.RESYNC) -> None:
        """Add a mesh that is due after so many seconds. An earlier time stays, and so does the wait after a failure for a resync."""
        with self._changed:
            now = self._clock()
            self._plan(key, now + seconds, urgency, now)
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> MeshKey | None:
        """Return the next mesh, which is out until ``done``; None after the timeout, or when the queue was closed."""
        with self._changed:
            end = None if timeout is None else self._clock() + timeout
            while not self._closed:
                now = self._promote()
                if (key := self._next()) is not None or (end is not None and now >= end):
                    return key
                times = [at for key, (at, _) in self._later.items() if key not in self._out] + ([] if end is None else [end])
                self._changed.wait(min(times) - now if times else None)
            return None

    def done(self, key: MeshKey) -> None:
        """Take a mesh back; it may be handed out again."""
        with self._changed:
            self._out.discard(key)
            self._changed.notify_all()

    def failed(self, key: MeshKey) -> float:
        """Take a mesh back after a failure, and return the seconds until it is due again.

        The delay doubles, with jitter, from first to last. A change cuts it short, but not before ``first_delay`` has passed.
        """
        with self._changed:
            now, (count, _) = self._clock(), self._failures.get(key, (0, 0.0))
            delay = min(self._last, self._first * 2.0 ** min(count, 30) * random.uniform(1.0, 1.25))
            self._failures[key] = (count + 1, now + self._first)
            changed = self._later.get(key, (0.0, Urgency.RESYNC))
            self._later[key] = (now + delay, Urgency.RESYNC)
            self._plan(key, *changed, now)
            self.done(key)  # the lock of a Condition is reentrant
            return delay

    def forget(self, key: MeshKey) -> None:
        """Reset a mesh's failures after a success: the next failure starts at the first delay."""
        with self._changed:
            self._failures.pop(key, None)

    def close(self) -> None:
        """Close the queue: ``get`` returns None from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Return how many meshes are due and wait for their turn."""
        with self._changed:
            self._promote()
            return sum(len(keys) for workspaces in self._due.values() for keys in workspaces.values())

    def _plan(self, key: MeshKey, at: float, urgency: Urgency, now: float) -> None:
        planned = self._later.get(key)
        due = next((level for level, workspaces in self._due.items() if key in workspaces.get(key.workspace, ())), None)
        if key in self._failures:
            if planned and urgency is Urgency.RESYNC:
                return
            at = max(at, self._failures[key][1])
        if due is None and (at > now or key in self._out):
            self._later[key] = (min(at, planned[0]), min(urgency, planned[1])) if planned else (at, urgency)
        elif at <= now and (due is None or urgency < due):
            self._later.pop(key, None)
            if due is not None:
                self._remove(key, due)
            self._due[urgency].setdefault(key.workspace, {})[key] = None

    def _promote(self) -> float:
        now = self._clock()
        for key in [key for key, (at, _) in self._later.items() if at <= now]:
            self._plan(key, now, self._later.pop(key)[1], now)
        return now

    def _remove(self, key: MeshKey, urgency: Urgency) -> None:
        keys = self._due[urgency].pop(key.workspace)
        del keys[key]
        if keys:
            self._due[urgency][key.workspace] = keys  # at the end: the other workspaces come first

    def _next(self) -> MeshKey | None:
        busy = Counter(key.workspace for key in self._out)
        for urgency in sorted(Urgency, reverse=self._turn % RESYNC_TURN == RESYNC_TURN - 1):
            for workspace, keys in self._due[urgency].items():
                if busy[workspace] < self._per_workspace:
                    key = next(iter(keys))
                    self._remove(key, urgency)
                    self._turn += 1
                    self._out.add(key)
                    return key
        return None
