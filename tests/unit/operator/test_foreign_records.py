# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Records of another source of custom resources: after a restore, in a copy, and after the source was replaced, no live mesh is touched."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BINDING, SERVICE
from mesh_operator.meshes.foreign_records import ANOTHER, PAUSE, RECORD_OF_ANOTHER_SOURCE, REMINDER, UNKNOWN, ForeignRecords
from mesh_operator.meshes.orphans import OrphanTracker
from mesh_operator.meshes.records import Records, name_of
from mesh_operator.source.namespaces import workspace_of
from mesh_operator.source.source_identity import SourceIdentity, uid_of_cluster, uid_of_export
from tests.testing.log_records import log_records
from tests.unit.operator.test_reconcile import KEY, NGINX, FakeRecords, World, records_of

BEFORE: Final = "5e2b4d0a-0f3e-4b8f-9d57-1f1d4f6f0c11"  # identity of the source of the backup
GRACE: Final = 60.0
OTHER_MARK: Final = MeshKey("of-the-old-cluster", "default", "edge")
OTHER_NAMESPACE: Final = MeshKey("of-the-old-cluster", "team-before", "edge")


class Platform:
    """A world with records that were written for another source, and an operator that looks at them from time to time."""

    def __init__(self, recorded: MeshKey, *, uid: str = "uid-before", resources: bool = True, source: str = BEFORE) -> None:
        maps = FakeRecords()
        records_of(maps, source or BEFORE).remember(recorded, uid, ["c1", "c2"])
        if not source:  # as versions before the field wrote it
            del maps[name_of(recorded)]["data"]["source"]
        self.recorded, self.before = recorded, json.dumps(maps)
        self.world = World(config_maps=maps)
        self.now = 0.0
        self.start()
        if not resources:
            self.world.kcp.delete(BINDING, "edge")
            self.world.forget()

    def start(self, taken_over: str = "") -> None:
        """The operator starts, with that value of --take-over-records."""
        self.foreign, self.tracker = ForeignRecords(self.world.records, taken_over), OrphanTracker(GRACE)

    def pass_time(self, seconds: float = 5 * GRACE) -> None:
        """A long time passes: orphans are looked for, and every mesh has its turns."""
        until = self.now + seconds
        while self.now <= until:
            found = self.tracker.orphans(self.foreign.own(self.now), self.world.store, self.now)
            self.world.reconciler.orphaned = frozenset(record.key for record in found)
            for key in {KEY, self.recorded}:
                self.world.reconciler.reconcile(key)
            self.now += GRACE / 2

    @property
    def played(self) -> list[tuple[str, str]]:
        """Workspace of the mesh, and whether it was made or removed, of each play."""
        variables = [run.variables for run in self.world.runs]
        return [(one["cilium_mesh"]["binding"]["workspace"], one.get("cilium_mesh_state", "present")) for one in variables]

    def reason(self) -> str:
        status = (self.world.kcp.find(BINDING, "edge") or {}).get("status") or {}
        return next((str(row["reason"]) for row in status.get("conditions") or () if row["type"] == "Ready"), "")


CASES: Final[dict[str, Callable[[], Platform]]] = {
    "restored into a new cluster": lambda: Platform(OTHER_MARK),
    "restored without the custom resources": lambda: Platform(OTHER_MARK, resources=False),
    "restored into a namespace of another name": lambda: Platform(OTHER_NAMESPACE),
    "copied with its workspaces": lambda: Platform(KEY),
    "copied with its workspaces and uids": lambda: Platform(KEY, uid="uid-edge-ws1"),
    "restored with its workspaces, without the custom resources": lambda: Platform(KEY, resources=False),
    "of an older version, with a resource that was made anew": lambda: Platform(KEY, source=""),
    "of an older version, without the custom resources": lambda: Platform(KEY, source="", resources=False),
}
HELD: Final = {name for name in CASES if "without the custom" not in name}


@pytest.mark.parametrize("case", CASES)
def test_records_of_another_source_lead_to_no_play_and_are_not_changed_and_are_reported(case: str) -> None:
    platform = CASES[case]()
    platform.world.kcp.put(SERVICE, "nginx", NGINX)
    with log_records("mesh_operator", logging.WARNING) as logged:
        platform.pass_time()
    assert platform.world.runs == [] and json.dumps(platform.world.config_maps) == platform.before
    reason, source = (UNKNOWN, "unknown") if "older version" in case else (ANOTHER, BEFORE)
    assert platform.foreign.counts == {ANOTHER: 0, UNKNOWN: 0, reason: 1}
    reported = [record.__dict__["fields"] for record in logged.records if record.__dict__["fields"]["event"] == "records_of_another_source"]
    assert [(line["count"], line["source"]) for line in reported] == [(1, source)] and "--take-over-records" in reported[0]["reason"]
    if case in HELD:
        assert platform.reason() == RECORD_OF_ANOTHER_SOURCE and platform.world.phase() == "Error"
        assert platform.world.phase(SERVICE, "nginx") == "Pending"
        assert platform.world.events.count(("Warning", RECORD_OF_ANOTHER_SOURCE)) == 1


