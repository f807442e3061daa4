# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies that the API server takes and Cilium refuses: they are believed neither as protection nor as permission."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import EndpointKind, PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import prune_intents
from tests.testing import traffic_builders as facts
from tests.testing.policy_worlds import ALLOWED, DENIED, UNKNOWN, VERSIONS, WORLD, judged, outcome, pod, policy_facts, world
from tests.testing.refused_policies import (
    BAD_BESIDE_GOOD,
    FROM_B,
    GOOD,
    REFUSED_BY_SCHEMA_TOO,
    REFUSED_RULES,
    by_expression,
    by_key,
    layer_7_rule,
)
from tests.testing.rows import in_one_test, one_test

REFUSED = {**REFUSED_RULES, **REFUSED_BY_SCHEMA_TOO}
WALL = policy_facts({"kind": "NetworkPolicy", "metadata": {"name": "wall"}, "spec": {"podSelector": {}}})
B, C, TARGET = pod(app="b"), pod(namespace="other", app="c"), pod(app="a")


def refused(rule: dict[str, Any], *, kind: str = "CiliumNetworkPolicy") -> ObjectFacts:
    spec = {"endpointSelector": {}, "ingress": [FROM_B, rule]}
    return policy_facts({"kind": kind, "metadata": {"name": "p"}, "spec": spec})


@in_one_test
@pytest.mark.parametrize("rule", REFUSED.values(), ids=REFUSED)
def test_a_refused_policy_is_neither_a_wall_nor_a_door(rule: dict[str, Any]) -> None:
    """Alone it isolates nothing for certain; beside one that isolates, its good rule lets nothing in for certain."""
    alone, behind = world({"c1": [refused(rule)]}), world({"c1": [refused(rule), WALL]})

    assert outcome(alone, C, TARGET) is UNKNOWN
    assert judged(alone, C, TARGET).ingress.refused and "Cilium refuses it" in judged(alone, C, TARGET).ingress.shown
    assert outcome(behind, B, TARGET) is UNKNOWN
    assert outcome(alone, TARGET, WORLD) is ALLOWED  # it is about ingress alone


@pytest.mark.parametrize("kind", ["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"])
@pytest.mark.parametrize("bad", BAD_BESIDE_GOOD.values(), ids=BAD_BESIDE_GOOD)
def test_one_refused_rule_takes_the_good_ones_with_it(bad: dict[str, Any], kind: str) -> None:
    policy = policy_facts({"kind": kind, "metadata": {"name": "p"}, "specs": [GOOD, bad]})

    assert outcome(world({"c1": [policy]}), C, TARGET) is UNKNOWN
    assert outcome(world({"c1": [policy, WALL]}), replace(B), TARGET) is UNKNOWN


@in_one_test
@pytest.mark.parametrize("rule", REFUSED.values(), ids=REFUSED)
def test_a_deny_that_cilium_refuses_does_not_hide_what_another_denies(rule: dict[str, Any]) -> None:
    deny = policy_facts(
        {"kind": "CiliumNetworkPolicy", "metadata": {"name": "no"}, "spec": {"endpointSelector": {}, "ingressDeny": [FROM_B]}}
    )

    assert outcome(world({"c1": [refused(rule), deny]}), B, TARGET) is DENIED


@pytest.mark.parametrize(
    "rule",
    [
        {"fromCIDRSet": [{"cidr": "10.1.0.0/16", "except": ["10.1.2.0/24"]}]},
        {"fromCIDRSet": [{"cidr": "10.1.0.0/16", "except": ["10.1.0.0/8"]}]},  # only the address has to be within
        by_expression(key="k8s:app.kubernetes.io/name", values=["", "b" * 63]),
        {"toPorts": [{"ports": [{"port": "0", "protocol": "VRRP"}]}]},
        layer_7_rule(),
        {"fromEndpoints": [{"matchLabels": {"reserved:host": ""}}]},
    ],
)
def test_what_cilium_takes_is_believed(rule: dict[str, Any]) -> None:
    policy_world = world({"c1": [refused(rule)]})

    assert outcome(policy_world, C, TARGET, "UDP/7") is DENIED
    assert outcome(policy_world, B, TARGET, "UDP/7") is ALLOWED


def test_settings_decide_what_is_refused() -> None:
    nodes = world({"c1": [refused({"fromNodes": [{}]})]}, config={"enable-node-selector-labels": "true"})
    http_off = world({"c1": [refused(layer_7_rule())]}, config={"enable-l7-proxy": "false"})
    icmp_off = world({"c1": [refused({"icmps": [{"fields": [{"type": 8}]}]})]}, config={"enable-icmp-rules": "false"})

    assert outcome(nodes, C, TARGET) is DENIED
    assert "enable-l7-proxy" in judged(http_off, C, TARGET).ingress.shown
    assert "enable-icmp-rules" in judged(icmp_off, C, TARGET).ingress.shown


