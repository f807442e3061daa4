# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which address and name the peers of a cluster dial."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import (
    EndpointProblem,
    InUse,
    MeshEndpoint,
    certifies,
    covers,
    endpoint_of,
    split_host_port,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.names import MemberNames
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.node_addresses import choose_node_ips
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts, ServiceFacts
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import one_test

C1 = "c1.mesh.cilium.io"


def _balancer(**overrides: Any) -> ClusterFacts:
    return replace(cluster_facts("c2"), service=ServiceFacts(type="LoadBalancer", cluster_ip="10.96.2.10", **overrides))


def _names(facts: ClusterFacts, *names: str) -> ClusterFacts:
    assert facts.server_cert.certificate is not None
    certificate = replace(facts.server_cert.certificate, dns_names=names)
    return replace(facts, server_cert=replace(facts.server_cert, certificate=certificate))


def _node(name: str, ip: str, *, ready: bool = True) -> NodeFacts:
    return NodeFacts(name=name, ready=ready, internal_ips=(ip,), external_ips=(f"203.0.113.{ip.rpartition('.')[2]}",))


def test_all_addresses_of_a_load_balancer_are_used_in_a_stable_order_with_ipv4_first() -> None:
    facts = _balancer(ingress_ips=("2001:DB8::2", "192.0.2.20", "192.0.2.3"))
    assert endpoint_of(facts) == MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.3", "192.0.2.20", "2001:db8::2"))


def test_a_load_balancer_name_is_kept_when_the_certificate_covers_it() -> None:
    facts = _names(_balancer(ingress_hostnames=("lb.example.com",)), "*.mesh.cilium.io", "lb.example.com")
    assert endpoint_of(facts) == MeshEndpoint(hostname="lb.example.com", port=2379)


def test_a_load_balancer_name_that_the_certificate_lacks_is_dialled_by_its_looked_up_addresses() -> None:
    facts = _balancer(ingress_hostnames=("lb.example.com",))
    assert endpoint_of(facts, LinkPolicy(resolved={"lb.example.com": ("192.0.2.9",)})) == MeshEndpoint(
        hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.9",)
    )


def test_a_load_balancer_name_that_nothing_covers_is_a_problem_that_names_it_and_the_helm_value() -> None:
    problem = endpoint_of(_balancer(ingress_hostnames=("lb.example.com",)))
    assert isinstance(problem, EndpointProblem)
    assert "lb.example.com" in problem.summary and "extraDnsNames" in problem.fix


def test_a_load_balancer_without_address_and_a_missing_service_are_problems() -> None:
    for facts in (_balancer(), replace(cluster_facts("c2"), service=None)):
        assert isinstance(endpoint_of(facts), EndpointProblem)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("198.51.100.7:32379", MeshEndpoint(hostname="c2.mesh.cilium.io", port=32379, ips=("198.51.100.7",))),
        ("198.51.100.7", MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("198.51.100.7",))),
        ("[2001:DB8::7]:2380", MeshEndpoint(hostname="c2.mesh.cilium.io", port=2380, ips=("2001:db8::7",))),
        ("2001:db8::7", MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("2001:db8::7",))),
        ("own.mesh.cilium.io:443", MeshEndpoint(hostname="own.mesh.cilium.io", port=443)),
    ],
)
def test_an_override_wins_over_the_service(override: str, expected: MeshEndpoint) -> None:
    assert endpoint_of(replace(cluster_facts("c2"), endpoint_override=override)) == expected


@one_test("override", "a b:1", "host:0", "host:70000", "host:x", "[::1", "[host]:1", "1.2.3.4.5:1", "fe80::1%eth0", "x\n:1")
def test_an_override_that_is_no_address_is_refused(override: str) -> None:
    problem = endpoint_of(replace(cluster_facts("c2"), endpoint_override=override))
    assert isinstance(problem, EndpointProblem) and override not in problem.summary


def test_an_ipv6_literal_is_bracketed_in_the_url() -> None:
    assert MeshEndpoint(hostname="2001:db8::1", port=2379).url == "https://[2001:db8::1]:2379"


def test_a_wildcard_below_a_listed_domain_gives_the_name_when_the_default_domain_is_missing() -> None:
    facts = replace(_names(_balancer(ingress_ips=("192.0.2.3",)), "*.mesh.example.org"), endpoint_domains=("example.org",))
    found = endpoint_of(facts)
    assert isinstance(found, MeshEndpoint) and found.hostname == "c2.mesh.example.org"


def test_cluster_ip_is_dialled_on_the_service_port() -> None:
    facts = replace(cluster_facts("c2"), service=ServiceFacts(type="ClusterIP", cluster_ip="10.96.2.10", port=2380))
    assert endpoint_of(facts) == MeshEndpoint(hostname="c2.mesh.cilium.io", port=2380, ips=("10.96.2.10",))


def test_a_headless_service_has_no_address() -> None:
    facts = replace(cluster_facts("c2"), service=ServiceFacts(type="ClusterIP", cluster_ip="None"))
    assert isinstance(endpoint_of(facts), EndpointProblem)


