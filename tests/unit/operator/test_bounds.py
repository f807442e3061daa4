# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What one workspace may have in the operator: which objects are refused, what is kept of them, and that no other workspace notices."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from mesh_operator.base.kinds import BINDING, CLUSTER, FABRIC, SERVICE
from mesh_operator.base.workspace_bounds import WorkspaceBounds
from mesh_operator.source.bounds import OF_ALL, RECORD, BoundedObject, beyond_bounds, entry_of, reduced
from mesh_operator.source.footprint import footprint
from mesh_operator.source.store import Store

URL = "https://shard-a/services/apiexport/x/n"
LOUD, QUIET = "2k5m8k3p1q7z", "tq81lm0c55aa"
Object = dict[str, Any]


def made(workspace: str, name: str, number: int = 0, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": {CLUSTER_ANNOTATION: workspace, **(annotations or {})},
        "resourceVersion": "1",
        "creationTimestamp": f"2026-11-01T00:{number // 60:02}:{number % 60:02}Z",
    }
    return {"metadata": metadata, "spec": spec}


def item(workspace: str, name: str, number: int = 0, mesh: str = "edge", **more: Any) -> Object:
    return made(workspace, name, number, meshRef={"name": mesh}, **more)


def key(kind: str, workspace: str, name: str) -> ObjectKey:
    return ObjectKey(kind, workspace, "default", name)


def store_of(bounds: WorkspaceBounds, lists: dict[str, list[Object]]) -> Store:
    store = Store(lambda *_: None, lambda: 0.0, bounds)
    for kind, objects in lists.items():
        store.replace(URL, kind, objects)
    return store


def refused(store: Store, kind: str, workspace: str) -> list[str]:
    return sorted(stored.key.name for stored in store.of_kind(kind) if stored.beyond and stored.key.workspace == workspace)


def test_the_oldest_objects_count_and_the_newest_are_refused_whatever_the_order_of_the_list() -> None:
    items = [item(LOUD, f"s{number}", number) for number in range(6)]
    Random(1).shuffle(items)
    store = store_of(WorkspaceBounds(objects=4), {SERVICE: [*items, item(QUIET, "mine", 59)]})
    assert refused(store, SERVICE, LOUD) == ["s4", "s5"] and refused(store, SERVICE, QUIET) == []
    assert store.beyond(SERVICE) == 2
    mesh = store.mesh(MeshKey(LOUD, "default", "edge"))
    assert [stored.key.name for stored in mesh.items[SERVICE]] == ["s0", "s1", "s2", "s3"]
    assert [stored.beyond for stored in mesh.beyond] == ["4 objects", "4 objects"]


def test_an_object_counts_again_when_an_older_one_is_deleted() -> None:
    reported: list[ObjectKey] = []
    store = Store(lambda changed, *_: reported.append(changed), lambda: 0.0, WorkspaceBounds(objects=2))
    items = [item(LOUD, f"s{number}", number) for number in range(3)]
    store.replace(URL, SERVICE, items)
    assert refused(store, SERVICE, LOUD) == ["s2"]
    going = {**items[0], "metadata": {**items[0]["metadata"], "deletionTimestamp": "2026-11-02T00:00:00Z"}}
    store.put(URL, SERVICE, going)
    assert refused(store, SERVICE, LOUD) == ["s2"], "what is being deleted still takes its place"
    reported.clear()
    store.missing(URL, SERVICE, going)
    store.replace(URL, SERVICE, items[1:])
    store._clock = lambda: 1e9
    store.replace(URL, SERVICE, items[1:])
    assert refused(store, SERVICE, LOUD) == [] and key(SERVICE, LOUD, "s2") in reported


