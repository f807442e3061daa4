# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo of the fleet side, out of what the clusters and Karmada said. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.demo.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The copy of a workload in one cluster: the tag of its image ("" for no copy), its ready pods, and whether all of them are new."""

    tag: str = ""
    ready: int = 0
    whole: bool = False

    def runs(self, tag: str) -> bool:
        return self.whole and self.tag == tag


Snapshot = Mapping[str, Copy]
"""Copies by cluster, at one moment."""


@dataclass(kw_only=True)
class Seen:
    """All that the verdict is made of. None: nothing was asked."""

    deployed: Snapshot | None = None
    rollout: Sequence[Snapshot] = ()
    updated: Snapshot | None = None
    returned: Snapshot | None = None
    left: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Story:
    """What is to happen: the tags before and after, and the clusters in the order of the waves."""

    workload: str
    waves: Sequence[str]
    old: str
    new: str

    def judge(self, seen: Seen) -> Verdict:
        """Each part says what was seen, also where it is not what it is to be."""
        in_order = in_waves(seen.rollout, self.waves, self.old, self.new)
        parts = [
            self._runs("deployed", seen.deployed, self.old),
            self._runs("rolled out", seen.updated, self.new),
            (in_order, f"{len(self.waves)} waves in order" if in_order else "waves NOT in order"),
            self._runs("rolled back", seen.returned, self.old),
            _gone(seen.left),
        ]
        return Verdict(good=all(part[0] for part in parts), text=f"{self.workload}: {', '.join(part[1] for part in parts)}")

    def _runs(self, what: str, snapshot: Snapshot | None, tag: str) -> tuple[bool, str]:
        found = [name for name in self.waves if snapshot is not None and name in snapshot and snapshot[name].runs(tag)]
        good = len(found) == len(self.waves)
        return good, f"{'' if good else 'NOT '}{what} ({tag} in {len(found)}/{len(self.waves)} clusters)"


def in_waves(snapshots: Sequence[Snapshot], waves: Sequence[str], old: str, new: str) -> bool:
    """Return whether every cluster kept the old image until each cluster of an earlier wave ran the new one on all pods.

    It takes a snapshot between two waves as a proof: two clusters that change within one snapshot prove no order.
    """
    for earlier, later in itertools.pairwise(waves):
        if not any(one[earlier].runs(new) and one[later].tag == old for one in snapshots):
            return False
        if any(one[later].tag == new and not one[earlier].runs(new) for one in snapshots):
            return False
    return bool(snapshots)


def _gone(left: Sequence[str] | None) -> tuple[bool, str]:
    if left is None:
        return False, "NOT taken down"
    return not left, "nothing left" if not left else f"{len(left)} objects LEFT"
