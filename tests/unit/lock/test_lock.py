# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lock of a mesh: who holds it, who is refused or waits, when it ends, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, LockHeld, LockLost, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.holder import holder_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.lock import MeshLock, Terms
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.member import find_lock
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock.state import HOLDER_LIMIT, MARGIN, lock_state
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from tests.testing.lease_world import LeaseWorld, failing

BINDING = Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2", "c3"))
HOSTS = ("c1", "c2", "c3")


class Side:
    """One run: its connections, its lock, and what it showed."""

    def __init__(
        self,
        world: LeaseWorld,
        action: str = "connect",
        hosts: tuple[str, ...] = HOSTS,
        before: Callable[[str, str], None] = lambda host, verb: None,
        *,
        timeout: int = 0,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.world, self.said = world, list[str]()
        self.clients: dict[str, Any] = {host: world.client(host, before) for host in hosts}
        terms = Terms(binding=BINDING, action=action, timeout=timeout, holder="max@laptop")
        self.lock = MeshLock(terms, clocks=world.clocks(sleep), show=self.said.append, renews=False)
        self.states: dict[str, Any] = {}

    def observe(self) -> Side:
        self.states = {host: find_lock(client, BINDING) for host, client in self.clients.items()}
        return self

    def take(self, *, write: bool = True, stay: tuple[str, ...] = HOSTS, leaving: tuple[str, ...] = ()) -> bool:
        return self.lock.take(self.clients, self.states, stay, write=write, leaving=leaving)

    def start(self) -> Side:
        """Observe until the observation stands."""
        while not self.observe().take():
            pass
        return self

    def requests(self) -> Mapping[str, int]:
        return {
            verb: sum(client.requests[verb] for client in self.clients.values()) for verb in ("list", "watch", "apply", "patch", "delete")
        }


@pytest.fixture
def world() -> LeaseWorld:
    made = LeaseWorld(*HOSTS)
    run = Side(made)  # an earlier run: the mesh has its locks
    run.start()
    run.lock.release()
    return made


def test_the_first_run_of_a_mesh_observes_once_as_later_ones_do() -> None:
    world = LeaseWorld(*HOSTS)
    first = Side(world).observe()
    assert first.take()
    first.lock.release()
    assert first.requests() == {"list": 3, "watch": 3, "apply": 3, "patch": 6, "delete": 0}
    second = Side(world).observe()
    assert second.take()


@pytest.mark.parametrize("stay", [HOSTS, ()], ids=["lock emptied", "lock deleted"])
def test_the_first_run_observes_again_if_another_one_came_and_went_meanwhile(stay: tuple[str, ...]) -> None:
    world = LeaseWorld(*HOSTS)
    first, other = Side(world), Side(world, "disconnect")
    first.observe()
    other.observe()
    assert other.take(stay=stay)
    other.lock.release()
    assert not first.take()
    first.observe()
    assert first.take()


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_role_without_list_or_watch_costs_the_first_run_a_second_observation(verb: str) -> None:
    def before(host: str, asked: str) -> None:
        if asked == verb:
            raise Forbidden(f"RBAC forbids to {verb} leases (403).", remedy="Grant it.", cluster=host)

    first = Side(LeaseWorld(*HOSTS), before=before).observe()
    assert not first.take()
    first.observe()
    assert first.take()


def test_a_run_that_writes_needs_three_requests_in_each_cluster_and_one_that_does_not_needs_one(world: LeaseWorld) -> None:
    writing, idle = Side(world), Side(world)
    writing.start()
    assert writing.lock.release() == dict.fromkeys(HOSTS, 1)
    assert writing.requests() == {"list": 3, "watch": 0, "apply": 0, "patch": 6, "delete": 0}
    idle.observe()
    assert idle.take(write=False)
    assert idle.lock.release() == {} and idle.requests() == {"list": 3, "watch": 0, "apply": 0, "patch": 0, "delete": 0}


def test_who_comes_second_reads_who_is_at_work_and_how_to_break_the_lock(world: LeaseWorld) -> None:
    first, second = Side(world, "disconnect"), Side(world)
    first.start()
    second.observe()
    with pytest.raises(LockHeld) as refused:
        second.take()
    text = str(refused.value)
    assert "disconnect by max@laptop, process" in text and "since 2026-11-01" in text and refused.value.cluster == "c1"
    assert f"kubectl --namespace kube-system delete lease cilium-mesh-{BINDING.owner}" in text
    assert {server.holder for server in world.servers.values()} == {first.lock.holder}, "the refused run took nothing"
    first.lock.allow("c1")


def test_a_run_without_a_step_is_refused_too(world: LeaseWorld) -> None:
    first, second = Side(world), Side(world)
    first.start()
    second.observe()
    with pytest.raises(LockHeld):
        second.take(write=False)


def test_a_run_that_waits_goes_on_when_the_other_has_ended_and_observes_again(world: LeaseWorld) -> None:
    first = Side(world).start()
    until = world.time + 20

    def sleep(seconds: float) -> None:
        world.time += seconds
        first.lock.renew()
        if world.time > until:
            first.lock.release()

    second = Side(world, timeout=60, sleep=sleep).observe()
    assert not second.take() and 20 <= world.time - until + 20 < 25
    assert len(second.said) == 1 and "waiting for another run: connect by max@laptop" in second.said[0]
    second.observe()
    assert second.take()


def test_a_run_that_waits_in_vain_is_refused_when_its_time_is_up(world: LeaseWorld) -> None:
    first = Side(world).start()

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        first.lock.renew()

    second = Side(world, timeout=60, sleep=sleep).observe()
    began = world.time
    with pytest.raises(LockHeld, match="also after 60 s of waiting"):
        second.take()
    assert world.time - began == pytest.approx(60)


@pytest.mark.parametrize("dated", [True, False])
def test_a_run_that_waits_takes_over_from_one_that_was_killed(world: LeaseWorld, dated: bool) -> None:
    for server in world.servers.values():
        server.sends_date = dated
    Side(world).start()  # and never again
    second = Side(world, timeout=300)
    began = world.time
    second.start()
    assert 30 <= world.time - began <= 30 + MARGIN + 3


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {"renewTime": "2199-01-01T00:00:00.000000Z"},
        {"renewTime": "2199-01-01T00:00:00.000000Z", "leaseDurationSeconds": 2**31 - 1},
        {"renewTime": None},
        {"renewTime": "soon", "leaseDurationSeconds": 3600},
        {"renewTime": "9999-12-31T23:59:59.999999Z"},
    ],
)
def test_a_lock_with_an_impossible_time_is_waited_for_once_and_stops_no_run(world: LeaseWorld, change: dict[str, Any], write: bool) -> None:
    Side(world).start()
    for host, server in world.servers.items():
        lease = server.lease
        assert lease is not None
        if host == "c2":
            lease["spec"] |= change
        else:
            del lease["spec"]
    second = Side(world)
    began, turns = world.time, 0
    second.observe()
    while not second.take(write=write):
        second.observe()
        turns += 1
    assert 30 <= world.time - began <= 30 + MARGIN + 3 and turns <= 2
    assert not write or world.servers["c2"].holder == second.lock.holder


