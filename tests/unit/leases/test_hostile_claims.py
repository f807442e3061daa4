# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Claims in one member's copy keep no cluster from an id: neither those of clusters that are in no mesh, nor those of any time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.decide import decide, reserved_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.claims import (
    CLAIM_LASTS,
    NEWCOMERS,
    SKEW,
    is_timely,
    with_renewed_claims,
    without_ended_claims,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import with_active_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.quorum import Copy, Recorded, Recording, record, recording
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    MAX_SERIAL,
    Lease,
    LeaseState,
    Registry,
    merge,
    parse_registry,
    with_time,
    write_registry,
)
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.properties import examples
from tests.testing.rows import alike
from tests.unit.leases.test_lease_protocol import MESH, Copies, claimed, fresh, play

NEW = ("n1", "n2")
FREE = (7, 200)
"""Ids that are free in a mesh whose other ids all belong to dead clusters."""


def at(hours: float) -> str:
    return (NOW + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def claim(host: str, id: int, *, name: str = "", since: str = at(0), serial: int = 1) -> Lease:
    return Lease(host=host, name=name or host, id=id, uid=f"uid-of-{host}", state=LeaseState.RESERVED, since=since, serial=serial)


def assigning(established: int, new: Collection[str] = NEW, attempts: int = 20) -> Recording:
    """A controller whose mesh has c1, c2, … and these new clusters."""
    members = [cluster_facts(f"c{n}") for n in range(1, established + 1)]
    facts = {cluster.host: cluster for cluster in (*members, *map(fresh, new))}
    mesh = mesh_of(*facts)

    def choose(known: Registry) -> Registry:
        decisions = decide(mesh, facts, known, requests={}, now=NOW)
        return with_active_leases(known, members).with_leases(reserved_leases(decisions, facts, known))

    return recording(MESH, choose, [cluster.host for cluster in members], tuple(facts), now=NOW, attempts=attempts)


def sound(established: int, free: Collection[int] = FREE) -> Registry:
    """What honest members keep: their own leases, and all ids but the free ones are those of dead clusters."""
    known = with_active_leases(Registry(mesh=MESH), [cluster_facts(f"c{n}") for n in range(1, established + 1)])
    taken = {*range(1, established + 1), *free}
    dead = [Lease(host=f"d{id}", name=f"d{id}", id=id, state=LeaseState.DEAD, since=at(-99)) for id in range(1, 256) if id not in taken]
    return known.with_leases(dead)


def kept(registries: dict[str, Registry], silent: Collection[str] = ()) -> Copies:
    texts = {host: write_registry(registry) for host, registry in registries.items()}
    return Copies(texts=texts, versions=dict.fromkeys(texts, 1), silent=set(silent))


HOSTS = st.sampled_from(["c1", "c2", "c3", *NEW, "ghost", *(f"g{n}" for n in range(40))])
LEASES = st.builds(
    Lease,
    host=HOSTS,
    name=HOSTS,
    id=st.sampled_from([*FREE, 1, 2, 3, 9]),
    uid=st.sampled_from(["", "uid-of-n1", "another"]),
    state=st.sampled_from([LeaseState.RESERVED, *LeaseState]),
    since=st.sampled_from(["", at(0), at(-1), at(-99), at(SKEW.seconds / 3600), at(9), "2999-01-01T00:00:00Z", "9999-99-99T99:99:99Z"]),
    serial=st.sampled_from([1, 2, 7, MAX_SERIAL]),
)
OTHERS_IN_PLENTY = tuple(claim(f"ghost{id}", id, serial=MAX_SERIAL) for id in range(1, 256))


@examples(60)
@given(
    leases=st.lists(LEASES, max_size=20), ghosts=st.booleans(), established=st.integers(3, 5), bad=st.integers(1, 5), keeps=st.booleans()
)
def test_whatever_one_copy_holds_every_cluster_gets_an_id_while_one_is_free(
    leases: list[Lease], ghosts: bool, established: int, bad: int, keeps: bool
) -> None:
    good, hostile = sound(established), f"c{min(bad, established)}"
    more = Registry(mesh=MESH, leases=tuple(leases) + (OTHERS_IN_PLENTY if ghosts else ()))
    forged = merge([*([good] if keeps else []), Registry(mesh=MESH), *(Registry(mesh=MESH, leases=(one,)) for one in more.leases)])
    copies = kept({f"c{n}": forged if f"c{n}" == hostile else good for n in range(1, established + 1)})
    end = record(copies, assigning(established), pause=lambda: None)
    assert {claimed(end, host).id for host in NEW} == set(FREE)
    for host in {*copies.texts} - {hostile}:
        made = {lease.key for lease in parse_registry(copies.texts[host]).leases} - {lease.key for lease in good.leases}
        assert made == {claimed(end, new).key for new in NEW}, "what one copy claims reaches no other"
    copies.writes.clear()
    assert isinstance(record(copies, assigning(established), pause=lambda: None), Recorded) and copies.writes == []


def test_a_member_that_claims_every_id_for_clusters_of_no_mesh_keeps_no_cluster_from_one() -> None:
    good = sound(3, free=range(4, 256))
    copies = kept({"c1": good, "c2": good, "c3": good.with_leases(OTHERS_IN_PLENTY)})
    end = record(copies, assigning(3), pause=lambda: None)
    assert [claimed(end, host).id for host in NEW] == [4, 5]


def test_while_voters_are_silent_one_copy_claims_a_few_ids_at_most() -> None:
    """With two of five voters silent, a claim of the third can be one that a majority holds."""
    good = sound(5, free=range(6, 256))
    others = {f"c{n}": good for n in (1, 2, 3, 4)}
    copies = kept({**others, "c5": good.with_leases(OTHERS_IN_PLENTY)}, silent=["c1", "c2"])
    end = record(copies, assigning(5), pause=lambda: None)
    assert [claimed(end, host).id for host in NEW] == [6 + NEWCOMERS, 7 + NEWCOMERS]
    assert not any(lease.host.startswith("ghost") for lease in parse_registry(copies.texts["c3"]).leases)


def test_a_claim_that_a_majority_may_hold_is_honoured_although_only_one_of_its_holders_answers() -> None:
    good, other = sound(5), claim("n9", 7)
    texts = {f"c{n}": good.with_leases([other]) if n <= 3 else good for n in range(1, 6)}
    end = record(kept(texts, silent=["c1", "c2"]), assigning(5, ["n1"]), pause=lambda: None)
    assert claimed(end, "n1").id == 200


def test_a_member_that_changes_its_copy_without_end_does_not_keep_the_others_from_an_id() -> None:
    class Restless(Copies):
        def read(self, host: str) -> Copy | None:
            answer = super().read(host)
            self.versions["c1"] += 1
            return answer

    good = sound(3)
    copies = Restless(**vars(kept({f"c{n}": good for n in (1, 2, 3)})))
    end = record(copies, assigning(3), pause=lambda: None)
    assert {claimed(end, host).id for host in NEW} == set(FREE)
    assert isinstance(end, Recorded) and end.holders == ("c2", "c3")


@examples(40)
@given(data=st.data(), leases=st.lists(LEASES, max_size=8), silent=st.sampled_from(["", "c2", "c3", "c4", "c5"]), hostile=st.booleans())
def test_whatever_one_copy_holds_no_two_controllers_give_the_same_id(
    data: st.DataObject, leases: list[Lease], silent: str, hostile: bool
) -> None:
    good = sound(5, free=range(6, 20))
    bad = merge([good, *(Registry(mesh=MESH, leases=(one,)) for one in leases)]) if hostile else good
    copies = kept({f"c{n}": bad if n == 1 else good for n in range(1, 6)}, silent={silent} - {""})
    controllers = {host: assigning(5, [host], attempts=60) for host in ("n1", "n2", "n3")}
    flaky = data.draw(st.sets(st.sampled_from(["c3", "c4"]), max_size=1))

    def turn(pending: list[str]) -> str:
        copies.silent = ({silent} - {""}) | (flaky if data.draw(st.booleans()) and not silent else set())
        return data.draw(st.sampled_from(pending))

    ends = play(copies, controllers, turn)
    held = {host: claimed(end, host).id for host, end in ends.items() if isinstance(end, Recorded)}
    assert len(set(held.values())) == len(held) == 3 and set(held.values()) <= set(range(6, 20))


@pytest.mark.parametrize(
    ("since", "timely"),
    [
        *alike(True, at(0), at(-23), at(0.5)),
        *alike(False, at(-CLAIM_LASTS.total_seconds() / 3600 - 1), at(2), "", "2999-01-01T00:00:00Z", "9999-99-99T99:99:99Z"),
    ],
)
def test_a_claim_of_a_cluster_that_is_no_member_ends_and_one_of_an_impossible_time_never_began(since: str, timely: bool) -> None:
    stranger, member, lease = claim("g1", 4, since=since), claim("n1", 5, since=since), replace(claim("c1", 1), state=LeaseState.ACTIVE)
    assert is_timely(stranger, NOW) is timely
    registry = Registry(mesh=MESH, leases=(lease, stranger, member))
    assert without_ended_claims(registry, ["c1", "n1"], NOW).leases == ((lease, stranger, member) if timely else (lease, member))
    renewed = with_time(with_renewed_claims(registry, ["n1"], NOW), NOW)
    assert renewed.claim("g1") == stranger and is_timely(renewed.claim("n1") or stranger, NOW)
    assert (renewed.claim("n1") == member) is timely


def test_the_name_of_a_new_cluster_is_not_the_choice_of_another_member() -> None:
    facts = {host: fresh(host) if host == "n1" else cluster_facts(host) for host in ("c1", "n1")}
    for name in ("production", "../x", "default", "x" * 200):
        known = Registry(mesh=MESH, leases=(claim("n1", 9, name=name),))
        (made,) = [one for one in decide(mesh_of(*facts), facts, known, requests={}, now=NOW) if one.host == "n1"]
        assert (made.name, made.id) == ("n1", 2)
