# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who takes the load when backends get few or a cluster dies, and that nothing swings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import GlobalService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import item_marks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import EndpointFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import Choice
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.failover import decide
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.plan import plan_services
from tests.testing.facts_builders import mesh_of
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import scene, service, slice_facts, traffic
from tests.unit.services.failover_worlds import KEY, item, with_ready, world, written

HOSTS = ("c1", "c2", "c3")


def values_of(choices: Mapping[str, Choice]) -> dict[str, tuple[str | None, bool | None, bool]]:
    """Affinity, shared, failed over."""
    return {host: (choice.affinity, choice.shared, choice.failed_over) for host, choice in choices.items()}


STAYS = ("Local", True, False)
HELPED = ("None", False, True)  # takes from others, gives nothing
POOLED = ("None", True, True)  # no cluster has enough: all share


@pytest.mark.parametrize(
    ("ready", "c1", "c2"),
    [
        ((2, 2), STAYS, STAYS),
        ((1, 2), HELPED, STAYS),
        ((0, 5), HELPED, STAYS),
        ((1, 1), POOLED, POOLED),
        ((0, 0), POOLED, POOLED),
    ],
)
def test_a_cluster_with_too_few_takes_from_the_others_and_gives_nothing_while_they_have_enough(
    ready: tuple[int, int], c1: Any, c2: Any
) -> None:
    assert values_of(decide(item("c1", "c2"), KEY, world(dict(zip(HOSTS, ready, strict=False))))) == {"c1": c1, "c2": c2}


def test_a_cluster_comes_back_only_with_the_hysteresis_more() -> None:
    wanted, steps = item("c1", "c2", least=2, hysteresis=2), (2, 1, 2, 3, 4, 3, 2, 1)
    now, seen = world({"c1": 2, "c2": 9}), []
    for number in steps:
        now = with_ready(now, {"c1": number})
        choices = decide(wanted, KEY, now)
        seen.append(choices["c1"].failed_over)
        now = written(now, wanted, choices)
    assert seen == [False, True, True, True, False, False, False, True]


def test_a_swinging_peer_does_not_make_the_others_swing() -> None:
    wanted = item("c1", "c2", least=2, hysteresis=1)
    now, seen = world({"c1": 1, "c2": 2}), []
    for number in (2, 1, 2, 1, 2):
        now = with_ready(now, {"c2": number})
        choices = decide(wanted, KEY, now)
        seen.append(values_of(choices)["c1"])
        now = written(now, wanted, choices)
    assert seen == [HELPED, POOLED, POOLED, POOLED, POOLED]


@pytest.mark.parametrize("base", ["Local", "Remote", "None"])
def test_clients_are_kept_from_a_dead_cluster_where_they_have_backends_of_their_own(base: str) -> None:
    wanted = item(*HOSTS, affinity=base)
    alive = world({"c1": 3, "c2": 1, "c3": 3})
    assert values_of(decide(wanted, KEY, alive))["c1"] == (base, True, False)
    dead = replace(
        alive,
        dead=frozenset({"c3"}),
        facts={h: alive.facts[h] for h in ("c1", "c2")},
        traffic={h: alive.traffic[h] for h in ("c1", "c2")},
    )
    assert values_of(decide(wanted, KEY, dead)) == {"c1": ("Local", True, False), "c2": ("Local", False, True)}
    assert "c3 cannot be reached" in decide(wanted, KEY, dead)["c1"].reason


def test_one_broken_link_concerns_the_cluster_that_has_it_and_a_peer_without_links_serves_no_cluster() -> None:
    wanted = item(*HOSTS, affinity="None")
    broken = world({"c1": 3, "c2": 0, "c3": 3}, link_errors={("c1", "c3"): "dialling: refused"})
    assert values_of(decide(wanted, KEY, broken)) == {"c1": ("Local", True, False), "c2": HELPED, "c3": ("None", True, False)}
    alone = world({"c1": 0, "c2": 3}, link_errors={("c1", "c2"): "dialling: refused"})
    assert decide(item("c1", "c2"), KEY, alone)["c1"].shared is True, "c2 has enough, but c1 cannot use it: the few of c1 stay offered"


