# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is known of all workspaces: what wins, what is missing, what is forgotten, what is reported, and what belongs to which mesh."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from mesh_operator.base.kinds import BINDING, CLUSTER, EXPOSURE, FABRIC, FLEET_ROWS, INTENT, ITEMS, ROWS, SERVICE
from mesh_operator.source.bounds import reduced
from mesh_operator.source.store import KEEP, Store
from mesh_operator.source.stored import Stored
from tests.lab.patience import scaled

A, B, C = (f"https://shard-{shard}/services/apiexport/x/n" for shard in "abc")
T1, T2 = "2k5m8k3p1q7z", "tq81lm0c55aa"
Object = dict[str, Any]


def made(workspace: str, name: str, *, namespace: str = "default", version: int = 1, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "annotations": {CLUSTER_ANNOTATION: workspace}, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec}


def binding(workspace: str, name: str, *clusters: str, **options: Any) -> Object:
    return made(workspace, name, clusterRefs=[{"name": cluster} for cluster in clusters], **options)


def item(workspace: str, name: str, mesh: str, **options: Any) -> Object:
    return made(workspace, name, meshRef={"name": mesh}, **options)


def fabric(workspace: str, name: str, *meshes: str, **options: Any) -> Object:
    return made(workspace, name, meshRefs=[{"name": mesh} for mesh in meshes], **options)