@pytest.mark.parametrize("version", VERSIONS)
def test_older_versions_take_rules_without_directions_and_keys_with_a_dollar(version: str) -> None:
    empty = policy_facts(
        {"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "specs": [GOOD, {"endpointSelector": {}, "ingress": []}]}
    )
    dollar = refused(by_key("$host"))
    old = version.startswith("1.16")

    assert outcome(world({"c1": [empty]}, version=version), C, TARGET) is (DENIED if old else UNKNOWN)
    assert outcome(world({"c1": [dollar]}, version=version), C, TARGET) is (UNKNOWN if version.startswith("1.20") else DENIED)


def valid(status: str, message: str = "rule 3: no such thing") -> dict[str, Any]:
    return {"conditions": [{"type": "Valid", "status": status, "message": message}]}


@in_one_test
@pytest.mark.parametrize("kind", ["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"])
@pytest.mark.parametrize("body", [{"spec": GOOD}, {"specs": [GOOD]}], ids=["spec", "specs"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_condition_of_cilium_is_believed_whatever_the_policy_says(kind: str, body: dict[str, Any], version: str) -> None:
    good = policy_facts({"kind": kind, "metadata": {"name": "p"}, **body})
    policy_world = world({"c1": [replace(good, status=valid("False"))]}, version=version)

    assert judged(policy_world, C, TARGET).ingress.shown == (
        f'not understood: {good.shown} (Cilium refuses it: condition Valid is False: "rule 3: no such thing")'
    )
    assert outcome(world({"c1": [replace(good, status=valid("True"))]}, version=version), C, TARGET) is DENIED
    for strange in ({}, {"conditions": None}, {"conditions": "no"}, {"conditions": [1, {"type": "Valid"}]}, valid("Unknown")):
        assert outcome(world({"c1": [replace(good, status=strange)]}, version=version), C, TARGET) is DENIED


@one_test("conditions", ["True", "False"], ["False", "True"])
def test_of_two_conditions_the_refusal_counts(conditions: list[str]) -> None:
    """A status with both is no work of Cilium, which keeps one; what is not known protects nothing."""
    good = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": GOOD})
    status = {"conditions": [entry for given in conditions for entry in valid(given)["conditions"]]}
    assert outcome(world({"c1": [replace(good, status=status)]}), C, TARGET) is UNKNOWN


def test_a_key_in_both_selectors_of_a_peer_is_that_of_the_pod() -> None:
    """pkg/policy/api/selector.go, NewESFromK8sLabelSelector: the maps become one, and the later selector wins."""
    peer = {
        "namespaceSelector": {"matchLabels": {"env": "dev", "team": "red"}},
        "podSelector": {"matchLabels": {"io.cilium.k8s.namespace.labels.env": "prod"}},
    }
    spec = {"podSelector": {}, "ingress": [{"from": [peer]}]}
    policy_world = world({"c1": [policy_facts({"kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec})]})

    def source(**labels: str) -> PolicyEndpoint:
        return replace(pod(namespace="other"), namespace_labels=labels)

    assert outcome(policy_world, source(env="prod", team="red"), TARGET) is ALLOWED
    assert outcome(policy_world, source(env="dev", team="red"), TARGET) is DENIED
    assert outcome(policy_world, source(env="prod", team="blue"), TARGET) is DENIED


HOST = PolicyEndpoint(kind=EndpointKind.HOST, cluster="c1")


@pytest.mark.parametrize("version", VERSIONS)
def test_in_1_20_the_own_node_needs_a_rule_for_ingress_where_policies_are_always_enforced(version: str) -> None:
    """pkg/policy/repository.go of 1.20.2, issue 48444."""
    about_ingress = policy_facts(
        {"kind": "CiliumNetworkPolicy", "metadata": {"name": "in"}, "spec": {"endpointSelector": {}, "ingress": [{}]}}
    )
    about_egress = policy_facts(
        {"kind": "CiliumNetworkPolicy", "metadata": {"name": "out"}, "spec": {"endpointSelector": {}, "egress": [{}]}}
    )
    always = {"enable-policy": "always"}
    expected = DENIED if version.startswith("1.20") else ALLOWED

    for policies in ([], [about_egress]):
        found = judged(world({"c1": policies}, version=version, config=always), HOST, TARGET).ingress
        assert found.outcome is expected
        assert ("a bug of Cilium, issue 48444" in found.reason) == (expected is DENIED)
    assert outcome(world({"c1": [about_ingress]}, version=version, config=always), HOST, TARGET) is ALLOWED
    assert outcome(world({"c1": [about_egress]}, version=version), HOST, TARGET) is ALLOWED


NOT_SYSTEM = {"matchExpressions": [{"key": "k8s:io.kubernetes.pod.namespace", "operator": "NotIn", "values": ["kube-system"]}]}


@pytest.mark.parametrize("version", VERSIONS)
def test_in_1_20_a_selector_that_asks_for_nothing_may_match_every_pod(version: str) -> None:
    """Issue 46949: it matches an identity that stands for all pods, so what it should keep out is let in."""
    spec = {"endpointSelector": {}, "ingress": [{"fromEndpoints": [NOT_SYSTEM]}]}
    allow = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": spec})
    deny = policy_facts(
        {
            "kind": "CiliumNetworkPolicy",
            "metadata": {"name": "p"},
            "spec": {"endpointSelector": {}, "ingressDeny": [{"fromEndpoints": [NOT_SYSTEM]}], "ingress": [{"fromEntities": ["all"]}]},
        }
    )
    system, other = pod(namespace="kube-system"), pod(namespace="other")
    with_bug = version.startswith("1.20")
    elsewhere = {"policy-default-local-cluster": "false"}
    open_to, closed_to = world({"c1": [allow]}, version=version, config=elsewhere), world({"c1": [deny]}, version=version, config=elsewhere)

    assert outcome(open_to, other, TARGET) is ALLOWED
    assert outcome(open_to, system, TARGET) is (UNKNOWN if with_bug else DENIED)
    assert outcome(closed_to, other, TARGET) is DENIED
    assert outcome(closed_to, system, TARGET) is (UNKNOWN if with_bug else ALLOWED)
    if with_bug:
        assert "a bug of Cilium, issue 46949" in judged(open_to, system, TARGET).ingress.shown
        assert "a bug of Cilium, issue 46949" in judged(closed_to, system, TARGET).ingress.shown
        # With the own cluster by default the selector asks for a label.
        assert outcome(world({"c1": [allow]}, version=version), system, TARGET) is DENIED


@pytest.mark.parametrize("version", VERSIONS)
def test_addresses_never_mean_the_own_node(version: str) -> None:
    """layer3.rst, "IP/CIDR based"; only policy-cidr-match-mode changes that."""
    spec = {"endpointSelector": {}, "egress": [{"toCIDR": ["0.0.0.0/0"]}]}
    policy = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": spec})

    assert outcome(world({"c1": [policy]}, version=version), TARGET, HOST) is DENIED
    assert outcome(world({"c1": [policy]}, version=version, config={"policy-cidr-match-mode": "nodes"}), TARGET, HOST) is UNKNOWN


@pytest.mark.parametrize(("mode", "pods"), [("", DENIED), ("nodes", DENIED), ("pods", UNKNOWN), ("nodes pods", UNKNOWN)])
def test_addresses_may_mean_pods_where_the_setting_says_so(mode: str, pods: PolicyOutcome) -> None:
    """pkg/policy/types/selector.go of 1.20, PolicyCIDRMatchesPods."""
    spec = {"endpointSelector": {}, "egress": [{"toCIDR": ["0.0.0.0/0"]}]}
    policy = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": spec})

    assert outcome(world({"c1": [policy]}, version="1.20.2", config={"policy-cidr-match-mode": mode}), TARGET, C) is pods


def test_a_named_port_is_a_pods_port() -> None:
    spec = {"endpointSelector": {}, "egress": [{"toPorts": [{"ports": [{"port": "http", "protocol": "TCP"}]}]}]}
    policy = policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": "p"}, "spec": spec})
    policy_world, before = world({"c1": [policy]}), world({"c1": [policy]}, version="1.19.5")

    assert [outcome(policy_world, TARGET, end) for end in (WORLD, HOST, C)] == [DENIED, DENIED, UNKNOWN]
    assert outcome(before, TARGET, WORLD) is UNKNOWN


# What the run says of them


def intent() -> ConnectivityIntent:
    to = PodSelection(namespace=facts.NAMESPACE, labels={"app": "backend"}, clusters=("c2",))
    return ConnectivityIntent(name="alone", action="Isolate", source=None, destination=to, ports=())


def cnp(name: str, spec: dict[str, Any]) -> ObjectFacts:
    return facts.object_facts(
        "CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=facts.NAMESPACE, api="/apis/cilium.io/v2", spec=spec
    )


def test_a_run_with_intents_names_the_policies_that_cilium_refuses() -> None:
    spec: dict[str, Any] = {"endpointSelector": {}, "ingress": [{"fromNodes": [{}]}]}
    bad = [cnp(f"web-{number}", spec) for number in range(2)]
    at = facts.scene(facts.traffic("c1"), facts.traffic("c2", policies=(*bad, cnp("good", GOOD))))
    desired = Desired(mesh=at.mesh, items={ItemKind.INTENT: (intent(),)}, kinds=frozenset({ItemKind.INTENT}))

    _steps, (found,) = prune_intents(desired, at)

    assert (found.code, found.cluster, found.item) == ("CM-INT-19", "c2", "")
    assert f"CiliumNetworkPolicy {facts.NAMESPACE}/web-0 (fromNodes needs enable-node-selector-labels, which is off)" in found.evidence
    assert "2 policies" in found.summary and "good" not in found.evidence
    assert prune_intents(replace(desired, items={}), at)[1] == []
