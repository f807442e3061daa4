# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Steps of items are independent: what fails for one stops neither another item nor another cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply import apply as engine_apply
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult, apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.schedule import AT_ONCE, waves_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.awaited import awaited
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    CredentialsInvalid,
    Forbidden,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.tally import Tally
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, Step
from tests.lab.patience import scaled
from tests.testing.facts_builders import NOW
from tests.testing.lines_run import lines_run
from tests.testing.properties import examples

REFUSALS = (ServerRefused, WriteConflict, Forbidden)


@dataclass
class Gauge:
    """How many writes are under way, and how many were at most."""

    under_way: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, number: int) -> None:
        with self.lock:
            self.under_way += number
            self.most = max(self.most, self.under_way)


@dataclass
class Server:
    """Notes every write, and how many are under way in this cluster and in all."""

    host: str
    log: list[tuple[str, str]]
    ends: Callable[[str, str], ClusterError | None]
    pause: float
    everywhere: Gauge
    here: Gauge = field(default_factory=Gauge)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self.log.append((self.host, path))
        for gauge in (self.here, self.everywhere):
            gauge.add(1)
        time.sleep(self.pause)
        error = self.ends(self.host, path)
        for gauge in (self.here, self.everywhere):
            gauge.add(-1)
        if error is not None:
            raise error
        return {}

    create = merge_patch = apply


def step(cluster: str, item: str, number: int = 0, wave: int = 1) -> Step:
    action = ApiWrite(method="apply", path=f"/{item}/{wave}/{number}", body={})
    return Step(wave=wave, cluster=cluster, verb="create", object=f"X {item}-{number}", why="w", item=item, action=action)


def run(
    steps: Sequence[Step],
    ends: Callable[[str, str], ClusterError | None] = lambda host, path: None,
    *,
    pause: float = 0.0,
    **fields: Any,
) -> tuple[ApplyResult, list[tuple[str, str]], dict[str, Server]]:
    log: list[tuple[str, str]] = []
    everywhere = Gauge()
    servers = {host: Server(host, log, ends, pause, everywhere) for host in dict.fromkeys(s.cluster for s in steps)}
    observation = Observation(clusters=cast("dict[str, Cluster]", servers))
    return apply_plan(Plan(manager="m", steps=tuple(steps)), observation, now=NOW, **fields), log, servers


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refused_object_stops_its_item_in_that_cluster_and_nothing_else(kind: type[ClusterError]) -> None:
    steps = [step(host, item, number) for host in ("c1", "c2") for item in ("a", "b") for number in (0, 1)]
    result, log, _servers = run(steps, lambda host, path: kind("no", cluster=host) if (host, path) == ("c1", "/a/1/0") else None)
    assert sorted(set(log)) == sorted({(s.cluster, s.action.path) for s in steps if isinstance(s.action, ApiWrite)} - {("c1", "/a/1/1")})
    assert (set(result.items), set(result.items["a"]), result.failures) == ({"a"}, {"c1"}, {})
    assert isinstance(result.items["a"]["c1"], kind)
    assert [s.object for s in result.skipped] == ["X a-1"]
    assert len(result.applied) == 6


def test_a_broken_item_is_not_continued_in_a_later_wave_there() -> None:
    steps = [step("c1", "a", wave=1), step("c1", "b", wave=1), step("c1", "a", wave=2), step("c2", "a", wave=1), step("c2", "a", wave=2)]
    result, log, _servers = run(steps, lambda host, path: ServerRefused("no") if (host, path) == ("c1", "/a/1/0") else None)
    assert ("c1", "/a/2/0") not in log and ("c2", "/a/2/0") in log
    assert [s.cluster for s in result.skipped] == ["c1"]


@pytest.mark.parametrize("kind", [Unreachable, CredentialsInvalid])
def test_a_cluster_that_does_not_answer_is_asked_for_nothing_more(kind: type[ClusterError]) -> None:
    items = [f"i{number}" for number in range(30)]
    steps = [step(host, item, wave=wave) for wave in (1, 2) for host in ("c1", "c2") for item in items]
    result, log, _servers = run(steps, lambda host, path: kind("gone", cluster=host) if host == "c1" else None, parallel=4)
    assert set(result.failures) == {"c1"}
    assert sum(host == "c1" for host, _path in log) <= 4  # those that were under way
    assert sum(host == "c2" for host, _path in log) == 60
    assert {item: set(errors) for item, errors in result.items.items()} == {item: {"c1"} for item in items}


def test_a_step_for_the_mesh_itself_that_fails_stops_the_items_there_too() -> None:
    steps = [step("c1", "", wave=0), step("c1", "a", wave=1), step("c2", "", wave=0), step("c2", "a", wave=1)]
    result, log, _servers = run(steps, lambda host, path: ServerRefused("no") if (host, path) == ("c1", "//0/0") else None)
    assert (set(result.failures), ("c1", "/a/1/0") in log, ("c2", "/a/1/0") in log) == ({"c1"}, False, True)
    assert result.items["a"]["c1"] is result.failures["c1"]


