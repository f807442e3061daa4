# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What policies let through, by the evaluator and by real agents: generated intents, generated policies as users write them, and every pod
that dials every other one."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import CiliumVersion
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import compile_intent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.real_mesh import agent
from tests.lab import workloads
from tests.lab.api import Object, path_of
from tests.lab.dial import ARRIVED
from tests.lab.options import LabOptions
from tests.lab.tools import CILIUM_AGENT
from tests.testing.generated_intents import flows, several
from tests.testing.generated_policies import placed
from tests.testing.policy_worlds import judged, policy_facts, world
from tests.testing.waiting import wait_for

MEMBERS: Final = ("c1", "c2")
WORLDS: Final = 200
OTHERS: Final = 60
"""Worlds of policies that no intent was compiled to."""
SECONDS: Final = 1.0
ATTEMPTS: Final = 3
"""Of which one has to agree in every flow: on a busy machine one of a thousand answers may be late."""
PORTS: Final = ("8080", "8000", "8039")
LABELS: Final[tuple[dict[str, str], ...]] = ({"app": "x"}, {"app": "y", "tier": "x"}, {"tier": "y"})
POPULATION: Final = {f"{namespace}-{place}": (namespace, labels) for namespace in ("blue", "green") for place, labels in enumerate(LABELS)}
"""Of each cluster: pod name to namespace and labels."""

Flow = tuple[str, int]


@dataclass(frozen=True)
class Pod:
    name: str
    end: PolicyEndpoint
    """What the evaluator knows of it, with its address."""


@dataclass(frozen=True)
class Ground:
    lab: MeshLab
    pods: tuple[Pod, ...]
    config: Mapping[str, str]
    """cilium-config, in which the clusters differ by name and number alone."""


@dataclass(frozen=True)
class Case:
    """Policies with the cluster of each, and flows that are dialled to see what they do."""

    policies: tuple[tuple[str, Object], ...]
    flows: tuple[Flow, ...]


def visible(flow: Flow) -> bool:
    """Can a pod see what becomes of it? Of ICMP only an echo request is answered; there is no IPv6, and not every kernel has SCTP."""
    return flow[0] in ("TCP", "UDP") or flow == ("ICMP", 8)


@st.composite
def of_intents(draw: st.DrawFn) -> Case:
    intents = draw(several(MEMBERS))
    dialled = {flow for flow in draw(flows(intents)) if visible(flow)}
    return Case(tuple(compiled(intents)), tuple(sorted(dialled | {("TCP", 8080)})))


@st.composite
def of_others(draw: st.DrawFn) -> Case:
    policies = tuple((host, body) for host, bodies in draw(placed(MEMBERS)).items() for body in bodies)
    drawn = draw(st.sets(st.tuples(st.sampled_from(("TCP", "UDP")), st.sampled_from((8000, 8039, 8040, 8080))), min_size=2, max_size=3))
    return Case(policies, (*sorted(drawn), ("ICMP", 8)))


def generated(cases: st.SearchStrategy[Case], count: int) -> list[Case]:
    """Return so many of which no two have the same policies. Hypothesis repeats itself in parts while it generates."""
    found: dict[str, Case] = {}

    @settings(max_examples=4 * count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases)
    def collect(case: Case) -> None:
        found.setdefault(json.dumps([(host, body.get("spec"), body.get("specs")) for host, body in case.policies]), case)

    collect()
    assert len(found) >= count
    return [replace(case, policies=_named(number, case.policies)) for number, case in enumerate([*found.values()][:count])]


def _named(number: int, policies: Sequence[tuple[str, Object]]) -> tuple[tuple[str, Object], ...]:
    """Give policies names that no other world has: an agent keeps one that goes and comes back equal, with the uid that it had."""
    return tuple(
        (host, {**body, "metadata": {**body["metadata"], "name": f"world-{number}-{place}"}}) for place, (host, body) in enumerate(policies)
    )


