# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is written for intents, where, and what has to be said before. No cluster: facts in, steps and findings out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure, Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import plan_intents, prune_intents
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import in_one_test, one_test
from tests.testing.simulated_items import applied
from tests.testing.texts import mentions
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, object_facts, pod, scene, traffic

FRONTEND = PodSelection(namespace=NAMESPACE, labels={"app": "frontend"}, clusters=("c1",))
BACKEND = PodSelection(namespace=NAMESPACE, labels={"app": "backend"}, clusters=("c2",))
PODS = {"c1": (pod("frontend-1", app="frontend"),), "c2": (pod("backend-1", app="backend"),)}


def intent(**fields: Any) -> ConnectivityIntent:
    values: dict[str, Any] = {"name": "frontend-to-backend", "action": "Allow", "source": FRONTEND, "destination": BACKEND}
    return ConnectivityIntent(**{**values, "ports": (PortRule(protocol="TCP", port=8080),), **fields})


def world(*, hosts: tuple[str, ...] = ("c1", "c2"), config: dict[str, dict[str, str]] | None = None, **fields: Any) -> Scene:
    """A mesh in which the frontend runs in c1 and the backend in c2. ``config``: keys of cilium-config by host."""
    versions = fields.pop("versions", {})
    facts = {host: cluster_facts(host, version=versions.get(host, "1.18.11"), config=(config or {}).get(host)) for host in hosts}
    members = {host: traffic(host, **{"pods": PODS.get(host, ()), **fields.pop(host, {})}) for host in hosts}
    return scene(*members.values(), facts=facts, **fields)


def desired(at: Scene, *intents: ConnectivityIntent) -> Desired:
    return Desired(mesh=at.mesh, items={ItemKind.INTENT: intents}, kinds=frozenset({ItemKind.INTENT}))


def planned(wanted: ConnectivityIntent, at: Scene) -> ItemPlan:
    (plan,) = plan_intents(desired(at, wanted), at)
    return plan


def codes(plan: ItemPlan, *severities: Severity) -> list[str]:
    """Return the codes without those of isolation, which test_isolation checks."""
    found = [f for f in plan.findings if not f.code.startswith("CM-INT-3")]
    return sorted(f.code for f in found if not severities or f.severity in severities)


def done(wanted: ConnectivityIntent, at: Scene) -> Scene:
    return applied(at, planned(wanted, at).steps, at.binding)


# Where, and how often


def test_one_policy_in_the_destination_and_then_nothing_more() -> None:
    before = world()
    plan = planned(intent(), before)
    (step,) = plan.steps
    assert (step.cluster, step.verb, step.item) == ("c2", "create", "connectivityIntents/frontend-to-backend")
    assert isinstance(step.action, ApiWrite) and step.action.method == "apply"
    assert step.action.path.startswith("/apis/cilium.io/v2/namespaces/production/ciliumnetworkpolicies/frontend-to-backend-")
    assert mentions(step.why, "production", "app=frontend", "c1", "app=backend")
    assert planned(intent(), done(intent(), before)).steps == ()


def test_a_changed_port_is_one_patch() -> None:
    written = done(intent(), world())
    (step,) = planned(intent(ports=(PortRule(protocol="TCP", port=9090),)), written).steps
    assert (step.cluster, step.verb) == ("c2", "patch")


def test_a_policy_that_another_writer_loosened_is_written_again() -> None:
    written = done(intent(), world())
    (policy,) = written.traffic["c2"].policies
    opened = replace(policy, spec={**policy.spec, "ingress": [{}, *policy.spec["ingress"]]})
    loosened = replace(written, traffic={**written.traffic, "c2": replace(written.traffic["c2"], policies=(opened,))})
    assert [step.verb for step in planned(intent(), loosened).steps] == ["patch"]


def test_a_cluster_that_is_no_destination_any_more_loses_its_policy() -> None:
    both = replace(BACKEND, clusters=("c1", "c2"))
    steps = planned(intent(), done(intent(destination=both), world())).steps
    assert [(step.cluster, step.verb) for step in steps] == [("c1", "delete")]


def test_another_mode_is_written_before_the_old_policy_goes() -> None:
    steps = planned(intent(mode="Clusterwide"), done(intent(), world())).steps
    assert [(step.verb, step.object.split()[0], step.wave) for step in steps] == [
        ("create", "CiliumClusterwideNetworkPolicy", 14),
        ("delete", "CiliumNetworkPolicy", 20),
    ]


