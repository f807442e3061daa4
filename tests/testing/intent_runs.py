# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Random files of intents, edits as people make them, runs in which anything may go wrong, and what the files then ask for."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import hypothesis.strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import is_unsettled
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import ITEM_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import policy_world
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from tests.testing.policy_worlds import judged
from tests.testing.policy_worlds import pod as endpoint
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic
from tests.testing.written_scene import Refuses, write

HOSTS: Final = ("c1", "c2")
NAMESPACES: Final = ("blue", "green")
LABELS: Final = ("x", "y")
PORTS: Final = (80, 443)
INTENTS: Final = ItemKind.INTENT.value

Spec = dict[str, Any]
InForce = dict[str, dict[str, ConnectivityIntent]]
"""Inventory name -> item -> the intent whose policy stands there."""


def world(*, without: tuple[str, str] | None = None) -> Scene:
    """Two clusters with pods of both labels in both namespaces. ``without``: a namespace that a cluster does not have."""
    members = []
    for host in HOSTS:
        present = [name for name in NAMESPACES if (host, name) != without]
        pods = tuple(pod(f"{label}-1", namespace=name, app=label) for name in present for label in LABELS)
        members.append(traffic(host, namespaces=[namespace_facts(name) for name in present], pods=pods))
    return scene(*members)


def planned(file: list[Spec], at: Scene) -> ItemsPlan:
    return plan_items(desired_of({INTENTS: file}, at.mesh), at)


def parsed(file: list[Spec], at: Scene) -> dict[str, ConnectivityIntent]:
    return {intent.name: intent for intent in desired_of({INTENTS: file}, at.mesh).each(ConnectivityIntent)}


@dataclass(frozen=True)
class Flow:
    source: PolicyEndpoint
    destination: PolicyEndpoint
    port: int


def flows(at: Scene) -> Iterator[Flow]:
    """Flows to every pod from some of them, always in the same order: of its own cluster and another, of its own namespace and another."""
    pods = [endpoint(host, entry.namespace, **entry.labels) for host in HOSTS for entry in at.traffic[host].pods]
    sources = [pods[0], pods[1], pods[-1]]
    return (Flow(source, destination, port) for destination in pods for source in sources if source is not destination for port in PORTS)


def allowed(at: Scene) -> dict[int, Flow]:
    """The flows that the policies in the clusters let through, as the evaluator judges them, by their place in ``flows``."""
    policies = policy_world(at)
    found = {}
    for place, flow in enumerate(flows(at)):
        outcome = judged(policies, flow.source, flow.destination, f"TCP/{flow.port}").outcome
        assert outcome is not PolicyOutcome.UNKNOWN, "compiled policies leave no doubt"
        if outcome is PolicyOutcome.ALLOWED:
            found[place] = flow
    return found


# The property


@dataclass(frozen=True)
class Run:
    """One run: the file, and what goes wrong in it. ``refused``: (cluster, item) whose writes are refused; "" in place of an item: all."""

    file: tuple[Spec, ...]
    phase: str = "Connected"
    silent: str = ""  # a member that does not answer
    refused: tuple[str, str] | None = None
    gone: bool = False  # the cluster of ``refused`` stops answering instead


@st.composite
def sides(draw: st.DrawFn) -> Spec:
    """A side in one of the forms in which people, portals and clients write it."""
    label = draw(st.sampled_from(LABELS))
    forms: tuple[Spec, ...] = (
        {"name": label},
        {"name": label},
        {"name": label, "selector": {}, "expressions": [], "clusters": []},
        {"selector": {"k8s:app": label, "app": label}},
        {"expressions": [{"key": "any:app", "operator": "In", "values": [label]}]},
        {"selector": {}},
        {},
    )
    return {"namespace": draw(st.sampled_from(NAMESPACES)), **draw(st.sampled_from(forms))}


@st.composite
def specs(draw: st.DrawFn, name: str) -> Spec:
    clusters = draw(st.sampled_from((None, None, ["c1"], ["c2"])))
    where = {"clusters": clusters} if clusters else {}
    action = draw(st.sampled_from(("Allow", "Allow", "Deny", "Isolate")))
    spec: Spec = {
        "name": name,
        "action": action,
        "policyMode": draw(st.sampled_from(("Namespaced", "Namespaced", "Clusterwide"))),
        "destination": {**draw(sides()), **where},
    }
    if action != "Isolate":
        spec["source"] = draw(sides())
        port = {"protocol": "TCP", "port": draw(st.sampled_from(PORTS))}
        ports = draw(st.sampled_from((None, [], [port], [port], [port, port])))
        if ports is not None:
            spec["ports"] = ports
    return spec


def mistyped(spec: Spec, what: str) -> Spec:
    """The spec with one mistake of those that people make. All but the namespace refuse the item."""
    wrong = copy.deepcopy(spec)
    if what == "port":
        wrong["ports"] = [{"protocol": "TCP", "port": 80800}]
    elif what == "action":
        wrong["action"] = "Alow"
    elif what == "selector":
        wrong["destination"] = {**wrong["destination"], "name": "a b"}
    elif what == "cluster":
        wrong["destination"]["clusters"] = ["c3"]
    elif what == "field":
        wrong["prots"] = []
    elif what == "namespace":
        wrong["destination"]["namespace"] = "gren"
    return wrong


MISTAKES: Final = ("port", "action", "selector", "cluster", "field", "namespace")


