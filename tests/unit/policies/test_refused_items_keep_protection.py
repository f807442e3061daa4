# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A refused item never leads to less protection: whatever is mistyped, renamed or not written, no flow opens unless a valid item asks."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, KeptBack, ServerRefused, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import KEPT, is_unsettled
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import ITEM_ANNOTATION, owning_item
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import PolicyEndpoint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import policy_world
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Step
from tests.testing.intent_meaning import means
from tests.testing.policy_worlds import judged
from tests.testing.policy_worlds import pod as endpoint
from tests.testing.properties import examples
from tests.testing.simulated_items import applied
from tests.testing.texts import mentions
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
        there = [name for name in NAMESPACES if (host, name) != without]
        pods = tuple(pod(f"{label}-1", namespace=name, app=label) for name in there for label in LABELS)
        members.append(traffic(host, namespaces=[namespace_facts(name) for name in there], pods=pods))
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
    there = policy_world(at)
    found = {}
    for place, flow in enumerate(flows(at)):
        outcome = judged(there, flow.source, flow.destination, f"TCP/{flow.port}").outcome
        assert outcome is not Outcome.UNKNOWN, "compiled policies leave no doubt"
        if outcome is Outcome.ALLOWED:
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
def specs(draw: st.DrawFn, name: str) -> Spec:
    clusters = draw(st.sampled_from((None, None, ["c1"], ["c2"])))
    where = {"clusters": clusters} if clusters else {}
    action = draw(st.sampled_from(("Allow", "Allow", "Deny", "Isolate")))
    spec: Spec = {
        "name": name,
        "action": action,
        "policyMode": draw(st.sampled_from(("Namespaced", "Namespaced", "Clusterwide"))),
        "destination": {"namespace": draw(st.sampled_from(NAMESPACES)), "name": draw(st.sampled_from(LABELS)), **where},
    }
    if action != "Isolate":
        spec["source"] = {"namespace": draw(st.sampled_from(NAMESPACES)), "name": draw(st.sampled_from(LABELS))}
        if draw(st.booleans()):
            spec["ports"] = [{"protocol": "TCP", "port": draw(st.sampled_from(PORTS))}]
    return spec


def mistyped(spec: Spec, what: str) -> Spec:
    """The spec with one mistake of those that people make. All but the namespace refuse the item."""
    wrong = copy.deepcopy(spec)
    if what == "port":
        wrong["ports"] = [{"protocol": "TCP", "port": 80800}]
    elif what == "action":
        wrong["action"] = "Alow"
    elif what == "selector":
        wrong["destination"].pop("name", None)
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
                places = {there: _place(intent, there, seen) for there in intent.destination.clusters or HOSTS}
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
    there = seen.traffic.get(host)
    return there is not None and (intent.mode == "Clusterwide" or intent.destination.namespace in there.namespaces)


@examples(200)
@given(runs())
def test_no_flow_opens_that_was_closed_and_that_no_valid_item_asks_for(case: tuple[tuple[str, str] | None, list[Run]]) -> None:
    """After a run no flow is allowed that was neither allowed before nor asked for.

    A flow is asked for when the intents that ``asked`` returns for the cluster of its destination let it through, by what they mean in
    words (``intent_meaning.means``). The policies before and after are judged by the project's evaluator.
    """
    without, history = case
    at, in_force = world(without=without), InForce({host: {} for host in HOSTS})
    was = allowed(at)
    for run in history:
        before = at
        at, in_force = carried_out(at, run, in_force)
        if all(at.traffic[host].policies == before.traffic[host].policies for host in HOSTS):
            continue  # nothing was written, so nothing opened
        now = allowed(at)
        for place, flow in now.items():
            if place not in was:
                wanted = in_force[str(flow.destination.cluster)].values()
                assert means(wanted, flow.source, flow.destination, "TCP", flow.port), f"{flow} is open after {run}"
        was = now


@dataclass(frozen=True)
class Edits:
    """A file, two edits of it, and after how many writes the run of each edit is killed; the last edit is carried out again to its end."""

    files: tuple[tuple[Spec, ...], ...]
    killed_after: int


