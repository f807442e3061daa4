# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A peer whose address flaps, or that shows another server at its new one, restarts the pods of no other cluster again and again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.address_moves import (
    FIRST_HOLD,
    WINDOW,
    held_until,
    read_moves,
    write_moves,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, HostAlias, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import recorded_moves
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApplyHostAliases, Plan, PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.known import known
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples
from tests.testing.rows import one_test
from tests.testing.simulated_apply import SimulatedClusters

OLD = "1.18.11"
ADDRESSES = ("192.0.2.101", "192.0.2.102", "192.0.2.103")
MOST_A_DAY = 6
CERTIFIED = ("*.mesh.cilium.io", "lb-1.example.com", "lb-2.example.com")
SERVICE = ServiceFacts(type="LoadBalancer", cluster_ip="10.96.9.9", port=2379)


def connected(version: str = OLD, *, readers: int = 2, place: str = ADDRESSES[0]) -> tuple[Mesh, SimulatedClusters]:
    """A mesh in which c1 is the peer that moves; readers with and without kvstoremesh."""
    names = [f"c{number}" for number in range(1, readers + 2)]
    facts = {name: cluster_facts(name, version=version, kvstoremesh=name != "c3") for name in names}
    clusters = SimulatedClusters({**facts, "c1": PLACES[place](facts["c1"])}, NOW)
    mesh = mesh_of(*names)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    return mesh, clusters


def at(cluster: ClusterFacts, *addresses: str, names: Sequence[str] = (), certified: Sequence[str] = CERTIFIED) -> ClusterFacts:
    """The cluster with a load balancer at some addresses or names, and with some names in its certificate."""
    certificate = known(cluster.server_cert.certificate)
    return replace(
        cluster,
        service=replace(SERVICE, ingress_ips=addresses, ingress_hostnames=tuple(names)),
        server_cert=replace(cluster.server_cert, certificate=replace(certificate, dns_names=tuple(certified))),
        endpoint_domains=("mesh.example.org",),
    )


def to(place: str) -> Callable[[ClusterFacts], ClusterFacts]:
    return PLACES[place]


def at_address(address: str) -> Callable[[ClusterFacts], ClusterFacts]:
    return lambda cluster: at(cluster, address)


PLACES: dict[str, Callable[[ClusterFacts], ClusterFacts]] = {
    **{address: at_address(address) for address in ADDRESSES},
    "two addresses": lambda cluster: at(cluster, *ADDRESSES[:2]),
    "a name": lambda cluster: at(cluster, names=["lb-1.example.com"]),
    "another name": lambda cluster: at(cluster, names=["lb-2.example.com"]),
    "a certificate of another domain": lambda cluster: at(cluster, ADDRESSES[0], certified=["*.mesh.example.org"]),
}
"""Endpoints between which the owner of a member can turn: each change but that of one name for another one changes pod templates."""


def overridden(address: str) -> Callable[[ClusterFacts], ClusterFacts]:
    return lambda cluster: replace(cluster, endpoint_override=f"{address}:2379")


def plan_of(mesh: Mesh, clusters: SimulatedClusters, now: datetime, *, unproven: bool = False, follow: bool = False) -> Plan:
    policy = LinkPolicy(unproven=frozenset({"c1"} if unproven else ()), follow=follow)
    return plan_links(mesh, clusters.facts(), PlanOptions(), now, policy=policy)


def restarts(plan: Plan) -> list[str]:
    return [step.cluster for step in plan.steps if isinstance(step.action, ApplyHostAliases) and step.disruption]


def template(clusters: SimulatedClusters, host: str) -> set[tuple[str, str]]:
    """(name, address) of each alias in the pod template of the reader."""
    facts = clusters.facts()[host]
    workload = known(facts.apiserver if facts.runs_kvstoremesh else facts.agent)
    return {(name, alias.ip) for alias in workload.host_aliases for name in alias.hostnames if "c1" in name or "lb-" in name}


def template_at(place: str) -> set[tuple[str, str]]:
    """The same where readers connect for the first time with c1 at a place."""
    _mesh, clusters = connected(place=place)
    assert template(clusters, "c2") == template(clusters, "c3")
    return template(clusters, "c2")


TURNS = st.lists(
    st.tuples(st.sampled_from(list(PLACES)), st.integers(1, 300), st.booleans(), st.booleans()), min_size=1, max_size=40
)  # the endpoint of c1, minutes until then, whether it is unproven, whether the run is killed before its last cluster


