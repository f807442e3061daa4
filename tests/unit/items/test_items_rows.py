# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The status of every item, in the shape that its CRD has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired, Refused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import Failover, GlobalService, Probe, ServiceSelector
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import Reachability
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.status import Course, requeue_seconds
from tests.testing.facts_builders import NOW
from tests.testing.rows import one_test
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import scene, traffic
from tests.unit.items.fake_kind import FAKE_ROWS, KIND, desired, intent


def rows_of(
    wanted: Desired, place: Scene, course: Course | None = None, *, write: bool = True, **fields: Any
) -> dict[str, list[dict[str, Any]]]:
    decided = plan_items(wanted, place, rows=FAKE_ROWS)
    after = applied(place, decided.plan.steps, place.binding) if write else place
    return status.item_rows(wanted, decided, after, course or Course(), rows=FAKE_ROWS, **{"now": NOW, **fields})


def conditions(row: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in row["conditions"]}


def place(**fields: Any) -> Scene:
    return scene(traffic("c1"), traffic("c2"), **fields)


def test_every_kind_has_its_list_and_an_item_its_name_generation_and_times() -> None:
    found = rows_of(desired(intent("a", generation=3)), place())
    assert (found["globalServices"], found["exposedServices"]) == ([], [])
    (row,) = found["connectivityIntents"]
    assert list(row)[:4] == ["name", "phase", "observedGeneration", "lastSyncTime"]
    assert (row["name"], row["phase"], row["observedGeneration"], row["appliedClusters"]) == ("a", "Applied", 3, ["c1", "c2"])
    assert row["lastSyncTime"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert all(entry["lastTransitionTime"] == row["lastSyncTime"] for entry in row["conditions"])


def test_an_item_without_a_generation_observed_none() -> None:
    assert "observedGeneration" not in rows_of(desired(intent("a")), place())["connectivityIntents"][0]


def test_a_refused_spec_is_not_accepted() -> None:
    refused = Refused(ref=ItemRef(KIND, "bad"), problems=("a: b", "c: d"), generation=7)
    (row,) = rows_of(desired(refused=(refused,), order=(refused.ref,)), place())["connectivityIntents"]
    assert (row["phase"], row["observedGeneration"]) == ("Error", 7)
    assert conditions(row) == {"Accepted": ("False", "SpecInvalid"), "Ready": ("False", "SpecInvalid")}
    assert row["conditions"][0]["message"] == "a: b; c: d"


def test_an_item_that_planning_refuses_is_not_accepted_and_says_why() -> None:
    (row,) = rows_of(desired(intent("a", action="Forbidden")), place())["connectivityIntents"]
    assert (row["phase"], conditions(row)["Accepted"]) == ("Error", ("False", "PrerequisiteNotMet"))
    assert row["conditions"][1]["message"] == "c1: this cannot be"


def test_an_item_that_waits_is_accepted_pending_and_not_ready() -> None:
    (row,) = rows_of(desired(intent("a")), place(phase="Connecting"))["connectivityIntents"]
    assert row["phase"] == "Pending"
    assert conditions(row) == {"Accepted": ("True", "SpecValid"), "Ready": ("False", "MeshNotConnected")}
    assert row["conditions"][1]["message"] == "edge-mesh-eu is not connected (phase Connecting)"


def test_a_failed_write_is_degraded_and_never_ready_whatever_the_kind_says() -> None:
    course = Course(failed={"connectivityIntents/a": {"c2": "RBAC forbids it."}})
    one, other = rows_of(desired(intent("a"), intent("b")), place(), course)["connectivityIntents"]
    assert one["phase"] == "Degraded"
    assert conditions(one)["Ready"] == ("False", "WriteFailed")
    assert conditions(one)["Degraded"] == ("True", "WriteFailed")
    assert next(c["message"] for c in one["conditions"] if c["type"] == "Degraded") == "c2: RBAC forbids it."
    assert (other["phase"], "Degraded" in conditions(other)) == ("Applied", False)


def test_what_has_not_changed_keeps_its_time() -> None:
    wanted = desired(intent("a"))
    first = rows_of(wanted, place(), write=False)
    assert conditions(first["connectivityIntents"][0])["Ready"] == ("False", "NotApplied")
    later = rows_of(wanted, place(), now=NOW + timedelta(hours=1), previous=first)["connectivityIntents"][0]
    times = {entry["type"]: entry["lastTransitionTime"] for entry in later["conditions"]}
    assert times["Accepted"] == first["connectivityIntents"][0]["conditions"][0]["lastTransitionTime"]
    assert times["Ready"] == later["lastSyncTime"] != times["Accepted"]


@one_test(
    "previous",
    None,
    {},
    {"connectivityIntents": None},
    {"connectivityIntents": "x"},
    {"connectivityIntents": [1, {"name": "a"}]},
    {"connectivityIntents": [{"name": "a", "conditions": 7}]},
    {"connectivityIntents": [{"name": "a", "conditions": ["x", {"type": "Ready", "status": "True"}]}]},
)
def test_a_spoiled_earlier_status_counts_as_none(previous: Any) -> None:
    (row,) = rows_of(desired(intent("a")), place(), previous=previous)["connectivityIntents"]
    assert all(entry["lastTransitionTime"] == row["lastSyncTime"] for entry in row["conditions"])


def test_a_probe_is_a_condition_before_ready_and_a_part_of_the_status() -> None:
    answer = Reachability(result="refuted", time=NOW, method="hubble", message="dropped")
    (row,) = rows_of(desired(intent("a")), place(), Course(probes={"a": answer}))["connectivityIntents"]
    assert list(conditions(row)) == ["Accepted", "Reachable", "Ready"]
    assert conditions(row)["Reachable"][0] == "False"
    assert row["probeStatus"] == answer.to_dict()


def service(**fields: Any) -> GlobalService:
    return GlobalService(name="s", selector=ServiceSelector(namespace="n", name="s"), targets=("c1",), **fields)


@one_test(
    "wanted phases seconds",
    (desired(), (), 300),
    (desired(intent("a")), ("Applied",), 300),
    (desired(intent("a", probe=Probe(enabled=True, interval_seconds=45))), ("Applied",), 45),
    (desired(intent("a", probe=Probe(enabled=False, interval_seconds=45))), ("Applied",), 300),
    (desired(intent("a")), ("Applied", "Pending"), 30),
    (desired(intent("a")), ("Degraded",), 60),
    (desired(intent("a")), ("Error",), 60),
    (desired(intent("a")), ("Applying", "Degraded"), 15),
    (
        desired(items={ItemKind.GLOBAL_SERVICE: (service(failover=Failover(detect_within=40)),)}, kinds=frozenset(ItemKind)),
        ("Exported",),
        20,
    ),
    (desired(items={ItemKind.GLOBAL_SERVICE: (service(failover=Failover(detect_within=1)),)}, kinds=frozenset(ItemKind)), ("Exported",), 1),
    (desired(items={ItemKind.GLOBAL_SERVICE: (service(),)}, kinds=frozenset(ItemKind)), ("Exported",), 300),
)
def test_when_to_come_back_to_the_items(wanted: Desired, phases: tuple[str, ...], seconds: int) -> None:
    assert requeue_seconds(wanted, {"connectivityIntents": [{"phase": phase} for phase in phases]}) == seconds


def test_a_silent_cluster_is_seen_by_the_kind() -> None:
    (row,) = rows_of(desired(intent("a")), replace(scene(traffic("c1"), members=["c2"])))["connectivityIntents"]
    assert (row["phase"], row["appliedClusters"]) == ("Degraded", ["c1"])
