# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator remembers of each mesh: it survives a restart, grows, is never lost to edits of another writer, and goes in the end."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from mesh_operator.base.api import Object
from mesh_operator.base.keys import MeshKey
from mesh_operator.meshes.records import Record, Records, name_of
from mesh_operator.source.source_identity import SourceIdentity

PLACE = "/api/v1/namespaces/mgmt/configmaps"
KEY = MeshKey("2x9c1k", "default", "edge")
TWIN = MeshKey("7b2m0q", "default", "edge")  # another tenant's, of the same name
SOURCE = "5e2b4d0a-0f3e-4b8f-9d57-1f1d4f6f0c11"
NOW, LATER = "2026-09-01T12:00:00+00:00", "2026-09-02T12:00:00+00:00"


class FakeApi:
    """ConfigMaps of one namespace, with versions; two to a page."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[str] = []
        self.broken = False
        self._version = 0

    def get(self, path: str) -> Object | None:
        return copy.deepcopy(self.objects.get(path))

    def page(self, path: str, *, token: str = "", field_selector: str = "", metadata_only: bool = False) -> Object | None:
        paths = sorted(self.objects)
        first = int(token or 0)
        more = str(first + 2) if first + 2 < len(paths) else ""
        return {"metadata": {"continue": more}, "items": [copy.deepcopy(self.objects[one]) for one in paths[first : first + 2]]}

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        return self._write("create", f"{path}/{body['metadata']['name']}", body, exists=False)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        return self._write("patch", path, body, exists=True)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._check("delete", path, resource_version)
        self.objects.pop(path, None)

    def edit(self, key: MeshKey, record: Any = None) -> None:
        """Edit the ConfigMap as another writer; its data where ``record`` is given."""
        obj = self.objects[f"{PLACE}/{name_of(key)}"]
        self._version += 1
        obj["metadata"] |= {"resourceVersion": str(self._version), "labels": {}}
        if record is not None:
            obj["data"] |= {"record": record if isinstance(record, str) else json.dumps(record)}

    def document(self, key: MeshKey) -> dict[str, Any]:
        return dict(json.loads(self.objects[f"{PLACE}/{name_of(key)}"]["data"]["record"]))

    def _write(self, verb: str, path: str, body: Mapping[str, Any], *, exists: bool) -> Object:
        if exists and path not in self.objects:
            raise ServerRefused("The API server has no such object.", status=404)
        if not exists and path in self.objects:
            raise WriteConflict("The object exists.")
        self._check(verb, path, body["metadata"].get("resourceVersion") or "")
        self._version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = {"metadata": metadata, "data": dict(body["data"])}
        return copy.deepcopy(self.objects[path])

    def _check(self, verb: str, path: str, version: str) -> None:
        if self.broken:
            raise Unreachable("No answer.", cluster="management plane")
        if version and path in self.objects and version != self.objects[path]["metadata"]["resourceVersion"]:
            raise WriteConflict("The object changed.")
        self.writes.append(verb)

    def watch(self, path: str, *, version: str, seconds: int, field_selector: str = "", metadata_only: bool = False) -> Iterator[Object]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def records(api: FakeApi) -> Records:
    return loaded(api)


def source(identity: str, workspace_of: Callable[[str, str], str] | None = None) -> SourceIdentity:
    connections: Any = SimpleNamespace(own=lambda: None)
    return SourceIdentity(connections, lambda _cluster: identity, workspace_of)


def loaded(api: FakeApi) -> Records:
    records = Records(api, "mgmt", source(SOURCE))
    records.load()
    return records


def test_a_mesh_that_was_never_carried_out_has_no_record(records: Records) -> None:
    assert records.get(KEY) is None
    assert records.all() == ()


def test_what_was_carried_out_is_known_after_a_restart(api: FakeApi, records: Records) -> None:
    for number in range(5):  # more than a page
        records.remember(KEY._replace(name=f"edge-{number}"), f"uid-{number}", ["c1", "c2"])
    again = loaded(api)
    assert set(again.all()) == set(records.all())
    assert again.get(KEY._replace(name="edge-4")) == Record(key=KEY._replace(name="edge-4"), uid="uid-4", clusters=("c1", "c2"))


def test_equal_names_of_two_tenants_are_two_records(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    records.remember(TWIN, "u2", ["c9"])
    assert [record.clusters for record in (records.get(KEY), records.get(TWIN)) if record] == [("c1",), ("c9",)]
    records.forget(KEY)
    assert [record.key for record in loaded(api).all()] == [TWIN]


def test_a_record_only_grows_and_is_written_only_when_it_does(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1", "c2"])
    records.remember(KEY, "u1", (name for name in ("c2", "c1")))
    assert api.writes == ["create"]
    records.remember(KEY, "u1", ["c3"])
    assert api.writes == ["create", "patch"]
    assert records.get(KEY) == Record(key=KEY, uid="u1", clusters=("c1", "c2", "c3"))


def test_who_reads_a_configmap_sees_whose_it_is(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    ((path, obj),) = api.objects.items()
    assert obj["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "mesh-operator"}
    owner = Binding(name=KEY.name, namespace=KEY.namespace, workspace=KEY.workspace, cluster_refs=()).owner
    assert path.startswith(f"{PLACE}/mesh-operator-{owner}")  # the label on what is in the clusters
    document = api.document(KEY)
    assert document == {"schema": 1, "key": list(KEY), "uid": "u1", "clusters": ["c1"], "tombstone": False, "since": ""}
    assert obj["data"]["source"] == SOURCE


def test_a_mesh_that_could_not_be_cleaned_leaves_a_tombstone_of_the_clusters_that_remain(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1", "c2"])
    records.left_behind(KEY, ["c2"], NOW)
    records.left_behind(KEY, ["c2"], LATER)  # it has been one since NOW
    left = Record(key=KEY, uid="u1", clusters=("c2",), tombstone=True, since=NOW)
    assert (records.get(KEY), loaded(api).get(KEY)) == (left, left)
    assert api.writes == ["create", "patch"]


def test_a_tombstone_of_a_mesh_without_a_record_is_one_too(records: Records) -> None:
    records.left_behind(KEY, ["c2"], NOW)
    assert records.get(KEY) == Record(key=KEY, uid="", clusters=("c2",), tombstone=True, since=NOW)


def test_a_mesh_made_anew_after_a_tombstone_keeps_the_clusters_that_were_not_cleaned(records: Records) -> None:
    records.left_behind(KEY, ["c2"], NOW)
    records.remember(KEY, "u2", ["c5"])
    assert records.get(KEY) == Record(key=KEY, uid="u2", clusters=("c2", "c5"))


def test_a_cluster_that_was_cleaned_leaves_the_record_and_none_is_added_by_that(api: FakeApi, records: Records) -> None:
    records.narrow(KEY, ["c1"])
    assert api.writes == []  # nothing is recorded
    records.remember(KEY, "u1", ["c1", "c2", "c3"])
    records.narrow(KEY, ["c3", "c1", "c9"])
    records.narrow(KEY, ["c3", "c1"])
    assert loaded(api).get(KEY) == Record(key=KEY, uid="u1", clusters=("c1", "c3"))
    assert api.writes == ["create", "patch"]


def test_a_forgotten_mesh_is_gone_and_forgetting_it_twice_is_nothing(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    records.forget(KEY)
    records.forget(KEY)
    assert (api.objects, records.get(KEY), records.all()) == ({}, None, ())
    assert api.writes == ["create", "delete"]
    records.remember(KEY, "u2", ["c1"])
    assert api.writes[-1] == "create"


def test_what_another_leader_wrote_meanwhile_is_not_written_over(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    loaded(api).remember(KEY, "u1", ["c7"])
    with pytest.raises(WriteConflict):
        records.remember(KEY, "u1", ["c2"])
    assert api.document(KEY)["clusters"] == ["c1", "c7"]
    records.remember(KEY, "u1", ["c2"])  # the next try knows
    assert api.document(KEY)["clusters"] == ["c1", "c7", "c2"]


@pytest.mark.parametrize("other", ["an edit of another writer", "a record that this one never saw"])
def test_a_record_that_another_leader_made_larger_is_not_forgotten(api: FakeApi, records: Records, other: str) -> None:
    if other.startswith("an edit"):
        records.remember(KEY, "u1", ["c1"])
    loaded(api).remember(KEY, "u1", ["c7"])
    with pytest.raises(WriteConflict):
        records.forget(KEY) if other.startswith("an edit") else records.left_behind(KEY, [], NOW)
    assert "c7" in api.document(KEY)["clusters"]
    assert "c7" in (records.get(KEY) or Record(key=KEY, uid="", clusters=())).clusters


def test_a_configmap_that_a_user_deleted_is_created_again(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    api.objects.clear()
    with pytest.raises(ServerRefused):
        records.remember(KEY, "u1", ["c2"])
    records.remember(KEY, "u1", ["c1", "c2"])
    assert api.document(KEY)["clusters"] == ["c1", "c2"]


def test_a_label_that_a_user_removed_changes_nothing(api: FakeApi, records: Records) -> None:
    records.remember(KEY, "u1", ["c1"])
    api.edit(KEY)
    assert [record.clusters for record in loaded(api).all()] == [("c1",)]


WHOLE = {"schema": 1, "key": list(KEY), "uid": "u1", "clusters": ["c1"], "tombstone": False, "since": ""}
SPOILED = {
    "no JSON": "{",
    "a list": [],
    "another schema": WHOLE | {"schema": 2},
    "another tenant's": WHOLE | {"key": list(TWIN)},
    "a key of two parts": WHOLE | {"key": ["a", "b"]},
    "clusters as text": WHOLE | {"clusters": "c1"},
    "a cluster that is no text": WHOLE | {"clusters": [1]},
    "no clusters": {name: value for name, value in WHOLE.items() if name != "clusters"},
    "more than we know": WHOLE | {"paused": True},
    "a null": WHOLE | {"uid": None},
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_record_that_cannot_be_parsed_is_reported_and_kept_and_not_taken_for_none(api: FakeApi, records: Records, how: str) -> None:
    records.remember(KEY, "u1", ["c1"])
    records.remember(TWIN, "u2", ["c2"])
    api.edit(KEY, SPOILED[how])
    before = copy.deepcopy(api.objects)
    again = loaded(api)
    steps: tuple[Callable[[], object], ...] = (
        lambda: again.get(KEY),
        lambda: again.remember(KEY, "u1", ["c2"]),
        lambda: again.left_behind(KEY, [], NOW),
        lambda: again.forget(KEY),
    )
    for step in steps:
        with pytest.raises(ClusterError, match=f"ConfigMap {name_of(KEY)} is no record. Restore it"):
            step()
    assert [record.key for record in again.all()] == [TWIN]  # the others go on
    assert api.objects == before
    api.edit(KEY, WHOLE)
    with pytest.raises(ClusterError):
        again.get(KEY)  # has not looked again yet
    assert again.get(KEY) == Record(key=KEY, uid="u1", clusters=("c1",))


def test_other_configmaps_of_the_namespace_are_left_alone(api: FakeApi) -> None:
    for name in ("kube-root-ca.crt", "mesh-operator-settings"):
        api.objects[f"{PLACE}/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}, "data": {"record": "{}"}}
    records = loaded(api)
    assert records.all() == ()
    records.remember(KEY, "u1", ["c1"])
    assert len(api.objects) == 3


def test_nothing_is_remembered_that_could_not_be_written(api: FakeApi, records: Records) -> None:
    """The record comes before the first write into a cluster: without it there must be none."""
    api.broken = True
    with pytest.raises(Unreachable):
        records.remember(KEY, "u1", ["c1"])
    assert records.get(KEY) is None
    api.broken = False
    records.remember(KEY, "u1", ["c1"])
    assert api.document(KEY)["clusters"] == ["c1"]
