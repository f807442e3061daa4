# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which clusters are linked, which see each other, and what that means to the checks and the plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of
from tests.testing.lines_run import lines_run
from tests.testing.link_plans import plan_links

HOSTS = ("c1", "c2", "c3", "c4")


def hubs(*names: str, members: Sequence[str] = HOSTS) -> Mesh:
    return mesh_of(*members, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=names))


def pairs(*links: str, members: Sequence[str] = HOSTS) -> Mesh:
    """``pairs("12", "34")``: c1 with c2, and c3 with c4."""
    return mesh_of(*members, topology=Topology(mode=Mode.PAIRS, pairs=tuple((f"c{link[0]}", f"c{link[1]}") for link in links)))


def blocking(mesh: Mesh, *facts: Any) -> set[str]:
    return {finding.code for finding in run_checks(context_of(*facts, mesh=mesh)) if finding.blocks}


@st.composite
def any_mesh(draw: st.DrawFn) -> Mesh:
    members = draw(st.lists(st.sampled_from([f"c{n}" for n in range(1, 8)]), min_size=2, unique=True))
    mode = draw(st.sampled_from(Mode))
    some = tuple(draw(st.sets(st.sampled_from(members), min_size=1)))
    every = [(a, b) for i, a in enumerate(members) for b in members[i + 1 :]]
    return mesh_of(*members, topology=Topology(mode=mode, hubs=some, pairs=tuple(draw(st.sets(st.sampled_from(every), min_size=1)))))


def test_in_a_full_mesh_all_members_are_linked_with_all() -> None:
    assert len(mesh_of(*HOSTS).links) == 12


def test_spokes_are_linked_with_hubs_and_hubs_with_each_other() -> None:
    mesh = hubs("c1", "c2")
    assert mesh.peers("c3") == ("c1", "c2")
    assert mesh.peers("c1") == ("c2", "c3", "c4")
    assert not mesh.linked("c3", "c4")


def test_pairs_are_links_whatever_their_order() -> None:
    mesh = pairs("21", "34")
    assert mesh.links == (("c1", "c2"), ("c2", "c1"), ("c3", "c4"), ("c4", "c3"))


def test_a_cluster_that_is_no_member_has_no_link() -> None:
    mesh = hubs("c1", members=("c1", "c2"))
    assert not mesh.linked("c1", "c9") and mesh.peers("c9") == ()


def asked_for(mesh: Mesh) -> set[tuple[str, str]]:
    """Return the links that the topology asks for, as docs/topologies.md says it in words."""
    topology = mesh.binding.topology
    every = {(a, b) for a in mesh.clusters for b in mesh.clusters if a != b}
    if topology.mode is Mode.HUB_AND_SPOKE:
        return {link for link in every if set(link) & set(topology.hubs)}
    if topology.mode is Mode.PAIRS:
        return {link for link in every if link in topology.pairs or link[::-1] in topology.pairs}
    return every


@given(any_mesh())
def test_links_are_those_that_the_topology_asks_for_in_both_directions(mesh: Mesh) -> None:
    links = asked_for(mesh)
    assert sorted(mesh.links) == sorted(links)
    for a in mesh.clusters:
        assert [b for b in mesh.clusters if mesh.linked(a, b)] == [b for b in mesh.clusters if (a, b) in links]
        assert mesh.peers(a) == tuple(b for b in mesh.clusters if (a, b) in links)


@given(any_mesh(), st.data())
def test_a_part_of_a_mesh_has_the_links_within_it_and_the_same_owner(mesh: Mesh, data: st.DataObject) -> None:
    part = mesh.among(data.draw(st.sets(st.sampled_from(mesh.clusters))))
    assert part.links == tuple(link for link in mesh.links if set(link) <= set(part.clusters))
    assert part.binding.owner == mesh.binding.owner


