# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All items are decided on one scene; one that is refused or waits takes no other with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired, Refused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import PRUNE_WAVES, WAVES, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.policy_waves import ALLOW, DENY, ISOLATE, Span
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import alike, one_test
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import namespace_facts, pod, scene, service, traffic
from tests.unit.items.fake_kind import FAKE_ROWS, KIND, desired, intent


def plan_items(wanted: Desired, place: Scene, **fields: Any) -> ItemsPlan:
    return plan.plan_items(wanted, place, rows=FAKE_ROWS, **fields)


def two_clusters(**fields: Any) -> Scene:
    return scene(traffic("c1"), traffic("c2"), **fields)


def after(place: Scene, decided: ItemsPlan) -> Scene:
    return applied(place, decided.plan.steps, place.binding)


def test_every_item_gets_its_steps_in_the_order_of_the_file_and_a_second_plan_is_empty() -> None:
    place, wanted = two_clusters(), desired(intent("b"), intent("a"))
    decided = plan_items(wanted, place)
    assert [item.ref.name for item in decided.items] == ["b", "a"]
    assert {(s.cluster, s.item) for s in decided.plan.steps} == {
        (host, f"connectivityIntents/{name}") for host in ("c1", "c2") for name in ("a", "b")
    }
    assert plan_items(wanted, after(place, decided)).plan.empty


def test_a_refused_item_writes_nothing_keeps_what_it_made_and_stops_no_other() -> None:
    place = two_clusters()
    made = after(place, plan_items(desired(intent("good"), intent("bad")), place))
    refused = Refused(ref=ItemRef(KIND, "bad"), problems=("action: is not known",))
    wanted = desired(intent("good", action="Deny"), refused=(refused,), order=(ItemRef(KIND, "bad"), ItemRef(KIND, "good")))
    decided = plan_items(wanted, made)
    assert [item.verdict for item in decided.items] == [ItemVerdict.REFUSED, ItemVerdict.ACCEPTED]
    assert {step.item for step in decided.plan.steps} == {"connectivityIntents/good"}
    assert [(f.code, f.item, f.evidence) for f in decided.findings] == [("CM-ITEM-01", "connectivityIntents/bad", "action: is not known")]
    assert not decided.plan.blocked


def test_a_blocking_finding_of_planning_costs_the_item_its_steps() -> None:
    decided = plan_items(desired(intent("a"), intent("b", action="Forbidden")), two_clusters())
    item = decided.items[1]
    assert (item.verdict, item.reason, item.message, item.steps) == (ItemVerdict.REFUSED, "PrerequisiteNotMet", "c1: this cannot be", ())
    assert {step.item for step in decided.plan.steps} == {"connectivityIntents/a"}


@one_test(
    "phase verdict",
    *alike(ItemVerdict.ACCEPTED, "Connected", "Degraded", ""),
    *alike(ItemVerdict.WAITING, "Connecting", "Pending", "Error", "anything"),
)
def test_items_wait_for_the_binding_and_so_does_pruning_of_what_they_may_replace(phase: str, verdict: ItemVerdict) -> None:
    made = after(two_clusters(), plan_items(desired(intent("old")), two_clusters()))
    decided = plan_items(desired(intent("new")), replace(made, phase=phase))
    assert decided.items[0].verdict is verdict
    carried_out = verdict is ItemVerdict.ACCEPTED
    assert {step.verb for step in decided.plan.steps if step.item.endswith("/old")} == ({"delete"} if carried_out else set())
    assert any(step.item.endswith("/new") for step in decided.plan.steps) == carried_out
    assert [f.code for f in decided.findings] == ([] if carried_out else ["CM-ITEM-03", "CM-ITEM-05"])
    assert len(plan_items(desired(), replace(made, phase=phase)).plan.steps) == 2  # where no item waits, nothing waits


def test_a_caller_that_does_not_wait_plans_at_once() -> None:
    assert plan_items(desired(intent("a")), two_clusters(phase="Pending"), waits=False).plan.steps


def test_what_goes_goes_after_everything_is_written() -> None:
    made = after(two_clusters(), plan_items(desired(intent("old")), two_clusters()))
    decided = plan_items(desired(intent("new")), made)
    assert [step.wave for step in decided.plan.steps] == [ALLOW.begin] * 2 + [ALLOW.cease] * 2
    spans = sorted([DENY, ALLOW, ISOLATE, *(Span(WAVES[kind], PRUNE_WAVES[kind]) for kind in WAVES)])
    assert [span.cease for span in spans] == sorted((span.cease for span in spans), reverse=True)


def test_of_a_kind_that_the_file_does_not_speak_of_nothing_is_taken_away() -> None:
    made = after(two_clusters(), plan_items(desired(intent("a")), two_clusters()))
    assert plan_items(desired(kinds=frozenset()), made).plan.empty
    assert len(plan_items(desired(), made).plan.steps) == 2


