# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every link of a mesh is decided once: every caller gets the same endpoint and the same trust, of every pair and of no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import (
    EndpointProblem,
    InUse,
    MeshEndpoint,
    endpoint_of,
    refused_values,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.in_use import endpoints_in_use
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.ip_families import dialable_families, limit_to_families
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.member_names import alias_names, names_in_use
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.names import MemberNames
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import LinkDecisions, decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.link_trust import TrustSide, trust_between
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

OLD: Final = "1.18.11"
BALANCER: Final = ServiceFacts(type="LoadBalancer", cluster_ip="10.96.9.9", node_port=31000)
RESOLVED: Final = {"lb.example.com": ("192.0.2.9", "127.0.0.1")}
TOPOLOGIES: Final = (
    Topology(),
    Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c1",)),
    Topology(mode=Mode.PAIRS, pairs=(("c1", "c2"), ("c2", "c3"))),
)


def certified(cluster: ClusterFacts, *names: str) -> ClusterFacts:
    secret = cluster.server_cert
    return replace(
        cluster,
        server_cert=replace(secret, certificate=secret.certificate and replace(secret.certificate, dns_names=names)),
        endpoint_domains=("example.com",),
    )


def behind(**fields: Any) -> Callable[[ClusterFacts], ClusterFacts]:
    return lambda cluster: replace(cluster, service=replace(BALANCER, **fields))


PLACES: Final[Mapping[str, Callable[[ClusterFacts], ClusterFacts]]] = {
    "as it is": lambda cluster: cluster,
    "an address": behind(ingress_ips=("192.0.2.101",)),
    "two families, and one that is refused": behind(ingress_ips=("192.0.2.102", "2001:db8::1", "127.0.0.1")),
    "a name": behind(ingress_hostnames=("lb.example.com",)),
    "the name of another member": behind(ingress_hostnames=("c2.mesh.cilium.io",)),
    "nothing yet": lambda cluster: replace(behind()(cluster), elb_id="41fae315-2964-49c4-afde-bc6d358cd031"),
    "nodes": behind(type="NodePort"),
    "other nodes": lambda cluster: replace(
        behind(type="NodePort")(cluster), nodes=(NodeFacts(name="n", ready=True, internal_ips=("172.16.77.1",)),)
    ),
    "a ClusterIP": behind(type="ClusterIP"),
    "an address by the user's word": lambda cluster: replace(cluster, endpoint_override="192.0.2.50:2379"),
    "a name by the user's word": lambda cluster: replace(cluster, endpoint_override="lb.example.com"),
    "another domain": lambda cluster: certified(cluster, "*.example.com"),
    "a name that is certified": lambda cluster: certified(behind(ingress_hostnames=("lb.example.com",))(cluster), "lb.example.com"),
}

placed: Final = st.sampled_from(sorted(PLACES))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Mesh, dict[str, ClusterFacts], LinkPolicy]:
    """A mesh that was connected, or not, some of whose members have moved since; of which one may be silent, and a cluster outside it."""
    hosts = [f"c{number}" for number in range(1, draw(st.integers(2, 4)) + 1)]
    mesh = mesh_of(*hosts, topology=draw(st.sampled_from(TOPOLOGIES)))
    facts = {
        host: cluster_facts(
            host,
            version=draw(st.sampled_from((OLD, "1.20.0"))),
            kvstoremesh=draw(st.booleans()),
            ca=draw(st.sampled_from(("", "shared"))),
            config=draw(st.sampled_from(({}, {"enable-ipv6": "true"}))),
        )
        for host in hosts
    }
    clusters = SimulatedClusters({host: PLACES[draw(placed)](cluster) for host, cluster in facts.items()}, NOW)
    if draw(st.booleans()):
        clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    for host in draw(st.sets(st.sampled_from(hosts))):
        clusters.change(host, PLACES[draw(placed)])
    silent = draw(st.sampled_from(("", *hosts)))
    known = {host: cluster for host, cluster in clusters.facts().items() if host != silent}
    if draw(st.booleans()):
        known["stranger"] = replace(PLACES[draw(placed)](cluster_facts("c9")), host="stranger")
    policy = LinkPolicy(
        trust=draw(st.sampled_from(("auto", "same_ca", "minted", "copied"))),
        node_addresses=draw(st.sampled_from(("InternalIP", "ExternalIP"))),
        follow=draw(st.booleans()),
        resolved=draw(st.sampled_from(({}, RESOLVED))),
        unproven=draw(st.frozensets(st.sampled_from(hosts))),
    )
    return mesh, known, policy


