# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Default deny, modes of enforcement, reasons, and what is said to be unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import (
    EndpointKind,
    FirstPacket,
    PolicyEndpoint,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.ternary import all_of, any_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome, verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import PolicyWorld
from tests.testing.policy_worlds import ALLOWED, DENIED, UNKNOWN, VERSIONS, WORLD, judged, outcome, pod, policy_facts, world
from tests.testing.rows import in_one_test, one_test


def cnp(name: str = "web", *, namespace: str = "default", kind: str = "CiliumNetworkPolicy", **spec: Any) -> Any:
    return policy_facts({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": {"endpointSelector": {}, **spec}})


FROM_WEB = {"fromEndpoints": [{"matchLabels": {"app": "web"}}]}
OPEN: dict[str, Any] = {"enableDefaultDeny": {"ingress": False}}


@in_one_test
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("policies", "web", "other"),
    [
        ([], ALLOWED, ALLOWED),
        ([cnp(ingress=[FROM_WEB])], ALLOWED, DENIED),
        ([cnp(ingress=[FROM_WEB], **OPEN)], ALLOWED, ALLOWED),
        ([cnp(ingress=[FROM_WEB]), cnp("open", ingress=[FROM_WEB], **OPEN)], ALLOWED, DENIED),
        ([cnp(ingressDeny=[FROM_WEB])], DENIED, DENIED),
        ([cnp(ingressDeny=[FROM_WEB], **OPEN)], DENIED, ALLOWED),
        ([cnp(ingressDeny=[FROM_WEB], **OPEN), cnp("allow", ingress=[FROM_WEB])], DENIED, DENIED),
        ([cnp(ingress=[])], ALLOWED, ALLOWED),
        ([cnp(ingress=[], enableDefaultDeny={"ingress": True})], ALLOWED, ALLOWED),
        ([cnp(ingress=[{}])], DENIED, DENIED),
        ([cnp(ingress=[{}], **OPEN)], ALLOWED, ALLOWED),
        ([cnp(egress=[{}])], ALLOWED, ALLOWED),
    ],
)
def test_default_deny(policies: list[Any], web: PolicyOutcome, other: PolicyOutcome, version: str) -> None:
    """TestDefaultAllow, TestComputePolicyEnforcementAndRules, and the same with deny (pkg/policy/repository_test.go, ..._deny_test.go)."""
    policy_world = world({"c2": policies}, version=version)

    assert judged(policy_world, pod("c2", app="web"), pod("c2", app="db")).ingress.outcome is web
    assert judged(policy_world, pod("c2", app="api"), pod("c2", app="db")).ingress.outcome is other


@pytest.mark.parametrize(("version", "denied"), [("1.16.19", False), ("1.17.9", True), ("1.20.2", True)])
def test_enable_default_deny_can_be_switched_off(version: str, denied: bool) -> None:
    """enable-non-default-deny-policies exists since 1.17 (rule_validation.go)."""
    policy_world = world(
        {"c1": [cnp(ingressDeny=[FROM_WEB], **OPEN)]}, version=version, config={"enable-non-default-deny-policies": "false"}
    )

    assert outcome(policy_world, pod(app="api"), pod()) is (DENIED if denied else ALLOWED)


@one_test(
    "config selected free",
    ({}, DENIED, ALLOWED),
    ({"enable-policy": "default"}, DENIED, ALLOWED),
    ({"enable-policy": "always"}, DENIED, DENIED),
    ({"enable-policy": "never"}, ALLOWED, ALLOWED),
    ({"policy-audit-mode": "true"}, ALLOWED, ALLOWED),
    ({"enable-cilium-network-policy": "false"}, ALLOWED, ALLOWED),
    ({"static-cnp-path": "/policies"}, UNKNOWN, UNKNOWN),
    ({"enable-k8s-cluster-network-policy": "true"}, UNKNOWN, UNKNOWN),
)
def test_modes(config: dict[str, str], selected: PolicyOutcome, free: PolicyOutcome) -> None:
    policy_world = world({"c1": [cnp(namespace="guarded", ingress=[{}])]}, config=config)

    assert outcome(policy_world, WORLD, pod(namespace="guarded")) is selected
    assert outcome(policy_world, WORLD, pod(namespace="open")) is free


def test_own_node_by_policy_only() -> None:
    policy_world = world({"c1": [cnp(ingress=[{}])]}, config={"allow-localhost": "policy"})

    assert outcome(policy_world, PolicyEndpoint(kind=EndpointKind.HOST, cluster="c1"), pod()) is DENIED


def test_both_sides_have_a_say() -> None:
    """layer3.rst: policy must be configured on both sides; each in its own cluster."""
    to_db = {"toEndpoints": [{"matchLabels": {"k8s:io.cilium.k8s.policy.cluster": "c2", "app": "db"}}]}
    from_c1 = {"fromEndpoints": [{"matchLabels": {"k8s:io.cilium.k8s.policy.cluster": "c1"}}]}
    policy_world = world({"c1": [cnp("out", egress=[to_db])], "c2": [cnp("in", ingress=[from_c1])]})

    both = judged(policy_world, pod("c1"), pod("c2", app="db"))
    assert both.outcome is ALLOWED
    assert both.egress.policies == ("CiliumNetworkPolicy default/out",)
    assert both.ingress.policies == ("CiliumNetworkPolicy default/in",)
    assert judged(policy_world, pod("c1"), pod("c2", app="api")).egress.outcome is DENIED
    assert judged(policy_world, pod("c3"), pod("c2", app="db")).ingress.outcome is DENIED


def test_reasons_name_policies() -> None:
    isolating = cnp("wall", ingress=[{}])
    denying = cnp("no", kind="CiliumClusterwideNetworkPolicy", ingressDeny=[FROM_WEB], **OPEN)
    policy_world = world({"c1": [isolating, denying]})

    assert judged(policy_world, pod(app="web"), pod()).reasons == (
        "egress: no policy isolates it (egress)",
        "ingress: denied by: CiliumClusterwideNetworkPolicy no",
    )
    assert judged(policy_world, pod(), pod()).ingress.shown == "isolated, and nothing allows it: CiliumNetworkPolicy default/wall"
    assert judged(policy_world, pod(), pod(namespace="x")).ingress.shown == "no policy isolates it (ingress)"


@one_test(
    "rule",
    {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}], "rules": {"http": [{"method": "GET"}]}}]},
    {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}], "serverNames": ["a.example"]}]},
    {"toPorts": [{"ports": [{"port": "http", "protocol": "TCP"}]}]},
    {"fromEntities": ["all"], "authentication": {"mode": "required"}},
    {"fromGroups": [{"aws": {}}]},
    {"fromEndpoints": [{"matchLabels": {"io.cilium.k8s.policy.serviceaccount": "web"}}]},
    {"fromEntities": ["galaxy"]},
    {"fromEntities": ["all"], "fromEndpoints": [{}]},
    {"toPorts": [{"ports": [{"port": "080", "protocol": "TCP"}]}]},
    {"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}]}], "icmps": [{"fields": [{"type": 8}]}]},
)
def test_what_cannot_be_decided_is_unknown(rule: dict[str, Any]) -> None:
    policy_world = world({"c1": [cnp(ingress=[rule])]})

    assert outcome(policy_world, replace(pod(app="web"), service_account=None), pod(app="db")) is UNKNOWN


