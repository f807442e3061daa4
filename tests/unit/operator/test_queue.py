# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: no mesh twice at a time, no workspace at another's expense, nothing lost, failures later and later."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh_operator.keys import MeshKey
from mesh_operator.queue import RESYNC_TURN, FairQueue, Urgency
from tests.lab.patience import scaled
from tests.testing.waiting import equals, wait_for

CHANGE, RESYNC = Urgency.CHANGE, Urgency.RESYNC


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> FairQueue:
    return FairQueue(clock=clock)


def key(workspace: str = "ws", name: str = "mesh") -> MeshKey:
    return MeshKey(workspace, "default", name)


def taken(queue: FairQueue) -> Iterator[MeshKey]:
    """One after the other, each done before the next."""
    while (found := queue.get(timeout=0)) is not None:
        yield found
        queue.done(found)


def test_a_mesh_that_is_added_twice_comes_once(queue: FairQueue) -> None:
    queue.add(key(), RESYNC)
    queue.add(key())
    assert len(queue) == 1
    assert list(taken(queue)) == [key()]


def test_a_mesh_that_changes_while_it_is_worked_on_comes_back_when_that_is_done(queue: FairQueue) -> None:
    queue.add(key())
    assert queue.get(timeout=0) == key()
    queue.add(key())
    assert queue.get(timeout=0) is None
    queue.done(key())
    assert list(taken(queue)) == [key()]


def test_changes_go_before_resyncs_also_where_a_resync_was_asked_for_first(queue: FairQueue) -> None:
    for name in "abc":
        queue.add(key(name=name), RESYNC)
    queue.add(key(name="c"), CHANGE)
    assert [found.name for found in taken(queue)] == ["c", "a", "b"]


def test_a_single_mesh_waits_for_one_turn_of_a_noisy_workspace_at_most(queue: FairQueue) -> None:
    for number in range(1000):
        queue.add(key("noisy", str(number)))
    turns = taken(queue)
    for _ in range(10):
        next(turns)
    queue.add(key("quiet"))
    assert key("quiet") in [next(turns), next(turns)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20)), min_size=1, max_size=60))
def test_between_two_turns_of_a_workspace_every_other_one_that_waits_has_one(asked: list[tuple[str, int]]) -> None:
    queue = FairQueue(clock=Clock())
    left: dict[str, set[str]] = {}
    for workspace, number in asked:
        queue.add(key(workspace, str(number)))
        left.setdefault(workspace, set()).add(str(number))
    waited = dict.fromkeys(left, 0)
    for found in taken(queue):
        left[found.workspace].remove(found.name)
        waited = {workspace: 0 if workspace == found.workspace or not left[workspace] else turns + 1 for workspace, turns in waited.items()}
        assert max(waited.values()) < len(left)
    assert not any(left.values())


def test_a_workspace_has_no_more_out_than_it_may_and_others_go_on(clock: Clock) -> None:
    queue = FairQueue(per_workspace=2, clock=clock)
    for name in "abc":
        queue.add(key("one", name))
    queue.add(key("two"))
    out = [queue.get(timeout=0) for _ in range(4)]
    assert [found.workspace for found in out if found] == ["one", "two", "one"]
    assert out[3] is None
    queue.done(key("one", "a"))
    assert queue.get(timeout=0) == key("one", "c")


def test_meshes_are_checked_even_if_a_tenant_changes_others_without_end(queue: FairQueue) -> None:
    queue.add(key("quiet"), RESYNC)
    for turn in range(RESYNC_TURN):
        queue.add(key("noisy", str(turn)), CHANGE)
        queue.add(key("noisy", f"{turn} again"), CHANGE)
        found = queue.get(timeout=0)
        assert found is not None
        queue.done(found)
        if found == key("quiet"):
            return
    pytest.fail("the resync had no turn")


def test_of_two_times_the_earlier_one_stays(queue: FairQueue, clock: Clock) -> None:
    queue.add_after(key(), 10)
    queue.add_after(key(), 300)
    clock.now += 9.9
    assert queue.get(timeout=0) is None
    clock.now += 0.1
    assert list(taken(queue)) == [key()]
    clock.now += 1000
    assert queue.get(timeout=0) is None
    queue.add_after(key(), 300)
    queue.add_after(key(), 10)
    clock.now += 10
    assert list(taken(queue)) == [key()]


def test_what_is_due_now_is_not_put_off(queue: FairQueue) -> None:
    queue.add(key())
    queue.add_after(key(), 300)
    assert list(taken(queue)) == [key()]