@pytest.fixture(scope="module")
def ground(real_agents: None) -> Iterator[Ground]:
    with MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real")) as lab:
        run = lab.play("connect")
        assert run.rc == 0, run.output
        pods: list[Pod] = []
        for cluster in MEMBERS:
            for namespace in ("blue", "green"):
                lab.api(cluster).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            for name, (namespace, labels) in POPULATION.items():
                lab.api(cluster).create(workloads.pod(name, labels, ["serve", cluster, *PORTS], namespace=namespace))
        for cluster in MEMBERS:
            for name, (namespace, labels) in POPULATION.items():
                address = workloads.wait_ready(lab.api(cluster), namespace, name)
                own = {"kubernetes.io/metadata.name": namespace}
                end = PolicyEndpoint(
                    cluster=cluster, namespace=namespace, labels=labels, namespace_labels=own, service_account="default", address=address
                )
                pods.append(Pod(name, end))
        config = (lab.api("c1").get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config") or {})["data"]
        made = Ground(lab, tuple(pods), config)
        wait_for(partial(unlike, made, [], (("TCP", 8080),)), lambda rows: not rows, what="without policies all pods reach each other")
        yield made


def compiled(intents: Sequence[ConnectivityIntent]) -> list[tuple[str, Object]]:
    """Return what intents are compiled to, with the cluster of each policy."""
    release = CiliumVersion.from_tag(CILIUM_AGENT)
    assert release is not None
    return [
        (host, copy.deepcopy(body))
        for intent in intents
        for host, bodies in compile_intent(
            intent,
            names={host: host for host in MEMBERS},
            members=MEMBERS,
            version=release.release,
            binding=Binding(name="edge-mesh-eu", cluster_refs=MEMBERS),
        ).items()
        for body in bodies
    ]


@contextmanager
def in_force(ground: Ground, policies: Sequence[tuple[str, Object]]) -> Iterator[None]:
    """Write the policies, and wait until the agents enforce these and no others; delete them at the end."""
    made: list[tuple[str, str]] = []
    uids: dict[str, dict[str, Object]] = {host: {} for host in MEMBERS}
    try:
        for host, body in policies:
            stored = ground.lab.api(host).create(body)
            made.append((host, path_of(body)))
            uids[host][stored["metadata"]["uid"]] = body
        for host in MEMBERS:

            def differing(host: str = host) -> list[Object | str]:
                found = enforced(ground, host)
                return [uids[host].get(uid, uid) for uid in found.symmetric_difference(uids[host])]

            wait_for(differing, lambda rows: not rows, what=f"the agent of {host} has the policies")
        yield
    finally:
        for host, path in made:
            ground.lab.api(host).delete(path)


def enforced(ground: Ground, host: str) -> set[str]:
    """Uids of the policies that all endpoints of a node have, of which pods' came from objects."""
    answer = json.loads(agent(ground.lab, host, "cilium", "policy", "get", "-o", "json"))
    agent(ground.lab, host, "cilium", "policy", "wait", str(answer["revision"]))
    rules = json.loads(answer["policy"])
    return {label["value"] for rule in rules for label in rule["Labels"] if label["key"] == "io.cilium.k8s.policy.uid"}


def unlike(ground: Ground, policies: Sequence[tuple[str, Object]], dialled: Sequence[Flow]) -> list[str]:
    """Return the flows of which real agents and the evaluator say different things, in words."""
    return [row for row, _outcome in compared(ground, policies, dialled) if row]


def compared(ground: Ground, policies: Sequence[tuple[str, Object]], dialled: Sequence[Flow]) -> list[tuple[str, PolicyOutcome]]:
    """Return per flow between two pods: "" or the difference in words, and what the evaluator says. Of what it does not know it says
    nothing wrong."""
    placed: dict[str, list[Any]] = {host: [] for host in MEMBERS}
    for host, body in policies:
        placed[host].append(policy_facts(body))
    evaluated = world(placed, version=CILIUM_AGENT, config=ground.config, clusters=MEMBERS)
    found = []
    for source, destination, (protocol, port), word in dial_all(ground, dialled):
        verdict = judged(evaluated, source, destination, f"{protocol}/{port}")
        passes = PolicyOutcome.ALLOWED if word in ARRIVED else PolicyOutcome.DENIED
        shown = f"{source.shown} -> {destination.shown} {protocol}/{port}: {word}; evaluator: {verdict.outcome}, {verdict.reasons}"
        found.append(("" if verdict.outcome in (passes, PolicyOutcome.UNKNOWN) else shown, verdict.outcome))
    return found


def dial_all(ground: Ground, dialled: Sequence[Flow]) -> list[tuple[PolicyEndpoint, PolicyEndpoint, Flow, str]]:
    """Let each pod try each flow to every other pod. Return source, destination, flow and the word of `tests.lab.dial`."""

    def ask(source: Pod) -> list[tuple[PolicyEndpoint, PolicyEndpoint, Flow, str]]:
        questions = [(other.end, flow) for other in ground.pods if other is not source for flow in dialled]
        wire = json.dumps([(protocol, end.address, port) for end, (protocol, port) in questions])
        kubeconfig = ground.lab.lab.clusters[source.end.cluster].kubeconfig
        answer = workloads.execute(kubeconfig, source.end.namespace, source.name, ["dial", str(SECONDS), wire])
        assert answer.code == 0, answer.errors
        return [(source.end, end, flow, word) for (end, flow), word in zip(questions, json.loads(answer.text), strict=True)]

    with ThreadPoolExecutor(len(ground.pods)) as threads:
        return [row for rows in threads.map(ask, ground.pods) for row in rows]


def test_a_flow_that_an_agent_drops_differs_from_one_that_arrives(ground: Ground) -> None:
    """Without this, agents that enforce nothing and pods that do not answer would agree with any evaluator."""
    deny = ConnectivityIntent(
        name="deny",
        action="Deny",
        source=PodSelection(namespace="blue", labels={"app": "x"}, clusters=("c1",)),
        destination=PodSelection(namespace="green", labels={"tier": "y"}),
        ports=(PortRule(protocol="ANY", port=8000),),
    )
    dialled = (("TCP", 8000), ("UDP", 8000), ("TCP", 8080), ("TCP", 9999), ("UDP", 9999), ("ICMP", 8))
    policies = compiled([deny])
    with in_force(ground, policies):
        unlike_rows = unlike(ground, [], dialled)
    assert len(unlike_rows) == 4 and all("silent; evaluator: allowed" in row and "/8000" in row for row in unlike_rows), unlike_rows


def test_real_agents_let_through_what_the_evaluator_says(ground: Ground, record_property: Any) -> None:
    outcomes = agree(ground, generated(of_intents(), WORLDS), record_property)
    assert set(outcomes) == {PolicyOutcome.ALLOWED, PolicyOutcome.DENIED}


@pytest.mark.xdist_group("real-policies-of-users")  # a lab of its own, so that no part of the deep run has both
def test_the_evaluator_is_right_about_policies_that_no_intent_was_compiled_to(ground: Ground, record_property: Any) -> None:
    outcomes = agree(ground, generated(of_others(), OTHERS), record_property)
    assert outcomes[PolicyOutcome.ALLOWED] and outcomes[PolicyOutcome.DENIED]
    assert outcomes[PolicyOutcome.UNKNOWN] < outcomes.total() / 20, outcomes


def agree(ground: Ground, cases: Sequence[Case], record_property: Any) -> Counter[PolicyOutcome]:
    """Hold the evaluator to the agents in each world; return how often it says what."""
    outcomes: Counter[PolicyOutcome] = Counter()
    differences: list[str] = []
    for number, case in enumerate(cases):
        with in_force(ground, case.policies):
            for _ in range(ATTEMPTS):
                rows = compared(ground, case.policies, case.flows)
                if not any(row for row, _outcome in rows):
                    break
        outcomes.update(outcome for _row, outcome in rows)
        differing = [row for row, _outcome in rows if row]
        if differing:
            differences += [f"world {number}: {json.dumps(case.policies)}", *differing]
    for outcome, count in outcomes.items():
        record_property(f"flows {outcome}", count)
    print(f"{len(cases)} worlds, {dict(outcomes)}", *differences, sep="\n")  # of an assertion pytest shows the first line alone
    assert differences == []
    return outcomes