@pytest.mark.parametrize("leaver", HOSTS)
@pytest.mark.parametrize("how", ["held", "forbidden"])
def test_the_lock_of_a_member_that_leaves_does_not_stop_its_removal(world: LeaseWorld, leaver: str, how: str) -> None:
    rest = tuple(host for host in HOSTS if host != leaver)

    def before(host: str, verb: str) -> None:
        if how == "forbidden" and host == leaver and verb == "patch":
            raise Forbidden("RBAC forbids to patch leases (403).", remedy="Grant it.", cluster=host)

    if how == "held":
        Side(world, hosts=(leaver,)).start()
    run = Side(world, "disconnect", before=before)
    began = world.time
    run.observe()
    while not run.take(stay=rest, leaving=(leaver,)):
        run.observe()
    assert world.time == began
    for host in rest:
        run.lock.allow(host)
    with pytest.raises((LockLost, Forbidden)) as refused:
        run.lock.allow(leaver)
    assert how != "held" or f"delete lease cilium-mesh-{BINDING.owner}" in refused.value.remedy
    idle = Side(world, hosts=(leaver,)).observe()
    if how == "held":
        with pytest.raises(LockHeld):  # where all leave, it counts
            idle.take(leaving=(leaver,))


def test_a_run_at_work_is_found_where_members_stay(world: LeaseWorld) -> None:
    Side(world).start()
    run = Side(world, "disconnect").observe()
    with pytest.raises(LockHeld) as refused:
        run.take(leaving=("c1",))
    assert refused.value.cluster == "c2"


def test_a_holder_whose_servers_clock_was_set_back_keeps_its_lock(world: LeaseWorld) -> None:
    first = Side(world).start()
    for server in world.servers.values():
        server.ahead = -3600.0

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        if int(world.time) % 10 == 0:
            first.lock.renew()

    second = Side(world, sleep=sleep).observe()
    began = world.time
    with pytest.raises(LockHeld):
        second.take()
    assert world.time - began <= 30 + MARGIN + 3
    first.lock.allow("c1")


