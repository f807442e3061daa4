# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The forecast of a whole mesh: its steps in order, the flows that new defaults change, what connect writes after a hop, and gates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED, Minor, cilium_version
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.judgement import judge_and_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.effect import Need
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.forecast import forecast, values_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.report import UpgradeReport, upgrade_json
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.upgrade_lines import upgrade_lines
from tests.testing.facts_builders import NOW, cluster_facts, context_of
from tests.testing.policy_worlds import policy_facts
from tests.testing.simulated_apply import SimulatedClusters
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic

SHOP = [namespace_facts("shop")]


def policy(**peer: Any) -> ObjectFacts:
    """Pods app=db accept what the peer says, in every cluster before 1.19 unless it names one."""
    spec = {"endpointSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"fromEndpoints": [peer]}]}
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "db", "namespace": "shop"}, "spec": spec})


OPEN = policy(matchLabels={"app": "web"})
NAMED = policy(matchLabels={"app": "web", "io.cilium.k8s.policy.cluster": "c1"})

REQUIRES = policy_facts(
    {
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {
            "endpointSelector": {"matchLabels": {"app": "db"}},
            "ingress": [{"fromEndpoints": [{}], "fromRequires": [{"matchLabels": {"env": "prod"}}]}],
        },
    }
)


def scene_of(*policies: ObjectFacts, version: str = "1.18.11", facts: Mapping[str, ClusterFacts] | None = None, **fields: Any) -> Scene:
    """A client in c1, and the database with its policies in c2."""
    return scene(
        traffic("c1", namespaces=SHOP, pods=(pod("web-0", namespace="shop", app="web"),)),
        traffic("c2", namespaces=SHOP, pods=(pod("db-0", namespace="shop", app="db"),), policies=policies),
        facts=facts or {host: cluster_facts(host, version=version) for host in ("c1", "c2")},
        **fields,
    )


def plan_nothing(_facts: Mapping[str, ClusterFacts]) -> tuple[tuple[Finding, ...], Plan | None]:
    return (), None


def plan_connect(current: Scene) -> Any:
    """What connect finds and plans, by the functions of its run."""
    context, options = context_of(*current.facts.values(), mesh=current.mesh), ConnectOptions()
    return lambda facts: judge_and_plan(replace(context, decisions=context.decisions.with_facts(facts)), options)


def report(current: Scene, target: str = "", plan_of: Any = plan_nothing, values: Mapping[str, Any] | None = None) -> UpgradeReport:
    return UpgradeReport(forecast(current, target, plan_of, values_of(values)))


def connected(current: Scene) -> Scene:
    """The same members once connect was carried out."""
    clusters = SimulatedClusters(current.facts, NOW)
    _findings, plan = plan_connect(current)(clusters.facts(current.mesh))
    assert plan is not None
    clusters.run(plan)
    return replace(current, facts=clusters.facts(current.mesh))


def test_a_selector_that_names_no_cluster_loses_the_other_clusters_and_the_value_that_keeps_them_is_named() -> None:
    found = report(scene_of(OPEN), "1.19")
    (lost,) = [row for row in found.forecast.rows if row.flow.source.cluster == "c1" and row.flow.source.namespace]
    assert (lost.kind.value, lost.before.value, lost.flow.destination.cluster) == ("lost", "allowed", "c2")
    (effect,) = [effect for effect in found.forecast.effects if effect.rule == "policy_local_by_default"]
    assert (effect.cluster, effect.need, effect.values) == ("c2", Need.WITH, ("clustermesh.policyDefaultLocalCluster=false",))
    assert "CiliumNetworkPolicy shop/db in c2" in effect.evidence[0]
    upgrade = next(step for step in found.steps if (step.cluster, step.kind.value) == ("c2", "upgrade"))
    assert "clustermesh.policyDefaultLocalCluster=false" in upgrade.values
    assert any("--set clustermesh.policyDefaultLocalCluster=false" in line for line in upgrade.commands)
    assert found.violations(["lost"]) and not report(scene_of(NAMED), "1.19").violations(["lost", "gained"])