@given(any_mesh())
def test_any_two_that_are_linked_or_share_a_peer_are_seen_together_and_no_others(mesh: Mesh) -> None:
    together = {(a, b) for part in mesh.common_peer_groups for a in part.clusters for b in part.clusters if a != b}
    by_hand = {
        (a, b) for a in mesh.clusters for b in mesh.clusters if a != b and (mesh.linked(a, b) or set(mesh.peers(a)) & set(mesh.peers(b)))
    }
    assert together == by_hand


@given(any_mesh())
def test_links_never_leave_what_they_tie_together(mesh: Mesh) -> None:
    groups = [set(part.clusters) for part in mesh.connected_components]
    assert sorted(host for group in groups for host in group) == sorted(mesh.clusters)
    assert all(any({a, b} <= group for group in groups) for a, b in mesh.links)


def test_two_spokes_with_one_id_block_since_their_hub_sees_both() -> None:
    c1, c2 = (cluster_facts(f"c{n}") for n in (1, 2))
    c3 = cluster_facts("c3", config={"cluster-id": "2"})
    assert "CM-ID-05" in blocking(hubs("c1", members=HOSTS[:3]), c1, c2, c3)
    assert "CM-ID-05" in blocking(pairs("12", "13", members=HOSTS[:3]), c1, c2, c3)


def test_clusters_without_a_common_peer_may_have_one_id_and_one_name_and_the_same_addresses() -> None:
    c1, c2, c3 = (cluster_facts(f"c{n}") for n in (1, 2, 3))
    c4 = cluster_facts("c4", config={"cluster-id": "1", "cluster-name": "c1", "cluster-pool-ipv4-cidr": "10.1.0.0/16"}, nodes=c1.nodes)
    apart = pairs("12", "34")
    assert not blocking(apart, c1, c2, c3, c4)
    plan = plan_links(apart, {c.host: c for c in (c1, c2, c3, c4)}, PlanOptions(), NOW)
    assert not plan.blocked and len(plan.links) == 4
    assert {"CM-ID-04", "CM-ID-05", "CM-CIDR-01", "CM-CIDR-02", "CM-NODE-01"} <= blocking(pairs("12", "23", "34", "14"), c1, c2, c3, c4)


def test_what_a_link_needs_to_be_equal_may_differ_where_no_links_lead() -> None:
    vxlan = [cluster_facts(f"c{n}") for n in (1, 2)]
    geneve = [cluster_facts(f"c{n}", config={"tunnel-protocol": "geneve"}) for n in (3, 4)]
    assert not blocking(pairs("12", "34"), *vxlan, *geneve)
    assert "CM-NET-02" in blocking(pairs("12", "34", "23"), *vxlan, *geneve)


def test_spokes_of_a_hub_may_lie_a_minor_on_either_side_of_it() -> None:
    old, middle, new = (cluster_facts(f"c{n}", version=v) for n, v in ((1, "1.18.11"), (2, "1.19.5"), (3, "1.20.0")))
    assert "CM-VER-01" not in blocking(hubs("c2", members=HOSTS[:3]), old, middle, new)
    assert "CM-VER-01" in blocking(mesh_of(*HOSTS[:3]), old, middle, new)


@pytest.mark.parametrize("mode", Mode)
def test_the_work_for_links_grows_with_pairs_of_members_at_most(mode: Mode) -> None:
    members = tuple(f"c{n}" for n in range(1, 128))
    topology = Topology(mode=mode, hubs=members[:1], pairs=tuple(pairwise(members)))
    mesh = mesh_of(*members, topology=topology)

    def use() -> None:
        assert len(mesh.links) == {Mode.FULL_MESH: 127 * 126, Mode.HUB_AND_SPOKE: 2 * 126, Mode.PAIRS: 2 * 126}[mode]
        assert all(mesh.linked(a, b) for a, b in mesh.links)
        assert mesh.common_peer_groups and mesh.connected_components

    assert lines_run(use) < 50 * len(members) ** 2
