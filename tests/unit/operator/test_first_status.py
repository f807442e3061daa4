# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A new object says at once whether its spec is valid, whatever the workers do, and what a worker wrote is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BINDING, ITEMS, ROWS, SERVICE
from mesh_operator.base.workspace_bounds import WorkspaceBounds
from mesh_operator.first_status import A_TURN, NOT_LISTED, SOON, FirstStatuses
from mesh_operator.source.resource_writer import ResourceWriter
from mesh_operator.source.store import Store
from tests.testing.crd_examples import BASES
from tests.testing.fake_kcp import FakeKcp

ANOTHER = "https://another-shard.example.com/services/apiexport/provider/networking"
REFS = {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]}
MESH = {"meshRef": {"name": "edge"}}
VALID = {row.kind: {**BASES[row.kind], **MESH} for row in ITEMS}


class World:
    """A store that a quick watch fills, and the queue behind it. Time passes with each turn."""

    def __init__(self, bounds: WorkspaceBounds | None = None) -> None:
        self.now = 1000.0
        self.events: list[str] = []
        self.store = Store(self.note, lambda: self.now, *([bounds] if bounds else []))
        self.kcp = FakeKcp(self.store)
        writer = ResourceWriter(self.kcp.at, lambda _stored, _kind, reason, _message: self.events.append(reason))
        self.first = FirstStatuses(self.store, writer, lambda: self.now)

    def note(self, key: ObjectKey, _before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        self.first.changed(key, after)

    def turns(self) -> int:
        """Work until nothing is due for a minute, and return how many turns that took."""
        found = 0
        for _ in range(600):
            found += self.first.next(0)
            self.now += 0.1
        return found

    def status(self, kind: str, name: str) -> dict[str, Any]:
        return (self.kcp.find(kind, name) or {}).get("status") or {}

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str]]:
        return {entry["type"]: (entry["status"], entry["reason"]) for entry in self.status(kind, name)["conditions"]}


@pytest.fixture
def world() -> Iterator[World]:
    yield World()


@pytest.mark.parametrize("kind", [BINDING, *VALID])
def test_a_valid_object_is_accepted_within_a_second_and_waits_for_its_turn(world: World, kind: str) -> None:
    world.kcp.put(BINDING, "edge", REFS)
    for item, spec in VALID.items():
        world.kcp.put(item, "one", spec)
    world.now += SOON
    assert world.first.next(0), "the turn is due"
    name = "edge" if kind == BINDING else "one"
    status = world.status(kind, name)
    assert (status["phase"], status["observedGeneration"]) == ("Pending", 1)
    assert world.conditions(kind, name) == {
        "Accepted": ("True", "SpecValid"),
        "Ready": ("False", "Queued"),
        "Degraded": ("False", "Queued"),
    }


