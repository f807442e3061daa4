# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs of a mesh in any interleaving of their requests, killed anywhere, with members that some of them do not reach.

Each run has a thread, and stops before each request and each pause until the test lets it go on; so one request at a time is under way, in
the order that Hypothesis draws. The time passes only when the test says so, and never longer than the last third of a lock's duration
while a write is under way, which is what the protocol asks of a write.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, LockHeld, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.lock import MeshLock, Terms
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.member import find_lock
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.state import MARGIN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from tests.testing.lease_world import LeaseWorld

HOSTS = ("c1", "c2", "c3")
BINDING = Binding(name="edge-mesh-eu", cluster_refs=HOSTS)
DURATION = 30
GUARD = DURATION / 3
WRITES = 2  # in each member
MOST = 400  # choices of one example
WITHOUT_EXPLANATION = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


class Killed(BaseException):
    """End of a process: it sends nothing any more."""


class Stage:
    """Lets one run go on at a time."""

    def __init__(self, world: LeaseWorld) -> None:
        self.world = world
        self.changed = Condition()
        self.waiting: dict[int, str] = {}  # run -> what it is about to do
        self.since: dict[int, float] = {}  # run -> when its write came under way
        self.orders: dict[int, str] = {}  # run -> go, lost before, lost after, kill
        self.killed: set[int] = set()
        self.ended: set[int] = set()
        self.closed = False

    def stop(self, run: int, what: str) -> str:
        """Wait until the run may do this, and return how."""
        with self.changed:
            if self.closed or run in self.killed:
                raise Killed
            self.waiting[run] = what
            if what == "write":
                self.since[run] = self.world.time
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.closed or run in self.orders)
            self.since.pop(run, None)
            order = self.orders.pop(run, "kill")
            if order == "kill":
                self.killed.add(run)
                raise Killed
        return order

    def close(self) -> None:
        """Kill every run. Hypothesis may end an example anywhere, and a thread that waits for ever keeps the process from ending."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def end(self, run: int) -> None:
        with self.changed:
            self.ended.add(run)
            self.waiting.pop(run, None)
            self.changed.notify_all()

    def settle(self, runs: int) -> list[int]:
        """Wait until every run stops or has ended; return those that stop."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.waiting) + len(self.ended) == runs, timeout=60), "a run hangs"
            return sorted(self.waiting)

    def go(self, run: int, order: str) -> None:
        with self.changed:
            del self.waiting[run]
            self.orders[run] = order
            self.changed.notify_all()


@dataclass
class Process:
    """One run as a process: it observes, takes the lock, writes, and gives it back."""

    number: int
    stage: Stage
    hosts: tuple[str, ...]
    timeout: int
    wrote: list[tuple[str, int]] = field(default_factory=list)
    done: bool = False
    refused: bool = False
    fault: BaseException | None = None
    lock: MeshLock | None = None
    stay: tuple[str, ...] = HOSTS  # members in which the lock is emptied at the end, and not deleted

    def run(self, ledger: dict[str, list[int]]) -> None:
        try:
            self._run(ledger)
        except (Killed, LockHeld):
            self.refused = True
        except ClusterError:
            pass
        except BaseException as error:  # shown by the test's own thread
            self.fault = error
        finally:
            self.stage.end(self.number)

    def _run(self, ledger: dict[str, list[int]]) -> None:
        world = self.stage.world
        clients: dict[str, Any] = {host: world.client(host, self._before) for host in self.hosts}
        terms = Terms(binding=BINDING, action=f"run {self.number}", timeout=self.timeout, duration=DURATION, holder="x", parallel=1)
        lock = self.lock = MeshLock(terms, clocks=world.clocks(self._sleep), show=lambda text: None, renews=False)
        try:
            while True:
                states = {host: find_lock(client, BINDING) for host, client in clients.items()}
                observed = {}
                for host in self.hosts:
                    self._before(host, "read")
                    observed[host] = len(ledger[host])
                if lock.take(clients, states, self.stay, write=True):
                    break
            for _ in range(WRITES):
                for host in self.hosts:
                    with suppress(ClusterError):
                        lock.allow(host)
                        order = self.stage.stop(self.number, "write")
                        if order != "lost before":
                            mine = [number for number in ledger[host] if number == self.number]
                            assert len(ledger[host]) == observed[host] + len(mine), f"another run wrote to {host} since it was observed"
                            ledger[host].append(self.number)
                lock.renew()
            self.done = True
        finally:
            lock.release()

    def _before(self, host: str, verb: str) -> None:
        if self.stage.stop(self.number, verb) != "go":
            raise Unreachable("It does not answer.", cluster=host)

    def _sleep(self, seconds: float) -> None:
        """Pause, and renew what is held, as the thread of a real run does."""
        self.stage.stop(self.number, "sleep")
        self.stage.world.time += min(seconds, room(self.stage))
        assert self.lock is not None
        self.lock.renew()