def test_a_foreign_policy_under_our_name_stays() -> None:
    (step,) = planned(intent(), world()).steps
    name = step.object.rpartition("/")[2]
    foreign = object_facts(
        "CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=NAMESPACE, api="/apis/cilium.io/v2", spec={"endpointSelector": {}}
    )
    plan = planned(intent(), world(c2={"policies": (foreign,)}))
    assert plan.steps == () and codes(plan, Severity.BLOCKING) == ["CM-ITEM-02"]


def test_what_another_writer_added_to_our_policy_is_reported_and_not_overwritten() -> None:
    written = done(intent(), world())
    (policy,) = written.traffic["c2"].policies
    rules = [{**rule, "fromEntities": ["all"]} for rule in policy.spec["ingress"]]
    opened = replace(policy, spec={**policy.spec, "ingress": rules})
    plan = planned(intent(), replace(written, traffic={**written.traffic, "c2": replace(written.traffic["c2"], policies=(opened,))}))
    assert plan.steps == () and codes(plan, Severity.BLOCKING) == ["CM-ITEM-04"]


def test_an_intent_that_is_gone_loses_what_it_made_and_no_other_does() -> None:
    first, second = intent(name="first"), intent(name="second")
    written = done(second, done(first, world()))
    steps, findings = prune_intents(desired(written, second), written)
    assert [(step.cluster, step.verb) for step in steps] == [("c2", "delete")] and "first-" in steps[0].object
    assert findings == []
    other = replace(written, mesh=replace(written.mesh, binding=replace(written.binding, name="another")))
    assert prune_intents(desired(other), other) == ([], [])


def test_many_intents_converge() -> None:
    at = world()
    wanted = desired(at, *(intent(name=f"intent-{n}") for n in range(60)))
    written = applied(at, [step for plan in plan_intents(wanted, at) for step in plan.steps], at.binding)
    assert len(written.traffic["c2"].policies) == 60
    assert not any(plan.steps for plan in plan_intents(wanted, written))


# What a version cannot say


@one_test(
    "version fields refused",
    ("1.15.19", {"action": "Deny"}, True),
    ("1.16.19", {"action": "Deny"}, False),
    ("1.15.19", {"ports": (PortRule(protocol="TCP", port=1, end_port=9),)}, True),
    ("1.16.0", {"ports": (PortRule(protocol="TCP", port=1, end_port=9),)}, False),
    ("1.15.19", {}, False),
    ("1.15.19", {"action": "Isolate", "source": None, "ports": ()}, False),
)
def test_a_version_that_cannot_say_it_refuses_the_intent(version: str, fields: dict[str, Any], refused: bool) -> None:
    plan = planned(intent(**fields), world(versions={"c2": version}))
    assert (plan.verdict is ItemVerdict.REFUSED) == refused
    assert codes(plan, Severity.BLOCKING) == (["CM-INT-01"] if refused else [])
    assert bool(plan.steps) != refused
    if refused:
        assert plan.reason == "UnsupportedVersion" and "c2" in plan.message and "1.16" in plan.message


def test_only_the_version_of_the_destination_counts() -> None:
    assert planned(intent(action="Deny"), world(versions={"c1": "1.15.19"})).verdict is ItemVerdict.ACCEPTED


def test_a_version_that_is_not_known_may_be_too_old() -> None:
    at = world()
    agent = at.facts["c2"].agent
    assert agent is not None
    blind = replace(at.facts["c2"], agent=replace(agent, containers={"cilium-agent": "cilium:latest"}, labels={}), apiserver=None)
    at = replace(at, facts={**at.facts, "c2": blind})
    assert codes(planned(intent(action="Deny"), at), Severity.BLOCKING) == ["CM-INT-01"]
    assert planned(intent(), at).verdict is ItemVerdict.ACCEPTED


def test_a_cluster_whose_name_is_unknown_refuses_the_intent() -> None:
    plan = planned(intent(source=replace(FRONTEND, clusters=("c1", "c9"))), world(members=("c9",), names={"c1": "c1", "c2": "c2"}))
    assert plan.verdict is ItemVerdict.REFUSED and codes(plan) == ["CM-INT-03"] and "c9" in plan.message


