# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One mesh through the reconciler: what is run, what is written to its custom resources and in which order, and when they may go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import DryRun
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import RETRY_SECONDS
from mesh_operator.base.cancel import Cancel
from mesh_operator.base.keys import MeshKey
from mesh_operator.base.kinds import BINDING, BY_KIND, CLUSTER, ITEMS, ROWS, SERVICE
from mesh_operator.base.serve import Metrics
from mesh_operator.base.workspace_bounds import DEFAULT, WorkspaceBounds
from mesh_operator.credentials.management_plane import NotUsable, Usable
from mesh_operator.meshes.dry_run import MeshQuestion
from mesh_operator.meshes.reconcile import ANOTHER_RUN, SOONEST, Reconciler
from mesh_operator.meshes.records import Records
from mesh_operator.runs.confined.messages import PART
from mesh_operator.runs.confined.process import Cause
from mesh_operator.runs.dry_runs import DryRunFailed
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.runs.runner import RunRequest, RunResult, RunState
from mesh_operator.schedule.queue import Urgency
from mesh_operator.schedule.unit_turns import Next, UnitTurn
from mesh_operator.source.resource_writer import ResourceWriter
from mesh_operator.source.resources import ABANDON
from mesh_operator.source.source_identity import SourceIdentity
from mesh_operator.source.store import KEEP, Store
from mesh_operator.source.stored import MeshObjects, Stored
from mesh_operator.statuses.item_statuses import SAID
from tests.testing.fake_kcp import URL, FakeKcp
from tests.testing.known import known

KEY = MeshKey("ws1", "default", "edge")
REFS = {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]}
NGINX = {"meshRef": {"name": "edge"}, "selector": {"namespace": "shop", "name": "nginx"}}