class Followed:
    """A store, its clock, and what it reported."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reported: list[tuple[ObjectKey, Object | None, Object | None]] = []
        self.known: dict[ObjectKey, Object] = {}  # by following what was reported
        self.store = Store(self._changed, lambda: self.now)

    def _changed(self, key: ObjectKey, before: Object | None, after: Object | None) -> None:
        assert _bare(self.known.get(key)) == _bare(before)
        self.reported.append((key, before, after))
        if after is None:
            del self.known[key]
        else:
            self.known[key] = after

    def last(self) -> tuple[ObjectKey, Object | None, Object | None]:
        change = self.reported.pop()
        assert not self.reported
        return change

    def stored(self, kind: str, workspace: str, name: str) -> Stored | None:
        return self.store.get(ObjectKey(kind, workspace, "default", name))


def _bare(obj: Object | None) -> Object | None:
    return obj and {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}


@pytest.fixture
def followed() -> Followed:
    return Followed()


# Whose an object is


def test_equal_names_in_two_workspaces_are_two_objects(followed: Followed) -> None:
    followed.store.replace(A, BINDING, [binding(T1, "mesh", "c1"), binding(T2, "mesh", "c1")])
    assert followed.store.meshes() == (MeshKey(T1, "default", "mesh"), MeshKey(T2, "default", "mesh"))
    one = followed.store.mesh(MeshKey(T1, "default", "mesh"))
    assert one.binding is not None and one.binding.key.workspace == T1


def test_an_object_that_does_not_say_whose_it_is_is_counted_and_not_kept(followed: Followed) -> None:
    without_workspace = made(T1, "mesh")
    del without_workspace["metadata"]["annotations"][CLUSTER_ANNOTATION]
    without_workspace["metadata"]["labels"] = {CLUSTER_ANNOTATION: T1}
    followed.store.replace(A, BINDING, [without_workspace])
    followed.store.put(A, BINDING, without_workspace)
    followed.store.missing(A, BINDING, without_workspace)
    assert (followed.store.ignored, followed.store.count(), followed.reported) == (2, 0, [])


def test_a_list_that_is_cut_halfway_changes_what_it_brought_and_nothing_becomes_missing(followed: Followed) -> None:
    followed.store.replace(A, BINDING, [binding(T1, "a", "c1"), binding(T1, "b", "c1")])
    followed.store.listing(A, BINDING)(binding(T1, "a", "c2", version=2))
    first, second = (followed.stored(BINDING, T1, name) for name in "ab")
    assert first is not None and first.obj["spec"] == {"clusterRefs": [{"name": "c2"}]}
    assert second is not None and second.missing_since is None
    take = followed.store.listing(A, BINDING)
    followed.store.listed(A, BINDING, [take(binding(T1, "a", "c2", version=2))])
    second = followed.stored(BINDING, T1, "b")
    assert second is not None and second.missing_since is not None


# What is reported


def test_a_new_object_a_change_and_its_absence_are_reported_with_before_and_after(followed: Followed) -> None:
    key = ObjectKey(SERVICE, T1, "default", "web")
    first, second = item(T1, "web", "mesh"), item(T1, "web", "other", version=2)
    followed.store.put(A, SERVICE, first)
    assert followed.last() == (key, None, first)
    followed.store.put(A, SERVICE, second)
    assert followed.last() == (key, first, second)
    followed.store.missing(A, SERVICE, second)
    assert followed.last() == (key, second, None)
    followed.store.put(A, SERVICE, second)
    assert followed.last() == (key, None, second)


def test_a_change_of_status_alone_is_reported_and_can_be_distinguished(followed: Followed) -> None:
    followed.store.put(A, SERVICE, item(T1, "web", "mesh"))
    followed.store.put(A, SERVICE, item(T1, "web", "mesh", version=2) | {"status": {"phase": "Exported"}})
    _, before, after = followed.reported[-1]
    assert before is not None and after is not None
    assert before["spec"] == after["spec"] and before.get("status") != after["status"]


def test_nothing_is_reported_of_a_list_that_shows_what_is_known_or_of_who_managed_a_field(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.reported.clear()
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    again = item(T1, "web", "mesh", version=7)
    again["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    followed.store.put(A, SERVICE, again)
    assert followed.reported == []
    stored = followed.stored(SERVICE, T1, "web")
    assert stored is not None and stored.obj["metadata"]["resourceVersion"] == "7"
    assert "managedFields" not in stored.obj["metadata"]


def test_a_listener_may_ask_the_store() -> None:
    asked: list[tuple[MeshKey, ...]] = []

    def changed(key: ObjectKey, before: Object | None, after: Object | None) -> None:
        other = Thread(target=lambda: asked.append(store.meshes_of(key, after or {})))  # of another thread, which the lock would stop
        other.start()
        other.join(timeout=scaled(5))

    store = Store(changed, lambda: 0.0)
    store.replace(A, BINDING, [binding(T1, "mesh", "c1")])
    assert asked == [(MeshKey(T1, "default", "mesh"),)]


# Missing, and forgotten


def test_what_a_list_lacks_is_missing_and_still_known(followed: Followed) -> None:
    followed.store.replace(A, BINDING, [binding(T1, "mesh", "c1")])
    followed.store.replace(A, BINDING, [])
    mesh = followed.store.mesh(MeshKey(T1, "default", "mesh"))
    assert mesh.binding is not None and mesh.binding.missing_since == 1000.0 and not mesh.binding.deleting
    assert mesh.binding.obj["spec"]["clusterRefs"] == [{"name": "c1"}]
    assert followed.store.count() == 0 and followed.store.meshes() == (MeshKey(T1, "default", "mesh"),)


def test_what_is_deleted_is_known_as_it_was_last(followed: Followed) -> None:
    followed.store.put(A, BINDING, binding(T1, "mesh"))
    last = binding(T1, "mesh", version=2)
    last["metadata"]["deletionTimestamp"] = "2026-05-01T10:00:00Z"
    followed.store.missing(A, BINDING, last)
    stored = followed.stored(BINDING, T1, "mesh")
    assert stored is not None and stored.deleting and stored.missing_since == 1000.0


def test_what_is_missing_is_forgotten_when_a_list_long_enough_after_lacks_it_too(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.store.replace(A, SERVICE, [])
    followed.now += KEEP
    followed.store.replace(A, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is not None
    followed.now += 1
    followed.store.replace(A, BINDING, [])
    assert followed.stored(SERVICE, T1, "web") is not None, "a list of another kind says nothing of it"
    followed.store.replace(A, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is None
    assert followed.store.meshes() == ()


def test_forgetting_does_not_wait_for_lists_of_other_kinds(followed: Followed) -> None:
    followed.store.replace(A, BINDING, [])
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.now += 1
    followed.store.replace(A, SERVICE, [])
    followed.now += KEEP + 1
    followed.store.replace(A, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is None


def test_nothing_is_forgotten_before_every_url_was_listed_again(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.store.replace(B, SERVICE, [])
    followed.now += 1
    followed.store.missing(A, SERVICE, item(T1, "web", "mesh"))
    followed.now += 10 * KEEP
    followed.store.replace(A, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is not None
    followed.store.replace(B, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is None


def test_the_objects_of_a_url_that_is_gone_are_forgotten_by_those_that_are_left_and_never_by_none(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.store.drop_url(A)
    followed.now += 10 * KEEP
    stored = followed.stored(SERVICE, T1, "web")
    assert stored is not None and stored.missing_since == 1000.0
    followed.store.replace(B, SERVICE, [])
    assert followed.stored(SERVICE, T1, "web") is None


def test_what_comes_back_is_not_missing_any_more(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.store.drop_url(A)
    followed.store.replace(B, SERVICE, [item(T1, "web", "mesh", version=90)])
    stored = followed.stored(SERVICE, T1, "web")
    assert stored is not None and (stored.url, stored.missing_since) == (B, None)


# Two URLs


def test_of_two_urls_the_newest_sighting_wins_and_the_other_stands_in_when_it_goes(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "old")])
    followed.store.replace(B, SERVICE, [item(T1, "web", "new")])
    stored = followed.stored(SERVICE, T1, "web")
    assert stored is not None and stored.url == B
    followed.store.missing(B, SERVICE, item(T1, "web", "new"))
    stored = followed.stored(SERVICE, T1, "web")
    assert stored is not None and (stored.url, stored.missing_since) == (A, None)
    assert followed.store.meshes() == (MeshKey(T1, "default", "old"),)


def test_of_those_that_are_left_the_newest_stands_in(followed: Followed) -> None:
    for url in (A, B, C, A):
        followed.store.put(url, SERVICE, item(T1, "web", f"as-{url[14]}-shows-it"))
    for url, left in ((C, "a"), (A, "b")):
        followed.store.missing(url, SERVICE, item(T1, "web", "any"))
        assert followed.store.meshes() == (MeshKey(T1, "default", f"as-{left}-shows-it"),)


def test_a_url_that_has_lost_an_object_does_not_take_it_from_the_other(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "mesh")])
    followed.store.replace(B, SERVICE, [item(T1, "web", "mesh")])
    followed.reported.clear()
    followed.store.replace(A, SERVICE, [])
    followed.store.missing(A, SERVICE, item(T1, "web", "mesh"))
    assert followed.reported == [] and followed.store.count(SERVICE) == 1


# Meshes


def test_a_mesh_is_its_binding_and_what_refers_to_it_in_its_namespace(followed: Followed) -> None:
    store, mesh = followed.store, MeshKey(T1, "default", "mesh")
    store.put(A, BINDING, binding(T1, "mesh", "c1"))
    for name in ("web", "db"):
        store.put(A, SERVICE, item(T1, name, "mesh"))
    store.put(A, SERVICE, item(T1, "other", "another"))
    store.put(A, SERVICE, item(T1, "elsewhere", "mesh", namespace="prod"))
    store.put(A, SERVICE, item(T2, "stranger", "mesh"))
    store.put(A, EXPOSURE, item(T1, "api", "mesh"))
    store.put(A, CLUSTER, made(T1, "c1"))
    store.put(A, CLUSTER, made(T1, "c9"))
    store.put(A, CLUSTER, made(T2, "c1"))
    store.put(A, FABRIC, fabric(T1, "fabric", "mesh", "mesh"))
    found = store.mesh(mesh)
    assert {kind: [one.key.name for one in items] for kind, items in found.items.items()} == {
        **{row.kind: [] for row in ITEMS},
        SERVICE: ["db", "web"],
        EXPOSURE: ["api"],
    }
    assert [*found.clusters] == ["c1", "c9"] and found.clusters["c1"].key.workspace == T1


def test_items_without_their_binding_are_a_mesh_and_a_fabric_alone_is_none(followed: Followed) -> None:
    followed.store.put(A, INTENT, item(T1, "allow", "later"))
    followed.store.put(A, FABRIC, fabric(T1, "fabric", "never"))
    assert followed.store.meshes() == (MeshKey(T1, "default", "later"),)
    found = followed.store.mesh(MeshKey(T1, "default", "later"))
    assert found.binding is None and [one.key.name for one in found.items[INTENT]] == ["allow"]


def test_a_cluster_concerns_the_meshes_of_its_workspace_that_name_it(followed: Followed) -> None:
    store = followed.store
    store.put(A, BINDING, binding(T1, "one", "c1", "c2"))
    store.put(A, BINDING, binding(T1, "two", "c2"))
    store.put(A, BINDING, binding(T2, "one", "c2"))
    store.put(A, BINDING, binding(T1, "one", "c2", namespace="prod"))
    store.put(A, BINDING, binding(T1, "three", "c1", "", version=3))
    cluster = ObjectKey(CLUSTER, T1, "default", "c2")
    assert store.meshes_of(cluster, made(T1, "c2")) == (MeshKey(T1, "default", "one"), MeshKey(T1, "default", "two"))
    store.put(A, BINDING, binding(T1, "one", "c1", version=2))
    assert store.meshes_of(cluster, made(T1, "c2")) == (MeshKey(T1, "default", "two"),)


def test_an_item_that_changes_its_mesh_concerns_both(followed: Followed) -> None:
    followed.store.put(A, SERVICE, item(T1, "web", "old"))
    followed.store.put(A, SERVICE, item(T1, "web", "new", version=2))
    key, before, after = followed.reported[-1]
    found = [followed.store.meshes_of(key, obj) for obj in (before, after) if obj]
    assert found == [(MeshKey(T1, "default", "old"),), (MeshKey(T1, "default", "new"),)]
    assert followed.store.mesh(MeshKey(T1, "default", "old")).items[SERVICE] == ()


def test_a_fabric_concerns_no_mesh(followed: Followed) -> None:
    assert followed.store.meshes_of(ObjectKey(FABRIC, T1, "default", "f"), fabric(T1, "f", "mesh")) == ()


@pytest.mark.parametrize("spec", [None, [], "mesh", {"meshRef": "mesh"}, {"meshRef": {"name": 7}}, {"meshRef": {"name": ""}}, {}])
def test_a_reference_of_another_shape_refers_to_nothing(followed: Followed, spec: Any) -> None:
    followed.store.put(A, SERVICE, made(T1, "web") | {"spec": spec})
    followed.store.put(A, FABRIC, made(T1, "fabric") | {"spec": spec})
    assert followed.store.meshes() == () and followed.store.count() == 2


@pytest.mark.parametrize("refs", [None, "c1", {"name": "c1"}, [{"name": {"a": 1}}], ["c1"], [{"name": ""}], [{}]])
def test_a_binding_with_odd_clusters_is_kept_and_names_none(followed: Followed, refs: Any) -> None:
    followed.store.put(A, BINDING, made(T1, "mesh", clusterRefs=refs))
    assert followed.store.meshes_of(ObjectKey(CLUSTER, T1, "default", "c1"), made(T1, "c1")) == ()
    assert followed.store.mesh(MeshKey(T1, "default", "mesh")).clusters == {}


def test_counts_are_by_kind_and_workspace(followed: Followed) -> None:
    followed.store.replace(A, SERVICE, [item(T1, "web", "m"), item(T1, "db", "m"), item(T2, "web", "m")])
    followed.store.put(A, FABRIC, fabric(T1, "f"))
    store = followed.store
    assert (store.count(), store.count(SERVICE), store.count(SERVICE, T1), store.count(workspace=T1), store.count(INTENT)) == (
        4,
        3,
        2,
        3,
        0,
    )


def test_ten_times_the_objects_take_ten_times_as_long_and_not_a_hundred() -> None:
    def seconds(number: int) -> float:
        store = Store(lambda *_: None, lambda: 0.0)
        begin = time.process_time()
        store.replace(A, BINDING, [binding(T1, f"m{n}", f"c{n}") for n in range(number // 2)])
        for n in range(number // 2):
            store.put(A, SERVICE, item(T1, f"s{n}", f"m{n}"))
            store.mesh(MeshKey(T1, "default", f"m{n}"))
            store.meshes_of(ObjectKey(CLUSTER, T1, "default", f"c{n}"), {})
        return time.process_time() - begin

    seconds(100)
    assert min(seconds(2000) for _ in range(2)) < 40 * max(min(seconds(200) for _ in range(3)), 0.002)


# Any order of events


def test_the_fleet_of_a_tenant_is_not_known_while_a_kind_of_it_is_not_served_where_it_is() -> None:
    store = Followed().store
    kinds = [row.kind for row in FLEET_ROWS]
    for url in (A, B):
        store.add_url(url, kinds)
        for kind in kinds:
            store.replace(url, kind, [made(T1, "c1")] if (url, kind) == (A, CLUSTER) else ())
    assert store.tenant(T1, "default").listed
    for kind in kinds:
        if kind != CLUSTER:
            assert store.unserved(B, kind) and not store.unserved(B, kind), "it is news once"
            assert store.tenant(T1, "default").listed, "elsewhere it says nothing about this tenant"
            assert store.unserved(A, kind)
            assert not store.tenant(T1, "default").listed and not store.serves(kind)
            for url in (A, B):
                store.replace(url, kind, ())


class Model:
    """The same, written down as it is said: which URL shows what, and since when none does."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, ObjectKey], tuple[int, Object]] = {}  # the number of the sighting, the object
        self.missing: dict[ObjectKey, tuple[Object, str, float]] = {}
        self.urls: dict[str, frozenset[str]] = {}
        self.listed: dict[tuple[str, str], float] = {}  # when a URL listed a kind last; or first did not serve it
        self.unserved: set[tuple[str, str]] = set()
        self.number = 0

    def put(self, url: str, key: ObjectKey, obj: Object) -> None:
        self.number += 1
        self.shown[url, key] = (self.number, reduced(key.kind, obj))
        self.missing.pop(key, None)

    def lose(self, url: str, key: ObjectKey, now: float, last: Object | None = None) -> None:
        found = self.shown.pop((url, key), None)
        if found and not any(of == key for _, of in self.shown):
            self.missing[key] = (reduced(key.kind, last) if last else found[1], url, now)

    def replace(self, url: str, kind: str, objects: dict[ObjectKey, Object], now: float) -> None:
        for at, key in list(self.shown):
            if at == url and key.kind == kind and key not in objects:
                self.lose(url, key, now)
        for key, obj in objects.items():
            self.put(url, key, obj)
        self.listed[url, kind] = now
        self.unserved -= {(url, kind)}
        lists = [when for (at, of), when in self.listed.items() if of == kind and (at, of) not in self.unserved]
        for key, (_, last, since) in list(self.missing.items()):
            confirmed = now - since > KEEP and all(when > since for when in lists) and (last, kind) not in self.unserved
            if key.kind == kind and confirmed:
                del self.missing[key]

    def not_served(self, url: str, kind: str, now: float) -> None:
        for at, key in list(self.shown):
            if at == url and key.kind == kind:
                self.lose(url, key, now)
        self.listed.setdefault((url, kind), now)
        self.unserved |= {(url, kind)}

    def unknown(self, mesh: MeshKey) -> set[str]:
        """Kinds of which nothing is known where the binding is."""
        found = self.stored().get(ObjectKey(BINDING, *mesh))
        return {kind for url, kind in self.unserved if found and found.missing_since is None and url == found.url}

    def is_listed(self, mesh: MeshKey) -> bool:
        """Whether every URL that may have something of a mesh has said all: that of the binding, or all if it is nowhere."""
        found = self.stored().get(ObjectKey(BINDING, *mesh))
        home = self.urls.get(found.url, frozenset()) if found and found.missing_since is None else frozenset[str]()
        kinds = {row.kind for row in ROWS}
        wanted = {(found.url, kind) for kind in home & kinds} if found else set[tuple[str, str]]()
        wanted |= {(url, kind) for url, served in self.urls.items() for kind in (served & kinds) - home}
        return wanted != set() and wanted <= self.listed.keys()

    def drop(self, url: str, now: float) -> None:
        self.urls.pop(url, None)
        for at, key in list(self.shown):
            if at == url:
                self.lose(url, key, now)
        self.listed = {place: when for place, when in self.listed.items() if place[0] != url}
        self.unserved = {place for place in self.unserved if place[0] != url}

    def stored(self) -> dict[ObjectKey, Stored]:
        newest: dict[ObjectKey, Stored] = {key: Stored(key, obj, url, since) for key, (obj, url, since) in self.missing.items()}
        for (url, key), (_, obj) in sorted(self.shown.items(), key=lambda entry: entry[1][0]):
            newest[key] = Stored(key, obj, url)
        return newest