@pytest.mark.parametrize("case", CASES)
def test_records_that_are_taken_over_are_of_this_source_and_orphans_have_their_grace_from_then_on(case: str) -> None:
    platform = CASES[case]()
    platform.pass_time()
    with log_records("mesh_operator", logging.WARNING) as logged:
        platform.start("unknown" if "older version" in case else BEFORE)
        platform.pass_time(0.0)
    assert "record_taken_over" in logged.text
    assert platform.foreign.counts == {ANOTHER: 0, UNKNOWN: 0}
    assert all(state == "present" for _workspace, state in platform.played), "the grace begins with the take-over"
    again = records_of(platform.world.config_maps, "the-source")
    assert again.foreign() == () and platform.recorded in {record.key for record in again.all()}
    platform.pass_time()
    absent = [workspace for workspace, state in platform.played if state == "absent"]
    is_orphan = platform.recorded != KEY or case not in HELD
    assert absent == [platform.recorded.workspace] * is_orphan, "what is left of the former mesh goes, and nothing of one with a resource"
    assert (platform.world.phase() == "Connected") == (case in HELD)
    platform.start(BEFORE)  # the flag stays: there is nothing left to be taken over
    with log_records("mesh_operator", logging.WARNING) as logged:
        platform.pass_time()
    assert "record_taken_over" not in logged.text


def test_the_records_of_one_source_are_taken_over_and_those_of_others_are_not() -> None:
    """A value that was restored with the rest, or that is left of the last take-over, does nothing."""
    platform = Platform(OTHER_MARK)
    platform.start("2c1f0c52-5a0b-4d3e-8a49-0d7b1a3e8f66")
    platform.pass_time()
    assert platform.world.runs == [] and json.dumps(platform.world.config_maps) == platform.before


def test_a_mesh_with_a_record_of_this_source_goes_on_beside_those_of_others() -> None:
    platform = Platform(OTHER_MARK)
    platform.world.records.remember(KEY, "uid-edge-ws1", ["c1"])
    platform.world.dry_run = lambda _request: None
    platform.pass_time(0.0)
    assert platform.played == [("ws1", "present")] and platform.world.phase() == "Connected"


def test_a_mesh_that_was_never_carried_out_here_can_be_deleted() -> None:
    platform = Platform(OTHER_MARK)
    platform.world.kcp.put(
        BINDING, "edge", {"clusterRefs": [{"name": "c1"}]}, finalizers=["networking.edge-portal.eu/clustermeshbinding-cleanup"]
    )
    platform.world.kcp.delete(BINDING, "edge")
    platform.pass_time()
    assert platform.world.kcp.find(BINDING, "edge") is None and platform.world.runs == []
    assert json.dumps(platform.world.config_maps) == platform.before


def test_a_mesh_goes_on_when_the_platform_deletes_the_records_of_the_other_source() -> None:
    platform = Platform(OTHER_MARK)
    platform.pass_time(0.0)
    assert platform.reason() == RECORD_OF_ANOTHER_SOURCE
    platform.world.config_maps.clear()
    platform.now += PAUSE
    platform.pass_time(GRACE)
    assert platform.world.phase() == "Connected" and platform.foreign.counts == {ANOTHER: 0, UNKNOWN: 0}


def test_the_log_reminds_of_the_records_every_hour() -> None:
    platform = Platform(OTHER_MARK)
    with log_records("mesh_operator", logging.WARNING) as logged:
        for now in (0.0, 2.0, REMINDER - 1, REMINDER, REMINDER + 2):
            platform.foreign.own(now)
    assert logged.text.count("records_of_another_source") == 2


# The upgrade from versions that did not write the source


def test_a_record_of_an_older_version_is_this_sources_if_its_binding_has_the_uid_in_it() -> None:
    platform = Platform(KEY, uid="uid-edge-ws1", source="")
    platform.pass_time()
    assert platform.played[0] == ("ws1", "present") and platform.world.phase() == "Connected"
    assert platform.world.config_maps[name_of(KEY)]["data"]["source"] == "the-source"