def test_items_of_one_cluster_are_written_side_by_side_but_not_more_than_connections() -> None:
    meeting = threading.Barrier(AT_ONCE, timeout=scaled(10))

    def meet(host: str, path: str) -> None:
        meeting.wait()  # each waits inside its call for the others

    _result, _log, servers = run([step("c1", f"i{n}") for n in range(AT_ONCE * 3)], meet, parallel=50)
    assert servers["c1"].here.most <= AT_ONCE


@pytest.mark.parametrize(("clusters", "parallel"), [(1, 1), (2, 3), (3, 10), (5, 4), (12, 4)])
def test_no_more_writes_than_asked_for_are_under_way(clusters: int, parallel: int) -> None:
    steps = [step(f"c{c}", f"i{n}") for c in range(clusters) for n in range(6)]
    result, _log, servers = run(steps, pause=0.001, parallel=parallel)
    assert len(result.applied) == len(steps)
    assert servers["c0"].everywhere.most <= parallel
    assert all(server.here.most <= AT_ONCE for server in servers.values())


def test_waves_do_not_mix() -> None:
    steps = [step(f"c{c}", f"i{n}", wave=wave) for wave in (3, 1, 2) for c in range(3) for n in range(5)]
    _result, log, _servers = run(steps)
    waves = [int(path.split("/")[2]) for _host, path in log]
    assert waves == sorted(waves)


@examples(60)
@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["", "a", "b"]), st.integers(1, 3), st.booleans()), max_size=14))
def test_every_step_ends_as_exactly_one_of_applied_failed_and_skipped(drawn: list[tuple[str, str, int, bool]]) -> None:
    """And within a cluster and item the order is kept, with nothing after a failure."""
    steps = [step(cluster, item, number, wave) for number, (cluster, item, wave, _fails) in enumerate(drawn)]
    failing = {(cluster, f"/{item}/{wave}/{number}") for number, (cluster, item, wave, fails) in enumerate(drawn) if fails}
    result, log, _servers = run(steps, lambda host, path: ServerRefused("no", cluster=host) if (host, path) in failing else None)
    tried = [s for s in steps if isinstance(s.action, ApiWrite) and (s.cluster, s.action.path) in log]
    done, skipped = {id(s) for s in result.applied}, {id(s) for s in result.skipped}
    assert not done & skipped
    assert {id(s) for s in tried} | skipped == {id(s) for s in steps}
    assert len(log) == len(set(log)) == len(tried)
    for cluster in "xy":
        for item in ("", "a", "b"):
            own = [path for host, path in log if host == cluster and path.startswith(f"/{item}/")]
            order = [(int(path.split("/")[2]), int(path.split("/")[3])) for path in own]
            assert order == sorted(order)
            assert all((cluster, path) not in failing for path in own[:-1])
        assert (cluster in result.failures) == any(
            (cluster, path) in failing and path.startswith("//") for _h, path in log if _h == cluster
        )


def test_grouping_does_not_read_every_step_for_every_cluster() -> None:
    few, many = ([step(f"c{n % clusters}", f"i{n}", wave=n % 6) for n in range(2_000)] for clusters in (2, 200))
    assert lines_run(lambda: waves_of(many, {})) < 2 * lines_run(lambda: waves_of(few, {}))
    waves = waves_of(many, {})
    assert sum(len(lane.work) for wave in waves.values() for lanes in wave.values() for lane in lanes) == 2_000


def test_a_person_sees_how_many_steps_are_written_and_which_one_has_been_under_way_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_apply, "awaited", partial(awaited, every=0.001))
    seen: list[Tally] = []
    go_on = threading.Event()

    def progress(tally: Tally) -> None:
        seen.append(tally)
        if tally.done == 3:
            go_on.set()

    def ends(host: str, path: str) -> ClusterError | None:
        return Unreachable("No third step was counted.") if path == "/b/1/0" and not go_on.wait(scaled(10)) else None

    steps = [step("c1", "a"), step("c2", "a"), step("c2", "b"), step("c2", "c")]
    result, _log, _servers = run(steps, ends, progress=progress)
    assert len(result.applied) == 4
    assert Tally(3, 4, "c2 is at X b-0") in seen
    assert seen[-1] == Tally(4, 4) and [tally.done for tally in seen] == sorted(tally.done for tally in seen)


def test_steps_that_are_refused_never_count_as_written() -> None:
    seen: list[Tally] = []
    steps = [step("c1", item, number) for item in ("a", "b") for number in (0, 1)]
    run(steps, lambda host, path: WriteConflict("no") if path == "/a/1/0" else None, progress=seen.append)
    assert seen[-1] == Tally(2, 4)
