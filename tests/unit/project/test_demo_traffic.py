# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo of traffic says what was seen, nothing better; and its recording is one of a run that showed everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.demo import stages
from tests.demo_traffic import screen
from tests.demo_traffic.__main__ import AWAY, HOME, PAIRS, TrafficDemo, main
from tests.demo_traffic.evidence import paths_in, tail
from tests.demo_traffic.verdict import NO_ANSWER, REACHED, TUNNEL_CUT, Count, Failover, Passage, Paths, Reply, Seen, judge
from tests.lab import agents
from tests.testing import recordings
from tests.testing.rows import one_test

OWN: Count = {HOME: 20, NO_ANSWER: 0}
BOTH: Count = {HOME: 9, AWAY: 11, NO_ANSWER: 0}
NONE: Count = {NO_ANSWER: 20}
HALF: Count = {HOME: 9, NO_ANSWER: 11}
GONE, BACK = 100.0, 110.0


def replies(*parts: tuple[str, int], begin: float = GONE - 10 + 0.1) -> list[Reply]:
    """One reply each half a second."""
    every = [who for who, number in parts for _ in range(number)]
    return [Reply(at=begin + place / 2, by=who) for place, who in enumerate(every)]


def failover(*parts: tuple[str, int]) -> Failover:
    return Failover(home=HOME, replies=replies(*parts), gone=GONE, back=BACK)


def passage(paths: Paths, phase: str, reason: str, count: Count) -> Passage:
    return Passage(paths=dict.fromkeys(PAIRS, paths), phase=phase, condition=reason, count=count)


GOOD_FAILOVER = failover((HOME, 21), (NO_ANSWER, 2), (AWAY, 18), (HOME, 20))
OPEN = passage(REACHED, "Connected", "NodesReached", BOTH)
CUT = passage(TUNNEL_CUT, "Degraded", "PodNetworkBlocked", HALF)
WHOLE = Seen(
    phase="Connected",
    alone=OWN,
    shared=dict.fromkeys((HOME, AWAY), BOTH),
    failover=GOOD_FAILOVER,
    allowed={HOME: BOTH, AWAY: NONE},
    denied=dict.fromkeys((HOME, AWAY), NONE),
    whole=OPEN,
    cut=CUT,
    healed=OPEN,
)


def test_all_that_the_demo_is_to_show() -> None:
    verdict = judge(HOME, AWAY, WHOLE)
    assert verdict.good
    assert verdict.text == "web: connected, global, failover 1.6 s, back, allowed, denied, cut seen, healed"
    assert len(verdict.text) <= screen.COLUMNS


@one_test(
    "seen said",
    (Seen(), "NOT connected, NOT global, NO failover, NOT allowed, NOT denied, cut NOT seen, NOT healed"),
    (replace(WHOLE, phase="Degraded"), "NOT connected"),
    (replace(WHOLE, alone=BOTH), "NOT global"),
    (replace(WHOLE, shared={HOME: BOTH}), "NOT global"),
    (replace(WHOLE, shared={HOME: BOTH, AWAY: {**BOTH, NO_ANSWER: 1}}), "NOT global"),
    (replace(WHOLE, shared={HOME: BOTH, AWAY: {AWAY: 20}}), "NOT global"),
    (replace(WHOLE, failover=None), "NO failover"),
    (replace(WHOLE, failover=failover((HOME, 21), (NO_ANSWER, 20), (HOME, 20))), "NO failover"),
    (replace(WHOLE, failover=failover((HOME, 20), (AWAY, 21), (HOME, 9))), "NOT back"),
    (replace(WHOLE, allowed={HOME: BOTH, AWAY: HALF}), "NOT allowed"),
    (replace(WHOLE, allowed={HOME: NONE, AWAY: NONE}), "NOT allowed"),
    (replace(WHOLE, allowed={HOME: BOTH}), "NOT allowed"),
    (replace(WHOLE, denied={HOME: NONE, AWAY: {AWAY: 1, NO_ANSWER: 19}}), "NOT denied"),
    (replace(WHOLE, denied={HOME: NONE, AWAY: {}}), "NOT denied"),
    (replace(WHOLE, whole=None), "cut NOT seen"),
    (replace(WHOLE, cut=OPEN), "cut NOT seen"),
    (replace(WHOLE, cut=replace(CUT, count=OWN)), "cut NOT seen"),
    (replace(WHOLE, cut=replace(CUT, phase="Connected")), "cut NOT seen"),
    (replace(WHOLE, cut=replace(CUT, condition="NotProbed")), "cut NOT seen"),
    (replace(WHOLE, cut=replace(CUT, paths={})), "cut NOT seen"),
    (replace(WHOLE, cut=replace(CUT, paths={PAIRS[0]: TUNNEL_CUT, PAIRS[1]: REACHED})), "cut NOT seen"),
    (replace(WHOLE, healed=CUT), "NOT healed"),
    (replace(WHOLE, healed=replace(OPEN, count=HALF)), "NOT healed"),
)
def test_one_missing_proof_is_enough_for_no(seen: Seen, said: str) -> None:
    verdict = judge(HOME, AWAY, seen)
    assert not verdict.good and said in verdict.text