def test_names_of_dns_and_services_are_unknown() -> None:
    for rule in ({"toFQDNs": [{"matchName": "example.com"}]}, {"toServices": [{"k8sService": {"serviceName": "db"}}]}):
        policy_world = world({"c1": [cnp(egress=[rule])]})
        assert outcome(policy_world, pod(), WORLD) is UNKNOWN
        assert outcome(policy_world, WORLD, pod()) is ALLOWED


def test_nodes_by_their_labels_are_unknown_and_pods_are_none() -> None:
    by_zone = cnp(ingress=[{"fromNodes": [{"matchLabels": {"zone": "a"}}]}])
    policy_world = world({"c1": [by_zone]}, config={"enable-node-selector-labels": "true"})

    assert outcome(policy_world, PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster="c1"), pod()) is UNKNOWN
    assert outcome(policy_world, pod(), pod(app="b")) is DENIED


def test_the_label_of_the_world_depends_on_the_families() -> None:
    """pkg/labels/cidr.go: with IPv4 and IPv6 there is one for each; the entity means all of them."""
    by_label = world({"c1": [cnp(ingress=[{"fromEndpoints": [{"matchLabels": {"reserved:world": ""}}]}])]})
    by_entity = world({"c1": [cnp(ingress=[{"fromEntities": ["world"]}])]})

    assert [outcome(by_label, source, pod(app="b")) for source in (WORLD, pod())] == [UNKNOWN, DENIED]
    assert [outcome(by_entity, source, pod(app="b")) for source in (WORLD, pod())] == [ALLOWED, DENIED]


def test_the_api_server_may_be_a_node() -> None:
    policy_world = world({"c1": [cnp(ingress=[{"fromEntities": ["kube-apiserver"]}])]})

    assert outcome(policy_world, PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster="c1"), pod()) is UNKNOWN
    assert outcome(policy_world, pod(), pod(app="b")) is DENIED


