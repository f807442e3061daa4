# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No intent is Applied whose effect the evaluator denies, whatever cilium-config says: it is refused, or it is said not to be certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import policy_world
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import plan_intents
from tests.testing.facts_builders import cluster_facts
from tests.testing.intent_meaning import means
from tests.testing.policy_worlds import judged
from tests.testing.policy_worlds import pod as endpoint
from tests.testing.properties import examples
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, object_facts, pod, scene, traffic

FLAG: Final = st.sampled_from(("", "true", "false", "1", "0", "T", "F", "yes", "True"))
SETTINGS: Final = {
    "labels": st.lists(
        st.sampled_from(
            (
                "app",
                "k8s:app",
                "!app",
                "k8s:!tier",
                r"!io\.cilium.*",
                r"!io\.kubernetes.*",
                "io.*",
                "k8s:app,k8s:tier",
                "(a|b)+",
                "!(x|io).*",
            )
        ),
        max_size=2,
    ).map(" ".join),
    "label-prefix-file": st.sampled_from(("", "", "", "/etc/cilium/label-prefix")),
    "enable-policy": st.sampled_from(("", "default", "always", "never", "Never", "sometimes")),
    **dict.fromkeys(
        (
            "policy-audit-mode",
            "enable-cilium-network-policy",
            "enable-cilium-clusterwide-network-policy",
            "enable-non-default-deny-policies",
            "enable-icmp-rules",
            "enable-sctp",
            "policy-default-local-cluster",
            "enable-k8s-cluster-network-policy",
            "enable-host-firewall",
        ),
        FLAG,
    ),
    "static-cnp-path": st.sampled_from(("", "", "/policies")),
    "policy-cidr-match-mode": st.sampled_from(("", "nodes")),
    "allow-localhost": st.sampled_from(("", "auto", "always", "policy")),
}
CONFIG: Final = st.lists(st.sampled_from((*sorted(SETTINGS), *("labels", "policy-audit-mode") * 5)), max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: SETTINGS[key] for key in keys})
)
VERSION: Final = st.sampled_from(("1.15.19", "1.16.19", "1.17.9", "1.18.11", "1.19.5", "1.20.2", "1.21.0"))
PODS: Final = ("frontend", "backend", "cron")
PORTS: Final = (PortRule(protocol="TCP", port=8080), PortRule(protocol="SCTP", port=8080), PortRule(protocol="ICMP", icmp_type=8))


def side(app: str, cluster: str) -> PodSelection:
    return PodSelection(namespace=NAMESPACE, labels={"app": app}, clusters=(cluster,))


INTENT: Final = st.builds(
    lambda action, mode, ports: ConnectivityIntent(
        name="front-to-back",
        action=action,
        mode=mode,
        source=None if action == "Isolate" else side("frontend", "c1"),
        destination=side("backend", "c2"),
        ports=() if action == "Isolate" else ports,
    ),
    st.sampled_from(("Allow", "Deny", "Isolate")),
    st.sampled_from(("Namespaced", "Clusterwide")),
    st.lists(st.sampled_from(PORTS), max_size=2, unique=True).map(tuple),
)


OTHERS: Final = {
    "everyone": {"endpointSelector": {}, "ingress": [{"fromEntities": ["all"]}]},
    "backend": {"endpointSelector": {"matchLabels": {"app": "backend"}}, "ingress": [{}]},
    "ports": {"endpointSelector": {}, "ingress": [{"fromEndpoints": [{}], "toPorts": [{"ports": [{"port": "8080", "protocol": "ANY"}]}]}]},
    "strange": {"endpointSelector": {}, "ingress": [{"fromEntities": ["galaxy"]}]},
    "out": {"endpointSelector": {}, "egress": [{"toEntities": ["all"]}]},
}
"""Policies of others, which let in and out. A Deny beats them; an Isolate leaves open what they allow."""


def world(configs: dict[str, dict[str, str]], version: str, others: Iterable[str] = ()) -> Scene:
    policies = tuple(
        object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=NAMESPACE, api="/apis/cilium.io/v2", spec=OTHERS[name])
        for name in others
    )
    facts = {host: cluster_facts(host, version=version, config=config) for host, config in configs.items()}
    return scene(
        *(traffic(host, pods=tuple(pod(f"{app}-1", app=app, tier="x") for app in PODS), policies=policies) for host in configs), facts=facts
    )


def plan_of(intent: ConnectivityIntent, at: Scene) -> ItemPlan:
    (found,) = plan_intents(Desired(mesh=at.mesh, items={ItemKind.INTENT: (intent,)}, kinds=frozenset({ItemKind.INTENT})), at)
    return found


def is_refused(plan: ItemPlan) -> bool:
    return plan.verdict is ItemVerdict.REFUSED or any(finding.severity is Severity.BLOCKING for finding in plan.findings)


def contradictions(intent: ConnectivityIntent, before: Scene, after: Scene) -> Iterator[tuple[str, Outcome]]:
    """Yield the flows that the intent is about and that the evaluator judges otherwise, with its judgement."""
    there = policy_world(after)
    pods = [endpoint(host, NAMESPACE, app=app, tier="x") for host in before.hosts for app in PODS]
    destination = endpoint("c2", NAMESPACE, app="backend", tier="x")
    for source in pods:
        for port in PORTS:
            what = f"{port.protocol}/{port.port or port.icmp_type}"
            protocol, number = port.protocol, port.port or port.icmp_type or 0
            if means((intent,), source, destination, protocol, number) or (source.labels == destination.labels and source.cluster == "c2"):
                continue
            outcome = judged(there, source, destination, what).outcome
            if outcome is not Outcome.DENIED:
                yield f"{source.shown} {what}", outcome


@examples(300)
@given(INTENT, CONFIG, CONFIG, VERSION, st.lists(st.sampled_from(sorted(OTHERS)), max_size=2, unique=True))
def test_what_an_applied_intent_keeps_out_is_kept_out_or_said_not_to_be_certain(
    intent: ConnectivityIntent, source: dict[str, str], destination: dict[str, str], version: str, others: list[str]
) -> None:
    before = world({"c1": source, "c2": destination}, version, others if intent.action == "Deny" else ())
    plan = plan_of(intent, before)
    if is_refused(plan):
        return
    after = applied(before, plan.steps, before.binding)
    found = dict(contradictions(intent, before, after))
    assert [flow for flow, outcome in found.items() if outcome is Outcome.ALLOWED] == []
    if found:
        assert "CM-INT-32" in {finding.code for finding in plan.findings}, found