def test_in_clusters_that_left_everything_goes_and_nothing_is_made() -> None:
    place = two_clusters()
    made = after(place, plan_items(desired(intent("a")), place))
    left = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c2",)))
    now = replace(made, mesh=Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c3"))))
    decided = plan_items(desired(intent("a"), mesh=now.mesh), now, former=replace(made, mesh=left))
    assert [(step.cluster, step.verb) for step in decided.plan.steps] == [("c2", "delete")]
    assert set(decided.plan.relied_on) == {"c1", "c2"}


def test_a_step_without_an_item_gets_that_of_its_plan() -> None:
    def plain(wanted: Desired, place: Scene) -> Any:
        plans = FAKE_ROWS[KIND].plan(wanted, place)
        return [replace(p, steps=tuple(replace(step, item="") for step in p.steps)) for p in plans]

    rows = {**FAKE_ROWS, KIND: replace(FAKE_ROWS[KIND], plan=plain)}
    decided = plan.plan_items(desired(intent("a")), two_clusters(), rows=rows)
    assert {step.item for step in decided.plan.steps} == {"connectivityIntents/a"}


class TestHash:
    """The hash is that of what was decided and what it rests on, and of nothing else."""

    def test_pods_and_services_that_no_item_is_about_do_not_change_it(self) -> None:
        wanted = desired(intent("a"))
        busy = scene(traffic("c1", services=[service("other")], pods=(pod("other-1", app="other"),)), traffic("c2"))
        assert plan_items(wanted, busy).plan.hash == plan_items(wanted, two_clusters()).plan.hash

    def test_versions_of_objects_do_not_change_it(self) -> None:
        place = two_clusters()
        made = after(place, plan_items(desired(intent("a")), place))
        other = replace(
            made,
            traffic={h: replace(t, policies=tuple(replace(p, resource_version="99") for p in t.policies)) for h, t in made.traffic.items()},
        )
        wanted = desired(intent("a", action="Deny"))
        assert plan_items(wanted, other).plan.hash == plan_items(wanted, made).plan.hash

    def test_another_spec_another_cluster_another_option_change_it(self) -> None:
        wanted, place = desired(intent("a")), two_clusters()
        first = plan_items(wanted, place).plan.hash
        upgraded = {**place.facts, "c1": cluster_facts("c1", version="1.19.5")}
        others = [
            plan_items(desired(intent("a", action="Deny")), place),
            plan_items(wanted, replace(place, facts=upgraded)),
            plan_items(wanted, scene(traffic("c1"), members=["c2"])),
            plan_items(wanted, place, options={"state": "absent"}),
        ]
        assert len({first, *(other.plan.hash for other in others)}) == 5

    def test_an_object_that_is_written_and_was_changed_by_another_writer_changes_it_with_its_section(self) -> None:
        place = two_clusters()
        made = after(place, plan_items(desired(intent("a")), place))
        policies = tuple(replace(p, annotations={**p.annotations, "note": "x"}) for p in made.traffic["c1"].policies)
        touched = replace(made, traffic={**made.traffic, "c1": replace(made.traffic["c1"], policies=policies)})
        wanted = desired(intent("a", action="Deny"))
        one, other = plan_items(wanted, made).plan, plan_items(wanted, touched).plan
        assert one.hash != other.hash
        changed = {name for name in one.relied_on["c1"] if one.relied_on["c1"][name] != other.relied_on["c1"][name]}
        assert (changed, one.relied_on["c2"] == other.relied_on["c2"]) == ({"objects"}, True)

    def test_the_namespace_of_an_object_that_is_written_counts_and_another_does_not(self) -> None:
        place = two_clusters()
        made = after(place, plan_items(desired(intent("a")), place))
        wanted = desired(intent("a", action="Deny"))
        first = plan_items(wanted, made).plan

        def with_namespace(name: str) -> str:
            spaces = {**made.traffic["c1"].namespaces, name: namespace_facts(name, clustermesh__cilium__io="x")}
            changed = replace(made.traffic["c1"], namespaces=spaces)
            return plan_items(wanted, replace(made, traffic={**made.traffic, "c1": changed})).plan.hash

        assert with_namespace("elsewhere") == first.hash
        assert with_namespace("production") != first.hash

    def test_what_was_said_counts_by_its_codes(self) -> None:
        ref = ItemRef(ItemKind.INTENT, "bad")
        wanted = desired(intent("a"), refused=(Refused(ref=ref, problems=("x: y",)),), order=(ItemRef(KIND, "a"), ref))
        place = two_clusters()
        assert plan_items(wanted, place).plan.hash != plan_items(desired(intent("a")), place).plan.hash
