# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which addresses of a peer a cluster is given: those of the IP families that its readers have."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import TrustMode
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.etcd_config import peer_config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.ip_families import (
    addresses_of,
    dialable_families,
    limit_to_families,
    possible_families,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, NodeFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import CiliumVersion
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApplyHostAliases, ApplySecret, Literal, PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.rows import one_test

V4, V6, BOTH = frozenset({4}), frozenset({6}), frozenset({4, 6})
DUAL = MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("192.0.2.2", "2001:db8::2"))


def reader(v4: str, v6: str, *nodes: str, kvstoremesh: bool = True, version: str = "1.20.0") -> ClusterFacts:
    found = tuple(NodeFacts(name=f"n{i}", ready=True, internal_ips=(ip,)) for i, ip in enumerate(nodes))
    return cluster_facts("c1", version=version, kvstoremesh=kvstoremesh, nodes=found, config={"enable-ipv4": v4, "enable-ipv6": v6})


@one_test(
    "local sure possible",
    (reader("true", "false", "172.16.0.1"), V4, V4),
    (reader("true", "true", "172.16.0.1", "fd00::1"), BOTH, BOTH),
    (reader("true", "true", "172.16.0.1"), V4, BOTH),  # pods have IPv6, the nodes as far as they say have none
    (reader("false", "true", "172.16.0.1"), V6, V6),  # Cilium knows better than the status of nodes
    (reader("true", "false"), V4, V4),
    (reader("false", "false"), frozenset(), frozenset()),
    (reader("true", "false", "172.16.0.1", "fd00::1", kvstoremesh=False), BOTH, BOTH),  # agents are in the network of their node
    (reader("true", "true", "fd00::1", kvstoremesh=False), V6, V6),
    (reader("true", "true", kvstoremesh=False), BOTH, BOTH),
)
def test_families_come_from_the_pod_with_kvstoremesh_and_from_the_node_without(
    local: ClusterFacts, sure: frozenset[int], possible: frozenset[int]
) -> None:
    assert dialable_families(local) == sure
    assert possible_families(local) == possible


@pytest.mark.parametrize(("families", "ips"), [(V4, DUAL.ips[:1]), (V6, DUAL.ips[1:]), (BOTH, DUAL.ips), (frozenset(), DUAL.ips)])
def test_only_addresses_that_can_be_dialled_are_kept_unless_none_can(families: frozenset[int], ips: tuple[str, ...]) -> None:
    assert limit_to_families(DUAL, families).ips == ips


def test_a_name_or_an_address_in_the_url_is_left_as_it_is() -> None:
    name, literal = MeshEndpoint(hostname="lb.example.com", port=2379), MeshEndpoint(hostname="2001:db8::2", port=2379)
    assert limit_to_families(name, V4) == name and limit_to_families(literal, V4) == literal
    assert (addresses_of(name), addresses_of(literal), addresses_of(DUAL)) == ((), ("2001:db8::2",), DUAL.ips)


def dual_mesh(version: str) -> dict[str, ClusterFacts]:
    """c1 has IPv4, c2 both, c3 IPv6 alone."""
    configs = {
        "c1": ("true", "false", ("172.16.1.1",)),
        "c2": ("true", "true", ("172.16.2.1", "fd00::2")),
        "c3": ("false", "true", ("fd00::3",)),
    }
    found = {}
    for host, (v4, v6, nodes) in configs.items():
        ips: tuple[str, ...] = (f"192.0.2.{host[1:]}", f"2001:db8::{host[1:]}")
        overrides: dict[str, Any] = {
            "nodes": (NodeFacts(name="n", ready=True, internal_ips=nodes),),
            "service": ServiceFacts(type="LoadBalancer", cluster_ip="10.96.0.1", ingress_ips=ips),
        }
        found[host] = cluster_facts(host, version=version, config={"enable-ipv4": v4, "enable-ipv6": v6}, **overrides)
    return found


def test_every_reader_of_a_dual_stack_peer_gets_what_it_can_dial() -> None:
    facts = dual_mesh("1.20.0")
    given = {host: peers["c2"] for host, peers in decide_links(mesh_of(*facts), facts, LinkPolicy(), NOW).dialled.items()}
    assert {host: endpoint.ips for host, endpoint in given.items() if isinstance(endpoint, MeshEndpoint)} == {
        "c1": ("192.0.2.2",),
        "c2": ("192.0.2.2", "2001:db8::2"),
        "c3": ("2001:db8::2",),
    }


@pytest.mark.parametrize("version", ["1.18.11", "1.20.0"])
def test_the_plan_writes_ipv6_where_that_is_what_can_be_dialled(version: str) -> None:
    facts = dual_mesh(version)
    plan = plan_links(mesh_of(*facts), facts, PlanOptions(), NOW)
    actions = [step.action for step in plan.steps if step.cluster == "c3"]
    aliases = [action.aliases for action in actions if isinstance(action, ApplyHostAliases)]
    texts = [a.data["c2"] for a in actions if isinstance(a, ApplySecret) and a.name == "cilium-kvstoremesh"]
    assert isinstance(texts[0], Literal)
    if version.startswith("1.20"):
        assert aliases == []
        assert '    - "2001:db8::2"\n' in texts[0].text and "192.0.2.2" not in texts[0].text
    else:
        assert aliases == [{"2001:db8::1": ("c1.mesh.cilium.io",), "2001:db8::2": ("c2.mesh.cilium.io",)}]


def test_an_ipv6_address_stands_in_brackets_in_the_url_and_quoted_as_alias() -> None:
    version = CiliumVersion.from_tag("v1.20.0")
    literal = peer_config("c2", MeshEndpoint(hostname="2001:db8::2", port=2379), version=version, mode=TrustMode.MINTED)
    assert "- https://[2001:db8::2]:2379\n" in literal and "cilium-host-aliases" not in literal
    alias = peer_config(
        "c2", MeshEndpoint(hostname="c2.mesh.cilium.io", port=2379, ips=("2001:db8::2",)), version=version, mode=TrustMode.MINTED
    )
    assert '  ips:\n    - "2001:db8::2"\n' in alias
