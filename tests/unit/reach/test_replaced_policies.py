# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies of a replaced provider: only those that are named, replaced, the provider's alone, and protect nothing more are deleted."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.workload_index import index_workloads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.difference import ChangeKind, changes_between
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.planned_policies import scene_with_planned_policies
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.reach import Reach
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.replaced_policies import (
    KEPT_POLICY,
    NOT_ENFORCED,
    PolicyRemoval,
    plan_removal,
    replaced_policies,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.workload_set import workload_sets
from tests.testing.facts_builders import cluster_facts, failure
from tests.testing.properties import examples
from tests.testing.rows import one_test
from tests.testing.texts import mentions
from tests.testing.traffic_builders import namespace_facts, object_facts, pod, scene, traffic

PROVIDER: Final = "kcp-cilium-mesh-provider"
OLD: Final[dict[str, Any]] = {"name": "old", "namespace": "shop", "intent": "front"}
APPLIED: Final[dict[str, Any]] = {"name": "front", "phase": "Applied", "conditions": [{"type": "Accepted", "status": "True"}]}
WEB: Final[dict[str, Any]] = {"fromEndpoints": [{"matchLabels": {"app": "web"}}]}
DENY: Final[dict[str, Any]] = {"ingressDeny": [WEB]}
ISOLATE: Final[dict[str, Any]] = {"ingress": [{}]}
ALLOW: Final[dict[str, Any]] = {"ingress": [WEB]}
ALLOW_ALL: Final[dict[str, Any]] = {"ingress": [{"fromEntities": ["all"]}]}


def policy(name: str, *managers: str, namespace: str = "shop", labels: Any = None, **rule: Any) -> ObjectFacts:
    """A policy of the provider, or of other managers. Without a rule it allows web."""
    kind = "CiliumNetworkPolicy" if namespace else "CiliumClusterwideNetworkPolicy"
    resource = "ciliumnetworkpolicies" if namespace else "ciliumclusterwidenetworkpolicies"
    spec = {"endpointSelector": {"matchLabels": {"app": "db"}}, **(rule or ALLOW)}
    fields = {"writers": managers or (PROVIDER,), "labels": labels or {}, "spec": spec}
    return object_facts(kind, resource, name, namespace=namespace, api="/apis/cilium.io/v2", **fields)


OURS: Final = policy("ours", "cilium-mesh.edge-portal.eu/x", labels={OWNER_LABEL: "x"})


def shop(*policies: ObjectFacts, config: dict[str, str] | None = None, members: tuple[str, ...] = ()) -> Scene:
    """Cluster c1 with these policies, and c2 without one."""
    pods = tuple(pod(f"{app}-0", namespace="shop", app=app) for app in ("web", "db"))
    place: dict[str, Any] = {"namespaces": [namespace_facts("shop")], "pods": pods}
    facts = {host: cluster_facts(host, version="1.18.11", config=config or {}) for host in ("c1", "c2")}
    return scene(traffic("c1", policies=policies, **place), traffic("c2", **place), facts=facts, members=members)


def removed(entries: Any, observed: Scene, row: dict[str, Any] | None = None) -> PolicyRemoval:
    named = replaced_policies(entries, observed.mesh.clusters, ["front"])
    return plan_removal(observed, named, [row or APPLIED], [PROVIDER])


def why(found: PolicyRemoval) -> str:
    """The summary of the only finding. Then nothing is deleted."""
    (entry,) = found.findings
    assert (found.steps, entry.code, entry.item, entry.blocks) == ((), KEPT_POLICY, "connectivityIntents/front", True) and entry.fix
    return entry.summary


def test_only_named_policies_of_the_provider_that_are_replaced_go() -> None:
    others = (policy("other"), policy("old", namespace="elsewhere"), policy("old", namespace=""), OURS)
    (gone,) = removed([OLD], shop(policy("old"), *others)).steps
    assert isinstance(gone.action, ApiWrite) and (gone.cluster, gone.verb, gone.object) == ("c1", "delete", "CiliumNetworkPolicy shop/old")
    assert (gone.action.method, gone.action.path) == ("delete", "/apis/cilium.io/v2/namespaces/shop/ciliumnetworkpolicies/old")
    assert gone.action.body == {"metadata": {"uid": "uid-shop-old", "resourceVersion": "11"}}
    (clusterwide,) = removed([{"name": "old", "intent": "front"}], shop(*others)).steps
    assert clusterwide.object == "CiliumClusterwideNetworkPolicy old"
    nothing = PolicyRemoval()
    assert removed([OLD], shop(OURS)) == removed([{**OLD, "clusters": ["c2"]}], shop(policy("old"))) == removed([], shop()) == nothing


@one_test(
    "found names",
    (policy("old", PROVIDER, "kubectl-edit"), "kubectl-edit"),
    (policy("old", labels={OWNER_LABEL: "x"}), "this project"),
    (replace(policy("old"), writers=()), "who wrote it"),
)
def test_one_policy_in_doubt_keeps_all(found: ObjectFacts, names: str) -> None:
    assert mentions(why(removed([OLD, {**OLD, "name": "sound"}], shop(found, policy("sound"), OURS))), "c1", names)


@one_test(
    "old stays",
    (policy("old", **DENY), ()),
    (policy("old", **DENY), (policy("ours", enableDefaultDeny={"ingress": False}, **DENY),)),
    (policy("old"), ()),
    (policy("old", **DENY), (OURS,)),  # isolated, and web is allowed then
    (policy("old", namespace=""), ()),
    (policy("old", egressDeny=[{"toEndpoints": [{}]}]), (OURS,)),
    (policy("old", **{"ingress": "x"}), (OURS,)),
)
def test_a_policy_that_protects_more_than_what_replaces_it_stays_and_the_finding_says_why(
    old: ObjectFacts, stays: tuple[ObjectFacts, ...]
) -> None:
    entry = {**OLD, "namespace": old.namespace}
    assert mentions(why(removed([entry], shop(old, *stays))), old.shown, "c1")


def test_a_policy_about_nodes_stays() -> None:
    nodes = replace(policy("old", namespace=""), spec={"nodeSelector": {}, "ingress": [WEB]})
    assert mentions(why(removed([{**OLD, "namespace": ""}], shop(nodes, OURS))), "nodeSelector")


def test_the_finding_names_an_example_and_what_to_do() -> None:
    (lost,) = removed([OLD], shop(policy("old", **DENY))).findings
    assert mentions(lost.summary, "isolates", "shop in c1", "db", "ingress") and mentions(lost.fix, "Isolate")
    assert mentions(lost.evidence, "->", "shop in c1", "allowed")
    (denied,) = removed([OLD], shop(policy("old", **DENY), OURS)).findings
    assert mentions(denied.evidence, "web", "->", "db", "all ports")


def test_with_the_intent_that_isolates_a_deny_goes() -> None:
    deny = policy("ours", enableDefaultDeny={"ingress": False}, **DENY)
    assert removed([OLD], shop(policy("old", **DENY), deny, policy("isolates", **ISOLATE))).steps


def test_policies_are_judged_as_if_they_were_enforced() -> None:
    """Otherwise audit mode, in which many try out a migration, would let everything go."""
    for key, without in NOT_ENFORCED.items():
        for value in {True: ("1", "t", "true", "True"), False: ("0", "F", "false")}[without] if isinstance(without, bool) else (without,):
            observed = shop(policy("old", **DENY), config={key: value})
            observed = replace(observed, facts={**observed.facts, "c1": cluster_facts("c1", version="1.20.2", config={key: value})})
            assert mentions(why(removed([OLD], observed)), "isolates"), (key, value)


def test_a_member_that_does_not_answer_may_have_the_policy() -> None:
    observed = replace(shop(policy("old"), OURS, members=("c3",)), failures={"c3": failure("c3")})
    assert mentions(why(removed([OLD], observed)), "c3")
    assert removed([{**OLD, "clusters": ["c1"]}], observed).steps


@one_test("phase", "Degraded", "Pending", "Error")
def test_a_policy_whose_intent_is_not_in_force_stays(phase: str) -> None:
    assert mentions(why(removed([OLD], shop(policy("old"), OURS), {**APPLIED, "phase": phase})), phase, "front")


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_no_flow_opens_between_two_deletions(seed: int) -> None:
    """A policy of the provider may allow what another one denies, so the order counts."""
    draw = Random(seed)
    old = [policy(f"old-{number}", **draw.choice((ALLOW, DENY, ISOLATE, ALLOW_ALL))) for number in range(draw.randint(1, 4))]
    observed = shop(*old, policy("ours", **draw.choice((ALLOW, ISOLATE))))
    steps = removed([{**OLD, "name": entry.name} for entry in old], observed).steps
    steps = tuple(sorted(steps, key=lambda step: (step.wave, draw.random())))
    for done in range(1, len(steps) + 1):
        now, then = (index_workloads(scene_with_planned_policies(observed, steps[:number])) for number in (0, done))
        sets = workload_sets(now, then)
        changes = changes_between(Reach.of(sets), Reach.of(sets.seen_by(then)))
        assert {change.kind for change in changes} <= {ChangeKind.LOST}, (seed, [step.object for step in steps[:done]])


@one_test(
    "entries message",
    ("old", "policies: must be a list"),
    ([{"name": "old"}], "policies[0].intent: must be"),
    ([{**OLD, "intent": "frnt"}], "did you mean front?"),
    ([{**OLD, "name": "*"}], "policies[0].name: must be the name of a policy"),
    ([{**OLD, "label": "x"}], "policies[0]"),
    ([{**OLD, "clusters": ["c9"]}], "c9 is none"),
    ([OLD, OLD], "is there twice"),
)
def test_what_is_no_list_of_policies_is_reported_by_its_place(entries: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        removed(entries, shop())
    assert message in str(refused.value)
