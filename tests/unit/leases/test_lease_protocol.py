# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Controllers that assign ids at the same time, in every order of their reads and writes that can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.decide import decide, reserved_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import with_active_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.quorum import (
    Copy,
    CopyRead,
    NotRecorded,
    Recorded,
    Recording,
    Request,
    record,
    recording,
    voters,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    Lease,
    LeaseState,
    Registry,
    parse_registry,
    with_released,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.properties import examples

MEMBERS = tuple(cluster_facts(f"c{n}") for n in (1, 2, 3))
ESTABLISHED = tuple(cluster.host for cluster in MEMBERS)
MESH = mesh_of(*ESTABLISHED).binding.owner


def fresh(host: str) -> ClusterFacts:
    """A cluster that was never meshed."""
    return cluster_facts(host, config={"cluster-name": "default", "cluster-id": "0"})


@dataclass
class Copies:
    """The ConfigMaps of all members, each with a version, as the API server keeps them."""

    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)

    def read(self, host: str) -> Copy | None:
        if host in self.silent:
            raise Unreachable("no answer", cluster=host)
        if host not in self.texts:
            return Copy(registry=Registry(mesh=MESH))
        return Copy(registry=parse_registry(self.texts[host]), text=self.texts[host], version=str(self.versions[host]))

    def write(self, host: str, text: str, version: str) -> bool:
        if host in self.silent:
            raise Unreachable("no answer", cluster=host)
        if version != (str(self.versions[host]) if host in self.texts else ""):
            return False
        self.texts[host] = text
        self.versions[host] = self.versions.get(host, 0) + 1
        self.writes.append(host)
        return True

    def answer(self, request: Request) -> Copy | bool | None:
        try:
            return self.read(request.host) if isinstance(request, CopyRead) else self.write(request.host, request.text, request.version)
        except Unreachable:
            return None


def assigning(*new: str, attempts: int = 20) -> Recording:
    """A controller whose mesh has the three members and these new clusters."""
    facts = {cluster.host: cluster for cluster in (*MEMBERS, *(fresh(host) for host in new))}
    mesh = mesh_of(*facts)

    def choose(known: Registry) -> Registry:
        decisions = decide(mesh, facts, known, requests={}, now=NOW)
        return with_active_leases(known, MEMBERS).with_leases(reserved_leases(decisions, facts, known))

    return recording(MESH, choose, ESTABLISHED, tuple(facts), now=NOW, attempts=attempts)


def play(copies: Copies, controllers: dict[str, Recording], turns: Callable[[list[str]], str]) -> dict[str, Recorded | NotRecorded]:
    """Let the controllers make one request at a time, in the order that ``turns`` says."""
    ends: dict[str, Recorded | NotRecorded] = {}
    pending = {name: next(controller) for name, controller in controllers.items()}
    while pending:
        name = turns(sorted(pending))
        try:
            pending[name] = controllers[name].send(copies.answer(pending[name]))
        except StopIteration as end:
            ends[name] = end.value
            del pending[name]
    return ends


def claimed(end: Recorded | NotRecorded, host: str) -> Lease:
    assert isinstance(end, Recorded), end
    claim = end.registry.claim(host)
    assert claim is not None
    return claim


def test_one_controller_takes_the_lowest_free_id_and_every_member_has_it_on_record() -> None:
    copies = Copies()
    end = record(copies, assigning("n1"), pause=lambda: None)
    assert claimed(end, "n1").id == 4 and claimed(end, "n1").name == "n1"
    assert {host: parse_registry(text).claim("n1") for host, text in copies.texts.items()} == dict.fromkeys(
        (*ESTABLISHED, "n1"), claimed(end, "n1")
    )


def test_running_again_changes_nothing() -> None:
    copies = Copies()
    record(copies, assigning("n1"), pause=lambda: None)
    copies.writes.clear()
    end = record(copies, assigning("n1"), pause=lambda: None)
    assert claimed(end, "n1").id == 4 and copies.writes == []


def test_without_a_majority_nothing_is_recorded() -> None:
    copies = Copies(silent={"c1", "c2"})
    end = record(copies, assigning("n1"), pause=lambda: None)
    assert isinstance(end, NotRecorded) and "c1, c2" in end.why and copies.writes == []