# What the installation makes of it


@one_test(
    "key value fields expected",
    ("enable-non-default-deny-policies", "false", {"action": "Deny"}, ["CM-INT-02"]),
    ("enable-non-default-deny-policies", "false", {}, []),
    ("enable-policy", "never", {}, ["CM-INT-04"]),
    ("enable-policy", "NEVER", {}, ["CM-INT-04"]),
    ("enable-cilium-network-policy", "false", {}, ["CM-INT-04"]),
    ("enable-cilium-network-policy", "false", {"mode": "Clusterwide"}, []),
    ("enable-cilium-clusterwide-network-policy", "false", {"mode": "Clusterwide"}, ["CM-INT-04"]),
    ("enable-policy", "always", {}, ["CM-INT-05"]),
    ("enable-icmp-rules", "false", {"ports": (PortRule(protocol="ICMP", icmp_type=8),)}, ["CM-INT-12"]),
    ("enable-icmp-rules", "false", {}, []),
    ("enable-sctp", "true", {"ports": (PortRule(protocol="SCTP", port=9),)}, []),
    ("enable-sctp", "false", {"ports": (PortRule(protocol="SCTP", port=9),)}, ["CM-INT-13"]),
    ("labels", "k8s:tier", {}, ["CM-INT-11"]),
    ("labels", "k8s:app", {}, []),
    ("labels", "k8s:!app", {}, ["CM-INT-11"]),
    ("labels", r"!io\.cilium.*", {}, ["CM-INT-11"]),
    ("labels", r"!io\.cilium.*", {"action": "Deny"}, ["CM-INT-11"]),
    ("labels", r"!io\.cilium.*", {"action": "Isolate", "source": None, "ports": ()}, ["CM-INT-11"]),
    # The shortest pattern that ignores counts, and Cilium's own "io.kubernetes" is shorter than what includes the namespace.
    ("labels", r"!io\.kubernetes\.pod.*", {"action": "Isolate", "source": None, "ports": ()}, []),
    ("policy-audit-mode", "true", {"action": "Deny"}, ["CM-INT-04"]),
    ("policy-audit-mode", "false", {"action": "Deny"}, []),
)
def test_settings_of_the_destination(key: str, value: str, fields: dict[str, Any], expected: list[str]) -> None:
    assert codes(planned(intent(**fields), world(config={"c2": {key: value}}))) == expected


@one_test(
    "config values",
    ({"enable-policy": "never"}, ["policyEnforcementMode=default"]),
    ({"policy-audit-mode": "true"}, ["policyAuditMode=false"]),
    ({"enable-cilium-network-policy": "false"}, ["extraConfig.enable-cilium-network-policy=true"]),
    (
        {"enable-policy": "never", "policy-audit-mode": "T", "enable-cilium-network-policy": "0"},
        ["policyEnforcementMode=default", "policyAuditMode=false", "extraConfig.enable-cilium-network-policy=true"],
    ),
)
def test_what_to_do_turns_on_what_is_off_and_nothing_else(config: dict[str, str], values: list[str]) -> None:
    (found,) = (entry for entry in planned(intent(), world(config={"c2": config})).findings if entry.code == "CM-INT-04")
    assert re.findall(r"--set (\S+)", found.fix) == values


def test_before_1_17_nothing_reads_the_switches() -> None:
    config = {"c2": {"enable-non-default-deny-policies": "false", "enable-cilium-network-policy": "false"}}
    assert codes(planned(intent(action="Deny"), world(config=config, versions={"c2": "1.16.19"}))) == []


def test_always_is_reported_once() -> None:
    at = world(config={"c2": {"enable-policy": "always"}})
    assert codes(planned(intent(), done(intent(), at))) == []


def test_a_source_whose_identities_lack_the_label_of_its_cluster_would_match_no_pod() -> None:
    (found,) = planned(intent(action="Deny"), world(config={"c1": {"labels": r"!io\.cilium.*"}})).findings
    assert (found.code, found.severity, found.cluster) == ("CM-INT-11", Severity.BLOCKING, "c1")
    assert mentions(found.summary, "the policy selects the source by io.cilium.k8s.policy.cluster")
    assert mentions(found.fix, "Take the pattern that leaves it out")


