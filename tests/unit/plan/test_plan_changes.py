# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why a plan is no longer the one that was approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.fingerprint import facts_fingerprint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, HostAlias, RegistryFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.compare import SECTIONS, plan_changes
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.stored import options_data, stored_plan
from tests.testing.facts_builders import NOW, apiserver_workload, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.rows import one_test
from tests.testing.simulated_apply import SimulatedClusters

PARAMETERS: dict[str, Any] = {
    "purpose": "connect",
    "clusters": [],
    "accept": [],
    "trust": "auto",
    "node_addresses": "InternalIP",
    "certificate_days": 365,
    "renew_before_days": 30,
}
OPTIONS = options_data(PARAMETERS)


def facts_of(*hosts: str, version: str = "1.20.0") -> dict[str, ClusterFacts]:
    return {host: cluster_facts(host, version=version) for host in hosts}


def planned(facts: Mapping[str, ClusterFacts]) -> Plan:
    return replace(plan_links(mesh_of(*facts), facts, PlanOptions(), NOW), options=OPTIONS)


def changes(before: Mapping[str, ClusterFacts], after: Mapping[str, ClusterFacts]) -> list[str]:
    return plan_changes(planned(before).to_dict(), planned(after).to_dict())


def test_equal_clusters_have_no_changes() -> None:
    assert changes(facts_of("c1", "c2"), facts_of("c1", "c2")) == []


def served_by(address: str) -> dict[str, Any]:
    service = cluster_facts("c2").service
    assert service is not None
    return {"service": replace(service, ingress_ips=(address,))}


@one_test(
    "section override",
    ("identity", {"uid": "another"}),
    ("cilium", {"apiserver": apiserver_workload("1.20.0", users=False)}),
    ("endpoint", {"endpoint_override": "192.0.2.99:2379"}),
    ("service", served_by("192.0.2.99")),
    ("certificates", {"remote_cert": replace(cluster_facts("c2", version="1.20.0").remote_cert, key_matches=None)}),
    ("ca", {"ca": replace(cluster_facts("c2").ca, digest="0" * 64)}),
    ("peers", {"kvstoremesh": peer_secret("cilium-kvstoremesh", {"elsewhere": key_facts("x")})}),
    ("users", {"users": replace(cluster_facts("c2", version="1.20.0").users, text="users: []\n")}),
    ("aliases", {"apiserver": apiserver_workload("1.20.0", aliases=[HostAlias(ip="192.0.2.9", hostnames=("a.example.com",))])}),
    ("registry", {"registry": RegistryFacts(present=True, uid="u", resource_version="1", text="", managers=("someone",))}),
)
def test_a_change_is_reported_by_cluster_and_section(section: str, override: dict[str, Any]) -> None:
    before = facts_of("c1", "c2")
    after = {**before, "c2": replace(before["c2"], **override)}
    assert facts_fingerprint(before["c1"]) == facts_fingerprint(after["c1"])
    was, now = facts_fingerprint(before["c2"]), facts_fingerprint(after["c2"])
    assert {name for name in SECTIONS if was.get(name) != now.get(name)} == {section}
    assert f"c2: {SECTIONS[section]} changed" in changes(before, after)


def test_what_changes_without_changing_a_decision_is_not_relied_on() -> None:
    before = cluster_facts("c1", version="1.20.0")
    assert before.agent is not None and before.apiserver is not None
    after = replace(
        before,
        agent=replace(before.agent, ready=0, generation=9),
        apiserver=replace(before.apiserver, ready=0, observed_generation=9),
        users=replace(before.users, resource_version="99"),
        kvstoremesh=replace(before.kvstoremesh, resource_version="99"),
        agent_pods=(),
        kubernetes_version="v1.99.0",
    )
    assert facts_fingerprint(after) == facts_fingerprint(before)


def test_an_address_that_moved_is_reported_with_both_values_and_the_steps_that_differ() -> None:
    before = facts_of("c1", "c2", "c3")
    after = {**before, "c2": replace(before["c2"], endpoint_override="192.0.2.99:32379")}
    lines = changes(before, after)
    assert lines[0] == "c2: endpoint override changed"
    assert lines[1] == "endpoint of c2: was https://c2.mesh.cilium.io:2379, is https://c2.mesh.cilium.io:32379"
    differing = [line for line in lines if line.startswith("step differs: ")]
    assert {line.split(",")[0] for line in differing} == {"step differs: c1", "step differs: c3"}