KINDS = (BINDING, SERVICE, FABRIC, CLUSTER)
names = st.sampled_from(["x", "y"])


@st.composite
def objects(draw: st.DrawFn, kind: str) -> tuple[ObjectKey, Object]:
    workspace, name, version = draw(st.sampled_from([T1, T2])), draw(names), draw(st.integers(1, 2))
    refs = draw(st.lists(names, max_size=2))
    obj = {
        BINDING: lambda: binding(workspace, name, *refs, version=version),
        SERVICE: lambda: item(workspace, name, refs[0] if refs else "z", version=version),
        FABRIC: lambda: fabric(workspace, name, *refs, version=version),
        CLUSTER: lambda: made(workspace, name, version=version, region=refs),
    }[kind]()
    return ObjectKey(kind, workspace, "default", name), obj


@st.composite
def events(draw: st.DrawFn) -> tuple[str, str, str, list[tuple[ObjectKey, Object]], float]:
    what = draw(st.sampled_from(["replace", "replace", "put", "put", "missing", "drop", "all", "add", "unserved"]))
    kind = draw(st.sampled_from(KINDS))
    number = 3 if what == "replace" else 1
    found = draw(st.lists(objects(kind), min_size=0 if what == "replace" else 1, max_size=number))
    return what, draw(st.sampled_from([A, B, C])), kind, found, draw(st.sampled_from([0.0, 1.0, 400.0, KEEP, 700.0]))


