# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Shares of working time: whose turn is next among parties of which each used some seconds. Pure.

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with costs that are known only afterwards: next is the party that used the
least, and a party that was away does not save up turns, nor does it owe more than ``most``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf
from typing import Final, Generic, TypeVar

WINDOW: Final = 60.0  # seconds
KNOWN: Final = 10_000  # parties that are remembered; the least recently active ones are forgotten


Party = TypeVar("Party")


class Shares(Generic[Party]):
    """Seconds used by parties, divided by their weights. Not thread-safe."""

    def __init__(self, *, weights: Mapping[Party, float] | None = None, most: Mapping[Party, float] | float = inf) -> None:
        """Prepare the shares.

        :param weights: how much of the time a party gets beside others (default 1).
        :param most: seconds, of all parties or of each, that a party may be behind others because of what it used.
        """
        self._weights, self._most = dict(weights or {}), most
        self._used: dict[Party, float] = {}  # the least recently active party first
        self._present: frozenset[Party] = frozenset()
        self._now = 0.0  # what the party used that got the last turn

    def join(self, party: Party) -> None:
        """Count a party as waiting from now on."""
        self._used[party] = max(self._now, self._used.pop(party, self._now))
        if len(self._used) > KNOWN:
            self._used.pop(next(iter(self._used)))

    def next(self, parties: Iterable[Party]) -> Party:
        """Return the party that has the next turn: of those that used the least the first one.

        :raises ValueError: when there is none.
        """
        found = min(parties, key=lambda party: self._used.get(party, self._now))
        self._now = max(self._now, self._used.get(found, self._now))
        return found

    def next_of_present(self, parties: Sequence[Party]) -> Party:
        """Return as ``next`` does. Parties that were not among those of the previous call were away, and join."""
        for party in parties:
            if party not in self._present:
                self.join(party)
        self._present = frozenset(parties)
        return self.next(parties)

    def charge(self, party: Party, seconds: float) -> None:
        """Add seconds that a party used, or take back some that it did not use after all."""
        used = self._used.get(party, self._now) + seconds / self._weights.get(party, 1.0)
        most = self._most.get(party, inf) if isinstance(self._most, Mapping) else self._most
        self._used[party] = min(used, self._now + most)


class RecentUse(Generic[Party]):
    """Seconds that parties used lately: what is WINDOW old counts for a third. Not thread-safe.

    Next is who used the least. Unlike shares, that puts a party that needs little before all those that take what they can get, in every
    round and not only in the first one; parties that all take what they can get have equal parts of the time.
    """

    def __init__(self) -> None:
        self._used: dict[Party, tuple[float, float]] = {}  # seconds, as of a time; the least recently active party first

    def of(self, party: Party, now: float) -> float:
        """Return the seconds that a party used lately."""
        used, at = self._used.get(party, (0.0, now))
        return used * exp(-max(0.0, now - at) / WINDOW)

    def next(self, parties: Iterable[Party], now: float) -> Party:
        """Return the party that used the least, of several the first one.

        :raises ValueError: when there is none.
        """
        return min(parties, key=lambda party: self.of(party, now))

    def charge(self, party: Party, seconds: float, now: float) -> None:
        """Add seconds that a party used, or take back some that it did not use after all."""
        used = max(0.0, self.of(party, now) + seconds)
        self._used.pop(party, None)
        self._used[party] = (used, now)
        if len(self._used) > KNOWN:
            self._used.pop(next(iter(self._used)))