@pytest.mark.parametrize(
    ("kind", "bounds", "words"),
    [
        (BINDING, WorkspaceBounds(bindings=1), "1 ClusterMeshBindings"),
        (FABRIC, WorkspaceBounds(fabrics=1), "1 Fabrics"),
        (CLUSTER, WorkspaceBounds(clusters=1), "1 KubernetesClusters"),
        (SERVICE, WorkspaceBounds(items=1), "1 items in one mesh"),
        (SERVICE, WorkspaceBounds(objects=1), "1 objects"),
        (SERVICE, WorkspaceBounds(bytes=8192), "8 KiB of memory for its objects"),
        (SERVICE, WorkspaceBounds(total_bytes=1 << 20), OF_ALL),
    ],
)
def test_each_bound_is_named(kind: str, bounds: WorkspaceBounds, words: str) -> None:
    size = {"blob": "x" * (500_000 if words == OF_ALL else 4_000 if "memory" in words else 0)}
    store = store_of(bounds, {kind: [item(LOUD, f"o{number}", number, **size) for number in range(2)]})
    second = store.get(key(kind, LOUD, "o1"))
    assert second is not None and second.beyond == words


@pytest.mark.parametrize("bounds", [WorkspaceBounds(objects=1), WorkspaceBounds(bytes=1)])
def test_a_kubernetes_cluster_counts_and_is_refused_by_its_own_bound_alone(bounds: WorkspaceBounds) -> None:
    objects = {CLUSTER: [made(LOUD, "c1"), made(LOUD, "c2", 1)], SERVICE: [item(LOUD, "s", 2)]}
    store = store_of(bounds, objects)
    assert refused(store, CLUSTER, LOUD) == [] and refused(store, SERVICE, LOUD) == ["s"]
    assert refused(store_of(replace(bounds, clusters=1), objects), CLUSTER, LOUD) == ["c2"]


