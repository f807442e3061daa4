# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of Fabrics: computed when a binding of theirs changes, and one workspace's Fabrics never hold up another's."""

from __future__ import annotations

from typing import Any

import pytest

from mesh_operator.base.keys import CLUSTER_ANNOTATION, ObjectKey
from mesh_operator.base.kinds import BINDING, FABRIC
from mesh_operator.base.workspace_bounds import WorkspaceBounds
from mesh_operator.meshes import fabrics
from mesh_operator.meshes.fabrics import AGAIN, SOON, FabricRollUp
from mesh_operator.meshes.status import row_of_binding
from mesh_operator.source.store import Store
from mesh_operator.source.stored import Stored
from tests.testing.known import known

URL = "https://shard-a/services/apiexport/x/n"
A, B = "2k5m8k3p1q7z", "tq81lm0c55aa"


class World:
    """A store, a clock, and the statuses that were written."""

    def __init__(self, bounds: WorkspaceBounds | None = None) -> None:
        self.now = 1000.0
        self.store = Store(lambda key, *_: self.rolled.changed(key), lambda: self.now, bounds or WorkspaceBounds())
        self.written: list[tuple[str, str, str]] = []
        self.broken: set[str] = set()
        self.rolled = FabricRollUp(self.store, self._write, lambda: self.now)

    def _write(self, stored: Stored, status: Any) -> None:
        self.now += 0.1  # of computing it
        if stored.key.name in self.broken:
            raise ValueError("a tenant's odd object")
        reason = next((row["reason"] for row in status.get("conditions", ()) if row["type"] == "Ready"), "")
        self.written.append((stored.key.workspace, stored.key.name, f"{status['phase']} {reason}".strip()))

    def put(self, kind: str, workspace: str, name: str, *, phase: str = "", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default", "annotations": {CLUSTER_ANNOTATION: workspace}, "resourceVersion": "1"}
        status = {"status": {"phase": phase, "conditions": []}} if phase else {}
        self.store.put(URL, kind, {"metadata": metadata | {"generation": len(self.written)}, "spec": spec, **status})

    def run(self, seconds: float = SOON) -> list[tuple[str, str, str]]:
        """Let time pass, compute all that is due, and return what was written."""
        self.now += seconds
        self.written.clear()
        while self.rolled.next(0):
            pass
        return list(self.written)


def refs(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_a_fabric_follows_its_bindings_and_no_other() -> None:
    world = World()
    world.put(BINDING, A, "edge", phase="Connected", clusterRefs=refs("c1", "c2"))
    world.put(FABRIC, A, "europe", meshRefs=refs("edge"))
    world.put(FABRIC, A, "asia", meshRefs=refs("far"))
    assert {name: said.partition(" ")[0] for _, name, said in world.run()} == {"europe": "Connected", "asia": "Error"}
    world.put(BINDING, A, "edge", phase="Degraded", clusterRefs=refs("c1", "c2"))
    assert [(name, said.partition(" ")[0]) for _, name, said in world.run()] == [("europe", "Degraded")]
    world.put(BINDING, B, "edge", phase="Error", clusterRefs=refs("c1"))
    assert world.run() == [], "a binding of another workspace"


def test_a_fabric_is_computed_again_as_time_alone_makes_it_outdated() -> None:
    world = World()
    world.put(FABRIC, A, "europe", meshRefs=refs("edge"))
    assert world.run() and not world.run(SOON) and len(world.run(AGAIN)) == 1


def test_a_fabric_that_fails_is_tried_again_and_the_others_go_on() -> None:
    world = World()
    world.broken = {"odd"}
    for name in ("odd", "europe"):
        world.put(FABRIC, A, name, meshRefs=refs("edge"))
    assert [name for _, name, _ in world.run()] == ["europe"]
    world.broken.clear()
    assert [name for _, name, _ in world.run(60.0)] == ["odd"]


def test_a_deleted_fabric_is_forgotten() -> None:
    world = World()
    world.put(FABRIC, A, "europe", meshRefs=refs("edge"))
    world.run()
    world.store.missing(URL, FABRIC, known(world.store.get(ObjectKey(FABRIC, A, "default", "europe"))).obj)
    assert world.run(AGAIN + SOON) == [] and world.run(AGAIN + SOON) == []


def test_the_fabrics_of_one_workspace_do_not_keep_that_of_another_waiting() -> None:
    world = World()
    for number in range(50):
        world.put(FABRIC, A, f"f{number}", meshRefs=refs("edge"))
    world.put(FABRIC, B, "mine", meshRefs=refs("edge"))
    world.now += SOON
    for _ in range(6):
        world.rolled.next(0)
    assert (B, "mine") in {(workspace, name) for workspace, name, _ in world.written}


def test_a_fabric_beyond_the_bounds_of_its_workspace_says_so() -> None:
    world = World(WorkspaceBounds(fabrics=1))
    world.put(FABRIC, A, "a", meshRefs=refs("edge"))
    world.put(FABRIC, A, "b", meshRefs=refs("edge"))
    assert {name: said for _, name, said in world.run()}["b"] == "Error QuotaExceeded"


def test_a_binding_is_counted_when_it_changes_and_not_for_every_fabric_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """255 bindings of 64 clusters have a million links, which cost seconds: a Fabric is computed anew every few minutes."""
    counted: list[str] = []

    def count(name: str, binding: Stored | None) -> Any:
        counted.append(name)
        return row_of_binding(name, binding)

    monkeypatch.setattr(fabrics, "row_of_binding", count)
    world = World()
    for name in ("one", "two"):
        world.put(BINDING, A, name, phase="Connected", clusterRefs=refs("c1", "c2"))
    for name in ("europe", "world"):
        world.put(FABRIC, A, name, meshRefs=refs("one", "two"))
    assert len(world.run()) == 2 and counted == ["one", "two"]
    assert len(world.run(AGAIN)) == 2 and counted == ["one", "two"]
    world.put(BINDING, A, "two", phase="Degraded", clusterRefs=refs("c1", "c2"))
    assert [said for _, _, said in world.run()] == ["Degraded BindingsNotConnected"] * 2 and counted == ["one", "two", "two"]


def test_what_was_counted_goes_with_the_bindings_and_the_fabrics() -> None:
    world = World()
    world.put(BINDING, A, "edge", phase="Connected", clusterRefs=refs("c1", "c2"))
    world.put(FABRIC, A, "europe", meshRefs=refs("edge"))
    world.run()
    for kind, name in ((BINDING, "edge"), (FABRIC, "europe")):
        found = known(world.store.get(ObjectKey(kind, A, "default", name)))
        gone = found.obj["metadata"] | {"deletionTimestamp": "2026-11-01T00:00:00Z"}
        world.store.missing(URL, kind, {**found.obj, "metadata": gone})
    world.run()
    assert world.rolled.remembered == 0
