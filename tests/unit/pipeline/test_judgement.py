# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the runs share: links read side by side, names looked up once, requests counted."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.waivers import Waiver, WaiverKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ReaderFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import Move
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import peers_annotation, write_peers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation, links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.name_resolution import resolve_names
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import judgement
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.links import requests
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2")


def observation(*clusters: ClusterFacts) -> Observation:
    opened: Any = {f.host: SimpleNamespace(requests=Counter({"get secrets": 2, "list nodes": 1}), close=lambda: None) for f in clusters}
    return Observation(facts={f.host: f for f in clusters}, clusters=opened)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Mapping[str, str]]:
    """By cluster: the peers that its readers were asked about."""
    seen: dict[str, Mapping[str, str]] = {}

    def read_links(cluster: Any, facts: ClusterFacts, peers: Mapping[str, str], **_: Any) -> ReaderFacts:
        seen[facts.host] = peers
        return ReaderFacts(cluster=facts.host)

    monkeypatch.setattr(links, "read_links", read_links)
    return seen


def test_readers_are_asked_about_peers_by_the_name_that_cilium_knows(asked: dict[str, Mapping[str, str]]) -> None:
    named = cluster_facts("c2", config={"cluster-name": "berlin"})
    links.read_all(observation(cluster_facts("c1"), named, cluster_facts("c3")), MESH)
    assert asked == {"c1": {"c2": "berlin"}, "c2": {"c1": "c1"}}


def test_a_peer_that_does_not_answer_here_is_still_asked_about_where_it_was_connected(asked: dict[str, Mapping[str, str]]) -> None:
    written = {peers_annotation(MESH.binding): write_peers({"c2": "berlin"})}
    local = cluster_facts("c1", clustermesh=peer_secret("cilium-clustermesh", annotations=written))
    links.read_all(observation(local), MESH)
    assert asked == {"c1": {"c2": "berlin"}}


def test_a_cluster_that_fails_while_it_is_read_is_a_problem_and_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_links(*_: Any, **__: Any) -> ReaderFacts:
        raise Unreachable("no answer", cluster="c1")

    monkeypatch.setattr(links, "read_links", read_links)
    assert links.read_all(observation(cluster_facts("c1")), MESH)["c1"].problems == ("no answer",)


def test_only_names_that_are_dialled_through_an_address_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []

    def getaddrinfo(name: str, *_: Any, **__: Any) -> list[Any]:
        wanted.append(name)
        if name == "gone.example.com":
            raise socket.gaierror
        return [(0, 0, 0, "", ("192.0.2.9", 0)), (0, 0, 0, "", ("192.0.2.8", 0)), (0, 0, 0, "", ("192.0.2.9", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    hostname = ServiceFacts(type="LoadBalancer", ingress_hostnames=("lb.example.com",))
    both = ServiceFacts(type="LoadBalancer", ingress_ips=("192.0.2.3",), ingress_hostnames=("unused.example.com",))
    clusters = [
        cluster_facts("c1"),
        cluster_facts("c2", service=hostname),
        cluster_facts("c3", service=both),
        cluster_facts("c4", endpoint_override="gone.example.com:2379"),
        cluster_facts("c5", endpoint_override="192.0.2.5:2379"),
    ]
    assert resolve_names(clusters) == {"lb.example.com": ("192.0.2.8", "192.0.2.9")}
    assert sorted(wanted) == ["gone.example.com", "lb.example.com"]


def test_the_owner_of_a_cluster_does_not_learn_the_addresses_of_internal_names(monkeypatch: pytest.MonkeyPatch) -> None:
    dns = {"kcp.example.com": ["10.96.0.9"], "mixed.example.com": ["192.0.2.9", "10.96.0.9"], "lb.example.com": ["192.0.2.9"]}
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *_, **__: [(0, 0, 0, name, (ip, 0)) for ip in dns[name]])
    service = ServiceFacts(type="LoadBalancer", ingress_hostnames=("lb.example.com",))
    clusters = [
        cluster_facts("c0", service=service),
        *(cluster_facts(f"c{n}", endpoint_override=f"{name}:2379") for n, name in enumerate(dns, 1)),
    ]
    assert resolve_names(clusters).keys() == dns.keys()
    resolved = resolve_names(replace(cluster, denied_networks=("10.96.0.0/12",)) for cluster in clusters)
    assert resolved == {"lb.example.com": ("192.0.2.9",)}
    allowed = [replace(cluster, denied_networks=("10.96.0.0/12",), endpoint_networks=("10.96.0.9/32",)) for cluster in clusters]
    assert resolve_names(allowed).keys() == dns.keys()


def test_requests_are_counted_by_cluster() -> None:
    assert requests(observation(cluster_facts("c1"), cluster_facts("c2"))) == {"c1": 3, "c2": 3}


def test_accepting_nothing_is_fine_and_accepting_nonsense_is_not() -> None:
    assert judgement.accepted_codes([]) == frozenset()
    with pytest.raises(InvalidInput, match="CM-NONE-01"):
        judgement.accepted_codes(["CM-NONE-01"])


def test_nothing_that_a_binding_chooses_stops_a_disconnect() -> None:
    waiver = Waiver(kind=WaiverKind.ACCEPT, subject="CM-NONE-01", reason="a", until=NOW + timedelta(days=1))
    mesh, found = mesh_of("c1", "c2", waivers=(waiver,)), observation(cluster_facts("c1"), cluster_facts("c2"))
    assert judgement.context_of(real_ports(), found, mesh, ConnectOptions(purpose="disconnect"), NOW).accept == frozenset()
    with pytest.raises(InvalidInput, match="CM-NONE-01"):
        judgement.context_of(real_ports(), found, mesh, ConnectOptions(), NOW)


def test_what_a_run_finds_out_of_names_and_addresses_comes_through_its_ports() -> None:
    """So a test or a dry run decides on other answers, and dials nothing."""
    mesh = mesh_of("c1", "c2", "c3")
    clusters = SimulatedClusters({host: cluster_facts(host, version="1.18.11") for host in mesh.clusters}, NOW)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    clusters.change("c1", lambda cluster: replace(cluster, service=ServiceFacts(type="LoadBalancer", ingress_ips=("192.0.2.99",))))
    clusters.change(
        "c2", lambda cluster: replace(cluster, service=ServiceFacts(type="LoadBalancer", ingress_hostnames=("lb.example.com",)))
    )
    observed = observation(*clusters.facts().values())
    asked: list[set[str]] = []

    def unproven(moved: Mapping[str, Move], *_: Any) -> frozenset[str]:
        asked.append(set(moved))
        return frozenset({"c1"})

    ports = replace(real_ports(), resolve_names=lambda _clusters: {"lb.example.com": ("192.0.2.77",)}, unproven_moves=unproven)
    made = judgement.context_of(ports, observed, mesh, ConnectOptions(), NOW).decisions
    kept, moved = made.dialled["c3"]["c1"], made.dialled["c3"]["c2"]
    assert asked == [{"c1", "c2"}]
    assert isinstance(kept, MeshEndpoint) and kept.held is not None and "192.0.2.99" in kept.held.addresses
    assert isinstance(moved, MeshEndpoint) and moved.held is None and moved.ips == ("192.0.2.77",)