@st.composite
def files(draw: st.DrawFn) -> Edits:
    names = draw(st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=3, unique=True))
    found: list[tuple[Spec, ...]] = [tuple(draw(specs(name)) for name in names)]
    for _edit in range(2):
        swapped = draw(st.booleans())
        file = found[-1]
        if swapped:
            found.append(tuple({**spec, "name": name} for spec, name in zip(file, draw(st.permutations([s["name"] for s in file])), strict=True)))
        else:
            found.append(draw(edits(file)))
    return Edits(tuple(found), draw(st.integers(0, 12)))


def in_any_order(steps: Sequence[Step], order: random.Random) -> list[Step]:
    """Return the steps as they may be written: wave by wave, and in a wave those of one item in one cluster in their order."""
    lanes: dict[int, dict[tuple[str, str], list[Step]]] = {}
    for step in steps:
        lanes.setdefault(step.wave, {}).setdefault((step.cluster, step.item), []).append(step)
    found = []
    for _wave, there in sorted(lanes.items()):
        while any(there.values()):
            found.append(there[order.choice([key for key, lane in there.items() if lane])].pop(0))
    return found


@examples(50)
@given(files(), st.randoms(use_true_random=False))
def test_no_flow_opens_between_two_writes_that_is_closed_before_and_after(case: Edits, order: random.Random) -> None:
    """At each write of a plan, no flow is open that is open neither before nor after the whole plan.

    Writes of one wave come in any order. A run that is killed leaves what the next one begins from.
    """
    at = world()
    at = applied(at, planned(list(case.files[0]), at).plan.steps, at.binding)
    for file, stop in zip((*case.files[1:], case.files[-1]), (case.killed_after, case.killed_after, None), strict=True):
        steps = planned(list(file), at).plan.steps
        whole = allowed(at).keys() | allowed(applied(at, steps, at.binding)).keys()
        for step in in_any_order(steps, order)[:stop]:
            at = applied(at, [step], at.binding)
            opened = [flow for place, flow in allowed(at).items() if place not in whole]
            assert not opened, f"{opened[0]} is open after {step.verb} {step.object} of {step.item} in {step.cluster}, wave {step.wave}"
    assert planned(list(case.files[-1]), at).plan.empty



# The case that a person met, and its relatives


def intent(name: str = "frontend-to-nginx", **fields: Any) -> Spec:
    source, destination = {"namespace": "blue", "name": "x"}, {"namespace": "green", "name": "y"}
    port = [{"protocol": "TCP", "port": 80}]
    return {"name": name, "action": "Allow", "source": source, "destination": destination, "ports": port, **fields}


def policies(at: Scene) -> dict[str, list[str]]:
    """Inventory name -> items with a policy there."""
    found = {}
    for host, there in at.traffic.items():
        refs = [owning_item(at.binding, entry) for entry in there.policies]
        found[host] = sorted(ref.name for ref in refs if ref is not None)
    return found


def after(at: Scene, *file: Spec) -> Scene:
    return write(at, planned(list(file), at).plan)[0]


def test_an_intent_that_is_renamed_and_mistyped_stays_in_force_and_the_run_says_so() -> None:
    there = after(world(), intent())
    wrong = [intent("fe-to-nginx", ports=[{"protocol": "TCP", "port": 80800}])]
    decided = planned(wrong, there)
    assert decided.plan.empty and decided.plan.not_carried_out == ("connectivityIntents/fe-to-nginx",)
    (kept,) = [finding for finding in decided.findings if finding.code == KEPT]
    assert (kept.item, kept.cluster, kept.others) == ("connectivityIntents/frontend-to-nginx", "c1", ("c2",))
    assert mentions(kept.summary, "frontend-to-nginx", "kept", "fe-to-nginx", "refused")
    objects = [line.rpartition("-")[0] for line in kept.evidence.splitlines()]
    assert objects == [f"{host}: CiliumNetworkPolicy green/frontend-to-nginx" for host in HOSTS]
    assert mentions(kept.fix, "connectivityIntents/fe-to-nginx", "out of the file")
    corrected = planned([intent("fe-to-nginx")], there)
    assert [step.verb for step in corrected.plan.steps] == ["create", "create", "delete", "delete"]
    assert policies(write(there, corrected.plan)[0]) == {"c1": ["fe-to-nginx"], "c2": ["fe-to-nginx"]}
    assert planned([], there).plan.steps, "without the refused item it goes"