@one_test(
    "parts seconds failed went returned",
    ([(HOME, 21), (NO_ANSWER, 2), (AWAY, 18), (HOME, 20)], 1.6, 2, True, True),
    ([(HOME, 23), (AWAY, 4), (NO_ANSWER, 3), (AWAY, 12), (HOME, 12)], 1.6, 3, True, True),
    ([(HOME, 23), (AWAY, 16), (NO_ANSWER, 3), (HOME, 12)], 1.6, 3, False, True),
    ([(HOME, 19), (NO_ANSWER, 1), (AWAY, 20), (HOME, 12)], 0.1, 0, False, True),
    ([(AWAY, 1), (HOME, 19), (AWAY, 20), (HOME, 12)], 0.1, 0, False, True),
    ([(HOME, 21), (AWAY, 18), (HOME, 1), (AWAY, 1), (HOME, 12)], 0.6, 0, False, True),
    ([(HOME, 21), (AWAY, 19), (HOME, 5), (AWAY, 10)], 0.6, 0, True, False),
    ([(HOME, 21), (NO_ANSWER, 30)], None, 30, False, False),
)
def test_a_failover_is_measured_from_the_loss_of_the_pods_to_the_first_answer_from_elsewhere(
    parts: list[tuple[str, int]], seconds: float | None, failed: int, went: bool, returned: bool
) -> None:
    found = failover(*parts)
    rounded = None if found.seconds is None else round(found.seconds, 1)
    assert (rounded, found.failed, found.went, found.returned) == (seconds, failed, went, returned)


def test_the_last_replies_count_as_soon_as_there_are_enough_of_them() -> None:
    every = replies((HOME, 3), (AWAY, 2))
    assert [tail(every, number) for number in (2, 3, 6)] == [{AWAY}, {HOME, AWAY}, set()]


def health(**parts: dict[str, Any]) -> dict[str, Any]:
    node = {"name": "b/b-node1", **{name.replace("_", "-"): {"primary-address": path} for name, path in parts.items()}}
    return {"nodes": [{"name": "a/a-node1", "host": {"primary-address": {"http": {}}}}, node]}


@one_test(
    "said paths",
    (health(host={"http": {"latency": 3}}, health_endpoint={"http": {"latency": 5}}), REACHED),
    (health(host={"http": {"latency": 3}}, health_endpoint={"http": {"status": "timed out"}}), TUNNEL_CUT),
    (health(host={"icmp": {"latency": 3}}, health_endpoint={"icmp": {"latency": 5}}), (None, None)),
    ({"nodes": []}, (None, None)),
    ({}, (None, None)),
)
def test_a_node_without_a_probe_is_neither_reached_nor_cut_off(said: dict[str, Any], paths: Paths) -> None:
    assert paths_in(said, "b/b-node1") == paths


def test_a_bar_has_a_block_for_each_request_and_fits_the_screen() -> None:
    assert screen.bars({NO_ANSWER: 2, AWAY: 3, HOME: 1}, (HOME, AWAY)) == f"        {HOME} █ 1  {AWAY} ███ 3  no answer ██ 2"
    assert len(screen.bars({HOME: 10, AWAY: 10, NO_ANSWER: 10}, (HOME, AWAY))) <= screen.COLUMNS + 10  # of 30 requests, not 20
    assert screen.bars({HOME: 0}, (HOME, AWAY)).strip() == "no request"


def test_what_a_machine_lacks_is_one_line_and_no_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(agents, "missing", lambda: iter(["root (CAP_SYS_ADMIN)", "ipset"]))
    monkeypatch.setattr(stages, "stop_on_signals", lambda: None)
    assert main() == 1
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if "ipset" in line] == [
        "Stage 1 of 7 failed: real agents need root (CAP_SYS_ADMIN), ipset, which this machine does not have (docs/lab.md#real-agents)."
    ]
    assert said[-1] == judge(HOME, AWAY, Seen()).text


def lines() -> Sequence[str]:
    return recordings.TRAFFIC.read_text(encoding="utf-8").splitlines()


def test_the_recording_is_of_a_run_that_showed_everything() -> None:
    assert recordings.shape(lines()[-1]) == recordings.shape(judge(HOME, AWAY, WHOLE).text)
    assert [line[1:4] for line in lines() if line.startswith("[")] == [
        f"{stage}/{TrafficDemo.STAGES}" for stage in range(1, TrafficDemo.STAGES + 1)
    ]
    assert [line for line in lines() if len(line) > screen.COLUMNS] == []


def test_every_count_of_the_recording_is_as_long_as_its_bar() -> None:
    found = recordings.counts(lines())
    assert len(found) > 10
    assert [(bar, number) for bar, number in found if bar != number] == []
