# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What tenants write, and what they put on their own objects, stays text: it names nothing of others, and ends no run of another mesh."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import ITEM_ANNOTATION, owning_item
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import labels_of_new_object
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import read_record
from tests.testing.rows import in_one_test, one_test
from tests.testing.traffic_builders import service

MESH = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2")))
HOSTILE = ("", "x\n", "\x1b[31mx", "../../../secrets", "a/b", "a b", "A", "x" * 300, "\u202ex", "a..b", "-a")
HUGE = int("f" * 8000, 16)  # YAML reads hexadecimal numbers of any length, and Python does not write them in decimals


@one_test("name", *HOSTILE)
def test_only_a_name_that_an_item_can_have_is_one(name: str) -> None:
    """Annotations are free text: a tenant who may edit an object writes terminal escapes, or half a page, where our item stood."""
    assert ItemRef.parse(f"globalServices/{name}") is None
    forged = service(labels=labels_of_new_object(MESH.binding), annotations={ITEM_ANNOTATION: f"exposedServices/{name}"})
    assert owning_item(MESH.binding, forged) is None


@one_test("item", *(f"globalServices/{name}" for name in HOSTILE), "exposedServices/nginx", "nginx")
def test_a_record_of_no_global_service_is_none(item: str) -> None:
    assert read_record(json.dumps({"item": item, "earlier": {}, "written": {}})) is None


@pytest.mark.parametrize("key", ["kubectl.kubernetes.io/last-applied-configuration", "service.cilium.io/lb-l7", "x"])
def test_a_forged_record_restores_no_other_annotation(key: str) -> None:
    assert read_record(json.dumps({"item": "globalServices/a", "earlier": {key: "evil"}, "written": {key: "true"}})) is None


def of(kind: ItemKind, **spec: Any) -> Desired:
    return desired_of({kind.value: [{"name": "bad", **spec}, {"name": "bad-too"}]}, MESH)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _turn in range(depth):
        value = [value]
    return value


BEYOND: dict[str, Any] = {
    "number": HUGE,
    "negative number": -HUGE,
    "key": {HUGE: 1},
    "number in a list": [HUGE],
    "number in a mapping": {"a": {"b": HUGE}},
    "depth": nested(5000),
    "text": "x" * 10_000_000,
    "list": ["x"] * 200_000,
}


@in_one_test
@pytest.mark.parametrize("beyond", BEYOND)
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (ItemKind.GLOBAL_SERVICE, "selector"),
        (ItemKind.GLOBAL_SERVICE, "targetClusters"),
        (ItemKind.GLOBAL_SERVICE, "failover"),
        (ItemKind.GLOBAL_SERVICE, "generation"),
        (ItemKind.INTENT, "ports"),
        (ItemKind.INTENT, "source"),
        (ItemKind.INTENT, "meshRef"),
        (ItemKind.EXPOSURE, "port"),
        (ItemKind.EXPOSURE, "class"),
        (ItemKind.EXPOSURE, "service"),
        (ItemKind.EXPOSURE, "sourceRanges"),
        (ItemKind.EXPOSURE, "createdAt"),
    ],
)
def test_whatever_one_item_says_the_others_are_read(kind: ItemKind, key: str, beyond: str) -> None:
    found = of(kind, **{key: BEYOND[beyond]})
    assert [entry.ref.name for entry in found.refused] == ["bad", "bad-too"]
    assert all(len("; ".join(entry.problems)) < 10_000 for entry in found.refused)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (ItemKind.GLOBAL_SERVICE, {"failover": {"detectWithin": HUGE, "minLocalReady": HUGE}}),
        (ItemKind.EXPOSURE, {"port": {"number": HUGE}}),
        (ItemKind.EXPOSURE, {"createdAt": "0001-01-01T00:00:00+14:00"}),
        (ItemKind.EXPOSURE, {"createdAt": "9999-12-31T23:59:59-14:00"}),
    ],
    ids=["failover", "port", "before all times", "after all times"],
)
def test_numbers_and_times_beyond_all_bounds_refuse_their_item(kind: ItemKind, spec: dict[str, Any]) -> None:
    assert [entry.ref.name for entry in of(kind, **spec).refused] == ["bad", "bad-too"]


def test_of_thousands_of_problems_a_few_are_reported() -> None:
    """They become the message of a condition, and the API server takes 32768 characters there."""
    found = of(ItemKind.INTENT, ports=[{"protocol": "TCP", "port": 70_000 + n} for n in range(3000)])
    problems = found.refused[0].problems
    assert len(problems) <= 21 and problems[-1].endswith("more problems")
    assert len("; ".join(problems)) < 32_768


@pytest.mark.parametrize("kind", [["Ready"], {"a": 1}, None, 7])
def test_conditions_of_an_earlier_run_may_have_any_shape(kind: Any) -> None:
    before = [{"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}, {"type": "Ready", "lastTransitionTime": 5}]
    now = datetime(2026, 8, 1, tzinfo=UTC)
    assert with_transition_times([condition("Ready", True, "Applied")], now, before)[0]["lastTransitionTime"] == "2026-08-01T00:00:00Z"