def test_policies_that_name_their_clusters_mean_the_same_in_every_minor() -> None:
    found = report(scene_of(NAMED, version="1.16.19"), "1.20")
    assert found.forecast.rows == ()
    assert [effect for effect in found.forecast.effects if effect.rule in ("policies", "policy_local_by_default")] == []


def test_a_policy_that_the_next_minor_refuses_is_a_change_of_its_own() -> None:
    rules = {effect.rule for effect in report(scene_of(REQUIRES), "1.19").forecast.effects if effect.cluster == "c2"}
    assert {"required_labels", "policies"} <= rules


def test_steps_prepare_upgrade_connect_and_verify_one_member_after_the_other() -> None:
    current = connected(scene_of())
    found = report(current, "1.19", plan_connect(current))
    kinds = ("upgrade", "connect", "verify")
    assert [(step.cluster, step.kind.value) for step in found.steps] == [(host, kind) for host in ("c1", "c2") for kind in kinds]
    assert [step.number for step in found.steps] == list(range(1, len(found.steps) + 1))
    upgrade = found.steps[0]
    assert upgrade.restarts == (
        "DaemonSet cilium (2 pods, one node after the other)",
        "Deployment cilium-operator",
        "Deployment clustermesh-apiserver",
    )
    assert upgrade.commands[0] == "helm get values cilium --namespace kube-system --output yaml > values-c1.yaml"
    assert "--version" in upgrade.commands[1] and "1.19.0" in upgrade.commands[1] and "--reuse-values" not in upgrade.commands[1]
    assert found.violations(["prepare"]) == []
    requires = connected(scene_of(REQUIRES))
    assert next(step.kind.value for step in report(requires, "1.19", plan_connect(requires)).steps if step.cluster == "c2") == "prepare"
    assert report(requires, "1.19").violations(["prepare"])[0].startswith("prepare: c2: fromRequires")


@pytest.mark.parametrize(
    ("version", "target", "objects"),
    [
        # Agents use the local certificate from 1.17 on; addresses move from pod templates into the configuration with 1.20.
        ("1.16.19", "1.17", {("c1", "Secret kube-system/cilium-clustermesh"), ("c2", "Secret kube-system/cilium-clustermesh")}),
        (
            "1.19.5",
            "1.20",
            {
                (host, name)
                for host in ("c1", "c2")
                for name in ("Secret kube-system/cilium-kvstoremesh", "Deployment kube-system/clustermesh-apiserver")
            },
        ),
        ("1.17.17", "1.18", set()),
    ],
)
def test_what_connect_writes_after_each_hop_is_known_before(version: str, target: str, objects: set[tuple[str, str]]) -> None:
    current = connected(scene_of(version=version))
    found = report(current, target, plan_connect(current))
    assert {(step.cluster, step.object) for hop in found.forecast.hops for step in hop.writes} == objects
    for hop in found.forecast.hops:
        assert {step.cluster for step in hop.writes} <= {hop.hop.host}
    assert any(step.kind.value == "connect" for step in found.steps) == bool(objects)


def test_findings_and_writes_of_a_hop_are_known_before_it() -> None:
    current = connected(scene_of())
    hops = report(current, "1.19", plan_connect(current)).forecast.hops
    assert [[entry.code for entry in hop.findings] for hop in hops] == [["CM-USER-01"], ["CM-USER-01"]]  # until connect makes the users
    users, keys = "ConfigMap kube-system/clustermesh-remote-users", "Secret kube-system/cilium-kvstoremesh"
    assert [{(step.cluster, step.object) for step in hop.writes} for hop in hops] == [
        {("c1", users), ("c2", keys)},  # c2 gets a user of its own in c1, and a certificate with its name
        {("c2", users), ("c1", keys)},
    ]