@examples(60)
@given(TURNS)
def test_however_an_endpoint_flaps_no_readers_pods_restart_more_often_than_six_times_a_day(
    turns: list[tuple[str, int, bool, bool]],
) -> None:
    mesh, clusters = connected()
    now, rolled = NOW, dict[str, list[datetime]]()
    for place, minutes, unproven, killed in turns:
        now += timedelta(minutes=minutes)
        clusters.now = now
        clusters.change("c1", to(place))
        plan = plan_of(mesh, clusters, now, unproven=unproven)
        assert not (unproven and restarts(plan)), "an endpoint that is not proven restarts nothing"
        before = {host: template(clusters, host) for host in ("c2", "c3")}
        clusters.run(plan, only=["c1", "c2"] if killed else None)
        for host in ("c2", "c3"):
            if template(clusters, host) != before[host]:
                assert host in restarts(plan), "the plan says that pods restart"
                rolled.setdefault(host, []).append(now)
        if not killed:
            assert plan_of(mesh, clusters, now, unproven=unproven).empty, "nothing is left to write"
    for times in rolled.values():
        for first in times:
            assert len([time for time in times if first <= time < first + WINDOW]) <= MOST_A_DAY + 1
            assert len([time for time in times if first <= time < first + FIRST_HOLD]) == 1


@examples(30)
@given(TURNS)
def test_an_endpoint_that_stays_and_is_proven_is_followed_within_a_day(turns: list[tuple[str, int, bool, bool]]) -> None:
    mesh, clusters = connected()
    now = NOW
    for place, minutes, unproven, _killed in turns:
        now += timedelta(minutes=minutes)
        clusters.now = now
        clusters.change("c1", to(place))
        clusters.run(plan_of(mesh, clusters, now, unproven=unproven))
    clusters.now = now = now + WINDOW
    clusters.run(plan_of(mesh, clusters, now))
    assert {host: template(clusters, host) for host in ("c2", "c3")} == dict.fromkeys(("c2", "c3"), template_at(turns[-1][0]))


def test_a_first_move_is_followed_at_once_and_a_second_one_after_half_an_hour() -> None:
    mesh, clusters = connected()
    clusters.change("c1", lambda cluster: at(cluster, ADDRESSES[1]))
    plan = plan_of(mesh, clusters, NOW)
    assert restarts(plan) == ["c2", "c3"]
    clusters.run(plan)
    clusters.change("c1", lambda cluster: at(cluster, ADDRESSES[2]))
    soon = NOW + FIRST_HOLD - timedelta(seconds=1)
    assert plan_of(mesh, clusters, soon).empty
    endpoint = decide_links(mesh, clusters.facts(), LinkPolicy(), soon).dialled["c2"]["c1"]
    assert isinstance(endpoint, MeshEndpoint) and endpoint.held is not None
    assert (endpoint.ips, endpoint.held.addresses, endpoint.held.until) == ((ADDRESSES[1],), (ADDRESSES[2],), NOW + FIRST_HOLD)
    assert restarts(plan_of(mesh, clusters, soon, follow=True)) == ["c2", "c3"], "who accepts the finding does not wait"
    assert restarts(plan_of(mesh, clusters, NOW + FIRST_HOLD)) == ["c2", "c3"]


def test_the_users_own_word_is_written_at_once() -> None:
    mesh, clusters = connected()
    for address in ADDRESSES[1:]:
        clusters.change("c1", overridden(address))
        plan = plan_of(mesh, clusters, NOW, unproven=True)
        assert restarts(plan) == ["c2", "c3"]
        clusters.run(plan)


def test_what_restarts_nothing_is_written_at_once() -> None:
    mesh, clusters = connected("1.20.0")
    for address in (*ADDRESSES[1:], *ADDRESSES):
        clusters.change("c1", to(address))
        plan = plan_of(mesh, clusters, NOW, unproven=True)
        assert not plan.empty and restarts(plan) == []
        clusters.run(plan)