def test_an_object_whose_spec_is_not_valid_says_why(world: World) -> None:
    world.kcp.put(BINDING, "edge", REFS)
    world.kcp.put(SERVICE, "bad", {**MESH, "selector": {"namespace": "shop", "name": "nginx"}, "targetClusters": ["elsewhere"]})
    world.turns()
    assert world.status(SERVICE, "bad")["phase"] == "Error"
    accepted = next(entry for entry in world.status(SERVICE, "bad")["conditions"] if entry["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "SpecInvalid") and "elsewhere" in accepted["message"]


def test_an_item_without_a_mesh_says_so_and_is_accepted_when_the_mesh_comes_by_the_worker_alone(world: World) -> None:
    world.kcp.put(SERVICE, "one", VALID[SERVICE])
    world.turns()
    assert world.conditions(SERVICE, "one")["Accepted"] == ("False", "MeshNotFound")
    before = world.status(SERVICE, "one")
    world.kcp.put(BINDING, "edge", REFS)
    world.turns()
    assert world.status(SERVICE, "one") == before and world.status(BINDING, "edge")["phase"] == "Pending"


def test_nothing_is_called_missing_before_everything_is_listed(world: World) -> None:
    world.store.add_url(ANOTHER, [row.kind for row in ROWS])
    world.kcp.put(SERVICE, "one", VALID[SERVICE])
    world.turns()
    assert world.status(SERVICE, "one") == {}
    for row in ROWS:
        world.store.replace(ANOTHER, row.kind, ())
    world.now += NOT_LISTED
    world.turns()
    assert world.status(SERVICE, "one")["phase"] == "Error"


def test_what_a_worker_wrote_in_between_stays(world: World) -> None:
    """The store is a moment behind."""
    world.kcp.put(BINDING, "edge", REFS)
    path = "/clusters/ws1/apis/networking.edge-portal.eu/v1alpha1/namespaces/default/clustermeshbindings/edge"
    world.kcp._objects[path] = {**world.kcp._objects[path], "status": {"phase": "Connected"}}
    world.turns()
    assert world.status(BINDING, "edge") == {"phase": "Connected"}


def test_a_write_that_meets_another_one_is_tried_again(world: World) -> None:
    world.kcp.put(BINDING, "edge", REFS)
    world.kcp.before_write.append(lambda: world.kcp.put(BINDING, "edge", REFS, finalizers=["networking.edge-portal.eu/x"]))
    world.turns()
    assert world.status(BINDING, "edge")["phase"] == "Pending"


def test_many_objects_of_one_mesh_take_several_turns(world: World) -> None:
    world.kcp.put(BINDING, "edge", REFS)
    for number in range(3 * A_TURN):
        world.kcp.put(SERVICE, f"s{number}", VALID[SERVICE])
    assert world.turns() >= 4
    assert {world.status(SERVICE, f"s{number}")["phase"] for number in range(3 * A_TURN)} == {"Pending"}
    assert world.turns() == 0


def test_of_many_new_objects_of_a_mesh_sixteen_have_a_status_every_0_3_seconds_and_another_mesh_does_not_wait_for_them(
    world: World,
) -> None:
    assert (A_TURN, SOON) == (16, 0.3), "docs/operator-status.md has these figures"
    names = [f"s{number}" for number in range(10 * A_TURN)]
    for name in names:
        world.kcp.put(SERVICE, name, VALID[SERVICE])
    world.kcp.put(SERVICE, "theirs", VALID[SERVICE], workspace="ws2")
    for rounds in range(1, 11):
        world.now += SOON
        while world.first.next(0):
            pass
        assert sum("phase" in world.status(SERVICE, name) for name in names) == rounds * A_TURN
        assert (world.kcp.find(SERVICE, "theirs", workspace="ws2") or {})["status"]["phase"]


def test_an_object_beyond_the_bounds_of_its_workspace_says_so() -> None:
    world = World(WorkspaceBounds(objects=2))
    world.kcp.put(BINDING, "edge", REFS, creationTimestamp="2026-11-01T00:00:00Z")
    for number in (1, 2):
        world.kcp.put(SERVICE, f"s{number}", VALID[SERVICE], creationTimestamp=f"2026-11-01T00:00:0{number}Z")
    world.turns()
    assert [world.status(SERVICE, name)["phase"] for name in ("s1", "s2")] == ["Pending", "Error"]
    assert world.conditions(SERVICE, "s2")["Ready"] == ("False", "QuotaExceeded")


def test_an_object_that_is_being_deleted_gets_none(world: World) -> None:
    world.kcp.put(BINDING, "edge", REFS, finalizers=["example.com/theirs"])
    world.kcp.delete(BINDING, "edge")
    world.turns()
    assert world.status(BINDING, "edge") == {}


def test_a_failure_stops_no_other_mesh(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.kcp.put(BINDING, "edge", {"clusterRefs": [{"nome": "c1"}]})
    world.kcp.put(BINDING, "good", REFS, workspace="ws2")
    world.turns()
    found = world.kcp.find(BINDING, "good", workspace="ws2") or {}
    assert found["status"]["phase"] == "Pending"