class FakeRecords(dict[str, Any]):
    """The ConfigMaps of the operator's namespace, and nothing else of its API server."""

    def page(self, path: str, **_: Any) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": list(self.values())}

    def list(self, path: str, **_: Any) -> list[dict[str, Any]]:
        return list(self.values())

    def get(self, path: str, default: Any = None) -> Any:
        return super().get(path.rpartition("/")[2], default)

    def create(self, path: str, body: dict[str, Any], *, manager: str) -> dict[str, Any]:
        name = body["metadata"]["name"]
        self[name] = {**body, "metadata": {**body["metadata"], "resourceVersion": "1", "uid": name}}
        return dict(self[name])

    def merge_patch(self, path: str, body: dict[str, Any], *, manager: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        self[name] = {**self[name], "data": {**self[name].get("data", {}), **body.get("data", {})}}
        return dict(self[name])

    def delete(self, path: str, **_: Any) -> None:
        self.pop(path.rpartition("/")[2], None)


def records_of(
    config_maps: FakeRecords, source: str | Callable[[Any], str], workspace_of: Callable[[str, str], str] | None = None
) -> Records:
    """The records in the operator's namespace, as an operator reads them whose custom resources are from that source, or what reads it."""
    connections: Any = SimpleNamespace(own=lambda: None)
    api: Any = config_maps  # a mapping, too, whose "get" has another signature
    read = source if callable(source) else lambda _cluster: source
    records = Records(api, "operator", SourceIdentity(connections, read, workspace_of))
    records.load()
    return records


class World:
    """A workspace with a mesh of two clusters, and a runner that gives the answer that a test sets."""

    def __init__(
        self,
        bounds: WorkspaceBounds = DEFAULT,
        replaced: tuple[str, ...] = (),
        source: str = "the-source",
        config_maps: FakeRecords | None = None,
    ) -> None:
        self.now = 0.0
        self.store = Store(lambda *_: None, lambda: self.now, bounds)
        self.kcp = FakeKcp(self.store)
        self.found: dict[str, Usable | NotUsable] = {name: Usable(name=name, kubeconfig={"kind": "Config"}) for name in ("c1", "c2")}
        self.config_maps = FakeRecords() if config_maps is None else config_maps
        self.records = records_of(self.config_maps, source)
        self.runs: list[RunRequest] = []
        self.answer: Callable[[RunRequest], RunResult] = connected
        self.at_run: list[Any] = []
        self.cancel: Cancel = Event()
        self.stop = Event()
        self.shown: list[dict[str, Any]] = []  # statuses while each play is at work, by kind
        self.dry_run: Callable[[MeshQuestion], DryRun | None] = lambda _question: None
        self.processes: list[str] = []  # confined processes that were forked, and how each ended
        self.events: list[tuple[str, str]] = []
        self.reconciler = Reconciler(
            store=self.store,
            clusters=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            dry_runs=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            records=self.records,
            runner=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            writer=ResourceWriter(self.kcp.at, self.note_event, replaced),
            cancel=self.stop,
            clusters_listed=lambda: True,
            teardown_deadline=3600.0,
            check_interval=300.0,
            metrics=Metrics(),
            event=self.note_event,
        )
        for name in ("c1", "c2"):
            self.kcp.put(CLUSTER, name, {})
        self.kcp.put(BINDING, "edge", REFS)

    def note_event(self, stored: Stored, kind: str, reason: str, message: str) -> None:
        self.events.append((kind, reason))

    @contextmanager
    def begin(self, clusters: int) -> Iterator[World]:
        self.processes.append(f"begun for {clusters}")
        yield self
        self.processes.append("gone")

    def open(self, clusters: dict[str, Any]) -> dict[str, Any]:
        return clusters

    def resolve_all(self, key: MeshKey, names: dict[str, Any], ended: Callable[[], bool]) -> dict[str, Any]:
        return {name: self.resolve(key, name, known) for name, known in names.items()}

    def resolve(self, key: MeshKey, name: str, kubernetes_cluster: Any) -> Usable | NotUsable:
        return self.found.get(name) or NotUsable(name=name, reason="ClusterNotFound", message="it does not exist")

    def run(self, request: RunRequest, cancel: Cancel, progress: Any = None) -> RunResult:
        assert self.processes[-1] == "gone", "a play does not keep the process of the dry run waiting"
        self.runs.append(request)
        self.cancel = cancel
        objects = [self.kcp.find(kind, name) for kind, name in ((BINDING, "edge"), (SERVICE, "nginx"))]
        self.at_run.append(([obj["metadata"].get("finalizers") for obj in objects if obj], self.records.get(KEY)))
        self.shown.append({obj["kind"]: obj.get("status") or {} for obj in objects if obj})
        return self.answer(request)

    def reconcile(self) -> Next:
        return self.reconciler.reconcile(KEY)

    def put(self, *resource: Any, **metadata: Any) -> Next:
        """Write a resource, and take the turn that follows."""
        self.kcp.put(*resource, **metadata)
        return self.reconcile()

    def delete(self, *resource: str, **metadata: str) -> Next:
        self.kcp.delete(*resource, **metadata)
        return self.reconcile()

    def forget(self) -> None:
        """As if finalizers had been taken by hand: nothing is listed any more, long enough."""
        for _ in range(2):
            self.now += KEEP + 1.0
            for row in ROWS:
                self.store.replace(URL, row.kind, ())

    def status(self, kind: str = BINDING, name: str = "edge") -> dict[str, Any]:
        return (self.kcp.find(kind, name) or {}).get("status") or {}

    def phase(self, kind: str = BINDING, name: str = "edge") -> str:
        return str(self.status(kind, name).get("phase"))


def ready(kind: str, *, holds: bool = True) -> dict[str, str]:
    return {"type": kind, "status": str(holds), "reason": "AsAsked", "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z"}


def connected(request: RunRequest, **more: Any) -> RunResult:
    """What the playbook mesh says of everything it was asked for."""
    mesh = request.variables["cilium_mesh"]
    rows = [
        {"name": s["name"], "phase": "Exported", "observedGeneration": s["generation"], "conditions": [ready("Ready")]}
        for s in mesh.get("globalServices") or ()
    ]
    binding = {"phase": "Connected", "meshStatus": [], "links": [], "conditions": [ready("Ready")], "lastSyncTime": "2026-11-01T00:00:00Z"}
    status = {"binding": None if request.variables.get("cilium_mesh_state") == "absent" else binding, "globalServices": rows}
    result = {"schema": 1, "changed": True, "findings": [], "status": status, "requeueSeconds": 300, **more}
    return RunResult(state=RunState.SUCCESSFUL, rc=0, mesh_result=result, last_task="Publish mesh_result", seconds=1.0)


def broken(request: RunRequest) -> RunResult:
    return RunResult(state=RunState.FAILED, rc=4, mesh_result=None, last_task="Connect the clusters", seconds=1.0)


def dry_run_finds(
    world: World, *, steps: int, linked: bool = True, phase: str = "Connected", seconds: int = 120, kept: tuple[str, ...] = ()
) -> list[Any]:
    """Set what the next dry run finds. Return the list to which it adds the names of the services that it is asked about."""
    status = {**world.status(), "phase": phase}
    asked: list[Any] = []

    def dry_run(question: MeshQuestion) -> DryRun:
        names = [entry["name"] for entry in question.request.cilium_mesh["globalServices"]]
        asked.append(names)
        rows = [{"name": name, "phase": "Degraded", "conditions": [ready("Ready", holds=False)]} for name in names]
        result = {"status": {"binding": status, "globalServices": rows}, "requeueSeconds": seconds}
        return DryRun(steps=steps, linked=linked, kept=frozenset(kept), result=result)

    world.dry_run = dry_run
    return asked


@pytest.fixture
def world() -> World:
    return World()


def test_a_mesh_is_carried_out_and_its_status_says_so(world: World) -> None:
    world.kcp.put(SERVICE, "nginx", NGINX)
    found = world.reconcile()
    assert (found.failed, found.seconds) == (False, 300.0)
    assert (world.phase(), world.phase(SERVICE, "nginx")) == ("Connected", "Exported")
    assert [run.playbook for run in world.runs] == ["mesh"]
    mesh = world.runs[0].variables["cilium_mesh"]
    assert (mesh["binding"]["workspace"], [entry["name"] for entry in mesh["globalServices"]]) == ("ws1", ["nginx"])


def test_finalizers_and_the_record_are_there_before_the_first_write_into_a_cluster(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    finalizers, record = world.at_run[0]
    assert finalizers == [["networking.edge-portal.eu/clustermeshbinding-cleanup"], ["networking.edge-portal.eu/globalservice-cleanup"]]
    assert record is not None and set(record.clusters) == {"c1", "c2"}


def test_the_finalizer_of_a_provider_is_replaced_in_one_write_and_those_of_others_stay() -> None:
    world = World(replaced=("example.com/provider",))
    world.kcp.put(BINDING, "edge", REFS, finalizers=["example.com/provider", "example.com/theirs"])
    world.put(SERVICE, "nginx", NGINX, finalizers=["example.com/provider", BY_KIND[SERVICE].finalizer])
    finalizers, _record = world.at_run[0]
    assert finalizers == [["example.com/theirs", BY_KIND[BINDING].finalizer], [BY_KIND[SERVICE].finalizer]]
    world.delete(SERVICE, "nginx")
    assert world.kcp.find(SERVICE, "nginx") is None


def test_what_is_deleted_keeps_the_finalizer_of_a_provider_if_nothing_was_ever_carried_out() -> None:
    world = World(replaced=("example.com/provider",))
    world.put(BINDING, "edge", REFS, finalizers=["example.com/provider"], deletionTimestamp="2026-11-01T00:00:00Z")
    assert (world.kcp.find(BINDING, "edge") or {})["metadata"]["finalizers"] == ["example.com/provider"] and world.runs == []


def test_a_binding_is_not_connected_by_links_that_it_does_not_own_yet(world: World) -> None:
    """As before an adoption: the links are up, and the play that makes them the binding's is still to come."""
    world.reconcile()
    connected_status = {**world.status()}
    ResourceWriter(world.kcp.at, world.note_event).status(known(world.store.mesh(KEY).binding), {"phase": "Error"})
    result = {"status": {"binding": connected_status}, "requeueSeconds": 120}
    world.dry_run = lambda *_: DryRun(steps=1, linked=False, result=result)
    world.reconcile()
    assert world.shown[-1][BINDING]["phase"] == "Connecting"


def test_a_mesh_waits_for_its_clusters_and_nothing_is_run(world: World) -> None:
    world.found["c2"] = NotUsable(name="c2", reason="ClusterNotReady", message="it is being provisioned")
    world.kcp.put(SERVICE, "nginx", NGINX)
    found = world.reconcile()
    assert world.runs == [] and found.seconds is not None and not found.failed
    assert (world.phase(), world.phase(SERVICE, "nginx")) == ("Pending", "Pending")
    assert "finalizers" not in known(world.kcp.find(BINDING, "edge"))["metadata"], "nothing was made, so nothing has to be cleaned"


def test_what_was_carried_out_is_looked_at_before_it_is_run_again(world: World) -> None:
    world.reconcile()
    dry_run_finds(world, steps=0)
    written = len(world.kcp.writes)
    found = world.reconcile()
    assert len(world.runs) == 1 and found.seconds == 120.0
    assert len(world.kcp.writes) == written, "a status that says the same is not written"
    dry_run_finds(world, steps=0, phase="Degraded")
    world.reconcile()
    assert len(world.runs) == 1 and world.phase() == "Degraded"
    dry_run_finds(world, steps=2, linked=False)
    world.reconcile()
    assert len(world.runs) == 2 and "cilium_mesh_binding_status" not in world.runs[-1].variables, "the links need something"


@pytest.mark.parametrize(("asked", "got"), [(1, SOONEST), (30, 30.0), (86400, 300.0)])
def test_no_item_makes_the_operator_check_its_mesh_all_the_time(asked: int, got: float, world: World) -> None:
    """A failover that has to be detected within a second asks for a check every second."""
    world.answer = lambda request: connected(request, requeueSeconds=asked)
    assert world.reconcile().seconds == got
    dry_run_finds(world, steps=0, seconds=asked)
    assert world.reconcile().seconds == got


def test_a_mesh_that_was_never_carried_out_has_a_dry_run_before_its_first_run(world: World) -> None:
    """What a process with limits cannot carry is not given to a run."""
    world.dry_run = fail(Cause.MEMORY)
    assert world.reconcile().failed and world.runs == [] and world.records.get(KEY) is None
    world.dry_run = lambda _question: None
    world.reconcile()
    assert len(world.runs) == 1 and world.phase() == "Connected"


def test_a_change_of_items_leaves_links_alone_that_were_good_within_the_check_interval(world: World) -> None:
    world.reconcile()
    asked, before = dry_run_finds(world, steps=0), world.kcp.find(BINDING, "edge")
    world.kcp.put(SERVICE, "nginx", NGINX)
    again = world.reconcile()
    assert asked == [] and len(world.runs) == 2, "there is something to do for sure"
    assert world.runs[-1].variables["cilium_mesh_binding_status"]["phase"] == "Connected"
    assert world.phase(SERVICE, "nginx") == "Exported"
    assert world.kcp.find(BINDING, "edge") == before and before, "no run has read its links"
    assert again.seconds is not None and 295 < again.seconds < 300, "they are checked when they would have been without the change"
    world.reconcile()
    assert asked == [["nginx"]] and len(world.runs) == 2


@pytest.mark.parametrize("what", ["binding", "credentials", "time"])
def test_links_that_may_need_something_are_looked_at_first(world: World, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    world.reconcile()
    asked = dry_run_finds(world, steps=1, linked=False)
    world.kcp.put(SERVICE, "nginx", NGINX)
    if what == "binding":
        world.kcp.put(BINDING, "edge", {**REFS, "meshConfig": {"serviceType": "NodePort"}})
    elif what == "credentials":
        world.found["c2"] = Usable(name="c2", kubeconfig={"kind": "Config", "users": []})
    else:
        monkeypatch.setattr(world.reconciler, "_interval", 0.0)
    world.reconcile()
    assert asked == [["nginx"]]
    assert "cilium_mesh_binding_status" not in world.runs[-1].variables


@pytest.mark.parametrize("phase", ["Connected", "Degraded"])
def test_what_a_dry_run_says_of_links_is_good_for_the_run_after_it(world: World, phase: str) -> None:
    world.reconcile()
    dry_run_finds(world, steps=1, phase=phase)
    world.reconcile()
    given = world.runs[-1].variables.get("cilium_mesh_binding_status", {})
    assert given.get("phase") == ("Connected" if phase == "Connected" else None), "a run waits for links, and may repair them"


def test_a_change_that_needs_nothing_is_reported_without_a_play(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(SERVICE, "nginx", NGINX)
    dry_run_finds(world, steps=0)
    monkeypatch.setattr(world.reconciler, "_interval", 0.0)
    world.put(SERVICE, "nginx", {**NGINX, "affinity": "Local"})
    changed = world.kcp.find(SERVICE, "nginx") or {}
    assert len(world.runs) == 1 and world.phase(SERVICE, "nginx") == "Degraded"
    assert changed["status"]["observedGeneration"] == changed["metadata"]["generation"]


def test_a_run_without_a_result_is_reported_by_its_task_and_tried_again(world: World) -> None:
    world.answer = broken
    found = world.reconcile()
    assert found.failed
    status = world.status()
    ready_condition = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert ready_condition["reason"] == "RunnerFailed" and "Connect the clusters" in ready_condition["message"]
    assert ("Warning", "RunnerFailed") in world.events


def test_an_item_that_is_deleted_leaves_the_play_and_goes_when_it_is_cleaned(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.delete(SERVICE, "nginx")
    assert world.runs[-1].variables["cilium_mesh"]["globalServices"] == []
    assert world.kcp.find(SERVICE, "nginx") is None and world.phase() == "Connected"


def test_an_item_that_is_gone_asks_for_no_further_run(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.delete(SERVICE, "nginx")
    dry_run_finds(world, steps=0)
    world.found["c2"] = Usable(name="c2", kubeconfig={"kind": "Config", "users": []})  # renewed credentials
    world.reconcile()
    assert len(world.runs) == 2


def test_an_item_whose_traces_could_not_be_taken_away_stays(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.kcp.delete(SERVICE, "nginx")
    finding = {"code": "CM-API-03", "severity": "remediable", "item": "globalServices/nginx", "summary": "forbidden"}
    world.answer = lambda request: connected(request, findings=[finding])
    world.reconcile()
    assert world.kcp.find(SERVICE, "nginx") is not None
    world.answer = connected
    world.reconcile()
    assert world.kcp.find(SERVICE, "nginx") is None


KEPT = {"code": "CM-ITEM-05", "severity": "remediable", "item": "globalServices/nginx", "summary": "GlobalService web is refused"}


def test_a_renamed_item_keeps_its_finalizer_until_its_successor_is_no_longer_refused(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.kcp.delete(SERVICE, "nginx")
    world.kcp.put(SERVICE, "web", NGINX)
    world.answer = lambda request: connected(request, findings=[KEPT])
    world.reconcile()
    assert [entry["name"] for entry in world.runs[-1].variables["cilium_mesh"]["globalServices"]] == ["web"], "the engine decides about it"
    assert world.kcp.find(SERVICE, "nginx") is not None and world.events.count(("Warning", "ObjectsKept")) == 1
    dry_run_finds(world, steps=0, seconds=60, kept=("globalServices/nginx",))
    assert world.reconcile().seconds == 60.0
    assert len(world.runs) == 2, "a play would keep it again"
    world.kcp.put(SERVICE, "web", {**NGINX, "affinity": "Local"})
    world.answer = connected
    world.reconcile()
    assert len(world.runs) == 3 and world.kcp.find(SERVICE, "nginx") is None


def test_an_item_whose_objects_are_kept_may_be_abandoned(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.kcp.put(SERVICE, "nginx", NGINX, annotations={ABANDON: "true"})
    world.kcp.delete(SERVICE, "nginx")
    world.answer = lambda request: connected(request, findings=[KEPT])
    world.reconcile()
    assert world.kcp.find(SERVICE, "nginx") is None


def test_a_deleted_binding_is_taken_apart_and_nothing_is_left_of_it(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.kcp.delete(SERVICE, "nginx")
    world.delete(BINDING, "edge")
    assert world.runs[-1].variables["cilium_mesh_state"] == "absent"
    assert (world.kcp.find(BINDING, "edge"), world.kcp.find(SERVICE, "nginx"), world.records.get(KEY)) == (None, None, None)
    last = [(kind, what) for kind, _name, what in world.kcp.writes][-2:]
    assert last == [(SERVICE, "metadata"), (BINDING, "metadata")], "the binding goes last: it is our access"


def test_items_that_stay_after_their_binding_say_that_it_is_gone(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.delete(BINDING, "edge")
    world.store.replace("https://kcp.example.com/services/apiexport/provider/networking", BINDING, [])
    world.reconcile()
    assert world.kcp.find(BINDING, "edge") is None and world.kcp.find(SERVICE, "nginx") is not None
    world.delete(SERVICE, "nginx")
    assert world.kcp.find(SERVICE, "nginx") is None, "nothing is left of it in any cluster, so nothing holds it"


@pytest.mark.parametrize(("way", "seconds"), [("deadline", 7200), ("annotation", 60), ("cluster gone", 60)])
def test_a_cluster_that_does_not_answer_holds_a_deletion_until(world: World, way: str, seconds: int) -> None:
    world.reconcile()
    at = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.found["c2"] = NotUsable(name="c2", reason="ClusterNotReady", message="it does not answer")
    world.delete(BINDING, "edge", at=at)
    assert world.kcp.find(BINDING, "edge") is not None, "what is left in c2 is not forgotten yet"
    if way == "annotation":
        world.kcp.put(BINDING, "edge", REFS, annotations={ABANDON: "true"}, deletionTimestamp=at)
    elif way == "cluster gone":
        world.found["c2"] = NotUsable(name="c2", reason="ClusterNotFound", message="it does not exist")
    else:
        late = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        world.kcp.put(BINDING, "edge", REFS, deletionTimestamp=late)
    world.reconcile()
    record = world.records.get(KEY)
    assert world.kcp.find(BINDING, "edge") is None
    assert record is not None and record.tombstone and record.clusters == ("c2",)


def test_a_write_that_comes_too_late_is_made_again_and_not_forced(world: World) -> None:
    world.kcp.before_write.append(lambda: world.kcp.put(BINDING, "edge", REFS))
    found = world.reconcile()
    assert found == Next(seconds=1.0) and world.runs == []
    assert world.reconcile().failed is False and world.phase() == "Connected"


def test_a_binding_that_is_not_seen_is_not_deleted(world: World) -> None:
    world.reconcile()
    world.store.drop_url(URL)
    assert world.reconcile() == Next(seconds=300.0)
    assert len(world.runs) == 1 and world.records.get(KEY) is not None


def test_a_recorded_mesh_without_a_resource_is_taken_away(world: World) -> None:
    world.reconcile()
    world.forget()
    world.reconciler.orphaned = frozenset({KEY})
    world.reconcile()
    assert world.runs[-1].variables["cilium_mesh_state"] == "absent" and set(world.runs[-1].hosts) == {"c1", "c2"}
    assert world.records.get(KEY) is None


def test_objects_beyond_the_bounds_of_their_workspace_are_refused_and_the_rest_of_the_mesh_goes_on() -> None:
    world = World(WorkspaceBounds(objects=4))
    for number, name in enumerate(("nginx", "second")):
        world.kcp.put(SERVICE, name, NGINX, creationTimestamp=f"2026-11-01T00:00:0{number}Z")
    assert world.reconcile().seconds == 300.0
    assert [service["name"] for service in world.runs[-1].variables["cilium_mesh"]["globalServices"]] == ["nginx"]
    assert (world.phase(SERVICE, "nginx"), world.phase(SERVICE, "second")) == ("Exported", "Error")
    status = world.status(SERVICE, "second")
    assert status["conditions"][0]["reason"] == "QuotaExceeded" and "more than 4 objects" in status["conditions"][0]["message"]


def test_a_mesh_of_which_an_item_that_was_carried_out_is_refused_gets_no_run_that_would_delete_its_objects() -> None:
    world = World(WorkspaceBounds(objects=4))
    finalizer = BY_KIND[SERVICE].finalizer
    world.kcp.put(SERVICE, "nginx", NGINX, creationTimestamp="2026-11-01T00:00:00Z")
    world.kcp.put(SERVICE, "second", NGINX, creationTimestamp="2026-11-01T00:00:01Z", finalizers=[finalizer])
    assert world.reconcile().seconds == 300.0 and world.runs == [] and world.processes == []
    assert (world.phase(), world.phase(SERVICE, "nginx"), world.phase(SERVICE, "second")) == ("Pending", "Pending", "Error")


def test_a_refused_binding_of_which_nothing_was_carried_out_can_be_deleted() -> None:
    world = World(WorkspaceBounds(bindings=1))
    world.kcp.put(BINDING, "edge", REFS, creationTimestamp="2026-11-01T00:00:05Z", finalizers=[BY_KIND[BINDING].finalizer])
    world.put(BINDING, "older", REFS, creationTimestamp="2026-11-01T00:00:00Z")
    assert world.phase() == "Error" and world.runs == []
    world.delete(BINDING, "edge")
    assert world.kcp.find(BINDING, "edge") is None


def test_a_cluster_that_left_is_no_longer_recorded_once_it_is_clean(world: World) -> None:
    for name in ("c3",):
        world.found[name] = Usable(name=name, kubeconfig={"kind": "Config"})
        world.kcp.put(CLUSTER, name, {})
    world.put(BINDING, "edge", {"clusterRefs": [{"name": name} for name in ("c1", "c2", "c3")]})
    world.put(BINDING, "edge", REFS)
    assert world.runs[-1].variables["cilium_mesh_former"] == ["c3"]
    assert set(known(world.records.get(KEY)).clusters) == {"c1", "c2"}


def test_nothing_is_decided_before_the_clusters_are_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.reconciler, "_clusters_listed", lambda: False)
    assert world.reconcile() == Next(seconds=1.0)
    assert world.runs == [] and world.kcp.writes == [], "a cluster that was not listed yet looks as if it did not exist"


@pytest.mark.parametrize("last", [row.kind for row in ROWS if row.kind != BINDING])
def test_a_list_that_comes_during_a_turn_makes_what_was_looked_at_before_no_more_complete(
    world: World, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.runs.clear()
    lists = {row.kind: [stored.obj for stored in world.store.of_kind(row.kind)] for row in ROWS}
    fresh = Store(lambda *_: None, lambda: 0.0)  # of an operator that has just begun; the mesh is on record
    fresh.add_url(URL, lists)
    for kind in lists.keys() - {last}:
        fresh.replace(URL, kind, lists[kind])
    original, read = fresh.mesh, list[MeshKey]()

    def late(key: MeshKey) -> MeshObjects:
        found = original(key)
        if not read:
            fresh.replace(URL, last, lists[last])
        read.append(key)
        return found

    monkeypatch.setattr(fresh, "mesh", late)
    monkeypatch.setattr(world.reconciler, "_store", fresh)
    assert world.reconcile() == Next(seconds=1.0) and world.runs == [], "the play would remove what the list brings"
    world.reconcile()
    carried_out = [[item["name"] for item in run.variables["cilium_mesh"]["globalServices"]] for run in world.runs]
    assert carried_out in ([], [["nginx"]])


@pytest.mark.parametrize("kind", [row.kind for row in ITEMS])
@pytest.mark.parametrize("begun", ["a moment ago", "long ago"])
def test_nothing_of_a_kind_that_is_not_served_is_touched(world: World, kind: str, begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers 404 for a kind says nothing about its items: an empty list would take all of them away."""
    world.put(SERVICE, "nginx", NGINX)
    world.runs.clear()
    if begun == "a moment ago":  # an operator that has just begun; the mesh is on record
        lists = {row.kind: [stored.obj for stored in world.store.of_kind(row.kind)] for row in ROWS}
        fresh = Store(lambda *_: None, lambda: world.now)
        fresh.add_url(URL, lists)
        for other in lists.keys() - {kind}:
            fresh.replace(URL, other, lists[other])
        monkeypatch.setattr(world.reconciler, "_store", fresh)
        monkeypatch.setattr(world, "store", fresh)
    spec = (world.kcp.find(BINDING, "edge") or {})["spec"]
    for _ in range(3):
        world.store.unserved(URL, kind)
        world.now += 2 * KEEP
        world.put(BINDING, "edge", {**spec, "nodeAddresses": "InternalIP"})
    assert all(BY_KIND[kind].listed not in run.variables["cilium_mesh"] for run in world.runs)
    others = {row.listed for row in ITEMS} - {BY_KIND[kind].listed}
    assert world.runs and all(others <= run.variables["cilium_mesh"].keys() for run in world.runs)


def test_a_mesh_that_was_made_again_is_no_orphan_any_more(world: World) -> None:
    world.reconcile()
    world.reconciler.orphaned = frozenset({KEY})  # until the next check of the operator
    world.reconcile()
    assert all(run.variables.get("cilium_mesh_state") != "absent" for run in world.runs)


def test_an_orphan_is_not_removed_while_a_url_is_not_listed_that_may_have_it(world: World) -> None:
    world.reconcile()
    world.forget()
    world.store.add_url("https://new-shard.example.com", [BINDING])
    world.reconciler.orphaned = frozenset({KEY})
    world.reconcile()
    assert [run.variables.get("cilium_mesh_state") for run in world.runs] == [None]


def test_an_unforeseen_object_stops_no_other_mesh(world: World) -> None:
    world.kcp.put(BINDING, "edge", {"clusterRefs": [{"nome": "c1"}]})
    assert world.reconcile() == Next(seconds=None, failed=True)
    assert world.runs == []


def test_clusters_that_are_gone_are_not_dialled_again_and_again(world: World) -> None:
    world.reconcile()
    world.found = {}
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.kcp.delete(BINDING, "edge", at=at)
    assert world.reconcile() == Next(seconds=300.0)
    record = world.records.get(KEY)
    assert len(world.runs) == 1 and record is not None and record.tombstone
    assert world.kcp.find(BINDING, "edge") is None


def test_a_play_that_meets_another_run_is_tried_again_soon_and_is_no_error(world: World) -> None:
    world.kcp.put(SERVICE, "nginx", NGINX)
    who = "Another run is at work on mesh edge: connect by max@laptop, process 4711, run 3fa9c1d2."

    def refused(request: RunRequest) -> RunResult:
        status: dict[str, Any] = {"binding": None, "globalServices": []}
        finding = {"code": "CM-LOCK-01", "severity": "blocking", "cluster": "c1", "summary": who, "accepted": False}
        result = {"schema": 1, "changed": False, "findings": [finding], "status": status, "requeueSeconds": 60}
        return RunResult(state=RunState.FAILED, rc=2, mesh_result=result, last_task="Publish mesh_result", seconds=1.0)

    world.answer = refused
    assert world.reconcile() == Next(seconds=RETRY_SECONDS)
    assert (world.phase(), world.phase(SERVICE, "nginx")) == ("Pending", "Pending")
    conditions = world.status()["conditions"]
    assert {(c["type"], c["reason"], c["message"]) for c in conditions if c["type"] == "Ready"} == {("Ready", ANOTHER_RUN, who)}
    assert ("Normal", ANOTHER_RUN) in world.events and not [kind for kind, _ in world.events if kind != "Normal"]
    world.answer = connected
    world.reconcile()
    before = (world.phase(), world.phase(SERVICE, "nginx"))
    world.answer = refused
    world.kcp.put(BINDING, "edge", {**REFS, "topology": {"mode": "FullMesh"}})
    assert world.reconcile() == Next(seconds=RETRY_SECONDS)
    assert (world.phase(), world.phase(SERVICE, "nginx")) == before == ("Connected", "Exported")


def test_users_who_meet_a_run_of_the_operator_read_that_it_is_one(world: World) -> None:
    world.reconcile()
    assert world.runs[0].variables["cilium_mesh_lock_holder"] == "mesh-operator"


def fail(cause: Cause) -> Callable[[MeshQuestion], DryRun | None]:
    def failed(request: MeshQuestion) -> DryRun | None:
        raise DryRunFailed(cause)

    return failed


@pytest.mark.parametrize("cause", list(Cause))
def test_a_dry_run_that_is_ended_fails_for_its_mesh_which_says_so_and_is_not_played(world: World, cause: Cause) -> None:
    world.put(SERVICE, "nginx", NGINX)
    before = world.status()
    world.dry_run = fail(cause)
    assert world.reconcile() == Next(seconds=None, failed=True), "the queue comes back later and later"
    assert len(world.runs) == 1, "a play would read the same without limits"
    for kind, name in ((BINDING, "edge"), (SERVICE, "nginx")):
        status = world.status(kind, name)
        [ready_condition] = [entry for entry in status["conditions"] if entry["type"] == "Ready"]
        assert (status["phase"], ready_condition["reason"]) == ("Degraded", "DryRunFailed")
        assert ready_condition["message"].startswith("The dry run ") and "tried again" in ready_condition["message"]
    assert world.status()["links"] == before["links"], "what was measured earlier stays"
    assert ("Warning", "DryRunFailed") in world.events
    world.dry_run = lambda _request: None
    world.reconcile()
    assert world.phase() == "Connected"


def test_a_new_mesh_whose_kubeconfigs_cannot_be_opened_is_an_error_and_may_be_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "open", lambda _clusters: fail(Cause.MEMORY)(None))  # type: ignore[arg-type]  # it fails before it looks at the question
    assert world.reconcile().failed and world.phase() == "Error" and world.runs == []
    world.kcp.put(BINDING, "edge", REFS)
    world.delete(BINDING, "edge")
    assert world.kcp.find(BINDING, "edge") is None, "nothing was ever written for it"


def test_a_mesh_whose_kubeconfigs_cannot_be_opened_any_more_is_deleted_as_one_whose_clusters_do_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.reconcile()
    monkeypatch.setattr(world, "open", lambda _clusters: fail(Cause.DEADLINE)(None))  # type: ignore[arg-type]  # it fails before it looks at the question
    world.found["c2"] = NotUsable(name="c2", reason="ClusterNotFound", message="it does not exist")
    at = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.delete(BINDING, "edge", at=at)
    assert world.kcp.find(BINDING, "edge") is not None, "c1 is there, and has objects of it"
    world.put(BINDING, "edge", REFS, annotations={ABANDON: "true"}, deletionTimestamp=at)
    record = world.records.get(KEY)
    assert world.kcp.find(BINDING, "edge") is None and record is not None and record.tombstone and set(record.clusters) == {"c1", "c2"}


def test_an_operator_that_ends_blames_no_mesh_for_the_processes_that_it_ended(world: World) -> None:
    world.reconcile()
    world.dry_run = fail(Cause.CRASHED)
    world.stop.set()
    written = len(world.kcp.writes)
    assert world.reconcile().seconds == 0.0
    assert len(world.kcp.writes) == written and world.phase() == "Connected"


# Statuses while a play is at work


def condition_of(status: dict[str, Any], kind: str) -> tuple[str, str]:
    """(status, reason) of a condition; ("", "") if there is none."""
    found: dict[str, str] = next((entry for entry in status.get("conditions") or () if entry["type"] == kind), {})
    return found.get("status", ""), found.get("reason", "")


def test_a_new_mesh_says_connecting_before_its_first_play_writes(world: World) -> None:
    world.reconcile()
    shown = world.shown[0][BINDING]
    assert shown["phase"] == "Connecting" and condition_of(shown, "Ready") == ("False", "Connecting")
    assert world.phase() == "Connected"


def test_an_item_is_on_its_way_before_the_play_writes_for_it(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    assert world.shown[0][SERVICE]["phase"] == "Exporting"
    world.put(SERVICE, "nginx", {**NGINX, "affinity": "Local"})
    shown = world.shown[1][SERVICE]
    assert (shown["phase"], shown["observedGeneration"]) == ("Exporting", 2)
    assert world.shown[1][BINDING]["phase"] == "Connected" and condition_of(world.shown[1][BINDING], "Progressing") == ("", "")
    assert world.phase(SERVICE, "nginx") == "Exported"


def test_a_connected_mesh_that_changes_stays_connected_and_says_that_a_run_is_at_work(world: World) -> None:
    world.reconcile()
    world.put(BINDING, "edge", {**REFS, "meshConfig": {"serviceType": "NodePort"}})
    shown = world.shown[1][BINDING]
    assert (shown["phase"], shown["observedGeneration"]) == ("Connected", 1)
    assert condition_of(shown, "Progressing") == ("True", "Connecting") and condition_of(shown, "Ready") == ("True", "AsAsked")
    status = world.status()
    assert condition_of(status, "Progressing") == ("", "") and status["observedGeneration"] == 2


def test_nothing_is_called_good_while_it_is_removed_and_items_say_at_once_that_their_mesh_is_gone(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    assert world.phase(SERVICE, "nginx") == "Exported"
    world.delete(BINDING, "edge")
    during = world.shown[-1]
    assert {kind: (status["phase"], condition_of(status, "Ready")[1]) for kind, status in during.items()} == {
        BINDING: ("Pending", "Deleting"),
        SERVICE: ("Pending", "MeshDeleting"),
    }
    assert world.kcp.find(BINDING, "edge") is None
    status = world.status(SERVICE, "nginx")
    assert (status["phase"], condition_of(status, "Ready")) == ("Error", ("False", "MeshNotFound"))
    runs = len(world.runs)
    world.reconcile()  # the watch shows that the binding is missing
    assert len(world.runs) == runs and world.phase(SERVICE, "nginx") == "Error"


def test_items_of_a_binding_with_a_finalizer_of_others_wait_until_it_is_gone(world: World) -> None:
    world.kcp.put(BINDING, "edge", REFS, finalizers=["example.com/theirs"])
    world.put(SERVICE, "nginx", NGINX)
    world.delete(BINDING, "edge")
    assert (world.kcp.find(BINDING, "edge") or {})["metadata"]["finalizers"] == ["example.com/theirs"]
    assert world.phase(SERVICE, "nginx") == "Pending"
    world.kcp.put(BINDING, "edge", REFS, finalizers=[], deletionTimestamp="2026-11-01T00:00:00Z")
    world.delete(BINDING, "edge")
    assert world.phase(SERVICE, "nginx") == "Error"


def test_an_item_that_is_deleted_is_not_called_good_while_it_is_removed(world: World) -> None:
    world.put(SERVICE, "nginx", NGINX)
    world.delete(SERVICE, "nginx")
    shown = world.shown[-1][SERVICE]
    assert (shown["phase"], condition_of(shown, "Ready")[1]) == ("Pending", "Deleting") and "observedGeneration" in shown


def test_an_item_is_not_called_good_while_it_is_removed_from_a_cluster_that_leaves(world: World) -> None:
    world.found["c3"] = Usable(name="c3", kubeconfig={"kind": "Config"})
    world.kcp.put(CLUSTER, "c3", {})
    world.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": name} for name in ("c1", "c2", "c3")]})
    world.put(SERVICE, "nginx", NGINX)
    world.put(BINDING, "edge", REFS)
    assert world.shown[-1][SERVICE]["phase"] == "Exporting" and world.phase(SERVICE, "nginx") == "Exported"


# Plays that write nothing, links that come up, turns that are ended


def refused_by_a_finding(request: RunRequest) -> RunResult:
    finding = {"code": "CM-CIDR-01", "severity": "blocking", "cluster": "c1", "summary": "pod ranges overlap", "accepted": False}
    status = {"binding": {"phase": "Error", "conditions": [ready("Ready", holds=False)]}, "globalServices": []}
    result = {"schema": 1, "changed": False, "findings": [finding], "status": status, "requeueSeconds": 60}
    return RunResult(state=RunState.FAILED, rc=2, mesh_result=result, last_task="Publish mesh_result", seconds=1.0)


def test_a_mesh_that_was_refused_before_anything_was_written_is_played_once_and_deleted_without_a_play(world: World) -> None:
    world.answer = refused_by_a_finding
    world.reconcile()
    assert world.phase() == "Error" and world.records.get(KEY) is None
    asked = dry_run_finds(world, steps=0, phase="Error")
    world.reconcile()
    assert len(world.runs) == 1 and asked == [[]], "a dry run reads whether the finding is still there"
    world.delete(BINDING, "edge")
    assert len(world.runs) == 1 and world.kcp.find(BINDING, "edge") is None


@pytest.mark.parametrize("lost", ["record", "nothing"])
def test_a_mesh_that_was_carried_out_is_never_taken_for_one_that_was_refused(world: World, lost: str) -> None:
    """A record may be deleted by hand, and the next play finds everything as it should be, or is blocked."""
    world.reconcile()
    if lost == "record":
        world.records.forget(KEY)
    world.answer = lambda request: connected(request, changed=False)
    world.put(BINDING, "edge", {**REFS, "meshConfig": {"serviceType": "NodePort"}})
    assert set(known(world.records.get(KEY)).clusters) == {"c1", "c2"}
    world.answer = refused_by_a_finding
    world.records.forget(KEY) if lost == "record" else None
    world.put(BINDING, "edge", REFS)
    assert world.records.get(KEY) is not None, "its deletion has to remove what is in the clusters"


def test_no_play_waits_for_links_and_the_mesh_is_looked_at_closely_until_they_are_ready(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("mesh_operator.meshes.reconcile.time.monotonic", lambda: now[0])

    def connecting(request: RunRequest) -> RunResult:
        run = connected(request)
        known(run.mesh_result)["status"]["binding"]["phase"] = "Connecting"
        return run

    world.answer = connecting
    found = world.reconcile()
    assert world.runs[0].variables["mesh_connect_wait"] is False
    assert world.runs[0].variables["cilium_mesh_accept_incomplete"] == ["all"], "its statuses tell of items that are not as asked"
    dry_run_finds(world, steps=0, phase="Connecting")
    pauses = []
    for _ in range(80):
        assert found.seconds is not None and found.urgency is Urgency.FOLLOW_UP
        pauses.append(found.seconds)
        now[0] += found.seconds
        found = world.reconcile()
    assert pauses[:3] == [1.0, 1.0, 1.0] and max(pauses[:20]) == 15.0 and pauses[-1] == 60.0, "closely at first, and less and less"
    assert len(world.runs) == 1
    dry_run_finds(world, steps=0, phase="Connected")
    assert world.reconcile() == Next(seconds=120.0)


def test_a_turn_that_is_ended_early_blames_no_mesh_and_comes_again(world: World) -> None:
    asked: list[bool] = []

    def ended(request: RunRequest) -> RunResult:
        asked.append(world.cancel.is_set())
        world.reconciler.end_turn(KEY)
        asked.append(world.cancel.is_set())
        return RunResult(state=RunState.CANCELED, rc=254, mesh_result=None, last_task="", seconds=11.0)

    world.answer = ended
    assert world.reconcile() == Next(seconds=0.0, urgency=Urgency.CHANGE)
    assert asked == [False, True] and world.phase() == "Connecting"
    world.answer = connected
    assert world.reconcile().seconds == 300.0 and world.phase() == "Connected"
    world.reconciler.end_turn(KEY)  # no turn is under way


def test_a_turn_that_ends_while_credentials_are_read_blames_no_cluster_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended_early(key: MeshKey, names: dict[str, Any], ended: Callable[[], bool]) -> dict[str, Any]:
        assert not ended()
        world.reconciler.end_turn(KEY)
        assert ended()
        return {name: NotUsable(name=name, reason="ManagementPlaneUnavailable", message="Not read.") for name in names}

    with monkeypatch.context() as patched:
        patched.setattr(world, "resolve_all", ended_early)
        assert world.reconcile() == Next(seconds=0.0, urgency=Urgency.CHANGE)
    assert world.processes == [] and not (world.kcp.find(BINDING, "edge") or {}).get("status") and not world.runs
    assert world.reconcile().seconds == 300.0 and world.phase() == "Connected"


def test_a_process_that_begins_in_a_turn_that_has_ended_answers_nothing() -> None:
    interrupted: list[str] = []

    class Process:
        def interrupt(self) -> None:
            interrupted.append("yes")

    turn = UnitTurn(Event())
    turn.process = Process()
    assert interrupted == []
    turn.process = None
    turn.end()
    turn.process = Process()
    assert interrupted == ["yes"]


def test_a_turn_is_outdated_by_a_deletion_unless_it_removes_the_mesh(world: World) -> None:
    found: list[bool] = []

    def deleted(request: RunRequest) -> RunResult:
        found.append(world.reconciler.is_outdated(KEY))
        if request.variables.get("cilium_mesh_state") != "absent":
            world.kcp.delete(BINDING, "edge")
            found.append(world.reconciler.is_outdated(KEY))
        return connected(request)

    world.answer = deleted
    world.reconcile()
    world.reconcile()
    assert found == [False, True, False] and world.kcp.find(BINDING, "edge") is None


def test_an_item_of_a_mesh_whose_links_come_up_goes_on_its_way_when_they_are_ready(world: World) -> None:
    def connecting(request: RunRequest) -> RunResult:
        run = connected(request)
        assert run.mesh_result is not None
        run.mesh_result["status"]["binding"]["phase"] = "Connecting"
        run.mesh_result["status"]["globalServices"][0]["phase"] = "Pending"
        return run

    world.kcp.put(SERVICE, "nginx", NGINX)
    world.answer = connecting
    world.reconcile()
    assert (world.phase(), world.phase(SERVICE, "nginx")) == ("Connecting", "Pending")
    dry_run_finds(world, steps=1, phase="Connecting")
    world.reconcile()
    assert (world.shown[-1][BINDING]["phase"], world.shown[-1][SERVICE]["phase"]) == ("Connecting", "Pending")
    dry_run_finds(world, steps=1, phase="Connected")
    world.answer = connected
    world.reconcile()
    assert (world.shown[-1][BINDING]["phase"], world.shown[-1][SERVICE]["phase"]) == ("Connected", "Exporting")
    assert world.phase(SERVICE, "nginx") == "Exported"


@pytest.mark.parametrize(("minutes", "seconds"), [(0, 10), (3, 18), (60, 30)])
def test_a_new_mesh_that_waits_for_its_clusters_is_tried_more_often_than_an_old_one(world: World, minutes: int, seconds: int) -> None:
    world.found.clear()
    made = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(timespec="seconds")
    world.kcp.put(BINDING, "edge", REFS, creationTimestamp=made)
    assert world.reconciler.reconcile(KEY).seconds == pytest.approx(seconds, abs=1)


def test_a_mesh_that_is_gone_is_not_remembered(world: World) -> None:
    """Tenants make ever new meshes: what is remembered of one goes with it."""
    world.put(SERVICE, "nginx", NGINX)
    assert len(world.reconciler.memories) == 1
    world.kcp.delete(BINDING, "edge")
    world.kcp.delete(SERVICE, "nginx")
    for _ in range(3):
        world.reconcile()
    assert world.kcp.find(BINDING, "edge") is None and len(world.reconciler.memories) == 0


def test_a_mesh_of_a_workspace_with_far_too_many_objects_says_so_and_has_no_run(world: World) -> None:
    """What is not even known looks as if it were gone: a run would remove what it led to."""
    world.store._ignored.add(URL, SERVICE, "ws1")
    assert world.reconcile() == Next(seconds=300.0) and world.runs == []
    [why] = [row for row in world.status()["conditions"] if row["type"] == "Ready"]
    assert (world.phase(), why["reason"]) == ("Pending", "QuotaExceeded")
    world.store._ignored.drop(URL)
    world.reconcile()
    assert len(world.runs) == 1 and world.phase() == "Connected"


# Statuses of items in parts


def fill(parts: ItemParts, *statuses: tuple[str, dict[str, Any]], unchanged: tuple[str, ...] = (), later: int = 0) -> dict[str, Any]:
    """Put parts in as a confined child sends them, and return what the head of its result says of them."""
    for name, status in statuses:
        part = {"item": f"globalServices/{name}", "status": {"observedGeneration": 1, "conditions": [], **status}}
        parts.take(part, json.dumps({PART: part}).encode())
    said = {SAID: {"parts": len(statuses), "unchanged": [f"globalServices/{name}" for name in unchanged], "later": later}}
    parts.complete(said)
    return said


def connected_in_parts(*statuses: tuple[str, dict[str, Any]], **said: Any) -> Callable[[RunRequest], RunResult]:
    """A run whose items are in parts."""

    def answer(request: RunRequest) -> RunResult:
        parts, run = ItemParts(), connected(request)
        head = fill(parts, *statuses, **said)
        assert run.mesh_result is not None
        result = {**run.mesh_result, **head, "status": {"binding": run.mesh_result["status"]["binding"]}}
        return replace(run, mesh_result=result, items=parts)

    return answer


def test_items_get_the_statuses_that_a_run_answers_in_parts(world: World) -> None:
    world.kcp.put(SERVICE, "nginx", NGINX)
    world.answer = connected_in_parts(("nginx", {"phase": "Exported"}))
    assert world.reconcile().seconds == 300.0
    assert (world.phase(), world.phase(SERVICE, "nginx")) == ("Connected", "Exported")


def test_an_item_that_a_run_left_as_it_was_does_not_stay_on_its_way(world: World) -> None:
    """A run that may change it has shown so, and its answer says that it has its status already."""
    world.put(SERVICE, "nginx", NGINX)
    world.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}]})  # items are removed from clusters that leave
    dry_run_finds(world, steps=1)
    world.answer = connected_in_parts(unchanged=("nginx",))
    world.reconcile()
    assert world.shown[-1][SERVICE]["phase"] == "Exporting" and world.phase(SERVICE, "nginx") == "Exported"


def test_after_a_dry_run_what_is_new_alone_is_written_and_the_rest_comes_soon(world: World) -> None:
    for name in ("a", "b", "c"):
        world.kcp.put(SERVICE, name, NGINX)
    world.reconcile()
    binding = world.status()
    answers: list[Callable[[ItemParts], dict[str, Any]]] = [
        lambda parts: fill(parts, ("a", {"phase": "Degraded"}), unchanged=("b",), later=1),
        lambda parts: fill(parts, ("c", {"phase": "Degraded"}), unchanged=("a", "b")),
    ]

    def dry_run(question: MeshQuestion) -> DryRun:
        said = answers.pop(0)(question.items)
        return DryRun(steps=0, linked=True, result={"status": {"binding": binding}, "requeueSeconds": 120, **said})

    world.dry_run = dry_run
    written = len(world.kcp.writes)
    assert world.reconcile().seconds == SOONEST
    assert world.kcp.writes[written:] == [(SERVICE, "a", "status")]
    assert world.reconcile().seconds == 120.0
    assert world.kcp.writes[written:] == [(SERVICE, "a", "status"), (SERVICE, "c", "status")]
