# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Keys that others own too: what stops a connect is what server-side apply would refuse, and the checks say so as the planner does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions
from tests.testing.facts_builders import NOW, choosing, cluster_facts, context_of, digest, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.rows import in_one_test
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2")
OURS = MESH.binding.manager


def plan_of(facts: Mapping[str, ClusterFacts]) -> Plan:
    return plan_links(MESH, facts, PlanOptions(), NOW)


def connected(ca: str, version: str, kvstoremesh: bool) -> dict[str, ClusterFacts]:
    return dict(_connected(ca, version, kvstoremesh))


@cache
def _connected(ca: str, version: str, kvstoremesh: bool) -> Mapping[str, ClusterFacts]:
    facts = {host: cluster_facts(host, version=version, ca=ca, kvstoremesh=kvstoremesh) for host in ("c1", "c2")}
    clusters = SimulatedClusters(facts, NOW)
    clusters.run(plan_of(clusters.facts()))
    return clusters.facts()


def owned_by(facts: ClusterFacts, key: str, managers: tuple[str, ...], *, other_value: bool) -> ClusterFacts:
    """c1 with ``key`` in the Secret from which the peer is dialled in other hands."""
    field = "kvstoremesh" if facts.runs_kvstoremesh else "clustermesh"
    secret = getattr(facts, field)
    entry = replace(secret.keys[key], managers=managers)
    if other_value:
        entry = replace(entry, digest=digest("another value"), config=None, certificate=None)
    return replace(facts, **{field: replace(secret, keys={**secret.keys, key: entry})})


def never_ours(facts: ClusterFacts) -> ClusterFacts:
    """c1 without the note that this binding wrote the peer there."""
    return replace(facts, kvstoremesh=replace(facts.kvstoremesh, annotations={}))


@in_one_test
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not-noted"])
@pytest.mark.parametrize(
    ("ca", "key"), [("shared", "c2"), ("", "c2"), ("", "c2.etcd-client-ca.crt"), ("", "c2.etcd-client.crt"), ("", "c2.etcd-client.key")]
)
@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.17.17", "1.20.0"])
@pytest.mark.parametrize("kvstoremesh", [True, False])
@pytest.mark.parametrize("managers", [(OURS,), (OURS, "helm"), ("helm",), ()], ids=["ours", "shared", "foreign", "unknown"])
@pytest.mark.parametrize("other_value", [True, False], ids=["other-value", "same-value"])
def test_checks_and_planner_agree(
    ca: str, version: str, kvstoremesh: bool, managers: tuple[str, ...], other_value: bool, key: str, noted: bool
) -> None:
    facts = connected(ca, version, kvstoremesh)
    facts["c1"] = owned_by(facts["c1"], key, managers, other_value=other_value)
    if not noted:
        field = "kvstoremesh" if kvstoremesh else "clustermesh"
        facts["c1"] = replace(facts["c1"], **{field: replace(getattr(facts["c1"], field), annotations={})})
    checked = [(f.code, f.cluster, f.peer) for f in run_checks(context_of(*facts.values(), mesh=MESH))]
    assert checked == [(f.code, f.cluster, f.peer) for f in plan_of(facts).problems]


def test_a_value_that_is_there_already_is_owned_together_and_stays_when_we_leave() -> None:
    facts = connected("shared", "1.20.0", True)
    facts["c1"] = owned_by(facts["c1"], "c2", ("helm",), other_value=False)
    assert run_checks(context_of(*facts.values(), mesh=MESH)) == ()
    clusters = SimulatedClusters(facts, NOW)
    clusters.run(plan_of(facts))
    assert clusters.facts()["c1"].kvstoremesh.keys["c2"].managers == (OURS, "helm")
    assert plan_of(clusters.facts()).empty


def test_a_foreign_configuration_for_our_peer_stops_the_connect() -> None:
    facts = connected("shared", "1.20.0", True)
    facts["c1"] = owned_by(facts["c1"], "c2", ("helm",), other_value=True)
    facts["c1"] = never_ours(facts["c1"])
    (finding,) = run_checks(context_of(*facts.values(), mesh=MESH))
    assert finding.blocks and (finding.code, finding.cluster, finding.peer) == ("CM-OWN-02", "c1", "c2")
    assert "helm" in finding.evidence and "cilium-kvstoremesh keys c2;" in finding.evidence


def test_a_key_that_was_ours_and_that_another_writer_changed_is_taken_back_on_the_users_word_only() -> None:
    facts = connected("shared", "1.20.0", True)
    facts["c1"] = owned_by(facts["c1"], "c2", ("kubectl-edit",), other_value=True)
    (finding,) = run_checks(context_of(*facts.values(), mesh=MESH))
    assert finding.blocks and (finding.code, finding.cluster, finding.peer) == ("CM-DRIFT-02", "c1", "c2")
    assert "kubectl-edit" in finding.evidence and "repair" in finding.fix
    allowed = choosing(context_of(*facts.values(), mesh=MESH), repair=True)
    assert [f.blocks for f in run_checks(allowed) if f.code == "CM-DRIFT-02"] == [False]
    plan = plan_links(MESH, facts, PlanOptions(), NOW, policy=LinkPolicy(repair=True))
    assert not plan.problems and [step.cluster for step in plan.steps] == ["c1"]