def test_other_peers_are_written_while_one_is_held_back() -> None:
    mesh, clusters = connected()
    clusters.change("c1", lambda cluster: at(cluster, ADDRESSES[1]))
    plan = plan_of(mesh, clusters, NOW, unproven=True)
    assert plan.empty
    larger, facts = mesh_of("c1", "c2", "c3", "c4"), {**clusters.facts(), "c4": cluster_facts("c4", version=OLD)}
    steps = plan_links(larger, facts, PlanOptions(), NOW, policy=LinkPolicy(unproven=frozenset({"c1"}))).steps
    written = {step.cluster: step.action for step in steps}
    assert {"c2", "c3", "c4"} <= written.keys()
    new = next(action for host, action in ((s.cluster, s.action) for s in steps) if host == "c4" and isinstance(action, ApplyHostAliases))
    assert ADDRESSES[1] in new.aliases, "a reader that dials the peer for the first time has nothing to keep"


def test_the_record_goes_with_the_last_address() -> None:
    mesh, clusters = connected()
    clusters.change("c1", lambda cluster: at(cluster, ADDRESSES[1]))
    clusters.run(plan_of(mesh, clusters, NOW))
    assert recorded_moves(mesh.binding, known(clusters.facts()["c2"].apiserver)) == {"c1": (NOW,)}
    smaller = mesh_of("c2", "c3")
    clusters.run(plan_links(smaller, clusters.facts(), PlanOptions(), NOW))
    assert recorded_moves(smaller.binding, known(clusters.facts()["c2"].apiserver)) == {}


@one_test("hours held", ((), 0.0), ((0.0,), 0.5), ((-1.0, 0.0), 1.0), ((-9.0, -5.0, 0.0), 2.0), ((-30.0, 0.0), 0.5), ((48.0,), 0.0))
def test_the_hold_down_doubles_with_each_move_of_a_day(hours: tuple[float, ...], held: float) -> None:
    until = held_until(tuple(NOW + timedelta(hours=hour) for hour in hours), NOW)
    assert (until - NOW if until else timedelta()) == timedelta(hours=held)


MOMENTS = st.integers(-90_000, 400).map(lambda seconds: (NOW + timedelta(seconds=seconds)).isoformat())


@given(st.lists(MOMENTS, min_size=1, max_size=12), st.lists(st.none() | st.integers() | st.text(max_size=20), max_size=3))
def test_whatever_the_annotation_holds_it_holds_nothing_for_longer_than_a_day(moments: list[str], junk: list[Any]) -> None:
    found = read_moves(json.dumps({"c1": [*junk, *moments], "c2": junk, "c3": moments[0]}))
    assert found.keys() == {"c1"} and set(map(datetime.fromisoformat, moments[-8:])) >= set(found["c1"])
    for times in found.values():
        assert len(times) == min(len(moments), 8) and all(time.tzinfo is not None for time in times)
        until = held_until(times, NOW)
        assert until is None or NOW < until <= NOW + WINDOW


@given(st.text(max_size=300))
def test_a_text_that_is_no_record_holds_nothing(text: str) -> None:
    assert read_moves(text) == {}


def test_a_record_is_read_as_it_was_written() -> None:
    assert read_moves(write_moves({"c1": ("2026-11-01T12:00:00Z",)})) == {"c1": (datetime.fromisoformat("2026-11-01T12:00:00+00:00"),)}
    assert write_moves({}) == write_moves({"c1": ()}) == ""


# What counts as in use


def dialling(host: str, peer: str, *ips: str) -> dict[str, ClusterFacts]:
    facts = cluster_facts(host, version=OLD)
    manager = mesh_of("c1", "c2").binding.manager
    aliases = tuple(HostAlias(ip=ip, hostnames=(f"{peer}.mesh.cilium.io",), managers=(manager,)) for ip in ips)
    return {host: replace(facts, apiserver=replace(known(facts.apiserver), host_aliases=aliases))}


def test_one_members_entries_do_not_decide_where_the_others_dial() -> None:
    """The name of c1's load balancer does not resolve, so that the addresses in use stay."""
    facts: dict[str, ClusterFacts] = {"c1": cluster_facts("c1", version=OLD)}
    facts["c1"] = replace(facts["c1"], service=replace(SERVICE, ingress_hostnames=("lb.example.com",)))
    facts |= dialling("c2", "c1", ADDRESSES[0]) | dialling("c3", "c1", ADDRESSES[0], "2001:db8::1") | dialling("c4", "c1", "198.51.100.66")
    endpoint = decide_links(mesh_of(*facts), facts, LinkPolicy(), NOW).endpoints["c1"]
    assert isinstance(endpoint, MeshEndpoint) and endpoint.ips == (ADDRESSES[0], "2001:db8::1")
