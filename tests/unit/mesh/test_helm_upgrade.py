# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a finding says of the next Helm upgrade, by case; tests/integration/test_helm_upgrades.py holds each case against a real Helm."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, RemoteUsersFacts, WriterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.helm_upgrade import helm_upgrade
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions, Step, WriteUsers
from tests.testing.facts_builders import NOW, cluster_facts, context_of, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

OURS = mesh_of("c1", "c2").binding.manager
RELEASE = {"meta.helm.sh/release-name": "cilium", "meta.helm.sh/release-namespace": "kube-system"}


def helm_made(peers: tuple[str, ...], *, operation: str = "Update", users: bool, whole: bool = False) -> ClusterFacts:
    """c1, where Helm made the Secrets with these peers, and this collection added c2."""
    data: dict[str, Any] = {} if whole else {f"f:{name}": {} for name in peers}
    tree = {"f:data": data, "f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}}
    ledger = {"manager": "cilium", "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": tree}
    writer = WriterFacts(manager="cilium", operation=operation, entry=json.dumps(ledger))
    keys = {name: key_facts("endpoints: []", managers=("cilium",)) for name in peers} | {"c2": key_facts("endpoints: []", managers=(OURS,))}
    return replace(
        cluster_facts("c1", version="1.19.5", auth_mode="migration" if users else "legacy"),
        clustermesh=peer_secret("cilium-clustermesh", keys, helm=True, annotations=RELEASE),
        kvstoremesh=peer_secret("cilium-kvstoremesh", keys, helm=True, annotations=RELEASE),
        writers={f"Secret {name}": (writer,) for name in ("cilium-clustermesh", "cilium-kvstoremesh")},
    )


@pytest.mark.parametrize(
    ("made", "peers", "effect"),
    [
        (helm_made((), users=True), "none", "remove every link made here"),
        (helm_made((), users=False), "none", "remove every link made here"),
        (helm_made(("p1",), users=True), '"p1"', "keep the keys made here and remove their users"),
        (helm_made(("p1",), users=False), '"p1"', "keep the keys made here, but a forced one removes them"),
        (helm_made(("p1",), operation="Apply", users=True), '"p1"', "fail with a conflict over the users made here"),
        (helm_made(("p1",), operation="Apply", users=False), '"p1"', "keep the keys made here, but a forced one removes them"),
        (helm_made((), operation="Apply", users=False, whole=True), "none", "the API server refuses keys beside Helm's"),
    ],
)
def test_the_finding_says_what_the_next_upgrade_does(made: ClusterFacts, peers: str, effect: str) -> None:
    (found,) = (entry for entry in run_checks(context_of(made, cluster_facts("c2"))) if entry.code == "CM-OWN-01" and entry.cluster == "c1")

    assert found.blocks and effect in found.summary
    assert f"peers in Helm's values: {peers}" in found.evidence
    assert ("server-side apply" if helm_upgrade(made).server_side else "three-way merge") in found.evidence
    assert "helm upgrade" in found.fix and "cilium upgrade --namespace kube-system --version 1.19.5 --reuse-values --set" in found.fix


def waiting(**overrides: Any) -> ClusterFacts:
    """c1, whose clustermesh-apiserver waits for its users."""
    return cluster_facts("c1", version="1.20.2", auth_mode="migration", users=RemoteUsersFacts(), config_annotations=RELEASE, **overrides)


def users_write(plan: Plan) -> tuple[Step, WriteUsers]:
    (found,) = ((step, step.action) for step in plan.steps if isinstance(step.action, WriteUsers))
    return found


def test_connect_makes_the_users_where_the_pod_waits_for_them_in_a_form_that_helm_takes_over() -> None:
    facts = {"c1": waiting(), "c2": cluster_facts("c2", version="1.20.2", auth_mode="legacy")}
    mesh = mesh_of("c1", "c2")
    step, action = users_write(plan_links(mesh, facts, PlanOptions(), NOW))

    assert (step.cluster, step.verb, step.wave) == ("c1", "create", 1)
    assert action.labels["app.kubernetes.io/managed-by"] == "Helm"
    assert action.labels["cilium-mesh.edge-portal.eu/owner"] == mesh.binding.owner
    assert dict(action.marks) == RELEASE
    assert "name: remote-c2" in action.text

    clusters = SimulatedClusters(facts, NOW)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    after = clusters.facts()
    codes = {found.code for found in run_checks(context_of(*after.values())) if found.cluster == "c1"}
    assert not codes & {"CM-USER-01", "CM-OWN-01", "CM-OWN-04"}, "the marks alone make it no object of Helm's"
    assert plan_links(mesh, after, PlanOptions(), NOW).empty
    clusters.run(plan_disconnect(mesh, after, None))
    left = clusters.facts()["c1"].users
    assert left.present and left.users == {} and not [key for key in left.annotations if key.startswith("users.")]


def test_without_a_release_of_helm_the_users_carry_our_marks_alone() -> None:
    facts = {"c1": replace(waiting(), config_annotations={}), "c2": cluster_facts("c2", version="1.20.2", auth_mode="legacy")}
    plan = plan_links(mesh_of("c1", "c2"), facts, PlanOptions(), NOW)
    _step, action = users_write(plan)

    assert action.labels["app.kubernetes.io/managed-by"] == "cilium-mesh.edge-portal.eu" and dict(action.marks) == {}


def test_the_finding_about_missing_users_prints_what_helm_takes_over() -> None:
    (found,) = (entry for entry in run_checks(context_of(waiting(), cluster_facts("c2"))) if entry.code == "CM-USER-01")

    assert not found.blocks and "connect creates it" in found.summary
    assert "label configmap/clustermesh-remote-users app.kubernetes.io/managed-by=Helm" in found.fix
    assert "annotate configmap/clustermesh-remote-users meta.helm.sh/release-name=cilium" in found.fix


BY_HAND = RemoteUsersFacts(
    present=True,
    labels={"app.kubernetes.io/managed-by": "Helm"},
    annotations=RELEASE,
    managers=("kubectl-annotate", "kubectl-create", "kubectl-label"),
)


@pytest.mark.parametrize(
    ("further", "owned"),
    [
        ((), False),
        (("cilium-mesh.edge-portal.eu/a1b2c3",), False),
        (("kubectl-edit",), False),
        (("helm",), True),
        (("argocd-controller",), True),
        (("kubectl-client-side-apply",), True),
        (("kubectl",), True),
    ],
)
def test_users_made_with_the_printed_commands_are_helms_only_after_helm_has_written_them(further: tuple[str, ...], owned: bool) -> None:
    users = replace(BY_HAND, managers=(*BY_HAND.managers, *further))
    found = run_checks(context_of(replace(waiting(), users=users), cluster_facts("c2")))

    assert ("CM-OWN-01" in {entry.code for entry in found if entry.cluster == "c1"}) is owned
