# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Overlaps of address ranges, against the plain definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.cidrs import (
    AddressRange,
    allocated_ranges,
    overlaps,
    parse_networks,
    pool_ranges,
)
from tests.testing.facts_builders import cluster_facts, context_of
from tests.testing.rows import one_test

OWN_RANGE = {
    "cluster-pool": "ipam.operator.clusterPoolIPv4PodCIDRList=",
    "kubernetes": "--cluster-cidr of its kube-controller-manager",
    "multi-pool": "CiliumPodIPPools",
    "eni": "move its nodes to another network",
    "azure": "move its nodes to another network",
    "alibabacloud": "move its nodes to another network",
    "crd": "what runs beside Cilium",
    "delegated-plugin": "what runs beside Cilium",
}
"""IPAM mode -> the place where a cluster gets another pod range."""

texts = st.one_of(
    st.builds("10.{}.{}.0/{}".format, st.integers(0, 3), st.sampled_from([0, 64, 128]), st.integers(8, 24)),
    st.builds("fd00:{}::/{}".format, st.integers(0, 2), st.sampled_from([16, 32, 64])),
)
claims = st.lists(
    st.builds(
        lambda host, text, used: AddressRange(host=host, network=parse_networks([text])[0], source="test", allocated=used),
        st.sampled_from(["a", "b", "c", "d"]),
        texts,
        st.booleans(),
    ),
    max_size=12,
)


def meets(a: AddressRange, b: AddressRange) -> bool:
    return a.network.version == b.network.version and a.network.overlaps(b.network)


def groups(pairs: list[tuple[str, str]]) -> set[frozenset[str]]:
    found: list[set[str]] = []
    for pair in pairs:
        touching = [g for g in found if g & set(pair)]
        found = [g for g in found if g not in touching] + [set(pair).union(*touching)]
    return {frozenset(g) for g in found}


@given(claims)
def test_the_groups_are_those_of_comparing_everything_with_everything(given_claims: list[AddressRange]) -> None:
    expected = groups([(a.host, b.host) for a, b in combinations(given_claims, 2) if a.host != b.host and meets(a, b)])
    assert {frozenset(o.hosts) for o in overlaps(given_claims)} == expected


@given(claims)
def test_every_reported_pair_overlaps_and_belongs_to_its_group(given_claims: list[AddressRange]) -> None:
    for overlap in overlaps(given_claims, only_pools=True):
        assert 0 < len(overlap.pairs) <= 8
        for a, b in overlap.pairs:
            assert meets(a, b) and a.host != b.host
            assert {a.host, b.host} <= set(overlap.hosts)
            assert not (a.allocated and b.allocated)


def test_pools_count_only_in_modes_that_have_them() -> None:
    assert [str(c.network) for c in pool_ranges(cluster_facts("c1"))] == ["10.1.0.0/16"]
    for mode in ("kubernetes", "multi-pool", "eni", "azure", "delegated-plugin"):
        assert pool_ranges(cluster_facts("c1", config={"ipam": mode})) == ()


def test_node_ranges_count_only_where_kubernetes_allocates() -> None:
    facts = cluster_facts("c1")
    assert {c.source for c in allocated_ranges(facts)} == {"CiliumNode c1-n1", "CiliumNode c1-n2"}
    nodes = tuple(n.__class__(name=n.name, ready=True, pod_cidrs=("10.9.0.0/24",), allocated_cidrs=()) for n in facts.nodes)
    assert allocated_ranges(cluster_facts("c1", nodes=nodes)) == ()
    assert {c.source for c in allocated_ranges(cluster_facts("c1", config={"ipam": "kubernetes"}, nodes=nodes))} == {
        "Node c1-n1",
        "Node c1-n2",
    }


@one_test("mode", *OWN_RANGE)
def test_another_pod_range_is_asked_for_where_the_mode_takes_it_from(mode: str) -> None:
    facts = [cluster_facts(host, config={"ipam": mode, "cluster-pool-ipv4-cidr": None}) for host in ("c1", "c2")]
    taken = replace(facts[1], nodes=(replace(facts[1].nodes[0], allocated_cidrs=("10.1.0.0/16",)),))
    (found,) = (entry for entry in run_checks(context_of(facts[0], taken)) if entry.code == "CM-CIDR-01")
    assert [text for text in dict.fromkeys(OWN_RANGE.values()) if text in found.fix] == [OWN_RANGE[mode]]


def test_a_pool_of_ipv6_is_changed_as_one_of_ipv6() -> None:
    facts = [cluster_facts(host, config={"enable-ipv6": "True", "cluster-pool-ipv6-cidr": "fd00::/104"}) for host in ("c1", "c2")]
    (found,) = (entry for entry in run_checks(context_of(*facts)) if entry.code == "CM-CIDR-02")
    assert "ipam.operator.clusterPoolIPv6PodCIDRList=" in found.fix and "IPv4" not in found.fix


@one_test("version value", ("1.18.11", "encryption.strictMode.cidr="), ("1.19.5", "encryption.strictMode.egress.cidr="))
def test_the_strict_range_is_set_by_the_value_that_the_chart_has(version: str, value: str) -> None:
    keys = ("enable-encryption-strict-mode", "encryption-strict-mode-cidr")
    if version == "1.19.5":
        keys = ("enable-encryption-strict-mode-egress", "encryption-strict-egress-cidr")
    config = dict(zip(keys, ("true", "10.1.0.0/16"), strict=True))
    found = run_checks(context_of(*(cluster_facts(host, version=version, config=config) for host in ("c1", "c2"))))
    assert all(value in entry.fix for entry in found if entry.code == "CM-ENC-07") and "CM-ENC-07" in {entry.code for entry in found}
