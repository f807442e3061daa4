# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes NetworkPolicy as Cilium translates it: the cases of its own tests (pkg/k8s/network_policy_test.go)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import PolicyEndpoint
from tests.testing.policy_worlds import ALLOWED, DENIED, UNKNOWN, VERSIONS, WORLD, outcome, pod, policy_facts, world
from tests.testing.rows import in_one_test

CLUSTER = "io.cilium.k8s.policy.cluster"


def network_policy(spec: dict[str, Any], namespace: str = "myns") -> ObjectFacts:
    return policy_facts({"kind": "NetworkPolicy", "metadata": {"name": "np", "namespace": namespace}, "spec": spec})


def of(name: str, namespace: str = "myns", *, cluster: str = "c1", **namespace_labels: str) -> PolicyEndpoint:
    return replace(pod(cluster, namespace, role=name), namespace_labels=namespace_labels)


BACKEND = {"podSelector": {"matchLabels": {"role": "backend"}}}
FRONTEND = {"podSelector": {"matchLabels": {"role": "frontend"}}}


@pytest.mark.parametrize("version", VERSIONS)
def test_from_pods_of_the_namespace(version: str) -> None:
    """TestNetworkPolicyExamples, 1a."""
    policy = network_policy({**BACKEND, "ingress": [{"from": [FRONTEND], "ports": [{"protocol": "TCP", "port": 6379}]}]})
    policy_world = world({"c1": [policy]}, version=version)

    assert outcome(policy_world, of("frontend"), of("backend"), "TCP/6379") is ALLOWED
    assert outcome(policy_world, of("frontend"), of("backend"), "TCP/80") is DENIED
    assert outcome(policy_world, of("frontend"), of("backend"), "UDP/6379") is DENIED
    assert outcome(policy_world, of("frontend", "other"), of("backend"), "TCP/6379") is DENIED
    assert outcome(policy_world, of("db"), of("backend"), "TCP/6379") is DENIED
    assert outcome(policy_world, of("backend"), of("db"), "TCP/1") is ALLOWED


@pytest.mark.parametrize("version", VERSIONS)
def test_from_namespaces_and_pods_in_them(version: str) -> None:
    """TestParseNetworkPolicyMultipleSelectors: both selectors in one peer are both demanded; two peers are a union."""
    sally = {"namespaceSelector": {"matchLabels": {"user": "sally"}}}
    together = network_policy({**BACKEND, "ingress": [{"from": [{**FRONTEND, **sally}]}]})
    either = network_policy({**BACKEND, "ingress": [{"from": [FRONTEND, sally]}]})
    all_namespaces = network_policy({**BACKEND, "ingress": [{"from": [{"namespaceSelector": {}}]}]})
    expression = {"namespaceSelector": {"matchExpressions": [{"key": "user", "operator": "In", "values": ["sally"]}]}}
    by_expression = network_policy({**BACKEND, "ingress": [{"from": [expression]}]})
    hers, his = of("frontend", "a", user="sally"), of("frontend", "b", user="bob")
    her_db = of("db", "a", user="sally")

    def outcomes(policy: ObjectFacts) -> list[object]:
        policy_world = world({"c1": [policy]}, version=version)
        return [outcome(policy_world, source, of("backend")) for source in (hers, his, her_db, of("frontend"), WORLD)]

    assert outcomes(together) == [ALLOWED, DENIED, DENIED, DENIED, DENIED]
    assert outcomes(either) == [ALLOWED, DENIED, ALLOWED, ALLOWED, DENIED]
    assert outcomes(all_namespaces) == [ALLOWED, ALLOWED, ALLOWED, ALLOWED, DENIED]
    assert outcomes(by_expression) == [ALLOWED, DENIED, ALLOWED, DENIED, DENIED]


@in_one_test
@pytest.mark.parametrize(
    ("spec", "ingress", "egress"),
    [
        ({"podSelector": {}}, DENIED, ALLOWED),  # TestParseNetworkPolicyNoIngress: ingress without policyTypes
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, DENIED, ALLOWED),  # TestParseNetworkPolicyDenyAll
        ({"podSelector": {}, "policyTypes": ["Egress"]}, ALLOWED, DENIED),
        ({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}, DENIED, DENIED),
        ({"podSelector": {}, "ingress": [{}]}, ALLOWED, ALLOWED),  # TestParseNetworkPolicyEmptyFrom
        ({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}, ALLOWED, ALLOWED),  # TestParseNetworkPolicyEgressAllowAll
        # policyTypes without Egress, and yet there are egress rules: Cilium carries them out
        ({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}], "egress": [{"to": [BACKEND]}]}, ALLOWED, DENIED),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_default_deny(spec: dict[str, Any], ingress: object, egress: object, version: str) -> None:
    policy_world = world({"c1": [network_policy(spec)]}, version=version)

    assert outcome(policy_world, of("a", "other"), of("b")) is ingress
    assert outcome(policy_world, of("b"), of("a", "other")) is egress


