# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The waiting of the tests: patient with slow machines, short with what is stuck, and clear about what did not come."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from tests.lab import patience
from tests.lab.patience import PATIENCE, Budget, scaled, slowness
from tests.testing.waiting import ROUNDS, STALL, NeverCame, Timing, equals, wait_for


class Clock:
    """Time that passes only when a wait sleeps, on a machine that is ``slow`` times as slow as an idle one."""

    def __init__(self, slow: float = 1.0) -> None:
        self.now = 0.0
        self.timing = Timing(now=lambda: self.now, sleep=self.sleep, slowness=lambda: slow)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def after(self, seconds: float) -> Callable[[], bool]:
        return lambda: self.now >= seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def phases(*values: str) -> Callable[[], str]:
    """A probe that sees one value after the other, and the last one for ever."""
    rest: Iterator[str] = itertools.chain(values, itertools.repeat(values[-1]))
    return lambda: next(rest)


def test_the_first_true_value_is_returned_without_a_predicate(clock: Clock) -> None:
    values = iter((None, "", "found"))
    assert wait_for(lambda: next(values), what="something is found", timing=clock.timing) == "found"


def test_the_first_value_that_the_predicate_accepts_is_returned(clock: Clock) -> None:
    assert wait_for(phases("Pending", "Connected"), equals("Connected"), what="it is connected", timing=clock.timing) == "Connected"


def test_what_holds_already_costs_no_time(clock: Clock) -> None:
    assert wait_for(lambda: True, what="it holds", timing=clock.timing)
    assert clock.now == 0


def test_a_stall_ends_the_wait_and_names_what_was_awaited_and_what_was_seen_last(clock: Clock) -> None:
    with pytest.raises(NeverCame) as failure:
        wait_for(
            phases("Pending", "Connecting", "Degraded"),
            equals("Connected"),
            what="the mesh is connected",
            explain=lambda: "log of the operator",
            timing=clock.timing,
        )
    text = str(failure.value)
    assert text.startswith("It did not come about that the mesh is connected: nothing changed for 60 s.")
    assert [text.index(word) for word in ("'Pending'", "'Connecting'", "'Degraded'", "log of the operator")] == sorted(
        text.index(word) for word in ("'Pending'", "'Connecting'", "'Degraded'", "log of the operator")
    )
    assert STALL < clock.now < STALL + 2


def test_a_value_that_changes_now_and_then_is_waited_for_beyond_the_stall(clock: Clock) -> None:
    wait_for(lambda: int(clock.now // (STALL / 2)), equals(8), what="eight steps are done", timing=clock.timing)
    assert clock.now >= 4 * STALL


def test_progress_elsewhere_is_waited_for_beyond_the_stall(clock: Clock) -> None:
    wait_for(clock.after(4 * STALL), what="it is there", progress=lambda: clock.now // (STALL / 2), timing=clock.timing)
    with pytest.raises(NeverCame, match="Last progress: 'log of 9 lines'"):
        wait_for(lambda: False, what="it is there", progress=lambda: "log of 9 lines", timing=clock.timing)


def test_endless_change_ends_the_wait_as_well(clock: Clock) -> None:
    with pytest.raises(NeverCame, match=f"kept changing for {STALL * ROUNDS:g} s"):
        wait_for(lambda: clock.now, equals(-1.0), what="it comes to rest", timing=clock.timing)


def test_a_machine_under_load_is_given_as_much_more_time() -> None:
    slow = Clock(slow=8)
    assert wait_for(slow.after(7 * STALL), what="it is there", timing=slow.timing)
    with pytest.raises(NeverCame):
        wait_for(slow.after(17 * STALL), what="it is there", timing=slow.timing)


def test_one_probe_that_takes_very_long_is_no_stall(clock: Clock) -> None:
    def paused() -> bool:
        clock.now += 3 * STALL  # the machine slept
        return clock.now > 9 * STALL

    assert wait_for(paused, what="it is there", timing=clock.timing)


def test_an_error_that_may_pass_is_not_yet_and_another_one_ends_the_wait(clock: Clock) -> None:
    def refused() -> bool:
        if clock.now < 5:
            raise ConnectionError("refused")
        return True

    assert wait_for(refused, what="it answers", passing=(OSError,), timing=clock.timing)
    clock.now = 0
    with pytest.raises(ConnectionError):
        wait_for(refused, what="it answers", timing=clock.timing)


def test_the_last_error_shows_in_the_failure(clock: Clock) -> None:
    def refused() -> bool:
        raise ConnectionError("no listener")

    with pytest.raises(NeverCame, match="ConnectionError: no listener"):
        wait_for(refused, what="it answers", passing=(OSError,), timing=clock.timing)


def test_what_is_hopeless_fails_at_once_unless_it_came_at_the_end(clock: Clock) -> None:
    with pytest.raises(NeverCame, match="that the operator is ready: it ended with status 1"):
        wait_for(lambda: False, what="the operator is ready", hopeless=lambda: "it ended with status 1", timing=clock.timing)
    assert clock.now == 0
    assert wait_for(lambda: "ready", what="it is ready", hopeless=lambda: "it ended", timing=clock.timing) == "ready"


def test_a_long_value_is_shortened(clock: Clock) -> None:
    with pytest.raises(NeverCame) as failure:
        wait_for(lambda: "x" * 100_000, equals(""), what="it is empty", timing=clock.timing)
    assert len(str(failure.value)) < 5000


def test_patience_for_a_machine_that_is_slow_without_load_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slowness() >= 1
    monkeypatch.setenv(PATIENCE, "50")
    assert slowness() >= 50
    assert scaled(2) >= 100


def test_a_budget_runs_down_the_slower_the_more_the_machine_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 40.0, 80.0, 120.0])
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(patience, "slowness", lambda: 4.0)
    budget = Budget(25)
    assert [budget.is_spent(), budget.is_spent(), budget.is_spent()] == [False, False, True]