def room(stage: Stage) -> float:
    """Return the seconds that may pass while writes are under way."""
    return min((GUARD - (stage.world.time - since) for since in stage.since.values()), default=1000.0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=WITHOUT_EXPLANATION)
@given(data=st.data())
def test_no_two_runs_write_to_a_member_and_the_mesh_is_free_in_the_end(data: st.DataObject) -> None:
    world = LeaseWorld(*HOSTS)
    for server in world.servers.values():
        server.ahead = data.draw(st.floats(-2.0, 2.0))
        server.sends_date = data.draw(st.booleans())
    stage, ledger = Stage(world), {host: list[int]() for host in HOSTS}
    reach = st.sets(st.sampled_from(HOSTS), min_size=1).map(lambda found: tuple(sorted(found)))
    count = data.draw(st.integers(2, 3))
    stay = data.draw(st.sampled_from((HOSTS, ())))  # without the registry of the mesh each run creates the lock, and deletes it
    runs = [Process(n, stage, data.draw(reach), data.draw(st.sampled_from((0, 20, 100))), stay=stay) for n in range(count)]
    threads = [Thread(target=run.run, args=(ledger,), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    try:
        _let_them_run(data, world, stage, count)
    finally:
        stage.close()
        for thread in threads:
            thread.join(60)
    for run in runs:
        if run.fault is not None:
            raise run.fault
    event(f"{sum(run.done for run in runs)} runs wrote all")
    _the_mesh_is_free(world)


def _let_them_run(data: st.DataObject, world: LeaseWorld, stage: Stage, count: int) -> None:
    """Let one run at a time go on, lose its request, or be killed, or let time pass, until all have ended."""
    calm = data.draw(st.booleans())  # with it, a run often comes and goes while another one stands still
    chosen, burst = 0, 0
    for turn in range(MOST):
        stopped = stage.settle(count)
        if not stopped:
            break
        burst -= 1
        if turn >= MOST // 2:
            chosen = stopped[0]
        elif burst < 0 or chosen not in stopped:
            chosen = data.draw(st.sampled_from(stopped))
            burst = data.draw(st.sampled_from((4, 8, 12, 100))) if calm else 0
        what = stage.waiting[chosen]
        order = data.draw(st.sampled_from(("go",) * (300 if calm else 30) + ("lost before", "kill", "time"))) if turn < MOST // 2 else "go"
        if order == "time":
            world.time += min(data.draw(st.sampled_from((1.0, 5.0, 15.0, 40.0))), room(stage))
            continue
        event(f"{order} {what}")
        stage.go(chosen, "go" if order == "lost before" and what == "sleep" else order)


def _the_mesh_is_free(world: LeaseWorld) -> None:
    """A run that waits for the duration of a lock takes every lock, whichever run was killed."""
    clients: dict[str, Any] = {host: world.client(host) for host in HOSTS}
    terms = Terms(binding=BINDING, action="last", timeout=int(DURATION + 2 * MARGIN))

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        lock.renew()

    lock = MeshLock(terms, clocks=world.clocks(sleep), show=lambda text: None, renews=False)
    before = world.time
    for _ in range(3):
        states = {host: find_lock(client, BINDING) for host, client in clients.items()}
        if lock.take(clients, states, HOSTS, write=True):
            break
    for host in HOSTS:
        lock.allow(host)
    assert world.time - before <= DURATION + 2 * MARGIN
    assert {server.holder for server in world.servers.values()} == {lock.holder}