def test_with_kcp_a_record_of_an_older_version_holds_no_other_mesh() -> None:
    """Its key does not tell whose it is: after the upgrade it may be a tombstone of this source."""
    platform = Platform(MeshKey("ws9", "default", "gone"), source="")
    platform.pass_time()
    assert set(platform.played) == {("ws1", "present")}
    assert platform.foreign.counts == {ANOTHER: 0, UNKNOWN: 1}


def test_without_kcp_the_key_of_a_record_of_an_older_version_tells_whose_it_is() -> None:
    maps, here, former = FakeRecords(), "uid-here", BEFORE
    keys = [MeshKey(workspace_of(identity, "team-a"), "team-a", "edge") for identity in (here, former)]
    for key in keys:
        records_of(maps, "any").remember(key, "u", ["c1"])
        del maps[name_of(key)]["data"]["source"]
    records = records_of(maps, here, workspace_of)
    assert ([record.key for record in records.all()], [record.key for record in records.foreign()]) == (keys[:1], keys[1:])
    assert [records.is_of_another(record) for record in records.foreign()] == [True]


def test_an_older_version_reads_the_records_and_keeps_their_source() -> None:
    """A rollback: it compares the text under "record" with what it would write, and patches that key alone."""
    maps = FakeRecords()
    records_of(maps, BEFORE).remember(KEY, "u", ["c1"])
    written = json.loads(maps[name_of(KEY)]["data"]["record"])
    assert written == {"schema": 1, "key": list(KEY), "uid": "u", "clusters": ["c1"], "tombstone": False, "since": ""}
    maps.merge_patch(name_of(KEY), {"data": {"record": json.dumps(written | {"clusters": ["c1", "c2"]})}}, manager="mesh-operator")
    assert [record.source for record in records_of(maps, BEFORE).all()] == [BEFORE]


# When something does not answer


def test_no_method_of_the_records_changes_one_of_another_source() -> None:
    platform = Platform(KEY)
    steps: tuple[Callable[[Records], object], ...] = (
        lambda records: records.get(KEY),
        lambda records: records.remember(KEY, "u", ["c9"]),
        lambda records: records.narrow(KEY, []),
        lambda records: records.left_behind(KEY, [], "2026-11-01T00:00:00Z"),
        lambda records: records.forget(KEY),
    )
    for step in steps:
        with pytest.raises(ClusterError, match="is a record of another source"):
            step(platform.world.records)
    assert json.dumps(platform.world.config_maps) == platform.before


def test_while_the_identity_of_the_source_cannot_be_read_nothing_is_an_orphan_and_nothing_is_written() -> None:
    maps = FakeRecords()
    records_of(maps, "the-source").remember(KEY, "u", ["c1"])
    before, down = json.dumps(maps), [True]

    def read(_cluster: Any) -> str:
        if down[0]:
            raise Unreachable("no answer", cluster="kcp")
        return "the-source"

    records = records_of(maps, read)
    foreign = ForeignRecords(records, BEFORE)
    assert foreign.own(0.0) == ()
    for key in (KEY, OTHER_MARK):
        with pytest.raises(Unreachable):
            records.remember(key, "u", ["c2"])
    assert json.dumps(maps) == before
    down[0] = False
    assert [record.key for record in foreign.own(1.0)] == [KEY]


def test_a_record_that_changes_while_it_is_taken_over_is_taken_over_with_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(OTHER_MARK)
    platform.start(BEFORE)
    write, met = platform.world.config_maps.merge_patch, list[str]()

    def patch(path: str, body: dict[str, Any], *, manager: str) -> dict[str, Any]:
        if not met:
            met.append(path)
            raise WriteConflict("another writer was quicker")
        return write(path, body, manager=manager)

    monkeypatch.setattr(platform.world.config_maps, "merge_patch", patch)
    assert platform.foreign.own(0.0) == ()
    assert [record.key for record in platform.foreign.own(2.0)] == [OTHER_MARK]


# What is read of the source


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (uid_of_cluster, "/api/v1/namespaces/kube-system"),
        (lambda cluster: uid_of_export(cluster, "edge-portal-networking"), "/apis/apis.kcp.io/v1alpha2/apiexports/edge-portal-networking"),
    ],
)
def test_the_identity_is_the_uid_of_one_object_and_is_read_once(read: Callable[[Any], str], path: str) -> None:
    asked, exists = list[str](), [False]

    def get(wanted: str) -> dict[str, Any] | None:
        asked.append(wanted)
        return {"metadata": {"uid": "u1"}} if exists[0] else None

    connections: Any = SimpleNamespace(own=lambda: SimpleNamespace(get=get))
    identity = SourceIdentity(connections, read)
    with pytest.raises(ServerRefused, match="identity of the source"):
        identity()
    exists[0] = True
    assert (identity(), identity(), asked) == ("u1", "u1", [path, path])