def test_a_node_port_is_dialled_on_three_ready_nodes_by_the_kind_of_address_that_the_user_chose() -> None:
    nodes = tuple(_node(f"n{i}", f"172.16.0.{i}", ready=i != 2) for i in range(1, 6))
    facts = replace(cluster_facts("c2", service="NodePort"), nodes=nodes)
    inside, outside = endpoint_of(facts), endpoint_of(facts, LinkPolicy(node_addresses="ExternalIP"))
    assert inside == MeshEndpoint(hostname="c2.mesh.cilium.io", port=32002, ips=("172.16.0.1", "172.16.0.3", "172.16.0.4"))
    assert isinstance(outside, MeshEndpoint) and outside.ips == ("203.0.113.1", "203.0.113.3", "203.0.113.4")


def test_a_node_port_without_ready_nodes_is_a_problem() -> None:
    facts = replace(cluster_facts("c2", service="NodePort"), nodes=(_node("n1", "172.16.0.1", ready=False),))
    assert isinstance(endpoint_of(facts), EndpointProblem)


def test_a_node_that_is_away_for_a_moment_or_a_new_one_does_not_change_the_addresses() -> None:
    used = ("172.16.0.2", "172.16.0.3", "172.16.0.4")
    nodes = [_node("a-new-one", "172.16.0.1"), *(_node(f"n{i}", f"172.16.0.{i}", ready=i != 3) for i in range(2, 6))]
    assert choose_node_ips(nodes, "InternalIP", used) == used


def test_a_node_that_comes_back_is_no_reason_to_write_while_two_are_in_use() -> None:
    nodes = [_node(f"n{i}", f"172.16.0.{i}") for i in range(1, 4)]
    assert choose_node_ips(nodes, "InternalIP", ("172.16.0.1", "172.16.0.3")) == ("172.16.0.1", "172.16.0.3")
    assert len(choose_node_ips(nodes, "InternalIP", ("172.16.0.1",))) == 3


def test_a_node_that_is_gone_is_replaced_and_the_others_stay() -> None:
    nodes = [_node(f"n{i}", f"172.16.0.{i}") for i in (1, 3, 4, 5)]
    assert choose_node_ips(nodes, "InternalIP", ("172.16.0.2", "172.16.0.4", "172.16.0.5")) == ("172.16.0.1", "172.16.0.4", "172.16.0.5")


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=9, unique_by=lambda n: n[0]), st.sets(st.integers(1, 9), max_size=5))
def test_choosing_again_among_the_same_nodes_changes_nothing(seen: list[tuple[int, bool]], used: set[int]) -> None:
    nodes = [_node(f"n{i}", f"172.16.0.{i}", ready=ready) for i, ready in seen]
    chosen = choose_node_ips(nodes, "InternalIP", [f"172.16.0.{i}" for i in used])
    assert len(chosen) <= 3
    assert bool(chosen) == any(ready for _, ready in seen)
    assert choose_node_ips(nodes, "InternalIP", chosen) == chosen


def test_several_answers_are_all_used_and_their_order_means_nothing() -> None:
    facts = _balancer(ingress_hostnames=("a.example.com", "b.example.com"))
    answers = {"a.example.com": ("192.0.2.30", "192.0.2.4"), "b.example.com": ("2001:db8::4", "192.0.2.4")}
    turned = {name: ips[::-1] for name, ips in reversed(answers.items())}
    found = endpoint_of(facts, LinkPolicy(resolved=answers))
    assert found == MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.4", "192.0.2.30", "2001:db8::4"))
    assert endpoint_of(_balancer(ingress_hostnames=("b.example.com", "a.example.com")), LinkPolicy(resolved=turned)) == found


def test_of_several_names_the_one_that_the_certificate_covers_is_dialled() -> None:
    facts = _names(_balancer(ingress_hostnames=("a.example.com", "b.example.com")), "*.mesh.cilium.io", "b.example.com")
    assert endpoint_of(facts, LinkPolicy(resolved={"a.example.com": ("192.0.2.9",)})) == MeshEndpoint(hostname="b.example.com", port=2379)