def test_a_silent_member_passes_no_gate_and_is_named() -> None:
    failure = ObserveFailure(host="c3", code="CM-API-01", message="c3 does not answer.")
    found = report(scene_of(NAMED, members=("c3",), failures={"c3": failure}), "1.18")
    assert found.violations([]) == []
    assert found.violations(["lost"]) == ["nothing can be said of c3, so no gate is passed"]
    assert any("c3: c3 does not answer." in line.text for line in upgrade_lines(found))


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("1.2", "not known"),
        (str(Minor(1, SUPPORTED.last.minor + 1)), "not known"),
        ("next", "no minor"),
        ("1.17", "newer Cilium than 1.17"),
        ("1.²", "no minor"),
        ("1" * 30, "no minor"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(target: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        report(scene_of(), target)


def test_without_a_target_it_is_the_newest_member_or_the_next_minor() -> None:
    assert str(report(scene_of()).forecast.target) == "1.19"
    mixed = scene_of(facts={"c1": cluster_facts("c1", version="1.17.17"), "c2": cluster_facts("c2", version="1.19.5")})
    assert str(report(mixed).forecast.target) == "1.19"
    newest = report(scene_of(version=f"{SUPPORTED.last}.2"))
    assert newest.forecast.hops == () and newest.steps == ()
    assert upgrade_lines(newest)[-1].text == f"Every member runs Cilium {SUPPORTED.last}: there is nothing to upgrade"


def test_the_result_the_file_and_the_lines_have_every_step() -> None:
    found = report(scene_of(OPEN), "1.20")
    data, file = found.to_dict(), json.loads(upgrade_json(found))
    assert len(data["steps"]) == len(found.steps) == len(file["steps"])
    assert file["schema"] == 1 and len(file["changes"]) == len(found.forecast.rows) == len(data["changes"])
    text = "\n".join(line.text for line in upgrade_lines(found))
    for step in found.steps:
        assert f"  {step.number:>3}  {step.cluster}  {step.hop}  {step.kind.value}" in text
    for hop in found.forecast.hops:
        version = cilium_version(hop.facts)
        assert version is not None and version.release == hop.hop.after


def test_a_value_that_the_user_sets_passes_the_gates_and_stands_in_every_command() -> None:
    gates = ["prepare", "lost", "gained"]
    assert len(report(scene_of(OPEN), "1.20").violations(gates)) == 2
    kept = report(scene_of(OPEN), "1.20", values={"clustermesh.policyDefaultLocalCluster": False})
    assert kept.violations(gates) == [] and kept.forecast.rows == ()
    upgrades = [step for step in kept.steps if step.kind.value == "upgrade"]
    assert len(upgrades) == 4
    assert all(step.values == ("clustermesh.policyDefaultLocalCluster=false",) for step in upgrades)


def test_the_auth_mode_that_the_user_keeps_needs_no_users() -> None:
    current = connected(scene_of())
    found = report(current, "1.19", plan_connect(current), {"clustermesh.apiserver.tls.authMode": "legacy"})
    assert {effect.rule for effect in found.forecast.effects} == set()
    assert [hop.writes for hop in found.forecast.hops] == [(), ()]
    assert [hop.findings for hop in found.forecast.hops] == [(), ()]


def test_a_value_that_keeps_what_a_rule_asks_for_asks_for_nothing() -> None:
    config = {"clustermesh-enable-mcs-api": "true"}
    current = scene_of(facts={host: cluster_facts(host, version="1.19.5", config=config) for host in ("c1", "c2")})
    assert report(current, "1.20").violations(["prepare"])
    assert report(current, "1.20", values={"clustermesh.mcsapi.enabled": "true"}).violations(["prepare"]) == []
    assert report(current, "1.20", values={"clustermesh.mcsapi.enabled": "false"}).violations(["prepare"])


def test_nested_values_are_refused() -> None:
    with pytest.raises(InvalidInput, match="whole key with dots"):
        values_of({"clustermesh": {"config": {"enabled": True}}})
