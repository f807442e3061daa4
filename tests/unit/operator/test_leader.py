# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who leads: one at a time, another one soon after, and no replica that is not sure of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Lock, Thread
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, Unreachable, WriteConflict
from mesh_operator.base.log import setup
from mesh_operator.schedule.leader import Election
from tests.lab.patience import scaled
from tests.testing.known import known
from tests.testing.waiting import wait_for

PATH = "/apis/coordination.k8s.io/v1/namespaces/edge/leases/mesh-operator"
QUICK = {"lease": 15, "renew": 0.1, "retry": 0.02}
USUAL = {"lease": 15, "renew": 10.0, "retry": 2.0}
PATIENT = {"lease": 15, "renew": 3600.0, "retry": 3600.0}
"""However slow the machine is, nothing is renewed or lost."""


class Leases:
    """The Lease at an API server: versions, conflicts, and a connection that can be cut or hang."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.cut: Exception | None = None
        self.hang: Event | None = None
        self.calls = 0
        self._lock = Lock()

    def get(self, path: str) -> dict[str, Any] | None:
        assert path == PATH
        self._reach()
        with self._lock:
            return None if self.lease is None else json.loads(json.dumps(self.lease))

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        assert f"{path}/{body['metadata']['name']}" == PATH
        self._reach()
        with self._lock:
            if self.lease is not None:
                raise WriteConflict("it exists already")
            self.lease = {"metadata": {**body["metadata"], "resourceVersion": "1"}, "spec": dict(body["spec"])}
            return self.lease

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        assert path == PATH
        self._reach()
        with self._lock:
            assert self.lease is not None
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise WriteConflict("it changed")
            self.renewed_by(body["spec"])
            return self.lease

    def renewed_by(self, spec: Mapping[str, Any]) -> None:
        assert self.lease is not None
        spec = {**self.lease["spec"], **spec}
        version = str(int(self.lease["metadata"]["resourceVersion"]) + 1)
        metadata = {**self.lease["metadata"], "resourceVersion": version}
        self.lease = {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value is not None}}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"an election needs no {name}")

    def _reach(self) -> None:
        self.calls += 1
        if self.hang is not None:
            self.hang.wait(scaled(5))
        if self.cut is not None:
            raise self.cut


class Clock:
    """Moves by what is waited for, like an Event that is never set."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.waiting = True

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float | None = None) -> bool:
        self.now += seconds or 0.0
        return not self.waiting


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(scaled(5))
        assert not thread.is_alive()


def election(leases: Leases, identity: str = "node", clock: Clock | None = None, times: Mapping[str, Any] = QUICK) -> Election:
    candidate = Election(leases, "edge", "mesh-operator", identity, **times)
    if clock is not None:
        candidate.clock = clock
    return candidate


def until(condition: Callable[[], object]) -> None:
    wait_for(condition, what="the Lease is asked for and renewed", every=0.005)


