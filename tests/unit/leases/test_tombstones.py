# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The dead in plans: who leaves a tombstone, whose goes, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import registry_after_connect, registry_after_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan_tombstones import lockout_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    Lease,
    LeaseState,
    Registry,
    lease_of,
    parse_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.tombstones import returning_members, tombstones
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import NOW as TIME_OF_WRITE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.unit.checks.catalogue_dead_peers import dead, keeping

MESH = mesh_of("c1", "c2", "c3")
C1, C2, C3 = (cluster_facts(host, version="1.20.0", auth_mode="migration") for host in ("c1", "c2", "c3"))
ALL = [lease_of(cluster) for cluster in (C1, C2, C3)]


def states(registry: Registry) -> dict[tuple[str, int], str]:
    return {(lease.host, lease.id): lease.state.value for lease in registry.leases}


def facts(*clusters: ClusterFacts) -> dict[str, ClusterFacts]:
    return {cluster.host: cluster for cluster in clusters}


def back(cluster: ClusterFacts, *leases: Lease) -> dict[str, ClusterFacts]:
    """c1 and c2 remember these leases, and ``cluster`` is there again."""
    return facts(keeping(C1, *ALL[:2], *leases), keeping(C2, *ALL[:2], *leases), cluster)


def registry_writes(plan: Plan) -> list[Any]:
    return [s for s in plan.steps if isinstance(s.action, ApiWrite) and "/configmaps/cilium-mesh-" in s.action.path]


def test_who_is_taken_out_without_an_answer_leaves_a_tombstone_with_those_that_stay() -> None:
    seen = facts(keeping(C1, *ALL), keeping(C2, *ALL))
    plan = plan_disconnect(MESH, seen, frozenset({"c3"}))
    written = registry_writes(plan)
    assert {step.cluster for step in written} == {"c1", "c2"}
    for step in written:
        [lease] = [
            x
            for x in parse_registry(step.action.body["data"]["leases.json"].replace(TIME_OF_WRITE, "2026-09-01T12:00:00Z")).leases
            if x.host == "c3"
        ]
        assert (lease.state, lease.name, lease.id, lease.ca, lease.pod_cidrs) == (LeaseState.DEAD, "c3", 3, ALL[2].ca, ALL[2].pod_cidrs)
    assert states(registry_after_disconnect(MESH, {**seen, "c3": C3}, {"c3"}))["c3", 3] == "released", "who answers leaves in order"


def test_who_is_no_member_any_more_and_does_not_answer_leaves_one_too() -> None:
    mesh, seen = mesh_of("c1", "c2"), facts(keeping(C1, *ALL), keeping(C2, *ALL))
    assert states(registry_after_connect(mesh, seen, former={}))["c3", 3] == "dead"
    assert states(registry_after_connect(mesh, seen, former={"c3": C3}))["c3", 3] == "released"


def test_the_one_that_died_is_taken_back_and_the_plan_says_so() -> None:
    seen = back(C3, dead(C3))
    plan = plan_links(MESH, seen, PlanOptions(), NOW, former={})
    assert states(registry_after_connect(MESH, seen, {}))["c3", 3] == "active"
    assert {step.cluster for step in registry_writes(plan)} == {"c1", "c2", "c3"}
    assert all(
        "c3 is taken back: is the cluster that was disconnected; its tombstone is removed" in step.why for step in registry_writes(plan)
    )
    assert tombstones(MESH, seen) and not returning_members(MESH, facts(keeping(C1, *ALL), C3))


def test_one_that_is_vouched_for_gets_a_lease_of_its_own_and_the_dead_one_ends() -> None:
    was = dead(C3, id=9, name="was-c3", ca="ab" * 32)
    seen = back(C3, was)
    assert states(registry_after_connect(MESH, seen, {})) == {
        ("c1", 1): "active",
        ("c2", 2): "active",
        ("c3", 3): "active",
        ("c3", 9): "released",
    }
    assert "as take_back says, although its name" in registry_writes(plan_links(MESH, seen, PlanOptions(), NOW, former={}))[0].why


def test_the_dead_who_stay_away_keep_their_tombstone() -> None:
    seen = facts(keeping(C1, *ALL[:2], dead(C3)), keeping(C2, *ALL[:2], dead(C3)))
    assert states(registry_after_connect(MESH, seen, {}))["c3", 3] == "dead"
    assert [lease.host for lease in tombstones(MESH, seen)] == ["c3"]


def test_a_returning_cluster_cannot_clear_its_own_tombstone() -> None:
    own_story = keeping(C3, replace(ALL[2], serial=99))
    [item] = returning_members(MESH, back(own_story, dead(C3, ca="ab" * 32)))
    assert item.host == "c3" and "CA" in item.differences[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "x"}, "its name"),
        ({"id": 9}, "its id"),
        ({"ca": "ab" * 32}, "the CA behind"),
        ({"ca": ""}, "not on record"),
        ({"pod_cidrs": ("10.9.0.0/16",)}, "its pods may use 10.3.0.0/16"),
    ],
)
def test_each_difference_is_named(change: dict[str, Any], words: str) -> None:
    [item] = returning_members(MESH, back(C3, dead(C3, **change)))
    assert len(item.differences) == 1 and words in item.differences[0]


@pytest.mark.parametrize(
    ("mode", "ca", "lets_in"), [("legacy", "", True), ("migration", "", False), ("cluster", "", False), ("migration", ALL[0].ca, True)]
)
def test_taking_out_the_dead_says_who_would_still_let_it_in(mode: str, ca: str, lets_in: bool) -> None:
    c1 = cluster_facts("c1", version="1.20.0", auth_mode=mode)
    c1 = replace(c1, users=replace(c1.users, users={"remote-c3": "remote"}))
    leases = [*ALL[:2], replace(ALL[2], ca=ca or ALL[2].ca)]
    found = list(lockout_findings(MESH, facts(keeping(c1, *leases), keeping(C2, *leases)), {"c3"}))
    assert [(f.code, f.cluster, f.peer) for f in found] == ([("CM-TOMB-02", "c1", "c3")] if lets_in else [])
    assert not list(lockout_findings(MESH, facts(keeping(c1, *leases), C2, C3), {"c3"})), "who answers gives up its keys"


def test_who_only_has_another_inventory_name_leaves_no_tombstone() -> None:
    mesh, moved = mesh_of("c1", "c2", "site-c"), replace(C3, host="site-c")
    after = registry_after_connect(mesh, facts(keeping(C1, *ALL), keeping(C2, *ALL), keeping(moved, *ALL)), former={})
    assert states(after) == {("c1", 1): "active", ("c2", 2): "active", ("c3", 3): "released", ("site-c", 3): "active"}