def test_failures_put_a_mesh_off_for_longer_and_longer_and_success_ends_that(queue: FairQueue, clock: Clock) -> None:
    queue.add(key())
    for least in (5, 10, 20, 40, 80, 160, 300, 300):
        assert queue.get(timeout=0) == key()
        delay = queue.failed(key())
        assert least <= delay <= min(300, 1.25 * least)
        clock.now += delay - 0.01
        assert queue.get(timeout=0) is None
        clock.now += 0.02
    assert queue.get(timeout=0) == key()
    queue.forget(key())
    assert queue.failed(key()) <= 1.25 * 5


def test_meshes_that_failed_together_do_not_come_back_together(queue: FairQueue) -> None:
    delays = set()
    for number in range(20):
        queue.add(key(name=str(number)))
        assert queue.get(timeout=0) is not None
        delays.add(queue.failed(key(name=str(number))))
    assert len(delays) > 10


@pytest.mark.parametrize("while_out", [True, False])
def test_a_change_cuts_the_wait_after_failures_short_but_not_below_the_first_delay(queue: FairQueue, clock: Clock, while_out: bool) -> None:
    queue.add(key())
    for _ in range(5):
        assert queue.get(timeout=0) == key()
        clock.now += queue.failed(key())
    assert queue.get(timeout=0) == key()
    if while_out:
        queue.add(key())
    assert queue.failed(key()) > 100
    if not while_out:
        queue.add(key())
    clock.now += 4.9
    assert queue.get(timeout=0) is None
    clock.now += 0.1
    assert queue.get(timeout=0) == key()


def test_a_resync_does_not_cut_the_wait_after_a_failure_short(queue: FairQueue, clock: Clock) -> None:
    queue.add(key())
    assert queue.get(timeout=0) == key()
    queue.add(key(), RESYNC)
    delay = queue.failed(key())
    queue.add(key(), RESYNC)
    queue.add_after(key(), 1)
    clock.now += delay - 0.1
    assert queue.get(timeout=0) is None


def test_whoever_waits_is_woken_by_a_mesh_by_its_time_and_by_the_end() -> None:
    queue = FairQueue(clock=time.monotonic)
    found: list[MeshKey | None] = []
    threads = [threading.Thread(target=lambda: found.append(queue.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    queue.add(key("a"))
    queue.add_after(key("b"), 0.05)
    wait_for(lambda: len(found), equals(2), what="both meshes are taken", every=0.01)
    assert sorted(filter(None, found)) == [key("a"), key("b")]
    queue.close()
    for thread in threads:
        thread.join(scaled(5))
        assert not thread.is_alive()
    assert found[2] is None
    queue.add(key("c"))
    assert queue.get() is None


def test_waiting_costs_no_cpu() -> None:
    queue = FairQueue(clock=time.monotonic)
    for number in range(3):
        queue.add(key(name=str(number)))
    assert queue.get(timeout=0) is not None
    queue.add(key(name="0"))  # due and not to be had: the workspace has one out
    before = time.thread_time()
    assert queue.get(timeout=0.2) is None
    assert time.thread_time() - before < 0.05


class QueueMachine(RuleBasedStateMachine):
    """Anything in any order, against a model that knows only which meshes somebody still wants, and which are out."""

    keys = st.builds(key, st.sampled_from("ab"), st.sampled_from("xy"))

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = FairQueue(per_workspace=1, clock=self.clock)
        self.wanted: set[MeshKey] = set()
        self.out: list[MeshKey] = []

    @rule(key=keys, urgency=st.sampled_from(Urgency))
    def add(self, key: MeshKey, urgency: Urgency) -> None:
        self.queue.add(key, urgency)
        self.wanted.add(key)

    @rule(key=keys, seconds=st.floats(0, 400), urgency=st.sampled_from(Urgency))
    def add_after(self, key: MeshKey, seconds: float, urgency: Urgency) -> None:
        self.queue.add_after(key, seconds, urgency)
        self.wanted.add(key)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def take(self) -> None:
        found = self.queue.get(timeout=0)
        if found is not None:
            assert found in self.wanted
            assert found.workspace not in [other.workspace for other in self.out]
            self.wanted.discard(found)
            self.out.append(found)

    @precondition(lambda self: self.out)
    @rule(ending=st.sampled_from(["done", "forget", "failed"]))
    def finish(self, ending: str) -> None:
        key = self.out.pop(0)
        if ending == "failed":
            self.queue.failed(key)
            self.wanted.add(key)
        elif ending == "forget":
            self.queue.forget(key)
            self.queue.done(key)
        else:
            self.queue.done(key)

    @invariant()
    def its_length_is_that_of_what_is_due(self) -> None:
        assert len(self.queue) <= len(self.wanted)

    def teardown(self) -> None:
        for key in self.out:
            self.queue.done(key)
        self.clock.now += 1000
        assert set(taken(self.queue)) == self.wanted
        assert len(self.queue) == 0


TestAnyOrder = QueueMachine.TestCase
