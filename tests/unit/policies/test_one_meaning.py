# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One intent means the same flows on every version: compiled policies, judged by the evaluator, against what intents say in words.

``intent_meaning.means`` is that meaning, written down without looking at any policy. It must hold for generated intents and pods in three
clusters, on Cilium 1.16 to 1.20, with ``policy-default-local-cluster`` as it is by default and both ways where the version has it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    PodSelection,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import CiliumVersion
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import CLUSTER_LABEL, NAMESPACE_LABEL, compile_intent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import EndpointKind, PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from tests.testing.generated_intents import MEMBERS, NAMES, Case, cases
from tests.testing.intent_meaning import means
from tests.testing.policy_worlds import judged, policy_facts, world
from tests.testing.properties import examples

BINDING = Binding(name="edge-mesh-eu", cluster_refs=MEMBERS)
LOCAL = "policy-default-local-cluster"
WHERE: tuple[tuple[str, dict[str, str]], ...] = (
    ("1.16.19", {}),
    ("1.17.9", {}),
    ("1.18.11", {}),
    ("1.18.11", {LOCAL: "true"}),
    ("1.19.5", {}),
    ("1.19.5", {LOCAL: "false"}),
    ("1.20.2", {}),
    ("1.20.2", {LOCAL: "false"}),
)
Body = dict[str, Any]
Mutation = Callable[[Body], None]


# The law


def disagreements(case: Case, where: Sequence[tuple[str, dict[str, str]]] = WHERE, mutate: Mutation | None = None) -> list[str]:
    """Flows on which policies and meaning differ, in words."""
    found = []
    for version, config in where:
        policy_world = world(_policies(case, version, mutate), version=version, config=config, clusters=NAMES)
        others = (PolicyEndpoint(kind=EndpointKind.WORLD, address="192.0.2.1"), PolicyEndpoint(kind=EndpointKind.REMOTE_NODE, cluster="c2"))
        for destination in case.pods:
            for source in (*case.pods, *others):
                for protocol, port in case.flows:
                    expected = PolicyOutcome.ALLOWED if means(case.intents, source, destination, protocol, port) else PolicyOutcome.DENIED
                    verdict = judged(policy_world, source, destination, f"{protocol}/{port}")
                    if verdict.outcome is not expected:
                        found.append(f"{version} {config}: {source.shown} -> {destination.shown} {protocol}/{port}: {verdict.reasons}")
    return found


def _policies(case: Case, version: str, mutate: Mutation | None) -> dict[str, list[Any]]:
    release = CiliumVersion.from_tag(version)
    assert release is not None
    placed: dict[str, list[Any]] = {}
    for intent in case.intents:
        for host, bodies in compile_intent(intent, names=NAMES, members=MEMBERS, version=release.release, binding=BINDING).items():
            for body in copy.deepcopy(bodies):
                if mutate:
                    mutate(body)
                placed.setdefault(host, []).append(policy_facts(body))
    return placed


@examples(60)
@given(cases(most=1))
def test_one_intent_means_the_same_everywhere(case: Case) -> None:
    assert disagreements(case) == []


@examples(60)
@given(cases(most=4))
def test_intents_together_mean_the_same_everywhere(case: Case) -> None:
    """A deny of any beats the allows of all; what several allow is the union."""
    assert disagreements(case) == []


# The law can be broken: each of these is what a careless compiler would write


def without_clusters(body: Body) -> None:
    for peer in _peers(body):
        _forget(peer, CLUSTER_LABEL)


def without_namespaces(body: Body) -> None:
    for peer in _peers(body):
        _forget(peer, NAMESPACE_LABEL)


def without_enable_default_deny(body: Body) -> None:
    body["spec"].pop("enableDefaultDeny", None)


def with_the_first_ports_only(body: Body) -> None:
    for rule in _rules(body):
        if "toPorts" in rule:
            rule["toPorts"] = rule["toPorts"][:1]


def with_ports_but_no_ranges(body: Body) -> None:
    for rule in _rules(body):
        for entry in rule.get("toPorts", ()):
            for port in entry["ports"]:
                port.pop("endPort", None)


def _rules(body: Body) -> list[Body]:
    return [*body["spec"].get("ingress", ()), *body["spec"].get("ingressDeny", ())]


def _peers(body: Body) -> list[Body]:
    return [peer for rule in _rules(body) for peer in rule.get("fromEndpoints", ())]


def _forget(selector: Body, key: str) -> None:
    selector.get("matchLabels", {}).pop(key, None)
    if "matchExpressions" in selector:
        selector["matchExpressions"] = [entry for entry in selector["matchExpressions"] if entry["key"] != key]


@pytest.mark.parametrize(
    ("mutate", "where"),
    [
        pytest.param(without_clusters, WHERE[0], marks=pytest.mark.slow),
        (without_clusters, WHERE[-2]),
        (without_namespaces, WHERE[0]),
        (without_enable_default_deny, WHERE[0]),
        (with_the_first_ports_only, WHERE[0]),
        (with_ports_but_no_ranges, WHERE[0]),
    ],
)
def test_the_law_notices_a_wrong_compiler(mutate: Mutation, where: tuple[str, dict[str, str]]) -> None:
    """:raises NoSuchExample: it would not."""
    first = settings(max_examples=3000, deadline=None, database=None, phases=[Phase.generate])  # any one will do, not the smallest
    broken = find(cases(most=1), lambda case: bool(disagreements(case, [where], mutate)), settings=first, random=Random(5))

    assert disagreements(broken, [where], mutate)
    assert not disagreements(broken, [where])


def test_the_cluster_label_is_what_makes_versions_agree() -> None:
    """Without it one and the same text means other flows on 1.18 and on 1.19: the reason why it is always written."""
    allow = ConnectivityIntent(
        name="a",
        action="Allow",
        source=PodSelection(namespace="blue", labels={"app": "x"}),
        destination=PodSelection(namespace="blue", labels={"app": "y"}),
    )
    far, near = (
        PolicyEndpoint(cluster="c2", namespace="blue", labels={"app": "x"}),
        PolicyEndpoint(cluster="c1", namespace="blue", labels={"app": "y"}),
    )
    case = Case((allow,), (far, near), (("TCP", 80),))

    found = [bool(disagreements(case, [where], without_clusters)) for where in WHERE]

    assert found == [False, False, False, True, True, False, True, False]
    assert disagreements(case) == []