@st.composite
def edits(draw: st.DrawFn, file: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """The file after a person edited it: some items are removed, renamed, changed, mistyped, or new."""
    found: list[Spec] = []
    for spec in file:
        edit = draw(st.sampled_from(("keep", "remove", "rename", "change", "mode", "mistype", "rename and mistype", "move")))
        if edit == "remove":
            continue
        after = copy.deepcopy(spec)
        if edit == "change":
            after = draw(specs(spec["name"]))
        elif edit == "mode":
            after["policyMode"] = "Clusterwide" if spec.get("policyMode") == "Namespaced" else "Namespaced"
        elif edit == "move":
            after["destination"] = {**after["destination"], "clusters": [draw(st.sampled_from(HOSTS))]}
        if "rename" in edit:
            after["name"] = f"new-{spec['name']}"
        if "mistype" in edit:
            after = mistyped(after, draw(st.sampled_from(MISTAKES)))
        found.append(after)
    if draw(st.booleans()):
        found.append(draw(specs(draw(st.sampled_from(("d", "e"))))))
    return tuple({spec["name"]: spec for spec in found}.values())


@st.composite
def runs(draw: st.DrawFn) -> tuple[tuple[str, str] | None, list[Run]]:
    """A first run in which everything is written, and two edits of its file, in runs in which anything may go wrong."""
    without = draw(st.sampled_from((None, None, ("c2", "green"))))
    names = draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3, unique=True))
    file: tuple[Spec, ...] = tuple(draw(specs(name)) for name in names)
    found = [Run(file)]
    for _edit in range(2):
        file = draw(edits(file))
        trouble = draw(st.sampled_from(("none", "none", "none", "waits", "silent", "refused", "refused", "gone")))
        items = sorted(spec["name"] for spec in file)
        found.append(
            Run(
                file,
                phase="Connecting" if trouble == "waits" else "Connected",
                silent=draw(st.sampled_from(HOSTS)) if trouble == "silent" else "",
                refused=(draw(st.sampled_from(HOSTS)), draw(st.sampled_from(("", *items)))) if trouble in ("refused", "gone") else None,
                gone=trouble == "gone",
            )
        )
    return without, found


def refusing(run: Run) -> Refuses:
    def refuses(host: str, method: str, body: Mapping[str, Any]) -> ClusterError | None:
        if run.refused is None or host != run.refused[0]:
            return None
        if run.gone:
            return Unreachable("gone", cluster=host)
        item = (body["metadata"].get("annotations") or {}).get(ITEM_ANNOTATION, "").partition("/")[2]
        return ServerRefused("no", cluster=host) if method == "apply" and run.refused[1] in ("", item) else None

    return refuses


def observed(at: Scene, run: Run) -> Scene:
    """What the run observes of the clusters."""
    if not run.silent:
        return replace(at, phase=run.phase)
    failure = ObserveFailure(host=run.silent, code="CM-API-01", message="refused the connection")
    facts = {host: entry for host, entry in at.facts.items() if host != run.silent}
    traffics = {host: entry for host, entry in at.traffic.items() if host != run.silent}
    return replace(at, phase=run.phase, facts=facts, traffic=traffics, failures={run.silent: failure})


def carried_out(at: Scene, run: Run, before: InForce) -> tuple[Scene, InForce]:
    """Carry out a run. Returns the clusters after it, and for each what the file asks for there now (``asked`` below)."""
    seen = observed(at, run)
    decided = planned(list(run.file), seen)
    after, result = write(seen, decided.plan, refusing(run))
    # of a write that was not done: the item, and the cluster
    lost = {(step.cluster, step.item.partition("/")[2]) for step in decided.plan.steps if not step.needs and step not in result.applied}
    whole = replace(at, traffic={**at.traffic, **after.traffic})
    return whole, asked(run, seen, decided, before, lost)


def asked(run: Run, seen: Scene, decided: ItemsPlan, before: InForce, lost: set[tuple[str, str]]) -> InForce:
    """Return the intents that the file asks for in each cluster.

    - A valid item asks for what its spec says, in the clusters of its destination. Elsewhere it asks for nothing more, which lifts what it
      restricted there; but only when all that it asks for is written.
    - An item that is not in the file any more asks for nothing, which lifts what it restricted; but only in a file whose items are all
      carried out, and in a cluster in which no write was lost. Until then it asks for what it asked for before.
    - An item that is refused or waits, one in a silent cluster, and one whose write was lost there, asks for what it asked for before.
    """
    intents = parsed(list(run.file), seen)
    unsettled = any(is_unsettled(plan) for plan in decided.items)
    accepted = {plan.ref.name for plan in decided.items if plan.verdict is ItemVerdict.ACCEPTED}
    after: InForce = {}
    for host in HOSTS:
        after[host] = {}
        spoiled = any(where == host for where, _item in lost)
        for name in {*before[host], *intents, *(spec["name"] for spec in run.file)}:
            intent = intents.get(name)
            if name in accepted and intent is not None and host != run.silent:
                places = {other: _place(intent, other, seen) for other in intent.destination.clusters or HOSTS}
                complete = all(places.values()) and not any(item == name for _host, item in lost)
                if places.get(host) and (host, name) not in lost:
                    after[host][name] = intent
                    continue
                if host not in places and complete:
                    continue
            elif name not in {spec["name"] for spec in run.file} and host != run.silent and not unsettled and not spoiled:
                continue
            if name in before[host]:
                after[host][name] = before[host][name]
    return after


def _place(intent: ConnectivityIntent, host: str, seen: Scene) -> bool:
    found = seen.traffic.get(host)
    return found is not None and (intent.mode == "Clusterwide" or intent.destination.namespace in found.namespaces)