def test_a_run_that_comes_after_the_end_of_a_killed_one_does_not_wait(world: LeaseWorld) -> None:
    Side(world).start()
    world.time += 30 + MARGIN + 2
    second = Side(world)
    began = world.time
    second.start()
    assert world.time == began


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 86400.0])
def test_no_clock_of_a_machine_is_compared_with_the_servers(world: LeaseWorld, ahead: float) -> None:
    for server in world.servers.values():
        server.ahead = ahead
    Side(world).start()
    second = Side(world).observe()
    with pytest.raises(LockHeld):
        second.take()
    world.time += 30 + MARGIN + 2
    second = Side(world).start()


def test_the_holder_begins_no_write_in_the_last_third_before_its_lock_ends(world: LeaseWorld) -> None:
    run = Side(world).start()
    world.time += 19
    run.lock.allow("c1")
    world.time += 2
    with pytest.raises(LockLost, match="could not be renewed in time"):
        run.lock.allow("c1")
    run.lock.renew()
    run.lock.allow("c1")


def test_a_cluster_that_is_silent_while_the_lock_is_renewed_gets_no_write_and_the_others_do(world: LeaseWorld) -> None:
    down: set[str] = set()

    def before(host: str, verb: str) -> None:
        if host in down:
            raise Unreachable("It does not answer.", cluster=host)

    run = Side(world, before=before).start()
    down.add("c2")
    world.time += 25
    run.lock.renew()
    run.lock.allow("c1")
    with pytest.raises(LockLost) as lost:
        run.lock.allow("c2")
    assert lost.value.cluster == "c2"


@pytest.mark.parametrize("how", ["broken", "taken"])
def test_a_run_whose_lock_was_broken_or_taken_begins_no_write_anywhere(world: LeaseWorld, how: str) -> None:
    run = Side(world).start()
    world.servers["c2"].objects.clear()
    if how == "taken":
        Side(world, "disconnect", ("c2",)).start()
    run.lock.renew()
    for host in HOSTS:
        with pytest.raises(LockLost) as lost:
            run.lock.allow(host)
        assert lost.value.cluster == host
        assert ("disconnect by" in str(lost.value)) == (how == "taken")
    run.lock.release()
    assert (world.servers["c2"].holder != "") == (how == "taken"), "the lock of the other run stays"


def test_a_run_without_a_step_reports_that_another_one_came_between(world: LeaseWorld) -> None:
    idle = Side(world).observe()
    assert idle.take(write=False)
    idle.lock.settle()
    other = Side(world, "disconnect").start()
    with pytest.raises(LockLost, match="disconnect by"):
        idle.lock.settle()
    other.lock.release()
    with pytest.raises(LockLost):
        idle.lock.settle()


def test_a_lock_that_changed_since_it_was_read_is_taken_and_everything_observed_again(world: LeaseWorld) -> None:
    run = Side(world).observe()
    other = Side(world).start()
    other.lock.release()
    assert not run.take() and {server.holder for server in world.servers.values()} == {run.lock.holder}


def test_a_missing_right_is_named_and_nothing_is_kept(world: LeaseWorld) -> None:
    error = Forbidden('RBAC forbids to patch leases "x" (403).', remedy="Grant patch and create on leases.", cluster="c2")

    def before(host: str, verb: str) -> None:
        if host == "c2" and verb == "patch":
            raise error

    run = Side(world, before=before).observe()
    with pytest.raises(Forbidden, match="patch leases"):
        run.take()
    assert {server.holder for server in world.servers.values()} == {""}


def test_a_cluster_that_cannot_be_locked_gets_no_write_and_the_others_do(world: LeaseWorld) -> None:
    run = Side(world).observe()
    run.clients["c1"] = world.client("c1", failing(Unreachable("It does not answer.", cluster="c1")))
    run.take()
    with pytest.raises(Unreachable):
        run.lock.allow("c1")
    run.lock.allow("c2")
    alone = Side(world, hosts=("c1",), before=failing(Unreachable("It does not answer.", cluster="c1")))
    with pytest.raises(Unreachable):
        alone.lock.take(alone.clients, {}, (), write=True)


class Losing:
    """A connection of a run. The request of one number never arrives, is refused, or its answer is lost."""

    def __init__(self, client: Any, turn: Iterator[int], number: int, how: str) -> None:
        self._client, self._turn, self._number, self._how = client, turn, number, how

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in ("get", "page", "watch", "apply", "merge_patch", "delete"):
            return found

        def ask(*args: Any, **options: Any) -> Any:
            hit = next(self._turn) == self._number
            answer = found(*args, **options) if not hit or self._how == "arrives" else None
            if hit and self._how == "is refused":
                raise Forbidden("RBAC forbids it (403).", remedy="Grant it.", cluster=self._client.host)
            if hit:
                raise Unreachable("It closed the connection before it answered.", cluster=self._client.host)
            return answer

        return ask


