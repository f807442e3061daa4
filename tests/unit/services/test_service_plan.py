# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a GlobalService writes on Services of others, and how all of it is taken back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import MANAGED
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.plan import plan_services, prune_services
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import RECORD_PREFIX, read_record, record_key
from tests.testing.simulated_items import merge_patch
from tests.testing.traffic_builders import NAMESPACE, scene, service, traffic
from tests.unit.services.service_worlds import (
    AFFINITY,
    GLOBAL,
    KEY,
    OLD_AFFINITY,
    OLD_GLOBAL,
    SHARED,
    SYNC,
    annotations_of,
    cluster,
    codes,
    findings_of,
    one,
    run,
    spec,
    steps_of,
    two,
    wanting,
)

SHOP = {"namespace": NAMESPACE, "labelSelector": {"tier": "shop"}}


def edited(world: Scene, host: str, changes: dict[str, str | None], name: str = "nginx") -> Scene:
    """Return the scene after a user's kubectl annotate."""
    current = world.traffic[host].services[(NAMESPACE, name)]
    fresh = replace(current, annotations=merge_patch(current.annotations, changes), resource_version=str(int(current.resource_version) + 1))
    return with_traffic(world, replace(world.traffic[host], services={**world.traffic[host].services, current.key: fresh}))


def with_traffic(world: Scene, changed: TrafficFacts) -> Scene:
    return replace(world, traffic={**world.traffic, changed.host: changed})


def test_a_service_is_made_global_in_every_target() -> None:
    world = run(two(), spec(shared=True, affinity="Local"))
    wanted = {GLOBAL: "true", SHARED: "true", AFFINITY: "local"}
    assert annotations_of(world, "c1") == wanted
    assert annotations_of(world, "c2") == wanted


def test_only_targets_are_written() -> None:
    assert {step.cluster for step in steps_of(two(), spec(targetClusters=["c2"]))} == {"c2"}


def test_the_write_is_refused_when_the_service_is_not_the_one_that_was_read() -> None:
    action = steps_of(two(), spec())[0].action
    assert isinstance(action, ApiWrite)
    assert action.method == "merge"
    assert (action.body["metadata"]["uid"], action.body["metadata"]["resourceVersion"]) == ("uid-production-nginx", "11")
    assert set(action.body) == {"metadata"}


def test_keys_that_the_spec_does_not_speak_of_stay_as_they_are() -> None:
    world = run(scene(cluster("c1", annotations={SHARED: "false", "team": "web"}), cluster("c2")), spec())
    assert annotations_of(world, "c1") == {GLOBAL: "true", SHARED: "false", "team": "web"}


def test_an_alias_that_a_new_key_replaces_is_removed_and_comes_back() -> None:
    before = {OLD_GLOBAL: "true", OLD_AFFINITY: "remote"}
    start = scene(cluster("c1", annotations=before), cluster("c2"))
    world = run(start, spec(affinity="Local"))
    assert annotations_of(world, "c1") == {GLOBAL: "true", AFFINITY: "local"}
    assert annotations_of(run(world), "c1") == before


def test_what_stands_there_as_wanted_is_neither_written_nor_recorded() -> None:
    start = scene(cluster("c1", annotations={GLOBAL: "True", AFFINITY: "local"}), cluster("c2", annotations={GLOBAL: "true"}))
    wanted = spec(affinity="Local")
    assert [step.cluster for step in steps_of(start, wanted)] == ["c2"]
    world = run(start, wanted)
    assert world.traffic["c1"].services[KEY] == start.traffic["c1"].services[KEY]
    record = read_record(world.traffic["c2"].services[KEY].annotations[record_key(world.binding)])
    assert record is not None
    assert (record.earlier, record.written) == ({AFFINITY: None}, {AFFINITY: "local"})


def test_the_way_back_restores_earlier_values_and_leaves_no_trace() -> None:
    before = {AFFINITY: "remote", SYNC: "true", "team": "web"}
    start = scene(cluster("c1", annotations=before), cluster("c2"))
    world = run(run(start, spec(affinity="Local", globalAnnotations={SYNC: "false"})))
    assert world.traffic["c1"].services[KEY].annotations == before
    assert world.traffic["c2"].services[KEY].annotations == {}


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([spec(targetClusters=["c2"])], id="no longer a target"),
        pytest.param([spec(selector={"namespace": NAMESPACE, "name": "other"})], id="selector moved"),
        pytest.param([], id="item gone"),
    ],
)
def test_a_service_that_is_no_longer_meant_gets_its_values_back(later: list[dict[str, Any]]) -> None:
    start = scene(cluster("c1", annotations={AFFINITY: "remote"}), cluster("c2"))
    world = run(run(start, spec(affinity="Local")), *later)
    assert annotations_of(world, "c1") == {AFFINITY: "remote"}


def test_a_key_that_the_spec_drops_gets_its_value_back_while_the_rest_stays() -> None:
    start = scene(cluster("c1", annotations={AFFINITY: "remote"}), cluster("c2"))
    world = run(run(start, spec(affinity="Local", shared=False)), spec(shared=False))
    assert annotations_of(world, "c1") == {GLOBAL: "true", SHARED: "false", AFFINITY: "remote"}