@pytest.mark.parametrize("version", VERSIONS)
def test_ports(version: str) -> None:
    """TestParseNetworkPolicyEmptyPort (a protocol alone is all of its ports), EgressL4PortRangeAllowAll, NamedPort."""
    ports = [{"protocol": "UDP"}, {"port": 32000, "endPort": 32768}]
    policy_world = world({"c1": [network_policy({**BACKEND, "ingress": [{"ports": ports}]})]}, version=version)
    named = world({"c1": [network_policy({**BACKEND, "ingress": [{"ports": [{"port": "http"}]}]})]}, version=version)

    assert outcome(policy_world, WORLD, of("backend"), "UDP/7") is ALLOWED
    assert outcome(policy_world, WORLD, of("backend"), "TCP/7") is DENIED
    assert outcome(policy_world, WORLD, of("backend"), "TCP/32768") is ALLOWED
    assert outcome(named, WORLD, of("backend"), "TCP/80") is UNKNOWN
    assert outcome(named, WORLD, of("backend"), "UDP/80") is DENIED
    assert outcome(named, WORLD, replace(of("backend"), named_ports={"http": ("TCP", 80)}), "TCP/80") is ALLOWED
    assert outcome(named, WORLD, replace(of("backend"), named_ports={"http": ("TCP", 80)}), "TCP/81") is DENIED


@pytest.mark.parametrize("version", VERSIONS)
def test_address_blocks(version: str) -> None:
    """TestParseNetworkPolicyNoSelectors: a block and what it leaves out; never a pod."""
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.96.0.0/12"]}}
    policy_world = world({"c1": [network_policy({**BACKEND, "ingress": [{"from": [block]}]})]}, version=version)

    assert outcome(policy_world, replace(WORLD, address="10.1.2.3"), of("backend")) is ALLOWED
    assert outcome(policy_world, replace(WORLD, address="10.96.2.3"), of("backend")) is DENIED
    assert outcome(policy_world, of("frontend"), of("backend")) is DENIED


def test_address_blocks_of_ingress_that_1_18_refuses() -> None:
    """With policy-default-local-cluster 1.18 makes an endpoint selector of a peer that has none, and then refuses to combine the two."""
    policy = network_policy({**BACKEND, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]})
    config = {"policy-default-local-cluster": "true"}

    assert outcome(world({"c1": [policy]}, version="1.18.11", config=config), of("a"), of("backend")) is UNKNOWN
    assert outcome(world({"c1": [policy]}, version="1.19.5", config=config), of("a"), of("backend")) is DENIED


@pytest.mark.parametrize(("version", "plain"), [("1.16.19", ALLOWED), ("1.18.11", ALLOWED), ("1.19.5", DENIED), ("1.20.2", DENIED)])
def test_clusters(version: str, plain: object) -> None:
    """TestParseNetworkPolicyClusterLabel: the own cluster by default from 1.19 on, another one where the selector names it."""
    policy = network_policy({**BACKEND, "ingress": [{"from": [FRONTEND]}]})
    named = network_policy({**BACKEND, "ingress": [{"from": [{"podSelector": {"matchLabels": {CLUSTER: "c2"}}}]}]})

    assert outcome(world({"c1": [policy]}, version=version), of("frontend", cluster="c2"), of("backend")) is plain
    assert outcome(world({"c1": [policy]}, version=version), of("frontend"), of("backend")) is ALLOWED
    assert outcome(world({"c1": [named]}, version=version), of("any", cluster="c2"), of("backend")) is ALLOWED
    assert outcome(world({"c1": [named]}, version=version), of("any", cluster="c3"), of("backend")) is DENIED


def test_deny_of_cilium_beats_a_network_policy() -> None:
    """deny.rst: whatever kind allows."""
    deny = policy_facts(
        {
            "kind": "CiliumClusterwideNetworkPolicy",
            "metadata": {"name": "deny"},
            "spec": {"endpointSelector": {}, "enableDefaultDeny": {"ingress": False}, "ingressDeny": [{"fromEntities": ["all"]}]},
        }
    )
    policy_world = world({"c1": [network_policy({**BACKEND, "ingress": [{}]}), deny]})

    assert outcome(policy_world, of("frontend"), of("backend")) is DENIED
