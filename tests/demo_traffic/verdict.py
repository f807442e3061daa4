# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo of traffic, out of what clients, agents and the playbook ``status`` said. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.demo.verdict import Verdict

NO_ANSWER: Final = ""
"""In the place of a cluster: it answered none of these requests."""

STEADY: Final = 10
"""Replies in a row that show who answers now."""

Count = Mapping[str, int]
"""Requests of one client, by the cluster that answered."""

Counts = Mapping[str, Count]
"""The same by the cluster of the client."""

Paths = tuple[bool | None, bool | None]
"""Whether a node is reached at its address, and its pods through the tunnel; None: not probed."""

REACHED: Final[Paths] = (True, True)
TUNNEL_CUT: Final[Paths] = (True, False)
REASONS: Final[Mapping[Paths, str]] = {REACHED: "NodesReached", TUNNEL_CUT: "PodNetworkBlocked"}
"""What the condition NodesReachable has for a reason then (docs/results.md)."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came of one request, at that second."""

    at: float
    by: str


@dataclass(frozen=True, kw_only=True)
class Failover:
    """One request after the other. ``gone`` and ``back``: when the backends of the client's cluster were taken away, and given back."""

    home: str
    replies: Sequence[Reply]
    gone: float
    back: float

    @property
    def during(self) -> list[Reply]:
        """What came while there was no backend at home."""
        return [reply for reply in self.replies if self.gone < reply.at <= self.back]

    @property
    def seconds(self) -> float | None:
        """From the loss of the backends until the first answer of another cluster; None: there is none."""
        return next((reply.at - self.gone for reply in self.during if reply.by not in (self.home, NO_ANSWER)), None)

    @property
    def failed(self) -> int:
        """Requests without an answer, the way back included."""
        return sum(reply.by == NO_ANSWER for reply in self.replies if reply.at > self.gone)

    @property
    def went(self) -> bool:
        """Whether the own cluster alone answered before, and others alone in the end."""
        before = {reply.by for reply in self.replies if reply.at <= self.gone}
        return (
            before == {self.home}
            and not {self.home, NO_ANSWER} & {reply.by for reply in self.during[-STEADY:]}
            and self._is_long(self.during)
        )

    @property
    def returned(self) -> bool:
        """Whether the own cluster alone answers in the end."""
        after = [reply for reply in self.replies if reply.at > self.back]
        return {reply.by for reply in after[-STEADY:]} == {self.home} and self._is_long(after)

    @staticmethod
    def _is_long(replies: Sequence[Reply]) -> bool:
        return len(replies) >= STEADY


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Whether packets pass between the clusters: as agents say (by pair of clusters), the playbook ``status``, and requests of a client."""

    paths: Mapping[tuple[str, str], Paths]
    phase: str
    condition: str  # the reason of NodesReachable
    count: Count

    def is_whole(self, clusters: Sequence[str]) -> bool:
        return self._says(REACHED, "Connected") and answered(self.count, clusters)

    def is_cut(self, home: str) -> bool:
        """Return whether the tunnel is cut for all three: what the client's own cluster answers needs no tunnel."""
        said = self._says(TUNNEL_CUT, "Degraded")
        return said and {who for who, number in self.count.items() if number} == {home, NO_ANSWER}

    def _says(self, paths: Paths, phase: str) -> bool:
        return set(self.paths.values()) == {paths} and (self.phase, self.condition) == (phase, REASONS[paths])


@dataclass(kw_only=True)
class Seen:
    """All that the verdict is made of. None: it did not come to that."""

    phase: str = ""
    alone: Count | None = None
    shared: Counts | None = None
    failover: Failover | None = None
    allowed: Counts | None = None
    denied: Counts | None = None
    whole: Passage | None = None
    cut: Passage | None = None
    healed: Passage | None = None


def judge(home: str, away: str, seen: Seen) -> Verdict:
    """Judge what was seen. Each part says so, also where it is not what it is to be.

    :param home: the cluster whose client is allowed, and whose backends go.
    """
    both = (home, away)
    alone = seen.alone is not None and answered(seen.alone, [home])
    shared = seen.shared is not None and all(answered(seen.shared.get(name, {}), both) for name in both)
    allowed = seen.allowed is not None and answered(seen.allowed.get(home, {}), both) and refused(seen.allowed.get(away, {}))
    denied = seen.denied is not None and all(refused(seen.denied.get(name, {})) for name in both)
    whole = seen.whole is not None and seen.whole.is_whole(both)
    parts = [
        _part(seen.phase == "Connected", "connected"),
        _part(alone and shared, "global"),
        *_failover(seen.failover),
        _part(allowed, "allowed"),
        _part(denied, "denied"),
        _part(whole and seen.cut is not None and seen.cut.is_cut(home), "cut seen", "cut NOT seen"),
        _part(seen.healed is not None and seen.healed.is_whole(both), "healed"),
    ]
    return Verdict(good=all(part[0] for part in parts), text=f"web: {', '.join(part[1] for part in parts)}")


def answered(count: Count, clusters: Collection[str]) -> bool:
    """Return whether every request had an answer, and these clusters and no other ones gave them."""
    return {who for who, number in count.items() if number} == set(clusters)


def refused(count: Count) -> bool:
    """Return whether there were requests, and none of them had an answer."""
    return answered(count, [NO_ANSWER])


def _failover(failover: Failover | None) -> list[tuple[bool, str]]:
    if failover is None or failover.seconds is None:
        return [(False, "NO failover")]
    went = _part(failover.went, f"failover {failover.seconds:.1f} s")
    return [went, _part(failover.returned, "back")]


def _part(good: bool, what: str, otherwise: str = "") -> tuple[bool, str]:
    return good, what if good else otherwise or f"NOT {what}"