def test_only_what_the_operator_needs_is_kept_of_an_object() -> None:
    annotations = {"networking.edge-portal.eu/abandon": "true", "others.example.com/blob": "x" * 262_144}
    obj = item(LOUD, "s", annotations=annotations)
    obj["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "labels": {"a": "b"}}
    kept = reduced(SERVICE, obj)
    assert kept["metadata"]["annotations"] == {CLUSTER_ANNOTATION: LOUD, "networking.edge-portal.eu/abandon": "true"}
    assert not {"managedFields", "labels"} & kept["metadata"].keys() and kept["spec"] == obj["spec"]
    assert len(json.dumps(kept)) < 1000
    cluster = reduced(CLUSTER, {**made(LOUD, "c1", blob="x" * 100_000), "kind": "KubernetesCluster"})
    assert "spec" not in cluster


def test_of_large_objects_a_bounded_part_is_kept_while_they_are_listed_and_another_workspace_loses_nothing() -> None:
    bounds = WorkspaceBounds(bytes=100_000)
    store, keys = Store(lambda *_: None, lambda: 0.0, bounds), []
    take, most = store.listing(URL, SERVICE), 0
    for number in range(50):
        keys.append(take(item(LOUD, f"s{number:02}", number, blob="x" * 20_000)))
        whole = [stored for stored in store.of_kind(SERVICE) if "blob" in stored.obj["spec"]]
        most = max(most, sum(footprint(stored.obj) for stored in whole))
    keys.append(take(item(QUIET, "mine", blob="x" * 20_000)))
    store.listed(URL, SERVICE, keys)
    assert most < bounds.bytes * 9 // 8
    assert refused(store, SERVICE, LOUD) == [f"s{number:02}" for number in range(4, 50)] and refused(store, SERVICE, QUIET) == []
    found = store.mesh(MeshKey(LOUD, "default", "edge"))
    assert len(found.beyond) == 46, "a stub still says which mesh it belongs to"


def test_of_a_workspace_with_far_too_many_objects_the_last_ones_are_not_known_at_all() -> None:
    store = store_of(
        WorkspaceBounds(objects=3), {SERVICE: [*(item(LOUD, f"s{number:02}", number) for number in range(30)), item(QUIET, "mine")]}
    )
    assert store.ignored == 30 - 12 and len([one for one in store.of_kind(SERVICE) if one.key.workspace == LOUD]) == 12
    assert refused(store, SERVICE, QUIET) == []


ENTRIES = st.lists(
    st.builds(
        BoundedObject,
        key=st.builds(key, st.sampled_from((BINDING, FABRIC, SERVICE, CLUSTER)), st.just(LOUD), st.integers(0, 30).map("n{}".format)),
        size=st.integers(1, 200),
        created=st.integers(0, 9).map("2026-11-01T00:00:0{}Z".format),
        deleting=st.booleans(),
        meshes=st.sampled_from(((), ("edge",), ("core",))),
    ),
    max_size=25,
    unique_by=lambda entry: entry.key,
)
BOUNDS = st.builds(
    WorkspaceBounds,
    objects=st.integers(1, 30),
    bytes=st.integers(1, 3000),
    bindings=st.integers(1, 9),
    fabrics=st.integers(1, 9),
    clusters=st.integers(1, 9),
    items=st.integers(1, 9),
)


@given(entries=ENTRIES, bounds=BOUNDS, seed=st.integers(0, 9))
def test_what_is_within_the_bounds_fits_into_them_and_does_not_depend_on_the_order(
    entries: list[BoundedObject], bounds: WorkspaceBounds, seed: int
) -> None:
    beyond = beyond_bounds(entries, bounds)
    shuffled = list(entries)
    Random(seed).shuffle(shuffled)
    assert beyond_bounds(shuffled, bounds).keys() == beyond.keys()
    within = [entry for entry in entries if entry.key not in beyond and entry.key.kind != CLUSTER]
    assert len(within) <= bounds.objects and sum(entry.size for entry in within) <= bounds.bytes
    assert sum(entry.key.kind == BINDING for entry in within) <= bounds.bindings
    assert sum(entry.key.kind == FABRIC for entry in within) <= bounds.fabrics
    kept = [entry for entry in entries if entry.key.kind == CLUSTER and entry.key not in beyond]
    assert len(kept) == min(bounds.clusters, sum(entry.key.kind == CLUSTER for entry in entries)), "and by nothing else"
    for mesh in ("edge", "core"):
        assert sum(mesh in entry.meshes for entry in within) <= bounds.items


@given(entries=ENTRIES, bounds=BOUNDS, share=st.integers(0, 3000))
def test_what_is_within_the_share_of_a_workspace_fits_into_it(entries: list[BoundedObject], bounds: WorkspaceBounds, share: int) -> None:
    beyond = beyond_bounds(entries, bounds, share)
    assert sum(entry.size for entry in entries if entry.key not in beyond) <= share, "KubernetesClusters too"


REFUSABLE = ENTRIES.map(lambda entries: [entry for entry in entries if entry.key.kind != CLUSTER])
NARROW = st.builds(
    WorkspaceBounds,
    objects=st.integers(1, 3),
    bytes=st.integers(200, 600),  # the largest object has 200
    bindings=st.integers(1, 2),
    fabrics=st.integers(1, 2),
    items=st.integers(1, 2),
)


@given(entries=REFUSABLE.filter(len), bounds=NARROW, chosen=st.integers(0, 24))
def test_deleting_any_object_of_a_workspace_beyond_its_bounds_gets_that_object_within_them(
    entries: list[BoundedObject], bounds: WorkspaceBounds, chosen: int
) -> None:
    """Else nothing would be taken away for it, and its owner could never get below the bounds again."""
    going = entries[chosen % len(entries)]
    others = [replace(entry, deleting=False) for entry in entries if entry is not going]
    assert going.key not in beyond_bounds([*others, replace(going, deleting=True)], bounds)


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3)))
def test_no_shape_of_an_object_breaks_the_count(value: Any) -> None:
    obj = {"metadata": {"name": "s", "namespace": "default", "annotations": {CLUSTER_ANNOTATION: LOUD}}, "spec": value}
    assert entry_of(key(SERVICE, LOUD, "s"), reduced(SERVICE, obj)).size > RECORD