@pytest.mark.parametrize("override", ["", "lb.example.com:2379"])
def test_a_name_that_is_not_found_any_more_leaves_the_addresses_in_use(override: str) -> None:
    facts = replace(_balancer(ingress_hostnames=("lb.example.com",)), endpoint_override=override)
    found = endpoint_of(facts, in_use=InUse(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.9", "192.0.2.8")))
    assert isinstance(found, MeshEndpoint)
    assert (found.hostname, found.ips) == ("c2.mesh.cilium.io", ("192.0.2.8", "192.0.2.9"))
    assert "lb.example.com" in found.kept
    assert isinstance(endpoint_of(facts, in_use=InUse(hostname="lb.example.com", port=2379)), EndpointProblem)


def test_a_reserved_load_balancer_that_loses_its_address_leaves_what_is_in_use() -> None:
    facts = _names(replace(_balancer(), elb_id="41fae315-2964-49c4-afde-bc6d358cd031"), "*.mesh.cilium.io", "lb.example.com")
    waiting = endpoint_of(facts)
    assert isinstance(waiting, EndpointProblem) and waiting.pending
    kept = endpoint_of(facts, in_use=InUse(hostname="lb.example.com", port=2380))
    assert isinstance(kept, MeshEndpoint) and kept.url == "https://lb.example.com:2380" and kept.kept
    names = MemberNames(aliases={C1: frozenset({"c1"})})
    for hostname in ("c2.mesh.cilium.io", C1, "kubernetes.default.svc", "api.example.com", "127.0.0.1"):
        found = endpoint_of(facts, in_use=InUse(hostname=hostname, port=2379), names=names)
        assert isinstance(found, EndpointProblem), hostname
    unnamed = endpoint_of(_balancer(), in_use=InUse(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.9",)))
    assert isinstance(unnamed, EndpointProblem) and not unnamed.pending


def test_an_address_that_only_the_certificate_names_is_dialled_as_it_is() -> None:
    facts = _balancer(ingress_ips=("192.0.2.3", "2001:db8::3"))
    assert facts.server_cert.certificate is not None
    certificate = replace(facts.server_cert.certificate, dns_names=("mesh.example.com",), ip_addresses=("2001:DB8:0::3",))
    found = endpoint_of(replace(facts, server_cert=replace(facts.server_cert, certificate=certificate)))
    assert found == MeshEndpoint(hostname="2001:db8::3", port=2379)
    assert found.url == "https://[2001:db8::3]:2379"
    assert certifies(certificate, "2001:db8::3") and not certifies(certificate, "192.0.2.3") and certifies(certificate, "mesh.example.com")


def test_a_cluster_ip_of_both_families_gives_both() -> None:
    service = ServiceFacts(type="ClusterIP", cluster_ip="10.96.2.10", cluster_ips=("10.96.2.10", "fd00::2:10"))
    found = endpoint_of(replace(cluster_facts("c2"), service=service))
    assert isinstance(found, MeshEndpoint) and found.ips == ("10.96.2.10", "fd00::2:10")


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        (("IPv4", "IPv6"), ("172.16.0.1", "172.16.0.2", "fd00::1")),
        (("IPv6",), ("fd00::1",)),
        (("IPv4",), ("172.16.0.1", "172.16.0.2")),
        ((), ("172.16.0.1", "172.16.0.2")),
    ],
)
def test_a_node_port_is_dialled_in_the_families_of_its_service(families: tuple[str, ...], expected: tuple[str, ...]) -> None:
    nodes = (
        NodeFacts(name="n1", ready=True, internal_ips=("172.16.0.1", "fd00::1", "fd00::9")),
        NodeFacts(name="n2", ready=True, internal_ips=("172.16.0.2",)),
    )
    service = ServiceFacts(type="NodePort", cluster_ip="10.96.2.10", node_port=32002, ip_families=families)
    found = endpoint_of(replace(cluster_facts("c2"), nodes=nodes, service=service))
    assert isinstance(found, MeshEndpoint) and found.ips == expected


def test_each_family_keeps_its_own_addresses_in_use() -> None:
    nodes = [NodeFacts(name=f"n{i}", ready=i != 2, internal_ips=(f"172.16.0.{i}", f"fd00::{i}")) for i in range(1, 6)]
    used = ("172.16.0.2", "172.16.0.3", "172.16.0.4", "fd00::9", "fd00::4")
    assert choose_node_ips(nodes, "InternalIP", used) == ("172.16.0.2", "172.16.0.3", "172.16.0.4", "fd00::1", "fd00::3", "fd00::4")


@one_test(
    "names hostname expected",
    (("*.mesh.cilium.io",), "C2.mesh.cilium.io", True),
    (("*.mesh.cilium.io",), "a.c2.mesh.cilium.io", False),
    (("*.mesh.cilium.io",), "mesh.cilium.io", False),
    (("mesh.example.com",), "mesh.example.com.", True),
    (("*",), "localhost", False),
    (("*.mesh.cilium.io",), ".mesh.cilium.io", False),
    (("clustermesh-apiserver.kube-system.svc",), "clustermesh-apiserver.other.svc", False),
    (("",), "", False),
    ((), "c2.mesh.cilium.io", False),
)
def test_names_are_matched_as_a_go_client_matches_them(names: tuple[str, ...], hostname: str, expected: bool) -> None:
    assert covers(names, hostname) is expected


@given(st.from_regex(r"[a-z0-9.:-]{1,12}(:[0-9]{1,6})?", fullmatch=True), st.text(max_size=3), st.text(max_size=3))
def test_any_text_as_override_is_read_or_refused(text: str, before: str, after: str) -> None:
    for sign in ("", " ", "\n", '"', "'", "/", "@", "\u0661"):
        for written in (text, f"{text}{sign}", f"{sign}{text}", f"{before}{sign}{text}{after}"):
            parts = split_host_port(written)
            assert parts is None or (parts[0].isascii() and 0 < parts[1] < 65536 and not set(parts[0]) & set(" \n\"'/@")), written