@given(st.lists(events(), max_size=25))
def test_any_order_of_lists_events_and_lost_urls_leaves_what_the_model_has(happened: list[Any]) -> None:
    followed, model = Followed(), Model()
    store = followed.store
    for what, url, kind, found, later in happened:
        followed.now += later
        if what == "replace":
            store.replace(url, kind, [obj for _, obj in found])
            last: dict[ObjectKey, Object] = {}
            for key, obj in found:
                last.pop(key, None)
                last[key] = obj
            model.replace(url, kind, last, followed.now)
        elif what == "put":
            store.put(url, kind, found[0][1])
            model.put(url, *found[0])
        elif what == "missing":
            store.missing(url, kind, found[0][1])
            model.lose(url, found[0][0], followed.now, found[0][1])
        elif what == "unserved":
            store.unserved(url, kind)
            model.not_served(url, kind, followed.now)
        elif what in ("all", "add"):  # a URL is found, of all kinds or but one; "all": and listed
            kinds = frozenset(row.kind for row in ROWS) - ({kind} if found else set())
            store.add_url(url, kinds)
            model.urls[url] = kinds
            for listed in kinds if what == "all" else ():
                store.replace(url, listed, ())
                model.replace(url, listed, {}, followed.now)
        else:
            store.drop_url(url)
            model.drop(url, followed.now)
        _agree(followed, model.stored())
        for mesh in (MeshKey(workspace, "default", name) for workspace in (T1, T2) for name in ("x", "y")):
            assert store.mesh(mesh).listed is model.is_listed(mesh), mesh
            assert store.mesh(mesh).unserved == model.unknown(mesh), mesh