@in_one_test
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("label-prefix-file", "/etc/cilium/label-prefix"),
        ("labels", "k8s:app,k8s:role"),
        ("labels", "!(a|b)+"),
        ("enable-icmp-rules", "maybe"),
    ],
)
@pytest.mark.parametrize("host", ["c1", "c2"])
@pytest.mark.parametrize("action", ["Allow", "Deny"])
def test_what_cannot_be_read_of_a_setting_is_not_certain_and_not_no(key: str, value: str, host: str, action: str) -> None:
    if (key, host) == ("enable-icmp-rules", "c1"):
        return  # a source's cluster decides about the labels of its identities alone
    plan = planned(intent(action=action), world(config={host: {key: value}}))
    (found,) = (finding for finding in plan.findings if finding.code == "CM-INT-32")
    assert key in found.evidence and plan.steps and not codes(plan, Severity.BLOCKING)


@pytest.mark.parametrize("operator", ["In", "NotIn", "DoesNotExist"])
def test_a_label_that_is_in_no_identity_would_match_no_pod_or_all(operator: str) -> None:
    values = () if operator == "DoesNotExist" else ("x",)
    source = replace(FRONTEND, labels={}, expressions=(LabelRequirement(key="pod-template-hash", operator=operator, values=values),))
    found = [f for f in planned(intent(source=source), world()).findings if f.code == "CM-INT-11"]
    assert [(f.severity, f.cluster) for f in found] == [(Severity.BLOCKING, "c1")] and "pod-template-hash" in found[0].summary


# What the mesh is like just now


def test_a_silent_destination_is_left_out_and_reported() -> None:
    both = replace(BACKEND, clusters=("c2", "c3"))
    failure = ObserveFailure(host="c3", code="CM-API-01", message="c3 does not answer")
    plan = planned(intent(destination=both), world(members=("c3",), failures={"c3": failure}))
    assert [step.cluster for step in plan.steps] == ["c2"]
    (finding,) = [f for f in plan.findings if f.code == "CM-INT-06"]
    assert (finding.cluster, finding.severity) == ("c3", Severity.REMEDIABLE) and "c3 does not answer" in finding.evidence


def test_a_silent_source_keeps_the_name_that_the_mesh_remembers() -> None:
    at = world(members=("c3",), names={"c1": "c1", "c2": "c2", "c3": "muc-3"})
    plan = planned(intent(source=replace(FRONTEND, clusters=("c1", "c3"))), at)
    assert codes(plan) == ["CM-INT-07"] and "muc-3" in str(plan.steps[0].action)


def test_a_namespace_that_is_not_there_takes_only_its_cluster_out() -> None:
    both = replace(BACKEND, namespace="shop", clusters=("c1", "c2"))
    plan = planned(intent(destination=both), world(c1={"namespaces": (namespace_facts("shop"),)}))
    assert [step.cluster for step in plan.steps] == ["c1"]
    assert [(f.cluster, f.severity) for f in plan.findings if f.code == "CM-INT-08"] == [("c2", Severity.REMEDIABLE)]
    clusterwide = planned(intent(destination=both, mode="Clusterwide"), world(c1={"namespaces": (namespace_facts("shop"),)}))
    assert [step.cluster for step in clusterwide.steps] == ["c1", "c2"] and "CM-INT-08" not in codes(clusterwide)


def test_a_policy_stays_where_its_namespace_is_not_shown() -> None:
    """A list that is short by one (a proxy that shows each tenant his own) takes no isolation away: the policy proves that it is there."""
    written = done(intent(), world())
    short = replace(written.traffic["c2"], namespaces={"default": namespace_facts("default")})
    plan = planned(intent(), replace(written, traffic={**written.traffic, "c2": short}))
    assert plan.steps == () and "CM-INT-08" in codes(plan)
    moved = planned(intent(destination=replace(BACKEND, namespace="shop")), replace(written, traffic={**written.traffic, "c2": short}))
    assert moved.steps == () and "CM-ITEM-05" in codes(moved)  # what replaces it has no namespace yet: a typing error may be the reason


def test_where_nothing_is_known_of_intents_none_is_taken_away() -> None:
    written = done(intent(), world())
    assert prune_intents(Desired(mesh=written.mesh, kinds=frozenset({ItemKind.EXPOSURE})), written) == ([], [])
    assert len(prune_intents(desired(written), written)[0]) == 1


