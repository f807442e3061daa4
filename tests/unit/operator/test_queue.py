# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is: no mesh twice at a time, no workspace at another's expense, nothing lost, failures later and later."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh_operator.base.keys import MeshKey
from mesh_operator.schedule.queue import RESYNC_SHARE, FairQueue, Urgency
from mesh_operator.schedule.turns import SLOW, TOO_LONG, Durations, Lane
from tests.lab.patience import scaled
from tests.testing.known import known
from tests.testing.properties import examples
from tests.testing.waiting import equals, wait_for

ENDING = 0.5  # seconds between two searches of the operator for turns that have to end
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
def queue(clock: Clock) -> FairQueue[MeshKey]:
    return FairQueue[MeshKey](clock=clock)


def key(workspace: str = "ws", name: str = "mesh") -> MeshKey:
    return MeshKey(workspace, "default", name)


def taken(queue: FairQueue[MeshKey]) -> Iterator[MeshKey]:
    """One after the other, each done before the next."""
    while (found := queue.get(timeout=0)) is not None:
        yield found
        queue.done(found)


def test_a_mesh_that_is_added_twice_comes_once(queue: FairQueue[MeshKey]) -> None:
    queue.add(key(), RESYNC)
    queue.add(key())
    assert len(queue) == 1
    assert list(taken(queue)) == [key()]


def test_a_mesh_that_changes_while_it_is_worked_on_comes_back_when_that_is_done(queue: FairQueue[MeshKey]) -> None:
    queue.add(key())
    assert queue.get(timeout=0) == key()
    queue.add(key())
    assert queue.get(timeout=0) is None
    queue.done(key())
    assert list(taken(queue)) == [key()]


def test_changes_go_before_resyncs_also_where_a_resync_was_asked_for_first(queue: FairQueue[MeshKey]) -> None:
    for name in "abc":
        queue.add(key(name=name), RESYNC)
    queue.add(key(name="c"), CHANGE)
    assert [found.name for found in taken(queue)] == ["c", "a", "b"]


def test_a_single_mesh_waits_for_one_turn_of_a_noisy_workspace_at_most(queue: FairQueue[MeshKey]) -> None:
    for number in range(1000):
        queue.add(key("noisy", str(number)))
    turns = taken(queue)
    for _ in range(10):
        next(turns)
    queue.add(key("quiet"))
    assert key("quiet") in [next(turns), next(turns)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20)), min_size=1, max_size=60))
def test_between_two_turns_of_a_workspace_every_other_one_that_waits_has_one(asked: list[tuple[str, int]]) -> None:
    """Once each is known: ever new workspaces get every second turn at most."""
    queue = FairQueue[MeshKey](clock=Clock())
    for workspace in dict(asked):
        queue.add(key(workspace, "first"))
    assert len(list(taken(queue))) == len(dict(asked))
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
    queue = FairQueue[MeshKey](per_workspace=2, clock=clock)
    for name in "abc":
        queue.add(key("one", name))
    queue.add(key("two"))
    out = [queue.get(timeout=0) for _ in range(4)]
    assert [found.workspace for found in out if found] == ["one", "two", "one"]
    assert out[3] is None
    queue.done(key("one", "a"))
    assert queue.get(timeout=0) == key("one", "c")


def test_meshes_are_checked_even_if_a_tenant_changes_others_without_end(queue: FairQueue[MeshKey]) -> None:
    queue.add(key("quiet"), RESYNC)
    for turn in range(RESYNC_SHARE):
        queue.add(key("noisy", str(turn)), CHANGE)
        queue.add(key("noisy", f"{turn} again"), CHANGE)
        found = known(queue.get(timeout=0))
        queue.done(found)
        if found == key("quiet"):
            return
    pytest.fail("the resync had no turn")


def test_of_two_times_the_earlier_one_stays(queue: FairQueue[MeshKey], clock: Clock) -> None:
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


def test_what_is_due_now_is_not_put_off(queue: FairQueue[MeshKey]) -> None:
    queue.add(key())
    queue.add_after(key(), 300)
    assert list(taken(queue)) == [key()]