@pytest.mark.parametrize("how", ["arrives", "never arrives", "is refused"])
@pytest.mark.parametrize("stay", [HOSTS, ()])
def test_whichever_request_of_a_lock_is_lost_the_next_run_is_not_kept_waiting(how: str, stay: tuple[str, ...]) -> None:
    for number in count(1):
        world, turn = LeaseWorld(*HOSTS), count(1)
        run = Side(world).observe()
        run.clients = {host: Losing(client, turn, number, how) for host, client in run.clients.items()}
        for _ in range(2):  # the second time as after an observation that did not stand
            with suppress(Unreachable, Forbidden):
                run.take(stay=stay)
        run.lock.release()
        assert {server.holder for server in world.servers.values()} == {""}, number
        Side(world, "disconnect").start()
        if next(turn) <= number:
            break
    assert number > 3 * len(HOSTS)


def test_the_lock_is_deleted_where_the_mesh_has_nothing_any_more(world: LeaseWorld) -> None:
    run = Side(world, "disconnect").start()
    for host in ("c1", "c2"):
        run.lock.register(host, stays=False)
    run.lock.release()
    assert [host for host, server in world.servers.items() if server.lease] == ["c3"]


@pytest.mark.parametrize("refusals", [1, 2, 100])
def test_a_lock_that_may_not_be_deleted_is_free_for_the_next_run(world: LeaseWorld, refusals: int) -> None:
    """A refusal may be a moment's. One that stays leaves the lock without a holder, and a later run deletes it."""
    turn = count(1)

    def before(host: str, verb: str) -> None:
        if verb == "delete" and next(turn) <= refusals:
            raise Forbidden('RBAC forbids to delete leases "x" (403).', remedy="Grant delete on leases.", cluster=host)

    run = Side(world, "disconnect", ("c1",), before).observe()
    run.take(stay=())
    run.lock.release()
    assert bool(world.servers["c1"].lease) is (refusals > 1) and not world.servers["c1"].holder
    later = Side(world, "disconnect", ("c1",)).start()
    later.lock.register("c1", stays=False)
    later.lock.release()
    assert world.servers["c1"].lease is None


def test_a_lock_that_a_killed_run_left_where_the_mesh_has_nothing_goes_with_a_run_without_a_step(world: LeaseWorld) -> None:
    Side(world, "disconnect").start()  # and is killed
    world.time += 60
    run = Side(world, "disconnect").observe()
    while not run.take(write=False, stay=("c3",)):
        run.observe()
    run.lock.release()
    assert [host for host, server in world.servers.items() if server.lease] == ["c3"]
    assert [server.holder for server in world.servers.values() if server.lease] == [""]


def test_the_first_in_the_order_of_names_decides_and_only_one_of_two_runs_is_refused(world: LeaseWorld) -> None:
    """The other is stopped by one request more, and never holds a lock behind."""
    first, second = Side(world), Side(world, hosts=("c3", "c2", "c1"))
    second.observe()
    first.start()
    with pytest.raises(LockHeld) as refused:
        second.take()
    assert refused.value.cluster == "c1" and second.requests()["patch"] == 1


def test_two_runs_that_reach_different_members_meet_in_the_common_one(world: LeaseWorld) -> None:
    Side(world, hosts=("c1", "c2")).start()
    other = Side(world, hosts=("c2", "c3")).observe()
    with pytest.raises(LockHeld) as refused:
        other.take()
    assert refused.value.cluster == "c2" and world.servers["c3"].holder == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"holderIdentity": 7, "leaseDurationSeconds": "x", "renewTime": 1},
        {"holderIdentity": "\x1b[31mx\ny", "leaseDurationSeconds": 10**12, "renewTime": "9999-12-31T23:59:59.000000Z"},
        {"holderIdentity": "x" * 100_000, "leaseDurationSeconds": -1, "acquireTime": "yesterday", "leaseTransitions": True},
        "no mapping",
    ],
)
def test_nothing_in_the_object_is_trusted(spec: Any) -> None:
    state = lock_state({"metadata": {"uid": 1, "resourceVersion": "7"}, "spec": spec}, None)
    assert len(state.holder) <= HOLDER_LIMIT and state.holder.isprintable() and 1 <= state.duration <= 3600
    assert not state.expired and state.version == "7"


def test_no_two_runs_have_one_name_and_a_name_is_one_short_line() -> None:
    names = {holder_name("connect", given) for given in ("", "AWX job 7", "x" * 1000, "a\nb") for _ in range(3)}
    assert len(names) == 12 and all(len(name) <= HOLDER_LIMIT and name.isprintable() and ", process " in name for name in names)
    assert holder_name("connect", "AWX job 7").startswith("connect by AWX job 7, process ")