def test_when_an_item_goes_what_another_writer_changed_stays_and_is_named() -> None:
    world = edited(run(two(), spec(affinity="Local")), "c1", {AFFINITY: "remote"})
    said = one(findings_of(world), "CM-GS-04")
    assert (said.cluster, said.item) == ("c1", "globalServices/nginx")
    assert AFFINITY in said.summary
    assert "remote" in said.evidence
    after = run(world)
    assert annotations_of(after, "c1") == {AFFINITY: "remote"}
    assert annotations_of(after, "c2") == {}


def test_a_change_by_another_writer_is_set_again_and_is_what_is_restored_when_the_item_goes() -> None:
    world = edited(run(two(), spec(affinity="Local")), "c1", {AFFINITY: "remote", OLD_GLOBAL: "true"})
    assert one(findings_of(world, spec(affinity="Local")), "CM-GS-04").cluster == "c1"
    world = run(world, spec(affinity="Local"))
    assert annotations_of(world, "c1") == {GLOBAL: "true", AFFINITY: "local"}
    assert annotations_of(run(world), "c1") == {AFFINITY: "remote", OLD_GLOBAL: "true"}


def test_two_items_on_one_service_the_second_is_refused_and_the_first_is_carried_out() -> None:
    first, second = spec("first"), spec("second", affinity="Remote")
    world = run(two(), first, second)
    assert annotations_of(world, "c1") == {GLOBAL: "true"}
    said = one(findings_of(world, first, second), "CM-GS-03")
    assert (said.item, said.blocks) == ("globalServices/second", True)
    assert "GlobalService first" in said.summary


def test_who_holds_a_service_keeps_it_wherever_the_items_stand_in_the_file() -> None:
    world = run(two(), spec("second", affinity="Remote"))
    said = one(findings_of(world, spec("first"), spec("second", affinity="Remote")), "CM-GS-03")
    assert said.item == "globalServices/first"


def test_a_service_of_another_binding_is_left_alone() -> None:
    mark = f"{RECORD_PREFIX}0123456789ab"
    start = scene(cluster("c1", annotations={mark: "{}", GLOBAL: "true"}), cluster("c2"))
    assert steps_of(start, spec(affinity="Local")) == []
    said = one(findings_of(start, spec(affinity="Local")), "CM-GS-03")
    assert mark in said.fix
    assert said.blocks


def test_an_item_with_another_name_takes_over_and_the_earlier_values_are_kept() -> None:
    start = scene(cluster("c1", annotations={AFFINITY: "remote"}), cluster("c2"))
    world = run(start, spec("old", affinity="Local"))
    assert len([step for step in steps_of(world, spec("new", affinity="None")) if step.cluster == "c1"]) == 1
    world = run(world, spec("new", affinity="None"))
    assert annotations_of(world, "c1") == {GLOBAL: "true", AFFINITY: "none"}
    assert annotations_of(run(world), "c1") == {AFFINITY: "remote"}


def test_while_the_mesh_is_not_connected_what_is_gone_is_taken_back_all_the_same() -> None:
    world = replace(run(two(), spec("old")), phase="Connecting")
    wanted = wanting(world, spec("new"))
    assert sorted(step.cluster for step in prune_services(wanted, world)[0]) == ["c1", "c2"]


def test_a_refused_item_keeps_what_it_made() -> None:
    world = run(two(), spec(affinity="Local"))
    assert steps_of(world, spec(affinity="Somewhere")) == []


def test_when_nothing_is_known_of_global_services_nothing_is_taken_away() -> None:
    world = run(two(), spec())
    assert prune_services(desired_of({}, world.mesh), world) == ([], [])
    assert prune_services(desired_of({"globalServices": []}, world.mesh), world)[0]


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        json.dumps(
            {"item": "globalServices/nginx", "earlier": {"app.kubernetes.io/name": "x"}, "written": {"app.kubernetes.io/name": "y"}}
        ),
        json.dumps({"item": "globalServices/nginx", "earlier": {GLOBAL: 7}, "written": {GLOBAL: "true"}}),
        json.dumps({"item": 3, "earlier": {}, "written": {}}),
        "[" * 100_000,
    ],
)
def test_a_forged_record_cannot_make_us_write_other_keys(text: str) -> None:
    start = two()
    start = edited(start, "c1", {record_key(start.binding): text, GLOBAL: "true"})
    assert steps_of(start) == []
    assert one(findings_of(start), "CM-GS-05").cluster == "c1"
    for step in steps_of(start, spec(affinity="Local")):
        assert isinstance(step.action, ApiWrite)
        assert set(step.action.body["metadata"]["annotations"]) <= {*MANAGED, record_key(start.binding)}
    assert "CM-GS-05" in codes(start, spec(affinity="Local"))
    assert "CM-GS-05" not in codes(run(start, spec(affinity="Local")), spec(affinity="Local"))