def test_a_member_that_joined_is_named_with_its_new_steps() -> None:
    lines = changes(facts_of("c1", "c2"), facts_of("c1", "c2", "c3"))
    assert lines[0] == "c3: was not part of the approved plan"
    assert any(line.startswith("new step: c3, ") for line in lines)
    assert "c3: is not part of the new plan" in changes(facts_of("c1", "c2", "c3"), facts_of("c1", "c2"))


def test_a_plan_that_was_applied_already_has_steps_that_are_gone() -> None:
    clusters = SimulatedClusters(facts_of("c1", "c2"), NOW)
    before = planned(clusters.facts(mesh_of("c1", "c2")))
    clusters.run(before)
    after = planned(clusters.facts(mesh_of("c1", "c2")))
    lines = plan_changes(before.to_dict(), after.to_dict())
    assert after.empty
    assert sum(line.startswith("step gone: ") for line in lines) == len(before.steps)


def test_a_certificate_that_came_due_is_a_decision_of_time() -> None:
    mesh, options = mesh_of("c1", "c2"), PlanOptions(certificate_days=90)
    clusters = SimulatedClusters(facts_of("c1", "c2"), NOW)
    clusters.run(plan_links(mesh, clusters.facts(mesh), options, NOW))
    early, late = (
        replace(plan_links(mesh, clusters.facts(mesh), options, NOW + timedelta(days=days)), options=OPTIONS) for days in (59, 61)
    )
    assert early.empty and not late.empty
    assert early.relied_on == late.relied_on
    lines = plan_changes(early.to_dict(), late.to_dict())
    assert lines[0].startswith("no fact that was read has changed; time has")
    assert lines[1].startswith("new step: ")


def test_options_that_differ_are_shown() -> None:
    plan = planned(facts_of("c1", "c2"))
    other = replace(plan, options={**OPTIONS, "trust": "minted", "accept": ["CM-OWN-01"]})
    assert plan_changes(plan.to_dict(), other.to_dict()) == [
        "option accept: was none, is CM-OWN-01",
        "option trust: was auto, is minted",
    ]


def test_of_many_changes_ten_of_a_kind_are_named() -> None:
    hosts = [f"c{n}" for n in range(1, 14)]
    before = facts_of(*hosts)
    after = {host: replace(facts, endpoint_override=f"192.0.2.{n}:4000") for n, (host, facts) in enumerate(before.items(), 100)}
    lines = changes(before, after)
    assert sum(line.endswith("endpoint override changed") for line in lines) == 10
    assert "and 3 more clusters like these" in lines


def test_a_stored_plan_brings_its_hash_and_its_options() -> None:
    data = planned(facts_of("c1", "c2")).to_dict()
    plan = stored_plan("", data)
    assert plan.hash == data["hash"] == stored_plan(data["hash"][:12], {"plan": data}).hash
    assert plan.parameters == {**PARAMETERS, "repair": False, "take_back": [], "max_failures": None}
    bare = stored_plan(data["hash"][:12].upper())
    assert bare.is_the_same_as(data["hash"]) and not bare.is_the_same_as("0" * 64)
    assert bare.parameters == {}


@one_test(
    "change says",
    ({"hash": "12"}, "no hash of 64"),
    ({"steps": "none"}, "no list of steps"),
    ({"steps": ["x"]}, "no list of steps"),
    ({"options": None}, "with which options"),
    ({"options": {**OPTIONS, "trust": "blind"}}, "option trust"),
    ({"options": {**OPTIONS, "certificateDays": True}}, "option certificateDays"),
    ({"options": {**OPTIONS, "repair": "yes"}}, "option repair"),
    ({"reliedOn": {"c1": "x"}}, "cluster by cluster"),
)
def test_what_is_no_plan_is_refused_with_what_is_wrong(change: dict[str, Any], says: str) -> None:
    data = {**planned(facts_of("c1", "c2")).to_dict(), **change}
    with pytest.raises(InvalidInput, match=says):
        stored_plan("", data)


def test_a_hash_that_is_not_the_plans_is_refused() -> None:
    with pytest.raises(InvalidInput, match="hash is 000000000000"):
        stored_plan("0" * 12, planned(facts_of("c1", "c2")).to_dict())