def held_by(other: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": other, "leaseDurationSeconds": 15, **spec}}


def test_the_first_one_leads_and_gives_the_lease_back_when_its_work_ends(leases: Leases) -> None:
    seen: list[Any] = []
    first = election(leases, times=PATIENT)
    assert first.lead(lambda: seen.append(leases.lease), lambda: seen.append("lost"), Event())
    (during,) = seen
    assert during["spec"]["holderIdentity"] == first.identity
    assert during["spec"]["leaseDurationSeconds"] == 15
    assert during["spec"]["acquireTime"] == during["spec"]["renewTime"]
    assert "holderIdentity" not in known(leases.lease)["spec"]


def test_the_next_one_leads_as_soon_as_the_lease_was_given_back(leases: Leases) -> None:
    clock, second = Clock(), election(leases, "second", times=PATIENT)
    election(leases, "first", times=PATIENT).lead(lambda: None, lambda: None, Event())
    assert second.lead(lambda: None, lambda: None, clock)  # type: ignore[arg-type]  # a clock with the one method of an Event that is used
    assert clock.now == 0
    assert known(leases.lease)["spec"]["leaseTransitions"] == 2


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2199-01-01T00:00:00.000000Z"])
def test_the_lease_of_a_dead_leader_is_taken_after_its_time_however_wrong_its_clock_is(leases: Leases, renewed: str) -> None:
    leases.lease = held_by("dead", renewTime=renewed)
    clock, times = Clock(1000.0), []
    candidate = election(leases, times=USUAL, clock=clock)
    assert candidate.lead(lambda: times.append(clock.now), lambda: None, clock)  # type: ignore[arg-type]  # a clock with the one method of an Event that is used
    assert 15 <= times[0] - 1000 <= 17


def test_no_replica_takes_the_lease_of_a_leader_that_renews_it(leases: Leases) -> None:
    class Renewing(Clock):
        def wait(self, seconds: float | None = None) -> bool:
            leases.renewed_by({"renewTime": str(self.now)})
            self.waiting = self.now < 200
            return super().wait(seconds)

    leases.lease = held_by("alive")
    clock = Renewing()
    assert election(leases, times=USUAL, clock=clock).lead(lambda: pytest.fail("two lead"), lambda: None, clock)  # type: ignore[arg-type]  # a clock with the one method of an Event that is used
    assert clock.now > 200
    assert leases.lease["spec"]["holderIdentity"] == "alive"


def version(leases: Leases) -> int:
    return int(leases.lease["metadata"]["resourceVersion"]) if leases.lease else 0


def test_a_leader_renews_the_lease_for_as_long_as_its_work_lasts(leases: Leases) -> None:
    lost: list[str] = []
    times = QUICK | {"renew": PATIENT["renew"]}
    assert election(leases, times=times).lead(lambda: until(lambda: version(leases) > 4), lambda: lost.append("lost"), Event())
    assert lost == []
    after = version(leases)
    time.sleep(0.1)
    assert version(leases) == after, "no renewal comes after it was given back"


def broken(leases: Leases, how: str) -> None:
    if how == "cut":
        leases.cut = Unreachable("The API server refused the connection.")
    elif how == "forbidden":
        leases.cut = Forbidden("RBAC forbids to patch leases (403).")
    elif how == "hang":
        leases.hang = Event()
    elif how == "defect":
        leases.cut = KeyError("unexpected")
    else:
        leases.renewed_by({"holderIdentity": "thief"})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("how", ["cut", "forbidden", "hang", "defect", "thief"])
def test_a_leader_that_cannot_renew_stops_its_work_before_another_one_may_start(leases: Leases, how: str) -> None:
    stopped = Event()
    times: dict[str, float] = {}

    def work() -> None:
        broken(leases, how)
        times["broken"] = time.monotonic()
        assert stopped.wait(scaled(5))
        times["stopped"] = time.monotonic()
        if leases.hang is not None:
            leases.hang.set()

    assert not election(leases).lead(work, stopped.set, Event())
    assert times["stopped"] - times["broken"] < scaled(1)
    if how == "thief":
        assert known(leases.lease)["spec"]["holderIdentity"] == "thief"


def test_a_leader_that_sees_another_one_stops_at_once(leases: Leases) -> None:
    stopped = Event()

    def work() -> None:
        leases.renewed_by({"holderIdentity": "thief"})
        assert stopped.wait(scaled(2))

    assert not election(leases, times=QUICK | {"renew": 60.0}).lead(work, stopped.set, Event())


def test_a_short_loss_of_the_connection_costs_nothing(leases: Leases) -> None:
    def work() -> None:
        leases.cut = Unreachable("cut")
        calls, before = leases.calls, version(leases)
        until(lambda: leases.calls > calls + 2)
        leases.cut = None
        until(lambda: version(leases) > before + 1)

    lost: list[str] = []
    assert election(leases, times=QUICK | {"renew": PATIENT["renew"]}).lead(work, lambda: lost.append("lost"), Event())
    assert lost == []


def test_of_many_that_start_at_once_under_one_name_one_leads(leases: Leases) -> None:
    leading, most, stop = [0], [0], Event()

    def work() -> None:
        leading[0] += 1
        most[0] = max(most[0], leading[0])
        stop.wait(0.05)
        leading[0] -= 1

    threads = [
        Thread(target=lambda: election(leases, "same", times=USUAL | {"retry": 0.01}).lead(work, lambda: None, Event())) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(scaled(10))
    assert most == [1]
    assert known(leases.lease)["spec"]["leaseTransitions"] >= 5


def test_a_replica_that_was_slower_by_one_request_does_not_lead(leases: Leases) -> None:
    class Overtaken(Leases):
        def get(self, path: str) -> dict[str, Any] | None:
            found = super().get(path)
            self.renewed_by({"holderIdentity": "faster"})
            return found

    overtaken = Overtaken()
    overtaken.lease = {"metadata": {"resourceVersion": "1"}, "spec": {}}
    clock = Clock()
    clock.waiting = False
    assert election(overtaken).lead(lambda: pytest.fail("two lead"), lambda: None, clock)  # type: ignore[arg-type]  # a clock with the one method of an Event that is used


def test_a_replica_that_waits_can_be_stopped(leases: Leases) -> None:
    leases.lease = held_by("other")
    stop = Event()
    thread = Thread(target=lambda: election(leases).lead(lambda: pytest.fail("it led"), lambda: None, stop))
    thread.start()
    until(lambda: leases.calls > 2)
    stop.set()
    thread.join(scaled(5))
    assert not thread.is_alive()


def test_work_that_fails_gives_the_lease_back_too(leases: Leases) -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        election(leases, times=PATIENT).lead(work, lambda: None, Event())
    assert "holderIdentity" not in known(leases.lease)["spec"]


def test_why_the_lease_cannot_be_had_is_reported_once(leases: Leases, capsys: pytest.CaptureFixture[str]) -> None:
    class TwentyTimes(Clock):
        def wait(self, seconds: float | None = None) -> bool:
            self.waiting = self.now < 40
            return super().wait(seconds)

    setup()
    leases.cut = Forbidden("RBAC forbids to get leases (403).")
    assert election(leases, times=USUAL).lead(lambda: None, lambda: None, TwentyTimes())  # type: ignore[arg-type]  # a clock with the one method of an Event that is used
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["event"], line["code"], line["reason"]) == ("lease_not_reached", "CM-API-03", "RBAC forbids to get leases (403).")