def test_failures_put_a_mesh_off_for_longer_and_longer_and_success_ends_that(queue: FairQueue[MeshKey], clock: Clock) -> None:
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


def test_meshes_that_failed_together_do_not_come_back_together(queue: FairQueue[MeshKey]) -> None:
    delays = set()
    for number in range(20):
        queue.add(key(name=str(number)))
        assert queue.get(timeout=0) is not None
        delays.add(queue.failed(key(name=str(number))))
    assert len(delays) > 10


@pytest.mark.parametrize("while_out", [True, False])
def test_a_change_cuts_the_wait_after_failures_short_but_not_below_the_first_delay(
    queue: FairQueue[MeshKey], clock: Clock, while_out: bool
) -> None:
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


def test_a_resync_does_not_cut_the_wait_after_a_failure_short(queue: FairQueue[MeshKey], clock: Clock) -> None:
    queue.add(key())
    assert queue.get(timeout=0) == key()
    queue.add(key(), RESYNC)
    delay = queue.failed(key())
    queue.add(key(), RESYNC)
    queue.add_after(key(), 1)
    clock.now += delay - 0.1
    assert queue.get(timeout=0) is None


def test_a_worker_that_waits_is_woken_by_a_mesh_by_its_time_and_by_the_end() -> None:
    queue = FairQueue[MeshKey](clock=time.monotonic)
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
    queue = FairQueue[MeshKey](clock=time.monotonic)
    for number in range(3):
        queue.add(key(name=str(number)))
    assert queue.get(timeout=0) is not None
    queue.add(key(name="0"))  # due and not to be had: the workspace has one out
    before = time.thread_time()
    assert queue.get(timeout=0.2) is None
    assert time.thread_time() - before < 0.05


class Site:
    """Workers in simulated time. Each mesh of the hostile workspaces is due again at once, and each turn of theirs takes long."""

    def __init__(self, workers: int, hostile: int, turn: float, meshes: int, *, ends_turns: bool = False) -> None:
        self.ends_turns, self.ended = ends_turns, 0
        self.clock, self.turn, self.workers = Clock(), turn, workers
        self.waits: dict[Lane, list[float]] = {lane: [] for lane in Lane}
        self.queue = FairQueue[MeshKey](clock=self.clock, workers=workers, waited=lambda lane, seconds: self.waits[lane].append(seconds))
        self.ends: dict[MeshKey, float] = {}
        self.turns: Counter[MeshKey] = Counter()
        self.began: dict[MeshKey, float] = {}  # when each had its last turn
        self.slow = 0  # most slow turns that were out together
        for workspace in range(hostile):
            for mesh in range(meshes):
                self.queue.add(key(f"hostile-{workspace}", str(mesh)))

    def until(self, end: float, good: float = 1.0) -> None:
        """Work until that time. A turn of any other workspace takes ``good`` seconds."""
        while True:
            for late in self.queue.overdue() if self.ends_turns else ():
                self.ends[late] = self.clock.now
                self.ended += 1
            while len(self.ends) < self.workers and (found := self.queue.get(timeout=0)) is not None:
                self.turns[found] += 1
                self.began[found] = self.clock.now
                self.ends[found] = self.clock.now + (self.turn if found.workspace.startswith("hostile") else good)
                self.slow = max(self.slow, sum(out.workspace.startswith("hostile") for out in self.ends))
            tended = self.clock.now + ENDING if self.ends_turns and self.clock.now + ENDING < end else inf
            following = min(tended, *self.ends.values()) if self.ends else end
            self.clock.now = min(end, following)
            if following > end or not self.ends:
                return
            for done in [out for out, at in self.ends.items() if at <= self.clock.now]:
                del self.ends[done]
                self.queue.done(done)
                if done.workspace.startswith("hostile"):
                    self.queue.add(done)

    def wait_of(self, mesh: MeshKey) -> float:
        """The seconds until a mesh that becomes due now has its turn."""
        began, before = self.clock.now, self.turns[mesh]
        self.queue.add(mesh)
        self.until(began)
        while self.turns[mesh] == before:
            self.until(min(self.ends.values()))
        return self.began[mesh] - began