def test_a_minority_may_be_silent() -> None:
    copies = Copies(silent={"c2"})
    end = record(copies, assigning("n1"), pause=lambda: None)
    assert claimed(end, "n1").id == 4 and isinstance(end, Recorded) and end.holders == ("c1", "c3")


def test_who_comes_second_reads_again_and_takes_the_next_id() -> None:
    copies = Copies()
    controllers = {"one": assigning("n1"), "two": assigning("n2")}
    # Both read everything before either writes.
    order = iter(["one"] * 4 + ["two"] * 4)
    ends = play(copies, controllers, lambda pending: next((name for name in order if name in pending), pending[0]))
    assert sorted((claimed(ends["one"], "n1").id, claimed(ends["two"], "n2").id)) == [4, 5]


def test_leases_that_are_active_say_who_votes() -> None:
    registry = Registry(mesh=MESH, leases=tuple(Lease(host=h, name=h, id=n) for n, h in enumerate(("c1", "far"), start=1)))
    assert voters(registry, ("c1", "c2"), ("c1", "c2")) == ("c1", "far")
    assert voters(Registry(mesh=MESH), ("c1", "c2"), ("c1", "c2", "n1")) == ("c1", "c2")
    assert voters(Registry(mesh=MESH), (), ("n1", "n2")) == ("n1", "n2")


@examples(150)
@given(data=st.data(), count=st.integers(2, 4), silent=st.sampled_from(("", "c1", "c2", "c3")), seeded=st.booleans())
def test_whatever_the_order_no_id_is_given_twice(data: st.DataObject, count: int, silent: str, seeded: bool) -> None:
    copies = Copies(silent={silent} - {""})
    if seeded:
        text = write_registry(with_active_leases(Registry(mesh=MESH), MEMBERS))
        for host in ESTABLISHED:
            copies.texts[host], copies.versions[host] = text, 1
    controllers = {f"n{n}": assigning(f"n{n}", attempts=50) for n in range(1, count + 1)}
    ends = play(copies, controllers, lambda pending: data.draw(st.sampled_from(pending)))
    held = {host: claimed(end, host).id for host, end in ends.items() if isinstance(end, Recorded)}
    assert len(set(held.values())) == len(held), held
    assert not set(held.values()) & {1, 2, 3}
    assert len(held) == count, "with 50 attempts each, every cluster gets an id"


@examples(60)
@given(data=st.data())
def test_two_controllers_for_the_same_cluster_and_one_for_another_end_with_two_ids_in_use(data: st.DataObject) -> None:
    copies = Copies()
    controllers = {"a": assigning("n1", attempts=50), "b": assigning("n1", attempts=50), "c": assigning("n2", attempts=50)}
    ends = play(copies, controllers, lambda pending: data.draw(st.sampled_from(pending)))
    mine = {claimed(ends[name], "n1").id for name in ("a", "b")}
    assert claimed(ends["c"], "n2").id not in mine


def test_what_ends_is_written_with_the_time_and_can_be_read_again() -> None:
    copies = Copies()
    record(copies, assigning("n1"), pause=lambda: None)
    ending = recording(MESH, lambda known: with_released(known, ["n1"]), ESTABLISHED, ESTABLISHED, now=NOW)
    assert isinstance(record(copies, ending, pause=lambda: None), Recorded)
    for host in ESTABLISHED:
        (ended,) = parse_registry(copies.texts[host]).released(4)
        assert ended.since == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_claim_that_another_controller_holds_too_is_left_and_another_id_taken() -> None:
    """Two claims for one id can stand side by side after a third controller merged copies; then neither counts."""
    since = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    claims = [Lease(host=host, name=host, id=4, uid=f"uid-of-{host}", state=LeaseState.RESERVED, since=since) for host in ("n1", "n2")]
    known = with_active_leases(Registry(mesh=MESH), MEMBERS).with_leases(claims)
    copies = Copies(texts=dict.fromkeys(ESTABLISHED, write_registry(known)), versions=dict.fromkeys(ESTABLISHED, 1))
    first = claimed(record(copies, assigning("n1"), pause=lambda: None), "n1")
    second = claimed(record(copies, assigning("n2"), pause=lambda: None), "n2")
    assert {first.id, second.id} == {5, 6}
    assert replace(first, id=4).key in {lease.key for lease in parse_registry(copies.texts["c1"]).leases}
