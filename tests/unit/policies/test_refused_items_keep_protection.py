# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A refused item never leads to less protection: whatever is mistyped, renamed or not written, no flow opens unless a valid item asks."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import KeptBack
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.keeping import KEPT
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import owning_item
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.policy_waves import ISOLATE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from tests.testing.intent_meaning import means
from tests.testing.intent_runs import (
    HOSTS,
    INTENTS,
    MISTAKES,
    InForce,
    Run,
    Spec,
    allowed,
    carried_out,
    edits,
    mistyped,
    observed,
    planned,
    refusing,
    runs,
    specs,
    world,
)
from tests.testing.properties import examples
from tests.testing.rows import one_test
from tests.testing.simulated_items import applied, in_any_order
from tests.testing.texts import mentions
from tests.testing.written_scene import Refuses, write


@examples(100)
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
        names = draw(st.permutations([spec["name"] for spec in found[-1]]))
        swapped = tuple({**spec, "name": name} for spec, name in zip(found[-1], names, strict=True))
        found.append(draw(st.one_of(st.just(swapped), edits(found[-1]))))
    return Edits(tuple(found), draw(st.integers(0, 12)))


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
    for host, facts in at.traffic.items():
        refs = [owning_item(at.binding, entry) for entry in facts.policies]
        found[host] = sorted(ref.name for ref in refs if ref is not None)
    return found


def after(at: Scene, *file: Spec) -> Scene:
    return write(at, planned(list(file), at).plan)[0]


def test_an_intent_that_is_renamed_and_mistyped_stays_in_force_and_the_run_says_so() -> None:
    written = after(world(), intent())
    wrong = [intent("fe-to-nginx", ports=[{"protocol": "TCP", "port": 80800}])]
    decided = planned(wrong, written)
    assert decided.plan.empty and decided.plan.not_carried_out == ("connectivityIntents/fe-to-nginx",)
    (kept,) = [finding for finding in decided.findings if finding.code == KEPT]
    assert (kept.item, kept.cluster, kept.others) == ("connectivityIntents/frontend-to-nginx", "c1", ("c2",))
    assert mentions(kept.summary, "frontend-to-nginx", "kept", "fe-to-nginx", "refused")
    objects = [line.rpartition("-")[0] for line in kept.evidence.splitlines()]
    assert objects == [f"{host}: CiliumNetworkPolicy green/frontend-to-nginx" for host in HOSTS]
    assert mentions(kept.fix, "connectivityIntents/fe-to-nginx", "out of the file")
    corrected = planned([intent("fe-to-nginx")], written)
    assert [step.verb for step in corrected.plan.steps] == ["create", "create", "delete", "delete"]
    assert policies(write(written, corrected.plan)[0]) == {"c1": ["fe-to-nginx"], "c2": ["fe-to-nginx"]}
    assert planned([], written).plan.steps, "without the refused item it goes"


@one_test("what", *MISTAKES)
def test_no_mistake_costs_the_policy_that_is_in_force(what: str) -> None:
    written = after(world(), intent())
    renamed = after(written, mistyped(intent("renamed"), what))
    assert policies(renamed) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}
    same = after(written, mistyped(intent(), what))
    assert policies(same) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}


def test_items_that_wait_keep_what_they_may_replace() -> None:
    written = replace(after(world(), intent()), phase="Connecting")
    decided = planned([intent("renamed")], written)
    assert decided.plan.empty and [f.code for f in decided.findings] == ["CM-ITEM-03", KEPT]


def refuses_item(host: str, name: str) -> Refuses:
    return refusing(Run((), refused=(host, name)))


def test_a_policy_goes_only_where_no_write_failed() -> None:
    written = after(world(), intent())
    now, result = write(written, planned([intent("renamed")], written).plan, refuses_item("c2", "renamed"))
    assert policies(now) == {"c1": ["renamed"], "c2": ["frontend-to-nginx"]}
    error = result.items["connectivityIntents/frontend-to-nginx"]["c2"]
    assert isinstance(error, KeptBack) and mentions(error.message, "frontend-to-nginx", "connectivityIntents/renamed")


def test_an_intent_that_moves_stays_where_it_was_until_it_is_written_where_it_goes() -> None:
    here = {**intent()["destination"], "clusters": ["c1"]}
    written = after(world(), intent(destination=here))
    moved = intent(destination={**here, "clusters": ["c2"]})
    now, _result = write(written, planned([moved], written).plan, refuses_item("c2", "frontend-to-nginx"))
    assert policies(now) == {"c1": ["frontend-to-nginx"], "c2": []}
    quiet = planned([moved], observed(written, Run((), silent="c2")))
    assert quiet.plan.empty and [f.code for f in quiet.findings if f.item and f.code == KEPT] == [KEPT]
    assert policies(after(written, moved)) == {"c1": [], "c2": ["frontend-to-nginx"]}