def test_a_namespace_that_goes_takes_no_policy() -> None:
    going = replace(namespace_facts(), status={"phase": "Terminating"})
    plan = planned(intent(), world(c2={"namespaces": (going,)}))
    assert plan.steps == () and "CM-INT-08" in codes(plan)


def test_no_pod_is_selected() -> None:
    without_pods = intent(source=replace(FRONTEND, labels={"app": "fronted"}), destination=replace(BACKEND, labels={"app": "backnd"}))
    assert codes(planned(without_pods, world()), Severity.ADVISORY) == ["CM-INT-09", "CM-INT-10"]


def test_pods_that_may_not_be_read_prove_nothing() -> None:
    at = world()
    unread = (Unread(what="pods", message="forbidden", remedy="allow it"),)
    at = replace(at, traffic={host: replace(entry, pods=(), unread=unread) for host, entry in at.traffic.items()})
    assert codes(planned(intent(), at)) == []


def test_a_source_that_is_not_linked_is_not_known_at_the_destination() -> None:
    at = world(hosts=("c1", "c2", "c3"))
    hub = replace(at.binding, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c3",)))
    at = replace(at, mesh=replace(at.mesh, binding=hub))
    (finding,) = [f for f in planned(intent(), at).findings if f.code == "CM-INT-16"]
    assert "c2 is not linked to c1" in finding.summary and finding.severity is Severity.REMEDIABLE
    deny = planned(intent(action="Deny"), at)
    (finding,) = [f for f in deny.findings if f.code == "CM-INT-16"]
    assert finding.severity is Severity.BLOCKING
    both = planned(intent(action="Deny", source=replace(FRONTEND, clusters=("c1", "c3"))), at)
    assert codes(both, Severity.BLOCKING) == [] and "CM-INT-16" in codes(both, Severity.REMEDIABLE), "it denies those of c3"


def test_a_link_that_is_down_is_reported_with_its_error() -> None:
    plan = planned(intent(action="Deny"), world(link_errors={("c2", "c1"): "tls: certificate has expired", ("c1", "c2"): "tcp: refused"}))
    (finding,) = [f for f in plan.findings if f.code == "CM-INT-17"]
    assert "certificate has expired" in finding.evidence and "refused" not in finding.evidence


@pytest.mark.parametrize(
    ("version", "setting", "annotation", "expected"),
    [
        ("1.20.2", {}, None, []),
        ("1.20.2", {}, "false", ["CM-INT-14"]),
        ("1.19.5", {}, "false", ["CM-INT-14"]),
        ("1.19.5", {"clustermesh-default-global-namespace": "false"}, None, []),
        ("1.20.2", {"clustermesh-default-global-namespace": "false"}, None, ["CM-INT-14"]),
        ("1.20.2", {"clustermesh-default-global-namespace": "false"}, "True", []),
        ("1.18.11", {}, "false", []),
    ],
)
def test_a_namespace_that_exports_no_identities(version: str, setting: dict[str, str], annotation: str | None, expected: list[str]) -> None:
    texts = {} if annotation is None else {"clustermesh.cilium.io__global": annotation}
    namespace = namespace_facts(NAMESPACE, **texts)
    at = world(versions={"c1": version}, config={"c1": setting}, c1={"namespaces": (namespace,)})
    assert codes(planned(intent(), at)) == expected
    within = replace(BACKEND, labels={"app": "frontend"}, clusters=("c1",))
    assert codes(planned(intent(destination=within), at)) == []
    assert codes(planned(intent(action="Deny"), at), Severity.BLOCKING) == expected, "a Deny would not keep these pods out"
    assert codes(planned(intent(action="Deny", destination=within), at), Severity.BLOCKING) == []


def test_a_policy_that_cilium_refuses_is_reported() -> None:
    written = done(intent(), world())
    (policy,) = written.traffic["c2"].policies
    said = {"conditions": [{"type": "Valid", "status": "False", "message": "unable to parse\x1b[31m"}]}
    bad = replace(written, traffic={**written.traffic, "c2": replace(written.traffic["c2"], policies=(replace(policy, status=said),))})
    (finding,) = planned(intent(), bad).findings
    assert finding.code == "CM-INT-15" and "unable to parse" in finding.evidence and finding.evidence.isprintable()
    assert "CM-INT-15" not in codes(planned(intent(ports=()), bad))  # it is written anew; nothing is said of the old text