def test_a_doubt_does_not_spread_to_what_is_certain() -> None:
    """Denied for sure, allowed for sure, and other namespaces: the rule that is not understood changes nothing there."""
    strange = cnp("strange", ingress=[{"fromEntities": ["galaxy"]}])
    layer_7 = cnp("l7", ingress=[{"toPorts": [{"ports": [{"port": "80", "protocol": "TCP"}], "rules": {"http": [{}]}}]}])

    assert outcome(world({"c1": [strange, cnp("no", ingressDeny=[FROM_WEB])]}), pod(app="web"), pod()) is DENIED
    assert outcome(world({"c1": [strange]}), pod(), pod(namespace="other")) is ALLOWED
    assert outcome(world({"c1": [strange]}), pod(namespace="other"), pod()) is UNKNOWN
    assert outcome(world({"c1": [layer_7, cnp("yes", ingress=[FROM_WEB])]}), pod(app="web"), pod()) is ALLOWED
    assert outcome(world({"c1": [layer_7]}), pod(app="web"), pod(), "TCP/81") is DENIED


def test_clusters_that_are_not_known() -> None:
    policy_world = world({}, clusters=("c1",))

    assert judged(policy_world, pod("c9"), pod("c1")).egress.outcome is UNKNOWN
    assert outcome(policy_world, pod("c9"), pod("c1")) is UNKNOWN
    assert outcome(world({"c1": [cnp(ingress=[{}])]}, clusters=("c1",)), pod("c9"), pod("c1")) is UNKNOWN


@pytest.mark.parametrize("version", [f"1.{SUPPORTED.first.minor - 1}.19", f"1.{SUPPORTED.last.minor + 1}.0", "latest"])
def test_versions_that_are_not_known(version: str) -> None:
    assert outcome(world({}, version=version), pod(), pod(app="b")) is UNKNOWN


def test_network_policies_that_could_not_be_read() -> None:
    policy_world = world({"c1": [cnp(ingress=[{}]), cnp("no", ingressDeny=[FROM_WEB])]}, complete=False)

    assert outcome(policy_world, pod(), pod()) is UNKNOWN  # a NetworkPolicy might allow it
    assert outcome(policy_world, pod(app="web"), pod()) is DENIED


@pytest.mark.parametrize("version", VERSIONS)
def test_icmp_type_0_is_every_type(version: str) -> None:
    """pkg/policy/portrange.go: type 0 becomes port 0 of the policy map, the wildcard."""
    policy_world = world({"c1": [cnp(ingress=[{"icmps": [{"fields": [{"type": 0, "family": "IPv4"}]}]}])]}, version=version)
    by_name = world({"c1": [cnp(ingress=[{"icmps": [{"fields": [{"type": "EchoReply"}]}]}])]}, version=version)

    for world_of_type in (policy_world, by_name):
        assert outcome(world_of_type, WORLD, pod(), "ICMP/8") is ALLOWED
        assert outcome(world_of_type, WORLD, pod(), "ICMPv6/8") is DENIED


def test_any_protocol_has_ports() -> None:
    """l4.go: ANY in toPorts is TCP, UDP and SCTP; ICMP is only let in by a rule without ports."""
    policy_world = world({"c1": [cnp(ingress=[{"toPorts": [{"ports": [{"port": "0", "protocol": "ANY"}]}]}])]})

    assert [outcome(policy_world, WORLD, pod(), what) for what in ("TCP/1", "UDP/9", "SCTP/7", "ICMP/8")] == [
        ALLOWED,
        ALLOWED,
        ALLOWED,
        DENIED,
    ]


def test_further_specs_count() -> None:
    policy = policy_facts(
        {
            "kind": "CiliumNetworkPolicy",
            "metadata": {"name": "two"},
            "specs": [
                {"endpointSelector": {}, "ingress": [FROM_WEB]},
                {"endpointSelector": {}, "ingressDeny": [{"fromEntities": ["world"]}]},
            ],
        }
    )

    assert [outcome(world({"c1": [policy]}), source, pod()) for source in (pod(app="web"), WORLD, pod())] == [ALLOWED, DENIED, DENIED]


def test_rules_about_nodes_are_no_concern_of_pods() -> None:
    policy = cnp("host", kind="CiliumClusterwideNetworkPolicy", ingress=[{}], nodeSelector={})

    assert outcome(world({"c1": [policy]}), WORLD, pod()) is ALLOWED


def test_nodes_have_the_host_firewall() -> None:
    node = PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster="c1")

    assert outcome(world(), WORLD, node) is ALLOWED
    assert outcome(world(config={"enable-host-firewall": "true"}), WORLD, node) is UNKNOWN


def test_protocols_without_flows_are_refused() -> None:
    with pytest.raises(ValueError, match="GRE"):
        verdict(PolicyWorld(clusters={}), FirstPacket(source=pod(), destination=pod(), protocol="GRE", port=0))


def test_three_valued_logic() -> None:
    assert [all_of(values) for values in ((), (True, None), (None, False), (True, True))] == [True, None, False, True]
    assert [any_of(values) for values in ((), (False, None), (None, True), (False, False))] == [False, None, True, False]