def test_an_intent_that_moves_to_a_namespace_that_is_not_there_stays_where_it_was() -> None:
    written = after(world(without=("c2", "blue")), intent(source={"namespace": "green", "name": "x"}))
    moved = intent(source={"namespace": "green", "name": "x"}, destination={"namespace": "blue", "name": "y"})
    now = after(written, moved)
    assert policies(now) == {"c1": ["frontend-to-nginx"], "c2": ["frontend-to-nginx"]}
    assert [entry.namespace for host in HOSTS for entry in now.traffic[host].policies] == ["blue", "green"]


def test_a_refused_item_of_another_kind_holds_nothing_back() -> None:
    written = after(world(), intent())
    file = {INTENTS: [], ItemKind.EXPOSURE.value: [{"name": "shop", "class": "Door"}]}
    decided = plan_items(desired_of(file, written.mesh), written)
    assert [step.verb for step in decided.plan.steps] == ["delete", "delete"]
    assert decided.of(ItemVerdict.REFUSED)[0].ref == ItemRef(ItemKind.EXPOSURE, "shop")


@pytest.mark.parametrize(
    ("wrong", "kept"),
    [
        ([intent(destination={"namespace": "green", "name": "x", "clusters": ["c2"]})], True),  # it still names what left
        ([intent("fe", action="Alow")], True),
        ([intent("fe")], False),
        ([], False),
    ],
)
def test_in_a_cluster_that_left_what_a_refused_item_may_ask_for_stays_and_is_named(wrong: list[Spec], kept: bool) -> None:
    written = after(world(), intent())
    left = replace(written, mesh=replace(written.mesh, binding=replace(written.binding, cluster_refs=("c2",))))
    now = replace(written, mesh=replace(written.mesh, binding=replace(written.binding, cluster_refs=("c1", "c3"))))
    decided = plan_items(desired_of({INTENTS: wrong}, now.mesh), now, former=left)
    assert [step.verb for step in decided.plan.steps if step.cluster == "c2"] == ([] if kept else ["delete"])
    said = [finding for finding in decided.findings if finding.code == "CM-ITEM-05" and finding.cluster == "c2"]
    assert bool(said) is kept
    if kept:
        assert "c2 left the mesh, but objects of ConnectivityIntent frontend-to-nginx are kept there" in said[0].summary
        assert "with c2 in cilium_mesh_former" in said[0].fix and said[0].evidence


# What begins and what ceases


def isolating(name: str, label: str) -> Spec:
    return {"name": name, "action": "Isolate", "destination": {"namespace": "green", "name": label}}


def rules(at: Scene, host: str) -> dict[str, int]:
    """Item -> how many rules its policy has in the cluster."""
    found = {owning_item(at.binding, entry): 1 + len(entry.specs) for entry in at.traffic[host].policies}
    return {ref.name: count for ref, count in found.items() if ref is not None}


def test_two_intents_that_swap_what_they_isolate_hold_both_until_both_are_written() -> None:
    written = after(world(), isolating("a", "x"), isolating("b", "y"))
    swapped = [isolating("a", "y"), isolating("b", "x")]
    plan = planned(swapped, written).plan
    assert [(step.wave, step.cluster, step.verb) for step in plan.steps] == [
        (wave, host, "patch") for wave in ISOLATE for _item in "ab" for host in HOSTS
    ]
    failed, result = write(written, plan, refuses_item("c1", "b"))
    assert (rules(failed, "c1"), rules(failed, "c2")) == ({"a": 2, "b": 1}, {"a": 1, "b": 2}), "b closes what a no longer closes"
    assert isinstance(result.items["connectivityIntents/a"]["c1"], KeptBack)
    again = planned(swapped, failed).plan
    assert [(step.wave, step.cluster, step.item[-1]) for step in again.steps] == [
        (15, "c1", "b"),
        (19, "c1", "a"),
        (19, "c1", "b"),
        (19, "c2", "b"),
    ]
    done = write(failed, again)[0]
    assert rules(done, "c1") == {"a": 1, "b": 1} and planned(swapped, done).plan.empty


def test_rules_that_another_writer_added_are_not_taken_for_former_ones() -> None:
    written = after(world(), isolating("a", "x"))
    (policy,) = written.traffic["c1"].policies
    added = replace(policy, specs=({"endpointSelector": {}, "ingress": [{}]},))
    theirs = replace(written, traffic={**written.traffic, "c1": replace(written.traffic["c1"], policies=(added,))})
    first, last = [step for step in planned([isolating("a", "y")], theirs).plan.steps if step.cluster == "c1"]
    assert isinstance(first.action, ApiWrite) and first.action.body["specs"] == [policy.spec]
    assert isinstance(last.action, ApiWrite) and "specs" not in last.action.body
