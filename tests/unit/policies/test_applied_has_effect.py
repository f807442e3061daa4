# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No intent is Applied whose effect the evaluator denies, whatever cilium-config says: it is refused, or it is said not to be certain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import policy_world
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import plan_intents
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.mesh_view import NAMESPACE_GLOBAL, exports_identities
from tests.testing.facts_builders import cluster_facts
from tests.testing.intent_meaning import means
from tests.testing.policy_worlds import WORLD, judged
from tests.testing.policy_worlds import pod as endpoint
from tests.testing.properties import examples
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, object_facts, pod, scene, traffic

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


def intents_of(drawn: Iterable[tuple[str, str, tuple[str, str], tuple[PortRule, ...]]]) -> tuple[ConnectivityIntent, ...]:
    """Return intents about the pods of backend in c2, of which each has its own action, mode, source and ports."""
    return tuple(
        ConnectivityIntent(
            name=f"intent-{number}",
            action=action,
            mode=mode,
            source=None if action == "Isolate" else side(*source),
            destination=side("backend", "c2"),
            ports=() if action == "Isolate" else ports,
        )
        for number, (action, mode, source, ports) in enumerate(drawn)
    )


INTENTS: Final = st.lists(
    st.tuples(
        st.sampled_from(("Allow", "Deny", "Isolate")),
        st.sampled_from(("Namespaced", "Clusterwide")),
        st.sampled_from((("frontend", "c1"), ("cron", "c1"), ("cron", "c2"))),
        st.lists(st.sampled_from(PORTS), max_size=2, unique=True).map(tuple),
    ),
    min_size=1,
    max_size=3,
).map(intents_of)


OTHERS: Final = {
    "everyone": {"endpointSelector": {}, "ingress": [{"fromEntities": ["all"]}]},
    "backend": {"endpointSelector": {"matchLabels": {"app": "backend"}}, "ingress": [{}]},
    "ports": {"endpointSelector": {}, "ingress": [{"fromEndpoints": [{}], "toPorts": [{"ports": [{"port": "8080", "protocol": "ANY"}]}]}]},
    "strange": {"endpointSelector": {}, "ingress": [{"fromEntities": ["galaxy"]}]},
    "out": {"endpointSelector": {}, "egress": [{"toEntities": ["all"]}]},
}
"""Policies of others, which let in and out. A Deny beats them; an Isolate leaves open what they allow."""


def world(configs: dict[str, dict[str, str]], version: str, others: Iterable[str] = (), *, hidden: bool = False) -> Scene:
    """Return two clusters with the same pods. ``hidden``: the namespace of c1 is not global."""
    policies = tuple(
        object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=NAMESPACE, api="/apis/cilium.io/v2", spec=OTHERS[name])
        for name in others
    )
    facts = {host: cluster_facts(host, version=version, config=config) for host, config in configs.items()}
    pods = tuple(pod(f"{app}-1", app=app, tier="x") for app in PODS)
    local = replace(namespace_facts(NAMESPACE), annotations={NAMESPACE_GLOBAL: "false"})
    namespaces = {host: (local if hidden and host == "c1" else namespace_facts(NAMESPACE),) for host in configs}
    return scene(*(traffic(host, namespaces=namespaces[host], pods=pods, policies=policies) for host in configs), facts=facts)


def plans_of(intents: tuple[ConnectivityIntent, ...], at: Scene) -> list[tuple[ConnectivityIntent, ItemPlan]]:
    """Return the intents that the run carries out, each with its plan."""
    plans = plan_intents(Desired(mesh=at.mesh, items={ItemKind.INTENT: intents}, kinds=frozenset({ItemKind.INTENT})), at)
    return [(intent, plan) for intent, plan in zip(intents, plans, strict=True) if not is_refused(plan)]


def is_refused(plan: ItemPlan) -> bool:
    return plan.verdict is ItemVerdict.REFUSED or any(finding.severity is Severity.BLOCKING for finding in plan.findings)


def namespace_of(at: Scene, host: str) -> ObjectFacts | None:
    return at.traffic[host].namespaces.get(NAMESPACE)


def not_kept_out(intents: Collection[ConnectivityIntent], after: Scene) -> Iterator[tuple[str, str, PolicyOutcome]]:
    """Yield (intent, flow, judgement) of flows that one of the intents keeps out, and all of them too, and the evaluator does not."""
    enforced, known = policy_world(after), {host: exports_identities(after.facts[host], namespace_of(after, host)) for host in after.hosts}
    pods = [endpoint(host, NAMESPACE, app=app, tier="x") for host in after.hosts for app in PODS]
    destination = endpoint("c2", NAMESPACE, app="backend", tier="x")
    for source in pods:
        for port in PORTS:
            protocol, number = port.protocol, port.port or port.icmp_type or 0
            if means(intents, source, destination, protocol, number) or (source.labels == destination.labels and source.cluster == "c2"):
                continue
            seen = source if known[source.cluster] or source.cluster == destination.cluster else WORLD
            outcome = judged(enforced, seen, destination, f"{protocol}/{number}").outcome
            if outcome is not PolicyOutcome.DENIED:
                for intent in intents:
                    if not means((intent,), source, destination, protocol, number):
                        yield intent.name, f"{source.shown} {protocol}/{number}", outcome


@examples(300)
@given(INTENTS, CONFIG, CONFIG, VERSION, st.lists(st.sampled_from(sorted(OTHERS)), max_size=2, unique=True), st.booleans())
def test_what_applied_intents_keep_out_is_kept_out_or_said_not_to_be_certain(
    intents: tuple[ConnectivityIntent, ...],
    source: dict[str, str],
    destination: dict[str, str],
    version: str,
    others: list[str],
    hidden: bool,
) -> None:
    only_deny = all(intent.action == "Deny" for intent in intents)
    before = world({"c1": source, "c2": destination}, version, others if only_deny else (), hidden=hidden)
    plans = plans_of(intents, before)
    after = applied(before, [step for _intent, plan in plans for step in plan.steps], before.binding)
    found = list(not_kept_out([intent for intent, _plan in plans], after)) if plans else []
    assert [(name, flow) for name, flow, outcome in found if outcome is PolicyOutcome.ALLOWED] == []
    unsure = {name for name, _flow, _outcome in found}
    assert unsure <= {intent.name for intent, plan in plans if "CM-INT-32" in {finding.code for finding in plan.findings}}, found
