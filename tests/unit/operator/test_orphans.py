# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Meshes that were carried out and whose resource is gone: when they count as such, and what is left of them."""

from __future__ import annotations

from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey
from mesh_operator.base.kinds import BINDING
from mesh_operator.meshes.orphans import OrphanTracker, mesh_to_remove
from mesh_operator.meshes.records import Record
from mesh_operator.source.store import KEEP, Store

KEY = MeshKey("ws1", "default", "edge")
RECORD = Record(key=KEY, uid="u1", clusters=("c1", "c2"))
URL = "https://kcp.example.com/services/apiexport/p/n"
OBJ = {
    "metadata": {"name": "edge", "namespace": "default", "uid": "u1", "annotations": {CLUSTER_ANNOTATION: "ws1"}},
    "spec": {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]},
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_mesh_is_an_orphan_only_after_the_grace() -> None:
    absence, store = OrphanTracker(60.0), Store(lambda *_: None, Clock())
    assert absence.orphans((RECORD,), store, 0.0) == []
    assert absence.orphans((RECORD,), store, 59.0) == []
    assert absence.orphans((RECORD,), store, 60.0) == [RECORD]


def test_a_mesh_that_comes_back_begins_anew() -> None:
    absence, store = OrphanTracker(60.0), Store(lambda *_: None, Clock())
    absence.orphans((RECORD,), store, 0.0)
    store.put(URL, BINDING, OBJ)
    assert absence.orphans((RECORD,), store, 100.0) == []
    again = Store(lambda *_: None, Clock())
    assert absence.orphans((RECORD,), again, 101.0) == [], "its grace begins with the new absence"


def test_a_mesh_that_is_not_seen_just_now_is_no_orphan() -> None:
    clock = Clock()
    absence, store = OrphanTracker(60.0), Store(lambda *_: None, clock)
    store.replace(URL, BINDING, [OBJ])
    store.replace(URL, BINDING, [])
    for now in (0.0, 100.0, KEEP - 1):
        clock.now = now
        assert absence.orphans((RECORD,), store, now) == []


def test_while_the_kind_is_not_served_it_is_not_known_whether_a_mesh_has_lost_its_resource() -> None:
    store = Store(lambda *_: None, Clock())
    assert not store.serves(BINDING), "there is no URL"
    store.add_url(URL, [BINDING])
    assert not store.serves(BINDING), "it is not listed"
    store.unserved(URL, BINDING)
    assert not store.serves(BINDING)
    store.replace(URL, BINDING, [])
    assert store.serves(BINDING)


def test_what_is_left_is_the_mesh_as_if_it_were_being_deleted() -> None:
    mesh = mesh_to_remove(RECORD, listed=True)
    assert mesh.key == KEY and mesh.binding is not None and mesh.binding.deleting
    assert [ref["name"] for ref in mesh.binding.obj["spec"]["clusterRefs"]] == ["c1", "c2"]
    assert mesh.binding.uid == "u1" and mesh.items == {}