def test_labels_select_every_service_of_the_namespace_that_has_them() -> None:
    shop = [service("cart", labels={"tier": "shop"}), service("desk", labels={"tier": "shop"}), service("db", labels={"tier": "data"})]
    other = service("cart", namespace="elsewhere", labels={"tier": "shop"})
    world = run(scene(traffic("c1", services=[*shop, other]), traffic("c2", services=shop[:1])), spec(selector=SHOP))
    assert (
        annotations_of(world, "c1", "cart")
        == annotations_of(world, "c1", "desk")
        == annotations_of(world, "c2", "cart")
        == {GLOBAL: "true"}
    )
    assert annotations_of(world, "c1", "db") == {}
    assert world.traffic["c1"].services[("elsewhere", "cart")].annotations == {}


def test_services_that_cilium_derives_are_not_selected_by_their_labels() -> None:
    derived = replace(service("derived-abc", labels={"tier": "shop"}), owner_kind="ServiceImport")
    assert steps_of(scene(traffic("c1", services=[derived]), traffic("c2")), spec(selector=SHOP)) == []


def test_silent_clusters_are_left_alone() -> None:
    assert {step.cluster for step in steps_of(scene(cluster("c1"), cluster("c2"), members=["c3"]), spec())} == {"c1", "c2"}


VALUES = st.one_of(st.none(), st.sampled_from(["true", "false", "True", "local", "remote", "none", "odd"]))
ANNOTATIONS = st.dictionaries(st.sampled_from(MANAGED), VALUES.filter(bool)).map(lambda d: {k: str(v) for k, v in d.items()})
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "shared": st.booleans(),
        "affinity": st.sampled_from(["Local", "Remote", "None"]),
        "globalAnnotations": st.sampled_from([{SYNC: "true"}, {SYNC: "false"}, {}]),
        "targetClusters": st.sampled_from([["c1"], ["c1", "c2"]]),
    },
)


@given(before=ANNOTATIONS, specs=st.lists(SPECS, min_size=1, max_size=3))
def test_whatever_stood_there_and_whatever_was_asked_for_the_way_back_ends_where_it_began(
    before: dict[str, str], specs: list[dict[str, Any]]
) -> None:
    start = scene(cluster("c1", annotations=before), cluster("c2"))
    world = start
    for fields in specs:
        world = run(world, spec(**fields))
        now = world.traffic["c1"].services[KEY].annotations
        assert now[GLOBAL].lower() == "true"
        for name, key in (("shared", SHARED), ("affinity", AFFINITY)):
            if name in fields:
                assert now[key].lower() == str(fields[name]).lower()
    assert run(world).traffic["c1"].services[KEY].annotations == before


@given(before=ANNOTATIONS, later=st.dictionaries(st.sampled_from(MANAGED), VALUES), fields=SPECS)
def test_what_another_writer_wrote_last_survives_when_the_item_goes(
    before: dict[str, str], later: dict[str, str | None], fields: dict[str, Any]
) -> None:
    world = edited(run(scene(cluster("c1", annotations=before), cluster("c2")), spec(**fields)), "c1", later)
    written = run(scene(cluster("c1", annotations=before), cluster("c2")), spec(**fields)).traffic["c1"].services[KEY].annotations
    after = run(world).traffic["c1"].services[KEY].annotations
    for key in MANAGED:
        changed = key in later and later[key] != written.get(key)
        assert after.get(key) == (later[key] if changed else before.get(key))


BOTH = {"namespace": NAMESPACE, "name": "nginx", "labelSelector": {"tier": "shop"}}


def test_a_name_with_labels_selects_the_service_only_where_it_has_them() -> None:
    world = scene(cluster("c1", labels={"tier": "shop"}), cluster("c2", labels={"tier": "lab"}), traffic("c3"))
    assert {step.cluster for step in steps_of(world, spec(selector=BOTH))} == {"c1"}
    found = one(findings_of(world, spec(selector=BOTH)), "CM-GS-02")
    assert (found.cluster, "does not have all labels" in found.summary) == ("c2", True)
    assert one(findings_of(world, spec(selector=BOTH)), "CM-GS-01").cluster == "c3"


def test_a_service_that_lacks_the_labels_is_not_replaced_by_one_for_clients() -> None:
    world = scene(cluster("c1", labels={"tier": "shop"}), cluster("c2", labels={"tier": "lab"}))
    assert {step.cluster for step in steps_of(world, spec(selector=BOTH, createMissingServices=True))} == {"c1"}


def test_a_service_that_loses_the_labels_gets_its_earlier_annotations_back() -> None:
    world = run(scene(cluster("c1", labels={"tier": "shop"}), cluster("c2", labels={"tier": "shop"})), spec(selector=BOTH))
    current = world.traffic["c2"].services[KEY]
    bare = with_traffic(world, replace(world.traffic["c2"], services={KEY: replace(current, labels={})}))
    assert annotations_of(run(bare, spec(selector=BOTH)), "c2") == {}


def test_an_item_whose_name_and_labels_no_service_has_finds_no_place() -> None:
    """Such an item finds no place, so that objects of removed items are kept for it (decision 0037)."""
    world = scene(cluster("c1", labels={"tier": "lab"}), cluster("c2", labels={"tier": "lab"}))
    (plan,) = plan_services(wanting(world, spec(selector=BOTH)), world)
    assert plan.unplaced
