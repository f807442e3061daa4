# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Queue of meshes: fair between workspaces by the time that they use, slow meshes apart, changes before resyncs.

Each mesh is out at most once at a time, and comes later after failures.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition
from typing import Final, Generic, TypeVar

from ..base.keys import UnitKey
from .shares import RecentUse, Shares
from .turns import SLOW, TOO_LONG, Durations, Lane

Key = TypeVar("Key", bound=UnitKey)


class Urgency(IntEnum):
    """Urgency of a mesh. Lower goes first."""

    CHANGE = 0
    FOLLOW_UP = 1  # of links that come up, or never do: as slow meshes, on at most half of the workers
    RESYNC = 2


RESYNC_SHARE: Final = 8
"""One of so many seconds goes to resyncs, and one to follow-ups: endless changes do not keep others from being checked."""

LEAST: Final = 0.05  # seconds that a turn costs at least, so that turns without a duration are turns too
ENDED: Final = 120.0  # seconds that a turn counts for at least that was ended early: how long it would have taken is not known
LONGEST: Final = 900.0  # seconds that the lane of slow meshes may be behind the others: a turn of the longest usual --job-timeout


class FairQueue(Generic[Key]):
    """Queue of meshes. Thread-safe.

    Next is the lane that used the least seconds, in it the urgency, and in that the workspace that used the least lately (shares.py). Of
    one workspace at most ``per_workspace`` are out at a time, and slow meshes and follow-ups on at most half of the ``workers``, or on the
    only one. A mesh that is added while it is out comes back when it is done. Turns that turn out slow are not ended here: see ``overdue``.
    """

    def __init__(
        self,
        *,
        per_workspace: int = 1,
        workers: int = 2,
        clock: Callable[[], float],
        first_delay: float = 5.0,
        last_delay: float = 300.0,
        waited: Callable[[Lane, float], None] = lambda _lane, _seconds: None,
        took: Callable[[Lane, float], None] = lambda _lane, _seconds: None,
    ) -> None:
        """Prepare the queue.

        :param workers: how many meshes are out at a time at most.
        :param clock: monotonic seconds.
        :param waited: called with the lane of a turn and the seconds that its mesh was due before.
        :param took: called with the lane of a turn and its seconds when it has ended.
        """
        self._per_workspace, self._clock, self._first, self._last = per_workspace, clock, first_delay, last_delay
        self._workers, self._slow_most, self._waited, self._took = workers, max(1, workers // 2), waited, took
        self._changed, self._closed = Condition(), False
        # Due meshes by workspace, the meshes of each in the order of their arrival, with the time since which each is due.
        self._due: dict[Urgency, dict[str, dict[Key, float]]] = {urgency: {} for urgency in Urgency}
        self._out: dict[Key, _Turn] = {}
        self._later: dict[Key, tuple[float, Urgency]] = {}  # also meshes that were added while they are out
        self._failures: dict[Key, tuple[int, float]] = {}  # how many in a row, and the earliest time for the next try
        self._durations = Durations[Key]()
        self._lanes = Shares[Lane](most={Lane.QUICK: SLOW, Lane.NEW: SLOW, Lane.SLOW: LONGEST})
        self._urgencies = {lane: Shares[Urgency](weights={Urgency.CHANGE: RESYNC_SHARE - 2}) for lane in Lane}
        self._workspaces = RecentUse[str]()

    def add(self, key: Key, urgency: Urgency = Urgency.CHANGE) -> None:
        """Add a mesh that is due now."""
        self.add_after(key, 0.0, urgency)

    def add_after(self, key: Key, seconds: float, urgency: Urgency = Urgency.RESYNC) -> None:
        """Add a mesh that is due after so many seconds. An earlier time stays, and so does the wait after a failure for a resync."""
        with self._changed:
            now = self._clock()
            self._plan(key, now + seconds, urgency, now)
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> Key | None:
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

    def done(self, key: Key) -> None:
        """Take a mesh back; it may be handed out again."""
        with self._changed:
            if turn := self._out.pop(key, None):
                seconds = self._clock() - turn.began
                self._charge(key, turn, max(LEAST, seconds))
                self._durations.note(key, max(seconds, ENDED) if turn.ended else seconds)
                self._took(turn.lane, seconds)
            self._changed.notify_all()

    def failed(self, key: Key) -> float:
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

    def forget(self, key: Key) -> None:
        """Reset a mesh's failures after a success: the next failure starts at the first delay."""
        with self._changed:
            self._failures.pop(key, None)

    def overdue(self) -> list[Key]:
        """Return the meshes whose turns have to end now, so that others need not wait for them: each returns in the lane of slow meshes.

        These are turns that were expected to be quick and are not, the longest first, where slow ones hold more workers than they may and a
        mesh that could have one of them waits.
        """
        with self._changed:
            now = self._promote()
            excess = sum(turn.lane is Lane.SLOW or now - turn.began > TOO_LONG for turn in self._out.values()) - self._slow_most
            if excess <= 0 or len(self._out) < self._workers or all(lane is Lane.SLOW for lane, _ in self._candidates()):
                return []
            late = [key for key, turn in self._out.items() if turn.lane is not Lane.SLOW and now - turn.began > TOO_LONG]
            found = sorted(late, key=lambda key: self._out[key].began)[:excess]
            for key in found:
                self._out[key].ended = True
            return found

    def lasting(self) -> list[Key]:
        """Return the meshes whose turns have lasted for longer than TOO_LONG."""
        with self._changed:
            return [key for key, turn in self._out.items() if self._clock() - turn.began > TOO_LONG]

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

    def _plan(self, key: Key, at: float, urgency: Urgency, now: float) -> None:
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
            since = now if due is None else self._remove(key, due)
            self._due[urgency].setdefault(key.workspace, {})[key] = since

    def _promote(self) -> float:
        now = self._clock()
        for key in [key for key, (at, _) in self._later.items() if at <= now]:
            self._plan(key, now, self._later.pop(key)[1], now)
        return now

    def _remove(self, key: Key, urgency: Urgency) -> float:
        """Remove a due mesh and return the time since which it is due."""
        keys = self._due[urgency].pop(key.workspace)
        since = keys.pop(key)
        if keys:
            self._due[urgency][key.workspace] = keys  # at the end: the other workspaces come first
        return since

    def _next(self) -> Key | None:
        """Take out the next mesh: of the lane, in it of the urgency, and in that of the workspace that used the least."""
        now, found = self._clock(), self._candidates()
        for out, turn in self._out.items():
            self._charge(out, turn, max(turn.charged, now - turn.began))
        if not found:
            return None
        lane = self._lanes.next_of_present([lane for lane in Lane if any(where[0] is lane for where in found)])
        urgency = self._urgencies[lane].next_of_present([urgency for urgency in Urgency if (lane, urgency) in found])
        workspaces = found[lane, urgency]
        key = workspaces[self._workspaces.next(workspaces, now)]
        self._waited(lane, now - self._remove(key, urgency))
        self._out[key] = _Turn(lane=lane, urgency=urgency, began=now)
        self._charge(key, self._out[key], max(LEAST, self._durations.expected(key)))
        return key

    def _candidates(self) -> dict[tuple[Lane, Urgency], dict[str, Key]]:
        """Return by lane and urgency the first mesh of each workspace that may be taken now."""
        busy, now = Counter(key.workspace for key in self._out), self._clock()
        full = self._slow_out(now) >= self._slow_most
        lanes = [lane for lane in Lane if lane is not Lane.SLOW or not full]
        found: dict[tuple[Lane, Urgency], dict[str, Key]] = {}
        for urgency, workspaces in self._due.items():
            if urgency is Urgency.FOLLOW_UP and full:
                continue
            for workspace, keys in workspaces.items():
                if busy[workspace] >= self._per_workspace:
                    continue
                for lane in lanes:
                    first = next((key for key in keys if self._durations.lane(key) is lane), None)
                    if first is not None:
                        found.setdefault((lane, urgency), {})[workspace] = first
        return found

    def _slow_out(self, now: float) -> int:
        """Return how many workers have slow meshes and follow-ups."""
        patient = (turn.lane is Lane.SLOW or turn.urgency is Urgency.FOLLOW_UP or now - turn.began > SLOW for turn in self._out.values())
        return sum(patient)

    def _charge(self, key: Key, turn: _Turn, used: float) -> None:
        """Charge all that a turn belongs to for the seconds that it used so far, less those that they were charged for before."""
        seconds, turn.charged = used - turn.charged, used
        quick = 0.0 if turn.lane is Lane.SLOW else min(used, SLOW) - min(used - seconds, SLOW)
        self._lanes.charge(turn.lane, quick)
        self._lanes.charge(Lane.SLOW, seconds - quick)  # a turn is a slow one as soon as it has lasted that long, whatever was expected
        self._urgencies[turn.lane].charge(turn.urgency, seconds)
        self._workspaces.charge(key.workspace, seconds, self._clock())


@dataclass(kw_only=True)
class _Turn:
    """Turn of a mesh that is out. ``charged``: the seconds that its workspace was charged for, when it began the expected ones."""

    lane: Lane
    urgency: Urgency
    began: float
    charged: float = 0.0
    ended: bool = False  # early, by ``overdue``
