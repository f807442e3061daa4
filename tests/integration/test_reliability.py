# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every API call of the playbooks that write fails, hangs or answers nonsense once, and the play is killed at each of its writes.

`make reliability` runs everything and prints the table of docs/reliability.md; the first test is a sample of it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final

import pytest

from tests.collection_path import CHECKOUT
from tests.integration.faulted_runs import ROLL, SCENES, Bench, Case, Verdict, cover, resource_of
from tests.integration.labs import RELIABILITY
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import furnish
from tests.testing.fault_proxy import FAULTS, OF_WRITES, Call, FaultProxy

pytestmark = pytest.mark.lab(RELIABILITY)

SAMPLE: Final = 1  # case of each of two scenes
CIRCLES: Final = (("connect", "disconnect"), ("measure", "certificates renewed"), ("items", "items withdrawn"))
"""Scenes that lead to one another."""
PAGE: Final = CHECKOUT / "docs" / "reliability.md"


@pytest.fixture(scope="module")
def bench(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    furnish(module_lab)
    targets = {name: module_lab.lab.clusters[name].kubeconfig for name in module_lab.names}
    with FaultProxy(targets, tmp_path_factory.mktemp("proxy")) as proxy:
        yield Bench(module_lab, proxy)


def recorded(bench: Bench, scenes: Sequence[str], rounds: int = 1) -> dict[str, list[Call]]:
    """Return the calls of each scene of a circle. The first time round differs: a cluster has no ConfigMap of users yet, for instance."""
    for name in scenes:
        bench.play_once(SCENES[name])
    return {name: bench.record(SCENES[name]) for _ in range(rounds) for name in scenes}


@contextmanager
def quiet_pods(bench: Bench) -> Iterator[None]:
    """Without restarts of mesh pods, for scenes that do not look at links."""
    bench.go("apart")
    bench.rollouts(paused=True)
    try:
        yield
        bench.go("apart")
    finally:
        bench.rollouts(paused=False)  # whatever runs next waits for rollouts


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What chooses the cases and their order; printed, so that a failure can be repeated."""
    found: int = request.config.getoption("--fault-seed")
    print(f"--fault-seed {found}")
    return found


@pytest.fixture
def minutes(request: pytest.FixtureRequest) -> float:
    """The time after which no further case begins: the deep run tries a sample, and ``make reliability`` all."""
    found: float = request.config.getoption("--fault-minutes")
    return found


def tried(bench: Bench, todo: Sequence[list[Case]], minutes: float) -> list[Verdict]:
    """Try the cases of scenes that lead to one another, in turns."""
    verdicts, until = [], time.monotonic() + 60 * minutes
    while any(todo) and time.monotonic() < until:
        for cases in filter(None, todo):
            verdict = bench.attempt(cases.pop(0))
            verdicts.append(verdict)
            state = "FAILED" if verdict.problems else "passed" if verdict.reached else "not reached"
            print(f"{state} {verdict.seconds:5.1f} s  {verdict.case.scene} | {verdict.case.call} | {verdict.case.fault}", flush=True)
            print("".join(f"    {problem}\n" for problem in verdict.problems), end="", flush=True)
    return verdicts


def assert_good(verdicts: Sequence[Verdict]) -> None:
    bad = [verdict for verdict in verdicts if verdict.problems]
    texts = [f"{verdict.case}:\n" + "\n".join(verdict.problems) + f"\n{verdict.output}" for verdict in bad]
    assert not bad, f"{len(bad)} of {len(verdicts)} cases:\n" + "\n\n".join(texts)


def row(scene: str, calls: Sequence[Call]) -> str:
    """Return the row of the documented table that a recording makes."""
    cases = cover(scene, calls, 0, set())
    reads = sum(not call.writes for call in calls)
    writes = sum(call.writes and not call.is_of_the_lock for call in calls)  # a slow run renews its lock more often
    return f"| {scene} | `{SCENES[scene].playbook}` | {reads} | {writes} | {len({case.fault for case in cases})} |"


def test_a_run_with_a_failing_call_says_truly_what_it_did_and_one_more_run_repairs_it(bench: Bench, seed: int, minutes: float) -> None:
    with quiet_pods(bench):
        calls = recorded(bench, ("connect", "disconnect"))
        chosen = random.Random(seed)
        faults, known = chosen.sample(sorted(FAULTS), len(FAULTS)), set[tuple[str, str, str]]()
        todo = []
        for name, found in calls.items():
            cases = sorted(cover(name, found, seed, known), key=lambda case: faults.index(case.fault))
            apart = {case.fault: case for case in cases}
            mine = faults[: len(faults) // 2] if name == "connect" else faults[len(faults) // 2 :]
            todo.append([apart[fault] for fault in mine if fault in apart][:SAMPLE])
        assert_good(tried(bench, todo, minutes))
    page = PAGE.read_text(encoding="utf-8")
    for name, found in calls.items():
        assert row(name, found) in page, f"docs/reliability.md has another row than\n{row(name, found)}"


@pytest.mark.full
@pytest.mark.parametrize("scenes", CIRCLES, ids="+".join)
def test_every_call_fails_once_and_every_write_in_every_way(bench: Bench, scenes: tuple[str, ...], seed: int, minutes: float) -> None:
    bench.go("apart")
    with quiet_pods(bench) if scenes[0] == "connect" else nullcontext():
        calls, known = recorded(bench, scenes, rounds=2), set[tuple[str, str, str]]()
        todo = [cover(name, found, seed, known) for name, found in calls.items()]
        verdicts = tried(bench, todo, minutes)
    for name, found in calls.items():
        mine = [verdict for verdict in verdicts if verdict.case.scene == name]
        passed = sum(verdict.reached and not verdict.problems for verdict in mine)
        tried_calls = {verdict.case.call for verdict in mine if verdict.reached}
        print(f"{row(name, found)} {len(tried_calls)} of {len(found)} | {len(mine)} | {passed} |")
    print(f"{sum(map(len, todo))} cases were left for want of time")
    assert_good(verdicts)
    for name, found in calls.items():
        assert row(name, found) in PAGE.read_text(encoding="utf-8")


@pytest.mark.full
def test_a_roll_of_the_ca_meets_every_fault_of_writes_in_turn_and_ends(bench: Bench) -> None:
    with another_ca(bench):
        assert bench.roll([(None, fault) for fault in OF_WRITES]) >= len(OF_WRITES) - 1


@pytest.mark.full
def test_each_read_of_a_roll_of_the_ca_fails_hangs_or_answers_nonsense_once_and_the_roll_ends(bench: Bench) -> None:
    bench.go("meshed")
    bench.play_once(ROLL)
    names = {replace(call, number=1): None for call in bench.proxy.calls if not call.writes}
    turn = itertools.cycle(("403", "silent", "HTML", "500", "null", "refused", "deep JSON"))
    # A read is repeated, a stream is not; a stream that fails for ever only keeps the roll waiting.
    faults = [
        f"{fault} lasting" if f"{fault} lasting" in FAULTS and not streams(call) else fault
        for call, fault in zip(names, turn, strict=False)
    ]
    with another_ca(bench):
        met = bench.roll(list(zip(names, faults, strict=True)))
    print(f"{len(names)} reads, {met} failed")
    assert met >= 0.8 * len(names), "runs that go on with a roll make nearly all calls of a whole one"


def streams(call: Call) -> bool:
    return resource_of(call) in ("pods/exec", "pods/portforward")


@contextmanager
def another_ca(bench: Bench) -> Iterator[None]:
    """Hold that every cluster gets another CA, and that the mesh is whole afterwards."""
    bench.go("meshed")
    before = {name: bench.lab.secret(name, "cilium-ca")["ca.crt"] for name in bench.lab.names}
    try:
        yield
    finally:
        bench.know_foreign_values()  # a roll changes what another manager wrote, and the tests of this file come in any order
    after = {name: bench.lab.secret(name, "cilium-ca")["ca.crt"] for name in bench.lab.names}
    assert not set(before.values()) & set(after.values())
    bench.lab.wait_connected()
    assert bench.lab.play("connect", arguments=["--check"]).changed == 0