@given(worlds())
def test_every_ordered_pair_that_answers_is_decided_and_no_other(world: tuple[Mesh, dict[str, ClusterFacts], LinkPolicy]) -> None:
    mesh, facts, policy = world
    made = decide_links(mesh, facts, policy, NOW)
    links = [(local, peer) for local, peer in mesh.links if local in facts and peer in facts]
    assert [(local, peer) for local, peers in made.trust.items() for peer in peers] == links
    for local, peer in links:
        sides = [TrustSide(facts[host], NOW, mesh.binding.manager) for host in (local, peer)]
        assert made.trust[local][peer] == trust_between(sides[0], sides[1], policy.trust)
        endpoint, reached = made.dialled[local][peer], made.endpoints[peer]
        if isinstance(reached, EndpointProblem):
            assert endpoint is reached
            continue
        assert isinstance(endpoint, MeshEndpoint)
        new = limit_to_families(reached, dialable_families(facts[local]))
        if endpoint.held is None:
            assert endpoint == new
        else:
            move = made.moves[local][peer]
            assert not policy.follow and move.new == new and replace(endpoint, held=None) == move.used != new


@given(worlds())
def test_what_is_in_use_is_read_wherever_an_endpoint_depends_on_it(world: tuple[Mesh, dict[str, ClusterFacts], LinkPolicy]) -> None:
    mesh, facts, policy = world
    made, members = decide_links(mesh, facts, policy, NOW), mesh.members_in(facts)
    names = MemberNames(aliases=alias_names(members), in_use=names_in_use(members))
    in_use = endpoints_in_use(members.values(), mesh.binding.manager)
    assert made.endpoints == {host: endpoint_of(c, policy, names, in_use.get(c.name, InUse())) for host, c in facts.items()}
    assert made.refused == {host: refused_values(c, policy, names) for host, c in facts.items()}


@given(worlds())
def test_what_is_learnt_later_decides_as_if_it_had_been_known(world: tuple[Mesh, dict[str, ClusterFacts], LinkPolicy]) -> None:
    mesh, facts, policy = world
    made = decide_links(mesh, facts, policy, NOW)
    assert decide_links(mesh, facts, replace(policy, unproven=frozenset()), NOW).with_unproven(policy.unproven) == made
    some = dict(list(facts.items())[1:])
    assert decide_links(mesh, some, policy, NOW).with_facts(facts) == made
    assert made.with_facts(some) == decide_links(mesh, some, policy, NOW)


def moved_mesh() -> tuple[Mesh, dict[str, ClusterFacts]]:
    """Four members that were connected; c1 has another address since."""
    hosts = ("c1", "c2", "c3", "c4")
    mesh = mesh_of(*hosts)
    clusters = SimulatedClusters({host: cluster_facts(host, version=OLD if host == "c2" else "1.20.0") for host in hosts}, NOW)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    clusters.change("c1", PLACES["an address"])
    return mesh, dict(clusters.facts())


def test_only_a_reader_that_a_move_restarts_has_to_wait_for_the_proof() -> None:
    mesh, facts = moved_mesh()
    made = decide_links(mesh, facts, LinkPolicy(), NOW + timedelta(days=2))
    assert {local: set(peers) for local, peers in made.moves.items()} == {"c2": {"c1"}}
    assert made.moved["c1"].new == made.endpoints["c1"] == made.dialled["c2"]["c1"]
    held = made.with_unproven(frozenset({"c1"}))
    assert held.endpoints == made.endpoints and held.trust is made.trust
    endpoint = held.dialled["c2"]["c1"]
    assert isinstance(endpoint, MeshEndpoint) and endpoint.held is not None and endpoint.ips == made.moved["c1"].used.ips
    assert held.dialled["c3"]["c1"] == made.endpoints["c1"]


def test_readers_of_equal_families_share_what_they_dial() -> None:
    """In a mesh of 255 clusters there are 65,000 ordered pairs."""
    made = decide_links(*moved_mesh(), LinkPolicy(), NOW)
    assert made.dialled["c1"] is made.dialled["c3"] is made.dialled["c4"]


def test_decisions_cannot_be_changed() -> None:
    made: Any = decide_links(*moved_mesh(), LinkPolicy(), NOW)
    assert isinstance(made, LinkDecisions)
    for name in ("policy", "endpoints", "trust"):
        with pytest.raises(FrozenInstanceError):
            setattr(made, name, None)
