# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A run that may not read a peer's CA, once or for long, leaves the links alone that hold a certificate of that CA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.renew import not_renewable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import CaSecretFacts, ClusterFacts, Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions
from tests.lab.options import LabOptions
from tests.testing.facts_builders import mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.profile_facts import facts_of
from tests.testing.simulated_apply import SimulatedClusters

NOW = datetime.now(UTC) + timedelta(hours=1)
Facts = dict[str, ClusterFacts]


def unreadable(facts: ClusterFacts) -> ClusterFacts:
    return replace(facts, ca=CaSecretFacts(problem="may not be read"), unread=(Unread(what="ca", message="403", remedy=""),))


def plan_of(facts: Facts, now: datetime = NOW) -> Plan:
    return plan_links(mesh_of(*facts), facts, PlanOptions(), now)


def connected(options: LabOptions) -> Facts:
    clusters = SimulatedClusters(facts_of(options), NOW)
    clusters.run(plan_of(clusters.facts()))
    facts = clusters.facts()
    assert plan_of(facts).empty
    return facts


@pytest.mark.parametrize("mode", ["legacy", "cluster"])
@pytest.mark.parametrize("kvstoremesh", [True, False])
@pytest.mark.parametrize("version", ["1.18", "1.20"])
def test_a_link_with_a_certificate_of_a_ca_that_cannot_be_read_stays_as_it_is(version: str, kvstoremesh: bool, mode: str) -> None:
    facts = connected(LabOptions(cilium=version, kvstoremesh=kvstoremesh, auth_mode=mode))
    plan = plan_of({**facts, "c2": unreadable(facts["c2"])})
    assert plan.empty and plan.problems == ()
    assert {(link.cluster, link.trust) for link in plan.links} == {("c1", "minted"), ("c2", "minted")}
    assert next(link.reason for link in plan.links if link.cluster == "c1").startswith("cilium-ca of c2 cannot be read now")


def test_without_a_certificate_the_link_gets_a_copy_as_before() -> None:
    facts = facts_of(LabOptions(cilium="1.20"))
    plan = plan_of({**facts, "c2": unreadable(facts["c2"])})
    assert {(link.cluster, link.trust) for link in plan.links} == {("c1", "copied"), ("c2", "minted")}


def test_a_copy_stays_a_copy() -> None:
    start = facts_of(LabOptions(cilium="1.20"))
    clusters = SimulatedClusters({**start, "c2": unreadable(start["c2"])}, NOW)
    clusters.run(plan_of(clusters.facts()))
    plan = plan_of(clusters.facts())
    assert plan.empty and {(link.cluster, link.trust) for link in plan.links} == {("c1", "copied"), ("c2", "minted")}


def _another_server_ca(facts: Facts) -> Facts:
    server = facts["c2"].server_cert
    changed = tuple(replace(ca, public_key="another") for ca in server.ca)
    return {**facts, "c2": replace(facts["c2"], server_cert=replace(server, ca=changed))}


def _of_another_writer(facts: Facts) -> Facts:
    secret = facts["c1"].kvstoremesh
    keys = {name: replace(key, managers=("kubectl",)) if name.endswith(".crt") else key for name, key in secret.keys.items()}
    return {**facts, "c1": replace(facts["c1"], kvstoremesh=replace(secret, keys=keys))}


def _without_its_key(facts: Facts) -> Facts:
    secret = facts["c1"].kvstoremesh
    keys = {name: replace(key, certificate_key_matches=False) for name, key in secret.keys.items()}
    return {**facts, "c1": replace(facts["c1"], kvstoremesh=replace(secret, keys=keys))}


@pytest.mark.parametrize(
    ("change", "trusts", "problems"),
    [
        (_another_server_ca, [], ["CM-TRUST-01"]),  # no other certificate fits that server, so the link is blocked
        (_of_another_writer, ["copied"], ["CM-DRIFT-02"]),
        (_without_its_key, ["copied"], []),
    ],
)
def test_a_link_whose_files_are_no_good_any_more_is_not_kept(
    change: Callable[[Facts], Facts], trusts: list[str], problems: list[str]
) -> None:
    facts = connected(LabOptions(cilium="1.20"))
    plan = plan_of(change({**facts, "c2": unreadable(facts["c2"])}))
    assert [link.trust for link in plan.links if link.cluster == "c1"] == trusts
    assert ([finding.code for finding in plan.problems], plan.blocked) == (problems, bool(problems))


def test_a_certificate_near_its_end_is_replaced_in_another_way() -> None:
    facts = connected(LabOptions(cilium="1.20"))
    end = facts["c1"].kvstoremesh.keys["c2.etcd-client.crt"].certificate.not_after  # type: ignore[union-attr]  # this cluster has a kvstoremesh with that key
    facts["c2"] = unreadable(facts["c2"])
    for days, trust in ((8, "minted"), (6, "copied")):
        plan = plan_of(facts, end - timedelta(days=days))
        assert [link.trust for link in plan.links if link.cluster == "c1"] == [trust], plan.problems


def test_a_certificate_that_is_due_and_cannot_be_renewed_is_named() -> None:
    facts = connected(LabOptions(cilium="1.20"))
    end = facts["c1"].kvstoremesh.keys["c2.etcd-client.crt"].certificate.not_after  # type: ignore[union-attr]  # this cluster has a kvstoremesh with that key
    mesh, broken = mesh_of(*facts), {**facts, "c2": unreadable(facts["c2"])}

    def stuck(known: Facts, due_by: datetime) -> list[tuple[str, str]]:
        return not_renewable(decide_links(mesh, known, LinkPolicy(), NOW), due_by)

    assert stuck(broken, end) == [("c1", "c2")]
    assert stuck(broken, end - timedelta(days=1)) == []
    assert stuck(facts, end) == []