def test_a_dead_cluster_that_never_had_the_service_changes_nothing() -> None:
    observed = world({"c1": 3, "c2": 3})
    bystander = scene(*observed.traffic.values(), traffic("c3"), dead=frozenset({"c3"}))
    assert values_of(decide(item("c1", "c2", affinity="None"), KEY, bystander))["c1"] == ("None", True, False)
    exporting = scene(*observed.traffic.values(), traffic("c3", services=[service(annotations={"io.cilium/global-service": "True"})]))
    exporting = replace(exporting, link_errors={("c1", "c3"): "tls: expired"})
    assert values_of(decide(item("c1", "c2", affinity="None"), KEY, exporting))["c1"] == ("Local", True, False)


def test_a_stub_that_an_item_made_never_had_backends() -> None:
    observed = world({"c1": 3, "c2": 3}, link_errors={("c1", "c2"): "dialling: refused"})
    wanted = item("c1", "c2", affinity="None")
    assert decide(wanted, KEY, observed)["c1"].affinity == "Local"
    own = item_marks(observed.binding, ItemRef(ItemKind.GLOBAL_SERVICE, "nginx"))
    stub = replace(service(), labels=own["labels"], annotations=own["annotations"])
    stubbed = replace(observed, traffic={**observed.traffic, "c2": traffic("c2", services=[stub])})
    assert decide(wanted, KEY, stubbed)["c1"].affinity == "None"
    missing = replace(observed, traffic={**observed.traffic, "c2": traffic("c2")})
    assert decide(wanted, KEY, missing)["c1"].affinity == "None", "making the stub must not change the choice"