def _agree(followed: Followed, expected: dict[ObjectKey, Stored]) -> None:
    store = followed.store
    keys = [ObjectKey(kind, workspace, "default", name) for kind in KINDS for workspace in (T1, T2) for name in ("x", "y")]
    assert {key: stored for key in keys if (stored := store.get(key))} == expected
    existing = {key: _bare(one.obj) for key, one in expected.items() if one.missing_since is None}
    assert {key: _bare(obj) for key, obj in followed.known.items()} == existing
    assert store.count() == len(existing)
    named = {key: _named(one) for key, one in expected.items()}
    assert store.meshes() == tuple(sorted({mesh for key, meshes in named.items() if key.kind in (BINDING, SERVICE) for mesh in meshes}))
    for mesh in (MeshKey(workspace, "default", name) for workspace in (T1, T2) for name in ("x", "y", "z")):
        found = store.mesh(mesh)
        assert found.binding == expected.get(ObjectKey(BINDING, *mesh))
        assert found.items[SERVICE] == _those(SERVICE, mesh, expected, named)
        here = {key.name: one for key, one in expected.items() if (key.kind, key.workspace) == (CLUSTER, mesh.workspace)}
        assert found.clusters == here
        naming = [
            MeshKey(*key[1:])
            for key, one in expected.items()
            if (key.kind, key.workspace) == (BINDING, mesh.workspace) and {"name": mesh.name} in one.obj.get("spec", {})["clusterRefs"]
        ]
        assert store.meshes_of(ObjectKey(CLUSTER, *mesh), {}) == tuple(sorted(naming))


def _named(one: Stored) -> set[MeshKey]:
    spec, key = one.obj.get("spec", {}), one.key
    refs = {BINDING: [{"name": key.name}], SERVICE: [spec.get("meshRef")], FABRIC: spec.get("meshRefs"), CLUSTER: []}[key.kind]
    return {MeshKey(key.workspace, key.namespace, ref["name"]) for ref in refs or ()}


def _those(kind: str, mesh: MeshKey, expected: dict[ObjectKey, Stored], named: dict[ObjectKey, set[MeshKey]]) -> tuple[Stored, ...]:
    found: Iterable[ObjectKey] = sorted(key for key, meshes in named.items() if key.kind == kind and mesh in meshes)
    return tuple(expected[key] for key in found)
