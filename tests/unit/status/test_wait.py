# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Waiting for links: how often is asked, when it ends, what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import LinkState
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.wait import WaitResult, wait_for_links
from tests.testing.facts_builders import mesh_of, not_ready, reader_facts

MESH = mesh_of("c1", "c2")
READY = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
DIALLING = {h: replace(r, links=tuple(not_ready(x, error="connection refused") for x in r.links)) for h, r in READY.items()}
NOTHING = {h: replace(r, links=tuple(not_ready(x, known=False) for x in r.links)) for h, r in READY.items()}


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def wait(
    read: Callable[[], Mapping[str, ReaderFacts]], time: Time, timeout: float = 30.0, reported: list[LinkState] | None = None
) -> WaitResult:
    progress = reported.append if reported is not None else None
    return wait_for_links(read, MESH, timeout=timeout, clock=time.clock, sleep=time.sleep, progress=progress)


def in_turn(*readings: Mapping[str, ReaderFacts]) -> Callable[[], Mapping[str, ReaderFacts]]:
    """The readings one after the other, the last one again and again."""
    left = list(readings)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_it_ends_at_once_when_all_links_are_ready() -> None:
    time = Time()
    result = wait(in_turn(READY), time)
    assert (result.ready, result.elapsed, time.slept) == (True, 0.0, [])
    assert {state.stage for state in result.last} == {LinkStage.READY}


def test_it_asks_less_often_the_longer_it_takes_and_never_longer_than_the_time() -> None:
    time = Time()
    result = wait(in_turn(DIALLING), time, timeout=9.0)
    assert time.slept == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 1.25]
    assert (result.ready, result.elapsed) == (False, 9.0)


def test_a_timeout_names_each_link_its_stage_and_the_last_error() -> None:
    result = wait(in_turn(NOTHING, {**READY, "c1": DIALLING["c1"]}), Time(), timeout=1.0)
    behind, fine = result.last
    assert (behind.cluster, behind.peer, behind.stage, behind.error) == ("c1", "c2", LinkStage.DIALLING, "connection refused")
    assert behind.seconds == 0.25
    assert fine.ready
    assert result.readers["c1"] == DIALLING["c1"]


def test_where_rights_are_missing_it_does_not_wait_in_vain() -> None:
    blind = ReaderFacts(cluster="c1", agents_total=1, agents_asked=1, problems=("RBAC forbids to create pods/exec.",), forbidden=True)
    time = Time()
    result = wait(in_turn({**DIALLING, "c1": blind}, {**READY, "c1": blind}), time, timeout=300.0)
    assert time.slept == [0.25], "c2 could still become ready, c1 could not be asked about ever"
    assert (result.ready, result.last[0].stage) == (False, LinkStage.UNKNOWN)
    assert "pods/exec" in result.last[0].error


def test_a_reader_that_only_does_not_answer_is_waited_for() -> None:
    silent = ReaderFacts(cluster="c1", agents_total=1, problems=("timed out",))
    time = Time()
    assert wait(in_turn({**READY, "c1": silent}, READY), time).ready
    assert time.slept == [0.25]


def test_no_time_still_means_one_read() -> None:
    time = Time()
    assert wait(in_turn(DIALLING), time, timeout=0.0).ready is False
    assert time.slept == []
    assert wait(in_turn(READY), time, timeout=0.0).ready is True


def test_what_becomes_ready_in_the_last_pause_is_still_seen() -> None:
    result = wait(in_turn(DIALLING, READY), Time(), timeout=0.1)
    assert (result.ready, round(result.elapsed, 3)) == (True, 0.1)


def test_progress_is_reported_when_a_link_changes_its_stage_and_only_then() -> None:
    reported: list[LinkState] = []
    wait(in_turn(NOTHING, NOTHING, {**DIALLING, "c2": NOTHING["c2"]}, READY), Time(), reported=reported)
    assert [(s.cluster, s.stage, s.seconds) for s in reported] == [
        ("c1", LinkStage.SECRET_NOT_PROJECTED, 0.0),
        ("c2", LinkStage.SECRET_NOT_PROJECTED, 0.0),
        ("c1", LinkStage.DIALLING, 0.75),
        ("c1", LinkStage.READY, 1.75),
        ("c2", LinkStage.READY, 1.75),
    ]


def test_clusters_that_fail_to_answer_are_asked_again() -> None:
    readings: Iterator[Unreachable | Mapping[str, ReaderFacts]] = iter([Unreachable("c1 does not answer."), READY])

    def read() -> Mapping[str, ReaderFacts]:
        reading = next(readings)
        if isinstance(reading, Unreachable):
            raise reading
        return reading

    assert wait(read, Time()).ready is True


def test_when_they_never_answer_the_reason_is_reported() -> None:
    def read() -> Mapping[str, ReaderFacts]:
        raise Unreachable("c1 does not answer.")

    result = wait(read, Time(), timeout=1.0)
    assert (result.ready, {s.stage for s in result.last}, {s.error for s in result.last}) == (
        False,
        {LinkStage.UNKNOWN},
        {"c1 does not answer"},
    )


def test_other_errors_are_not_swallowed() -> None:
    def read() -> Mapping[str, ReaderFacts]:
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        wait(read, Time())


@pytest.mark.parametrize(
    ("settled", "timeout", "asked"), [(True, 30.0, ["prove"]), (False, 30.0, ["read", "prove"]), (False, 0.0, ["prove"])]
)
def test_where_nothing_was_written_one_reading_is_the_proof(settled: bool, timeout: float, asked: list[str]) -> None:
    time = Time()
    done: list[str] = []

    def answer(what: str) -> Callable[[], Mapping[str, ReaderFacts]]:
        def read() -> Mapping[str, ReaderFacts]:
            done.append(what)
            return READY

        return read

    result = wait_for_links(
        answer("read"), MESH, timeout=timeout, clock=time.clock, sleep=time.sleep, prove=answer("prove"), settled=settled
    )
    assert result.ready and done == asked