@examples(30)
@given(
    workers=st.integers(1, 4),
    hostile=st.integers(1, 30),
    turn=st.sampled_from((SLOW + 1, 200.0, 1200.0)),
    meshes=st.integers(1, 3),
    known=st.booleans(),
    gap=st.floats(0, 3000),
)
def test_long_turns_of_others_cost_a_good_workspace_one_of_them_at_most_however_many_there_are(
    workers: int, hostile: int, turn: float, meshes: int, known: bool, gap: float
) -> None:
    """Of a good workspace that was there before, or of a new one once the others' first turns are over."""
    site = Site(workers, 0 if known else hostile, turn, meshes)
    good = key("good")
    if known:
        assert site.wait_of(good) == 0
        site.until(site.clock.now + 10)
        for workspace in range(hostile):
            for mesh in range(meshes):
                site.queue.add(key(f"hostile-{workspace}", str(mesh)))
    else:
        site.until(site.clock.now + turn * (2 * hostile + 2))  # with one worker, slow meshes have half of the turns
    for _ in range(3):
        site.until(site.clock.now + gap)
        assert site.wait_of(good) <= (1 if workers > 1 else 2) * turn + 1
    if workers > 1:
        site.until(site.clock.now + turn * (hostile * meshes + 2))  # every mesh has shown how long it takes
        site.slow = 0
        assert site.wait_of(good) == 0 or workers == 1, "slow meshes leave half of the workers to others"
        site.until(site.clock.now + 2 * turn)
        assert site.slow <= workers // 2


@examples(30)
@given(
    workers=st.integers(2, 4),
    hostile=st.integers(2, 6),
    turns=st.lists(st.sampled_from((2.0, 5.0, SLOW - 0.1, SLOW + 0.1, 15.0, 29.0, 60.0, 900.0)), min_size=40, max_size=40),
)
def test_however_long_turns_of_others_take_a_good_mesh_waits_for_one_that_is_quick(workers: int, hostile: int, turns: list[float]) -> None:
    """Turns of the others take as long as their owners like, each another time. A turn that turns out slow is ended where others wait."""
    site = Site(workers, hostile, 1.0, 2, ends_turns=True)
    waits = [site.wait_of(key("good"))]
    for number, turn in enumerate(turns):
        site.turn = turn
        site.until(site.clock.now + 7.3 + number % 5)
        waits.append(site.wait_of(key("good")))
    assert max(waits) <= hostile * (TOO_LONG + ENDING), "each other workspace can be a surprise once"
    assert sorted(waits)[-4] <= TOO_LONG + ENDING