@pytest.mark.parametrize("what", MISTAKES)
def test_no_mistake_costs_the_policy_that_is_in_force(what: str) -> None:
    there = after(world(), intent())
    renamed = after(there, mistyped(intent("renamed"), what))
    assert policies(renamed) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}
    same = after(there, mistyped(intent(), what))
    assert policies(same) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}


def test_items_that_wait_keep_what_they_may_replace() -> None:
    there = replace(after(world(), intent()), phase="Connecting")
    decided = planned([intent("renamed")], there)
    assert decided.plan.empty and [f.code for f in decided.findings] == ["CM-ITEM-03", KEPT]


def refuses_item(host: str, name: str) -> Refuses:
    return refusing(Run((), refused=(host, name)))


def test_a_policy_goes_only_where_no_write_failed() -> None:
    there = after(world(), intent())
    now, result = write(there, planned([intent("renamed")], there).plan, refuses_item("c2", "renamed"))
    assert policies(now) == {"c1": ["renamed"], "c2": ["frontend-to-nginx"]}
    error = result.items["connectivityIntents/frontend-to-nginx"]["c2"]
    assert isinstance(error, KeptBack) and mentions(error.message, "frontend-to-nginx", "connectivityIntents/renamed")


def test_an_intent_that_moves_stays_where_it_was_until_it_is_written_where_it_goes() -> None:
    here = {**intent()["destination"], "clusters": ["c1"]}
    there = after(world(), intent(destination=here))
    moved = intent(destination={**here, "clusters": ["c2"]})
    now, _result = write(there, planned([moved], there).plan, refuses_item("c2", "frontend-to-nginx"))
    assert policies(now) == {"c1": ["frontend-to-nginx"], "c2": []}
    quiet = planned([moved], observed(there, Run((), silent="c2")))
    assert quiet.plan.empty and [f.code for f in quiet.findings if f.item and f.code == KEPT] == [KEPT]
    assert policies(after(there, moved)) == {"c1": [], "c2": ["frontend-to-nginx"]}


def test_an_intent_that_moves_to_a_namespace_that_is_not_there_stays_where_it_was() -> None:
    there = after(world(without=("c2", "blue")), intent(source={"namespace": "green", "name": "x"}))
    moved = intent(source={"namespace": "green", "name": "x"}, destination={"namespace": "blue", "name": "y"})
    now = after(there, moved)
    assert policies(now) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}
    assert [entry.namespace for host in HOSTS for entry in now.traffic[host].policies] == ["blue", "green"]


def test_a_refused_item_of_another_kind_holds_nothing_back() -> None:
    there = after(world(), intent())
    file = {INTENTS: [], ItemKind.EXPOSURE.value: [{"name": "shop", "class": "Door"}]}
    decided = plan_items(desired_of(file, there.mesh), there)
    assert [step.verb for step in decided.plan.steps] == ["delete", "delete"]
    assert decided.of(ItemVerdict.REFUSED)[0].ref == ItemRef(ItemKind.EXPOSURE, "shop")


def test_in_a_cluster_that_left_everything_goes_also_while_an_item_is_refused() -> None:
    there = after(world(), intent())
    left = replace(there, mesh=replace(there.mesh, binding=replace(there.binding, cluster_refs=("c2",))))
    now = replace(there, mesh=replace(there.mesh, binding=replace(there.binding, cluster_refs=("c1", "c3"))))
    file = {INTENTS: [intent("fe", action="Alow")]}
    decided = plan_items(desired_of(file, now.mesh), now, former=left)
    assert [(step.cluster, step.verb) for step in decided.plan.steps] == [("c2", "delete")]