def test_a_dead_cluster_concerns_those_that_were_linked_to_it() -> None:
    alive = world({"c1": 3, "c2": 3}, members=("c3",), dead=frozenset({"c3"}))
    spokes = replace(alive, mesh=mesh_of(*HOSTS, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",))))
    found = decide(item(*HOSTS, affinity="None"), KEY, spokes)
    assert {host: choice.affinity for host, choice in found.items()} == {"c1": "Local", "c2": "None"}


def test_few_backends_stay_offered_to_clusters_that_see_no_others() -> None:
    """A hub has too few; its spokes do not see each other, and one of them has none."""
    wanted = item(*HOSTS)
    here = world({"c1": 1, "c2": 5, "c3": 0})
    assert values_of(decide(wanted, KEY, here))["c1"] == HELPED
    spokes = replace(here, mesh=mesh_of(*HOSTS, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",))))
    assert values_of(decide(wanted, KEY, spokes)) == {"c1": POOLED, "c2": STAYS, "c3": HELPED}


def test_endpoints_that_are_not_ready_and_those_of_other_clusters_do_not_count() -> None:
    ending = EndpointFacts(address="10.1.0.99", ready=False, serving=True, pod="nginx-old")
    own = replace(slice_facts(ready=1, unready=3), endpoints=(*slice_facts(ready=1, unready=3).endpoints, ending))
    mirrored = slice_facts(ready=9, managed_by="endpointslice-mesh-controller.cilium.io", source_cluster="c2")
    here = scene(traffic("c1", services=[service()], slices=(own, mirrored)), traffic("c2", services=[service()], slices=(slice_facts(),)))
    assert values_of(decide(item("c1", "c2"), KEY, here)) == {"c1": HELPED, "c2": STAYS}
    assert decide(item("c1", "c2"), KEY, here)["c1"].reason == "1 ready, fewer than 2; others are served by c2"


def test_silent_clusters_are_not_decided_for_and_count_for_nothing() -> None:
    here = world({"c1": 1}, members=("c2",))
    assert values_of(decide(item("c1", "c2"), KEY, here)) == {"c1": POOLED}


def test_without_a_contract_there_is_nothing_to_decide() -> None:
    assert decide(item("c1", "c2", failover=None), KEY, world({"c1": 0, "c2": 1})) == {}


# Laws


@st.composite
def any_case(draw: st.DrawFn) -> tuple[GlobalService, Scene]:
    """Any contract, any numbers, any state that is written down, any links."""
    least, hysteresis = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    targets = draw(st.lists(st.sampled_from(HOSTS), min_size=1, unique=True).map(tuple))
    wanted = item(
        *targets,
        least=least,
        hysteresis=hysteresis,
        affinity=draw(st.sampled_from([None, "Local", "Remote", "None"])),
        create_missing=draw(st.booleans()),
    )
    known = draw(st.lists(st.sampled_from(HOSTS), min_size=1, unique=True))
    marks = {host: draw(st.sampled_from([{}, {"cilium-mesh.edge-portal.eu/failed-over": "true"}])) for host in known}
    links = draw(st.sets(st.sampled_from([(a, b) for a in HOSTS for b in HOSTS if a != b]), max_size=3))
    silent = [host for host in HOSTS if host not in known]
    now = world(
        {host: draw(st.integers(0, 6)) for host in known},
        marks=marks,
        members=silent,
        link_errors=dict.fromkeys(sorted(links), "dialling: refused"),
        dead=frozenset(draw(st.sets(st.sampled_from(HOSTS), max_size=1))),
    )
    missing = draw(st.sets(st.sampled_from(known)))
    return wanted, replace(
        now, traffic={host: replace(facts, services={}) if host in missing else facts for host, facts in now.traffic.items()}
    )


@given(any_case())
def test_deciding_again_after_writing_changes_nothing(case: tuple[GlobalService, Scene]) -> None:
    wanted, now = case
    first = decide(wanted, KEY, now)
    after = written(now, wanted, first)
    assert decide(wanted, KEY, after) == first
    assert written(after, wanted, first) == after


@given(any_case())
def test_planning_again_after_the_writes_gives_no_step(case: tuple[GlobalService, Scene]) -> None:
    """The same for the whole planner, with stubs and records of earlier values."""
    wanted, now = case
    desired = Desired(mesh=now.mesh, items={ItemKind.GLOBAL_SERVICE: (wanted,)}, kinds=frozenset({ItemKind.GLOBAL_SERVICE}))
    steps = [step for plan in plan_services(desired, now) for step in plan.steps]
    after = applied(now, steps, now.binding)
    assert [step for plan in plan_services(desired, after) for step in plan.steps] == []


@given(any_case(), st.data())
def test_between_the_thresholds_nothing_changes(case: tuple[GlobalService, Scene], data: st.DataObject) -> None:
    wanted, now = case
    contract = wanted.failover
    assert contract is not None
    first = decide(wanted, KEY, now)
    after = written(now, wanted, first)
    band = st.integers(contract.min_local_ready, max(contract.min_local_ready, contract.min_local_ready + contract.hysteresis - 1))
    ready = {host: data.draw(band, label=host) for host in first if after.traffic[host].services}
    again = decide(wanted, KEY, with_ready(after, ready))
    if contract.hysteresis:
        assert {host: again[host].failed_over for host in ready} == {host: first[host].failed_over for host in ready}
        assert values_of({host: again[host] for host in ready}) == values_of({host: first[host] for host in ready})


@given(any_case())
def test_the_backends_that_exist_are_always_offered_by_a_cluster(case: tuple[GlobalService, Scene]) -> None:
    drawn, now = case
    wanted = replace(drawn, targets=HOSTS)  # with one target no cluster can withhold anything
    choices = decide(wanted, KEY, now)
    withheld = [host for host, choice in choices.items() if not choice.shared]
    offering = [host for host, choice in choices.items() if choice.shared and not choice.failed_over]
    assert not withheld or offering
    assert all(choices[host].failed_over for host in withheld)


@given(any_case())
def test_a_cluster_with_backends_and_a_dead_peer_prefers_its_own(case: tuple[GlobalService, Scene]) -> None:
    """Each cluster in turn is the dead one, which every cluster may have had as a peer with backends."""
    drawn, now = case
    wanted = replace(drawn, targets=HOSTS)
    for gone in HOSTS:
        left = {host: facts for host, facts in now.traffic.items() if host != gone}
        dying = replace(now, dead=frozenset({gone}), traffic=left, facts={host: now.facts[host] for host in left})
        choices = decide(wanted, KEY, dying)
        assert {host: choice.affinity for host, choice in choices.items()} == dict.fromkeys(left, "Local")