@pytest.mark.parametrize("hostile", [pytest.param(2, marks=pytest.mark.slow), 7, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("turn", [5.0, SLOW - 0.1, SLOW + 0.1, 20.0, 29.0, 200.0])
def test_with_two_workers_a_good_mesh_waits_for_seven_seconds_at_most_nearly_always(turn: float, hostile: int) -> None:
    site = Site(2, hostile, turn, 8, ends_turns=True)
    site.wait_of(key("good"))
    site.until(site.clock.now + 60)
    waits = []
    for number in range(60):
        site.until(site.clock.now + 7.3 + number % 5)
        waits.append(site.wait_of(key("good")))
    assert sorted(waits)[57] <= 7


def test_a_turn_is_ended_only_where_others_wait_for_its_worker(queue: FairQueue[MeshKey], clock: Clock) -> None:
    for name in ("a", "b"):
        queue.add(key(name))
        assert queue.get(timeout=0) == key(name)
    clock.now += TOO_LONG + 1
    assert queue.overdue() == [], "no mesh waits"
    queue.add(key("a", "another"))
    assert queue.overdue() == [], "its workspace has a turn already"
    queue.add(key("c"))
    assert queue.overdue() == [key("a")], "one of the two may go on"
    queue.done(key("a"))
    assert queue.get(timeout=0) == key("c")
    queue.add(key("a"))
    clock.now += TOO_LONG + 1
    assert queue.overdue() == [], "of the meshes that wait each is known as slow, and would wait all the same"


def test_links_that_are_awaited_are_looked_at_on_half_of_the_workers_at_most(queue: FairQueue[MeshKey]) -> None:
    for name in ("a", "b", "c"):
        queue.add(key(name), Urgency.FOLLOW_UP)
    assert queue.get(timeout=0) == key("a")
    assert queue.get(timeout=0) is None
    queue.add(key("d"))
    assert queue.get(timeout=0) == key("d"), "a change is served at once"
    queue.done(key("a"))
    assert queue.get(timeout=0) == key("b")


@examples(20)
@given(workers=st.integers(1, 3), hostile=st.integers(1, 6), quick=st.integers(1, 6), meshes=st.integers(1, 3))
def test_nothing_starves_while_all_workspaces_want_more(workers: int, hostile: int, quick: int, meshes: int) -> None:
    site = Site(workers, hostile, 100.0, meshes)
    keys = [key(f"quick-{workspace}", str(mesh)) for workspace in range(quick) for mesh in range(meshes)]
    slow = [key(f"hostile-{workspace}", str(mesh)) for workspace in range(hostile) for mesh in range(meshes)]
    for _ in range(3):
        before = dict(site.turns)
        for _step in range(10 * (hostile * meshes + 1)):
            for mesh in keys:
                site.queue.add(mesh, RESYNC)
            site.until(site.clock.now + 25.0, good=3.0)
        assert {mesh for mesh in (*keys, *slow) if site.turns[mesh] == before.get(mesh, 0)} == set()


def test_a_workspace_gets_as_much_time_as_the_others_and_not_as_many_turns(queue: FairQueue[MeshKey], clock: Clock) -> None:
    used: Counter[str] = Counter()
    for number in range(200):
        queue.add(key("long", str(number)))
        queue.add(key("short", str(number)))
    while clock.now < 1400:
        found = known(queue.get(timeout=0))
        seconds = 8.0 if found.workspace == "long" else 2.0
        clock.now += seconds
        used[found.workspace] += int(seconds)
        queue.done(found)
    assert abs(used["long"] - used["short"]) <= 40, "a tenth"


def test_who_was_quiet_for_hours_goes_first_for_less_than_a_minute(queue: FairQueue[MeshKey], clock: Clock) -> None:
    for number in range(900):
        queue.add(key("always", str(number)))
    for _ in range(200):
        found = known(queue.get(timeout=0))
        clock.now += 1
        queue.done(found)
    for number in range(500):
        queue.add(key("quiet", str(number)))
    turns = []
    for _ in range(300):
        found = known(queue.get(timeout=0))
        clock.now += 1
        queue.done(found)
        turns.append(found.workspace)
    assert turns[0] == "quiet" and turns.index("always") < 45
    assert 90 <= turns[100:].count("always") <= 110


def test_a_mesh_that_was_slow_once_needs_several_quick_turns_to_be_quick_again() -> None:
    durations, seen = Durations[MeshKey](), []
    assert durations.lane(key()) is Lane.NEW
    for seconds in (600.0, *[1.0] * 7):
        durations.note(key(), seconds)
        seen.append(durations.lane(key()))
    assert seen == [Lane.SLOW] * 7 + [Lane.QUICK]
    assert durations.lane(key(name="another")) is Lane.QUICK
    durations.note(key(name="bad"), 100.0)
    assert durations.lane(key(name="another")) is Lane.SLOW, "a new mesh is as the last one of its workspace"
    assert durations.lane(key()) is Lane.QUICK


class QueueMachine(RuleBasedStateMachine):
    """Anything in any order, against a model that knows only which meshes are still wanted, and which are out."""

    keys = st.builds(key, st.sampled_from("ab"), st.sampled_from("xy"))

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = FairQueue[MeshKey](per_workspace=1, clock=self.clock)
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
