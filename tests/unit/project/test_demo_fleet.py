# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo of the fleet side says what was seen, nothing better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from tests.demo_fleet.__main__ import CLUSTERS, STORY, fleet
from tests.demo_fleet.verdict import Copy, Seen, Snapshot, in_waves

FIRST, SECOND = CLUSTERS
OLD, NEW, COMING, LATE = (
    Copy(tag="1", ready=2, whole=True),
    Copy(tag="2", ready=2, whole=True),
    Copy(tag="2", ready=1),
    Copy(tag="1", ready=1),
)


def both(copy: Copy) -> Snapshot:
    return dict.fromkeys(CLUSTERS, copy)


def steps(*pairs: tuple[Copy, Copy]) -> list[Snapshot]:
    return [dict(zip(CLUSTERS, pair, strict=True)) for pair in pairs]


ROLLOUT = steps((OLD, OLD), (COMING, OLD), (NEW, OLD), (NEW, COMING), (NEW, NEW))
WHOLE = Seen(deployed=both(OLD), rollout=ROLLOUT, updated=both(NEW), returned=both(OLD), left=[])


def test_all_that_the_demo_is_to_show() -> None:
    verdict = STORY.judge(WHOLE)
    assert verdict.good
    assert verdict.text == (
        "shop/web: deployed (1 in 2/2 clusters), rolled out (2 in 2/2 clusters), 2 waves in order, "
        "rolled back (1 in 2/2 clusters), nothing left"
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Seen(), "NOT deployed (1 in 0/2 clusters)"),
        (replace(WHOLE, deployed={FIRST: OLD}), "NOT deployed (1 in 1/2 clusters)"),
        (replace(WHOLE, deployed=both(LATE)), "NOT deployed (1 in 0/2 clusters)"),
        (replace(WHOLE, updated={FIRST: NEW, SECOND: COMING}), "NOT rolled out (2 in 1/2 clusters)"),
        (replace(WHOLE, rollout=()), "waves NOT in order"),
        (replace(WHOLE, returned=both(NEW)), "NOT rolled back (1 in 0/2 clusters)"),
        (replace(WHOLE, left=None), "NOT taken down"),
        (replace(WHOLE, left=["Namespace kcp-1 in Karmada"]), "1 objects LEFT"),
    ],
)
def test_one_missing_proof_is_enough_for_no(seen: Seen, said: str) -> None:
    verdict = STORY.judge(seen)
    assert not verdict.good and said in verdict.text


@pytest.mark.parametrize(
    "snapshots",
    [
        steps((OLD, OLD), (NEW, NEW)),
        steps((OLD, OLD), (NEW, OLD), (COMING, NEW)),
        steps((OLD, OLD), (COMING, COMING), (NEW, NEW)),
        steps((OLD, OLD), (OLD, COMING), (NEW, OLD), (NEW, NEW)),
    ],
    ids=["no-proof", "fell-back", "at-once", "other-first"],
)
def test_waves_that_are_not_proven_are_not_in_order(snapshots: Sequence[Snapshot]) -> None:
    assert not in_waves(snapshots, CLUSTERS, "1", "2")


def test_a_cluster_that_changes_before_the_one_of_an_earlier_wave_is_done_is_always_noticed() -> None:
    for pair in product((OLD, COMING, LATE), (COMING, NEW)):
        assert not in_waves([*ROLLOUT, *steps(pair)], CLUSTERS, "1", "2")


def test_the_waves_of_the_demo_are_those_that_the_verdict_expects() -> None:
    (workload,) = fleet(STORY.new)["workloads"]
    assert [wave["clusters"] for wave in workload["rollout"]["waves"]] == [[name] for name in STORY.waves]
