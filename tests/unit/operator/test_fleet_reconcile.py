# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The fleet side of a namespace through its reconciler: what is run, what is written to custom resources, and when they may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import FleetDryRun
from mesh_operator.base.cancel import Cancel
from mesh_operator.base.keys import FleetKey
from mesh_operator.base.kinds import BINDING, BY_KIND, CLUSTER, FLEET, METRICS, POLICY, REVISION, SERVICE, WORKLOAD
from mesh_operator.base.serve import Metrics
from mesh_operator.base.workspace_bounds import DEFAULT, WorkspaceBounds
from mesh_operator.credentials.management_plane import NotUsable, SecretRef, Usable, secret_of
from mesh_operator.fleets.answers import FOR_WORKLOAD, FleetAnswers
from mesh_operator.fleets.dry_run import FleetQuestion
from mesh_operator.fleets.reconcile import LONGEST_REST, PAUSES, FleetReconciler
from mesh_operator.fleets.request import ABANDON, KARMADA, PLANE, Planes, UnitRequest, connected_by
from mesh_operator.runs.confined.process import Cause
from mesh_operator.runs.dry_runs import DryRunFailed, InvalidAnswer
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.runs.runner import RunRequest, RunResult, RunState
from mesh_operator.schedule.unit_turns import Next
from mesh_operator.source.resource_writer import ResourceWriter
from mesh_operator.source.store import Store
from mesh_operator.source.stored import Stored
from mesh_operator.statuses import heads
from mesh_operator.statuses.heads import head_of_fleet
from mesh_operator.statuses.item_statuses import FLEET_OBJECTS, SAID, objects_of, statuses_of_items
from tests.testing.answer_in_parts import in_parts
from tests.testing.fake_kcp import URL, FakeKcp

CLUSTERS: Final = FleetKey("ws1", "default", CLUSTER)
WORKLOADS: Final = FleetKey("ws1", "default", WORKLOAD)
WEB: Final = {"fleetRef": {"name": "edge"}, "template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}}
GLOBAL: Final = {**WEB, "service": {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}}
KARMADA_DOWN: Final = {
    "schema": 1,
    "changed": False,
    "findings": [{"code": "CM-API-01", "severity": "blocking", "cluster": KARMADA, "summary": "The API server does not answer"}],
    "status": {},
}

Result = Mapping[str, Any]


class Workspace(FakeKcp):
    """One that takes new objects and deletions too."""

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("name", "namespace")}
        self.put(body["kind"], body["metadata"]["name"], body.get("spec") or {}, **metadata)
        self.writes.append((body["kind"], body["metadata"]["name"], "created"))
        return dict(body)

    def at(self, url: str) -> Any:
        assert url == URL, url
        return _Api(self)

    def names(self, kind: str) -> list[str]:
        prefix = BY_KIND[kind].collection("ws1", "default") + "/"
        return sorted(path.removeprefix(prefix) for path in self._objects if path.startswith(prefix))


class _Api:
    """Requests by path, as the operator makes them."""

    def __init__(self, kcp: Workspace) -> None:
        self._kcp = kcp
        self.get, self.merge_patch, self.create = kcp.get, self._merged, kcp.create

    def _merged(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        return self._kcp.merge_patch(path, {"metadata": {}, **body}, manager=manager)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        plural, name = path.rsplit("/", 2)[1:]
        kind = next(row.kind for row in BY_KIND.values() if row.plural == plural)
        self._kcp.delete(kind, name)


@dataclass
class Fleet:
    """A namespace with two clusters, a fleet and a policy; Karmada and the clusters answer as a test says."""

    bounds: WorkspaceBounds = DEFAULT
    requests: list[UnitRequest] = field(default_factory=list)  # of dry runs
    runs: list[RunRequest] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    answer: Callable[[UnitRequest], tuple[int, Result]] | None = None  # None: the last run wrote everything, or one has to
    ran: Callable[[RunRequest], RunResult] | None = None
    planes: Callable[[], Planes] = lambda: Planes(karmada={"kind": "Config"}, management={"kind": "Config"})
    found: dict[str, Usable | NotUsable] = field(default_factory=dict)
    carried: dict[tuple[str, bool], Any] = field(default_factory=dict)  # what the last run of a playbook was given
    now: float = 0.0

    def __post_init__(self) -> None:
        self.store = Store(lambda *_: None, lambda: self.now, self.bounds)
        self.kcp = Workspace(self.store)
        for name in ("c1", "c2"):
            self.kcp.put(CLUSTER, name, {"providerRef": {"name": "kind"}, "region": "eu"})
        self.kcp.put(FLEET, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})
        self.kcp.put(POLICY, "all", {"strategy": "FixedReplicas"})
        self.lead()

    def lead(self) -> None:
        """Let an operator take the lead that remembers nothing."""
        self.reconciler = FleetReconciler(
            store=self.store,
            clusters=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            dry_runs=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            runner=self,  # type: ignore[arg-type]  # this world plays that part, with the methods that are used
            writer=ResourceWriter(self.kcp.at, self.note_event),
            answers=FleetAnswers(self.store, self.kcp.at),
            planes=lambda: self.planes(),
            cancel=Event(),
            clusters_listed=lambda: True,
            teardown_deadline=3600.0,
            check_interval=300.0,
            metrics=Metrics(),
            event=self.note_event,
            clock=lambda: self.now,
        )

    def note_event(self, stored: Stored, kind: str, reason: str, message: str) -> None:
        self.events.append(reason)

    @contextmanager
    def begin(self, clusters: int) -> Iterator[Fleet]:
        yield self

    def open(self, clusters: dict[str, Any]) -> dict[str, Any]:
        return clusters

    def resolve_all(self, key: Any, names: dict[str, Stored], ended: Callable[[], bool]) -> dict[str, Usable | NotUsable]:
        return {name: self.found.get(name) or Usable(name=name, kubeconfig={"kind": "Config"}) for name in names}

    def dry_run(self, question: FleetQuestion) -> FleetDryRun:
        self.requests.append(question.request)
        steps, result = (self.answer or self.compared)(question.request)
        return FleetDryRun(steps=steps, result=split(question.items, result, question.job["objects"]))

    def compared(self, request: UnitRequest) -> tuple[int, Result]:
        """What a dry run finds where nothing but runs changes anything."""
        return int(self.carried.get((request.unit.playbook, request.absent)) != request.fleet), answered(request)

    def run(self, request: RunRequest, cancel: Cancel, progress: Any = None) -> RunResult:
        self.runs.append(request)
        ran = self.ran(request) if self.ran is not None else self.wrote(request)
        if ran.mesh_result is None:
            return ran
        return replace(ran, mesh_result=split(ran.items, ran.mesh_result, request.variables[FLEET_OBJECTS]))

    def wrote(self, request: RunRequest) -> RunResult:
        fleet = request.variables["fleet"]
        self.carried[request.playbook, request.variables.get("fleet_cluster_state") == "absent"] = fleet
        result = workloads(*(entry["name"] for entry in fleet["workloads"])) if request.playbook == "fleet" else members(fleet)
        return RunResult(state=RunState.SUCCESSFUL, rc=0, mesh_result={**result, "changed": True}, last_task="Publish", seconds=1.0)

    def turn(self, key: FleetKey) -> Next:
        return self.reconciler.reconcile(key)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        return dict((self.kcp.find(kind, name) or {}).get("status") or {})

    def ready(self, kind: str, name: str) -> tuple[str, str]:
        return next((row["status"], row["reason"]) for row in self.status(kind, name)["conditions"] if row["type"] == "Ready")


def split(parts: ItemParts, result: Result, objects: Any) -> dict[str, Any]:
    """The head of a result whose parts are taken."""
    return dict(in_parts(parts, statuses_of_items(result, objects_of(objects), datetime.now(UTC), head_of_fleet)))


def ready_row(holds: bool = True) -> dict[str, str]:
    return {"type": "Ready", "status": str(holds), "reason": "Ready", "message": ""}


def workloads(*names: str, phase: str = "Available", **more: Any) -> dict[str, Any]:
    """What the playbook fleet, or its dry run, says of these workloads."""
    rows = [
        {"name": name, "status": {"phase": phase, "revisions": [{"number": 1, "hash": "a" * 64}], "conditions": [ready_row()]}}
        for name in names
    ]
    fleets = [{"name": "edge", "phase": "Ready", "matchedClusters": ["c1", "c2"], "conditions": [ready_row()]}]
    policies = [{"name": "all", "phase": "Accepted", "usedBy": len(names), "conditions": [ready_row()]}]
    lists = {"workloads": rows, "fleets": fleets, "placement_policies": policies, "global_services": [], "leaving": []}
    return {"schema": 1, "changed": False, "findings": [], "status": {}, **lists, **more}


def members(fleet: Mapping[str, Any], phase: str = "Ready") -> dict[str, Any]:
    """What the playbook fleet_clusters, or its dry run, says of these clusters."""
    rows = [
        {"name": entry["name"], "member": f"m-{entry['name']}", "phase": phase, "conditions": [ready_row()], "nodes": {"total": 1}}
        for entry in fleet["clusters"]
    ]
    metrics = [{"name": entry["name"], "time": "2026-11-01T00:00:00Z", "nodes": {"total": 1}} for entry in fleet["clusters"]]
    return {"schema": 1, "changed": False, "findings": [], "status": {}, "clusters": rows, "metrics": metrics}


def answered(request: UnitRequest) -> Result:
    if request.unit.kind == CLUSTER:
        return {**members(request.fleet), **({"clusters": []} if request.absent else {})}
    return workloads(*(stored.key.name for stored in request.objects))


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_workload_is_carried_out_and_everything_of_the_namespace_says_so(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    found = fleet.turn(WORKLOADS)
    assert (found.failed, found.seconds) == (False, PAUSES[0])
    assert [(run.playbook, [*run.hosts]) for run in fleet.runs] == [("fleet", [KARMADA])], "members' credentials are not in it"
    given = fleet.runs[0].variables
    assert (given["fleet"]["workspace"], given["fleet_workload_wait"]) == ("ws1", False)
    assert [entry["name"] for entry in given["fleet"]["clusters"]] == ["c1", "c2"]
    assert given["fleet"]["workloads"] == [{**WEB, "name": "web", "generation": 1}]
    assert fleet.status(WORKLOAD, "web")["phase"] == "Available"
    assert (fleet.status(FLEET, "edge")["phase"], fleet.status(POLICY, "all")["usedBy"]) == ("Ready", 1)
    assert fleet.turn(WORKLOADS).seconds == 300.0 and len(fleet.runs) == 1, "the second turn needs no run"


@pytest.mark.parametrize(("took", "rest"), [(1.0, 0.0), (8.0, 8.0), (60.0, LONGEST_REST)])
def test_a_unit_with_long_turns_rests_between_those_for_reports_of_karmada(fleet: Fleet, took: float, rest: float) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    meanwhile = list[float]()

    def ran(request: RunRequest) -> RunResult:
        fleet.now += took
        meanwhile.append(fleet.reconciler.rest(WORKLOADS))
        return fleet.wrote(request)

    fleet.ran = ran
    assert fleet.turn(WORKLOADS).seconds == max(PAUSES[0], rest)
    assert (meanwhile, fleet.reconciler.rest(WORKLOADS)) == ([0.0], rest)
    fleet.kcp.put(WORKLOAD, "more", WEB)
    fleet.turn(WORKLOADS)
    assert meanwhile[1] == (rest + took if rest else 0.0), "a report during a turn is about as old as the turn when it ends"
    assert fleet.turn(WORKLOADS).seconds == 300.0 and fleet.reconciler.rest(WORKLOADS) == 0.0


def test_clusters_are_asked_for_with_their_spec_and_get_their_figures(fleet: Fleet) -> None:
    fleet.turn(CLUSTERS)
    (run,) = fleet.runs
    assert (run.playbook, {*run.hosts}) == ("fleet_clusters", {KARMADA, PLANE, "c1", "c2"})
    assert run.variables["fleet"]["clusters"][0] == {
        "name": "c1",
        "provider": "kind",
        "region": "eu",
        "spec": {"provider": "KIND", "region": "eu"},
    }
    fleet.turn(CLUSTERS)
    assert (fleet.status(CLUSTER, "c1")["phase"], fleet.status(CLUSTER, "c1")["memberName"]) == ("Ready", "m-c1")
    assert fleet.kcp.names(METRICS) == ["c1", "c2"] and fleet.status(METRICS, "c1")["nodes"] == {"total": 1}


def test_the_finalizer_is_there_before_the_first_write(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    seen: list[Any] = []

    def ran(request: RunRequest) -> RunResult:
        seen.append((fleet.kcp.find(WORKLOAD, "web") or {})["metadata"].get("finalizers"))
        return RunResult(state=RunState.FAILED, rc=4, mesh_result=None, last_task="Write", seconds=1.0)

    fleet.ran = ran
    assert fleet.turn(WORKLOADS).failed
    assert seen == [["platform.edge-portal.eu/fleetworkload-cleanup"]]
    assert fleet.ready(WORKLOAD, "web") == ("False", "RunnerFailed")


def test_a_deleted_workload_goes_when_nothing_of_it_is_left(fleet: Fleet) -> None:
    for name in ("web", "api"):
        fleet.kcp.put(WORKLOAD, name, WEB)
    fleet.turn(WORKLOADS)
    fleet.kcp.delete(WORKLOAD, "web")
    fleet.answer = lambda request: (0, workloads("api", leaving=["web"]))
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == ["api", "web"] and fleet.ready(WORKLOAD, "web") == ("False", "Deleting")
    assert [stored.key.name for stored in fleet.requests[-1].objects] == ["api"]
    fleet.answer = lambda request: (0, workloads("api"))
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == ["api"]


def test_the_last_workload_goes_after_the_namespace_in_karmada(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    fleet.kcp.delete(WORKLOAD, "web")
    fleet.answer = lambda request: (1, workloads())  # the namespace is to be removed
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == ["web"] and len(fleet.runs) == 2
    fleet.answer = lambda request: (0, workloads())
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == []


def test_a_workload_that_is_missing_is_not_removed(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    fleet.store.replace(URL, WORKLOAD, ())
    fleet.turn(WORKLOADS)
    assert [entry["name"] for entry in fleet.requests[-1].fleet["workloads"]] == ["web"]


def test_while_karmada_is_down_nothing_is_deleted_and_statuses_say_so(fleet: Fleet) -> None:
    fleet.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})
    fleet.kcp.put(WORKLOAD, "web", GLOBAL)
    service = {"name": "fleet-web", "meshRef": {"name": "edge"}, "selector": {"namespace": "kcp-1", "name": "web"}}
    revision = {"name": "web-r1", "workload": "web", "number": 1, "hash": "a" * 64, "snapshot": {}}
    fleet.answer = lambda request: (0, workloads("web", global_services=[service], revisions=[revision]))
    fleet.turn(WORKLOADS)
    fleet.turn(WORKLOADS)
    assert (fleet.kcp.names(SERVICE), fleet.kcp.names(REVISION)) == (["fleet-web"], ["web-r1"])
    fleet.answer = lambda request: (0, KARMADA_DOWN)
    assert fleet.turn(WORKLOADS).seconds == PAUSES[1]
    for kind, name in ((WORKLOAD, "web"), (FLEET, "edge")):
        assert fleet.ready(kind, name) == ("False", "KarmadaUnavailable")
    assert (fleet.status(WORKLOAD, "web")["phase"], fleet.status(POLICY, "all")["phase"]) == ("Degraded", "Accepted")
    assert (fleet.kcp.names(SERVICE), fleet.kcp.names(REVISION)) == (["fleet-web"], ["web-r1"])
    fleet.kcp.delete(WORKLOAD, "web", at="2126-11-01T00:00:00Z")
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == ["web"], "it waits for Karmada"


@pytest.mark.parametrize("at", ["2026-11-01T00:00:00Z", "2126-11-01T00:00:00Z"])
def test_a_workload_goes_without_karmada_after_the_deadline_or_when_it_is_abandoned(fleet: Fleet, at: str) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    fleet.answer = lambda request: (0, KARMADA_DOWN)
    if at.startswith("2126"):
        fleet.kcp.put(WORKLOAD, "web", WEB, annotations={ABANDON: "true"})
        fleet.turn(WORKLOADS)
    fleet.kcp.delete(WORKLOAD, "web", at=at)
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == []


def test_a_cluster_that_leaves_has_a_run_of_its_own_and_goes_when_it_has_left(fleet: Fleet) -> None:
    fleet.turn(CLUSTERS)
    fleet.kcp.delete(CLUSTER, "c2")
    fleet.answer = lambda request: (0, members(request.fleet, "Deleting" if request.absent else "Ready"))
    found = fleet.turn(CLUSTERS)
    away, stay = fleet.requests[-2:]
    assert ([entry["name"] for entry in away.fleet["clusters"]], away.choices["state"]) == (["c2"], "absent")
    assert [entry["name"] for entry in stay.fleet["clusters"]] == ["c1"] and "c2" not in stay.hosts and "c1" not in away.hosts
    assert fleet.status(CLUSTER, "c2")["phase"] == "Deleting" and found.seconds is not None and found.seconds <= PAUSES[1]
    fleet.answer = lambda request: (0, answered(request))
    fleet.turn(CLUSTERS)
    assert fleet.kcp.names(CLUSTER) == ["c1"]


def test_a_cluster_is_not_called_unreachable_in_the_turn_in_which_it_gets_its_credentials(fleet: Fleet) -> None:
    fleet.found["c1"] = NotUsable(name="c1", reason="ClusterNotReady", message="It is not ready.")
    fleet.ran = lambda request: RunResult(
        state=RunState.FAILED, rc=2, mesh_result=members(request.variables["fleet"], "Error"), last_task="", seconds=1.0
    )
    fleet.turn(CLUSTERS)
    assert "phase" not in fleet.status(CLUSTER, "c1") and fleet.status(CLUSTER, "c2")["phase"] == "Error"


def test_a_cluster_that_the_management_plane_could_not_make_is_an_error_although_it_has_no_credentials(fleet: Fleet) -> None:
    fleet.found["c1"] = NotUsable(name="c1", reason="ClusterNotReady", message="It is not ready.")
    refused = {"type": "Provisioned", "status": "False", "reason": "QuotaExceeded", "message": ""}

    def ran(request: RunRequest) -> RunResult:
        result = members(request.variables["fleet"], "Error")
        for row in result["clusters"]:
            row["conditions"] = [refused, *row["conditions"]]
        return RunResult(state=RunState.FAILED, rc=2, mesh_result=result, last_task="", seconds=1.0)

    fleet.ran = ran
    fleet.turn(CLUSTERS)
    status = fleet.status(CLUSTER, "c1")
    assert status["phase"] == "Error"
    assert [row["reason"] for row in status["conditions"] if row["type"] == "Provisioned"] == ["QuotaExceeded"]


def test_credentials_that_cannot_be_read_stop_nothing_but_the_turn(fleet: Fleet) -> None:
    def broken() -> Planes:
        raise CredentialsInvalid("The kubeconfig of --karmada-kubeconfig cannot be read.", remedy="", cluster="")

    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.planes = broken
    assert not fleet.turn(WORKLOADS).failed and fleet.runs == []
    assert fleet.ready(WORKLOAD, "web") == ("False", "CredentialsInvalid")


def fails(cause: Cause) -> Callable[[UnitRequest], tuple[int, Result]]:
    def failing(request: UnitRequest) -> tuple[int, Result]:
        raise DryRunFailed(cause)

    return failing


@pytest.mark.parametrize("cause", list(Cause))
def test_nothing_is_run_for_a_new_spec_before_a_dry_run_of_it_succeeded(fleet: Fleet, cause: Cause) -> None:
    """What a process with limits cannot carry, or for which there is no process at all, is not given to a run."""
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    fleet.kcp.put(WORKLOAD, "web", {**WEB, "replicas": 2})
    fleet.answer = fails(cause)
    for _ in range(2):
        assert fleet.turn(WORKLOADS) == Next(seconds=None, failed=True), "the queue comes back later and later"
    fleet.lead()
    assert fleet.turn(WORKLOADS).failed and fleet.turn(CLUSTERS).failed, "the next leader remembers no dry run, and no run"
    assert len(fleet.runs) == 1
    assert (fleet.status(WORKLOAD, "web")["phase"], fleet.ready(WORKLOAD, "web")) == ("Degraded", ("False", "DryRunFailed"))
    fleet.answer = None
    fleet.turn(WORKLOADS)
    assert len(fleet.runs) == 2 and fleet.status(WORKLOAD, "web")["phase"] == "Available"


def test_a_new_spec_that_changes_nothing_in_karmada_has_no_run(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.answer = lambda request: (0, answered(request))
    assert fleet.turn(WORKLOADS).seconds == 300.0
    assert fleet.runs == [] and fleet.status(WORKLOAD, "web")["phase"] == "Available"


def test_a_workload_that_never_had_a_dry_run_may_be_deleted_at_once(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.answer = fails(Cause.MEMORY)
    assert fleet.turn(WORKLOADS).failed
    fleet.kcp.delete(WORKLOAD, "web")
    assert fleet.kcp.names(WORKLOAD) == [], "nothing was ever written for it"


@pytest.mark.parametrize("kind, key", [(WORKLOAD, WORKLOADS), (CLUSTER, CLUSTERS)])
@pytest.mark.parametrize("karmada", ["dry run", "credentials"])
def test_what_is_deleted_while_nothing_can_be_read_says_so_and_goes_when_its_owner_abandons_it(
    fleet: Fleet, karmada: str, kind: str, key: FleetKey
) -> None:
    def broken() -> Planes:
        raise CredentialsInvalid("The kubeconfig of --karmada-kubeconfig cannot be read.", remedy="", cluster="")

    spec = WEB if kind == WORKLOAD else {"providerRef": {"name": "kind"}}
    fleet.kcp.put(kind, "web", spec)
    fleet.turn(key)
    if karmada == "dry run":
        fleet.answer = fails(Cause.DEADLINE)
    else:
        fleet.planes = broken
    at = "2126-11-01T00:00:00Z"
    fleet.kcp.delete(kind, "web", at=at)
    fleet.turn(key)
    message = next(row["message"] for row in fleet.status(kind, "web")["conditions"] if row["type"] == "Ready")
    assert fleet.ready(kind, "web") == ("False", "Deleting") and message.startswith("The dry run" if karmada == "dry run" else "The kube")
    fleet.kcp.put(kind, "web", spec, annotations={ABANDON: "true"}, deletionTimestamp=at)
    fleet.turn(key)
    assert "web" not in fleet.kcp.names(kind)


def test_a_workload_that_is_deleted_during_its_first_dry_run_is_not_written(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)

    def meanwhile(request: UnitRequest) -> tuple[int, Result]:
        fleet.kcp.delete(WORKLOAD, "web")
        return 1, answered(request)

    fleet.answer = meanwhile
    assert fleet.turn(WORKLOADS) == Next(seconds=1.0)
    assert fleet.runs == [] and fleet.kcp.names(WORKLOAD) == []


def test_a_workload_beyond_the_bounds_is_refused_and_what_it_led_to_stays() -> None:
    fleet = Fleet(WorkspaceBounds(items=1))
    fleet.kcp.put(WORKLOAD, "web", WEB, creationTimestamp="2026-11-01T00:00:00Z")
    fleet.turn(WORKLOADS)
    fleet.kcp.put(WORKLOAD, "more", WEB, creationTimestamp="2026-11-02T00:00:00Z")
    fleet.turn(WORKLOADS)
    assert (fleet.status(WORKLOAD, "more")["phase"], fleet.ready(WORKLOAD, "more")) == ("Error", ("False", "QuotaExceeded"))
    assert [entry["name"] for entry in fleet.requests[-1].fleet["workloads"]] == ["web"]
    fleet.kcp.put(WORKLOAD, "older", WEB, creationTimestamp="2026-10-01T00:00:00Z")
    fleet.now = 60.0
    fleet.store.check_bounds()
    before = len(fleet.requests)
    fleet.turn(WORKLOADS)
    assert len(fleet.requests) == before, "a run without web would remove it"


def test_placements_know_the_clusters_that_a_mesh_has_connected(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})
    links = [
        {"cluster": "c1", "peer": "c2", "ready": False, "stage": "dialling"},
        {"cluster": "c2", "peer": "c1", "ready": False, "stage": "unknown"},
    ]
    status = {"meshStatus": [{"clusterName": "c1"}, {"clusterName": "c2"}], "links": links}
    fleet.kcp.merge_patch(f"{BY_KIND[BINDING].collection('ws1', 'default')}/edge/status", {"metadata": {}, "status": status}, manager="m")
    fleet.turn(WORKLOADS)
    assert fleet.runs[0].variables["fleet"]["connected"] == {"edge": ["c1"]}, "c2 is dead, and c1 may take over what it had"


def test_whatever_makes_a_cluster_connected_or_not_is_a_change_for_placements() -> None:
    """The rows of clusters may stay as they are when a link between them is lost."""
    rows = [{"clusterName": "c1", "connected": True}, {"clusterName": "c2", "connected": True}]
    links = [{"cluster": one, "peer": other, "ready": True, "stage": "ready"} for one, other in (("c1", "c2"), ("c2", "c1"))]
    whole = {"metadata": {"name": "edge"}, "status": {"meshStatus": rows, "links": links}}
    lost = {**whole, "status": {"meshStatus": rows, "links": [{**links[0], "ready": False}, links[1]]}}
    going = {**whole, "metadata": {"name": "edge", "deletionTimestamp": "2026-11-01T00:00:00Z"}}
    said = [connected_by(binding) for binding in (whole, lost, {"metadata": {"name": "edge"}}, going, None)]
    assert said == [["c1", "c2"], ["c2"], [], None, None]


def test_a_global_service_is_made_for_a_mesh_that_is_there_and_goes_with_its_workload(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", GLOBAL)
    own = {FOR_WORKLOAD: "another"}  # a copy of what was made for another workload is the tenant's own all the same
    fleet.kcp.put(SERVICE, "fleet-other", {"meshRef": {"name": "edge"}}, annotations=own)
    service = {"name": "fleet-web", "meshRef": {"name": "edge"}, "selector": {"namespace": "kcp-1", "name": "web"}}
    fleet.answer = lambda request: (0, workloads("web", global_services=[service]))
    for _ in range(2):
        fleet.turn(WORKLOADS)
    assert fleet.kcp.names(SERVICE) == ["fleet-other"] and "MeshNotFound" in fleet.events
    fleet.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})
    fleet.turn(WORKLOADS)
    made = fleet.kcp.find(SERVICE, "fleet-web") or {}
    assert (made["spec"]["selector"], made["metadata"]["annotations"][FOR_WORKLOAD]) == (service["selector"], "web")
    fleet.kcp.put(WORKLOAD, "web", {**GLOBAL, "replicas": "many"})  # not valid: its service stays
    fleet.answer = lambda request: (0, workloads())
    fleet.turn(WORKLOADS)
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(SERVICE) == ["fleet-other", "fleet-web"]
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(SERVICE) == ["fleet-other"]


def test_a_service_of_the_tenants_own_is_named_to_the_run_and_never_written(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", GLOBAL)
    fleet.kcp.put(BINDING, "edge", {"clusterRefs": [{"name": "c1"}, {"name": "c2"}]})
    own = {"meshRef": {"name": "edge"}, "selector": {"namespace": "mine", "name": "web"}}
    fleet.kcp.put(SERVICE, "fleet-web", own)
    service = {"name": "fleet-web", "meshRef": {"name": "edge"}, "selector": {"namespace": "kcp-1", "name": "web"}}
    fleet.answer = lambda request: (0, workloads("web", global_services=[service]))  # planned before the tenant's own was there
    for _ in range(3):
        fleet.turn(WORKLOADS)
    assert fleet.requests[-1].fleet["takenGlobalServices"] == ["fleet-web"]
    fleet.kcp.delete(WORKLOAD, "web")
    fleet.turn(WORKLOADS)
    assert (fleet.kcp.find(SERVICE, "fleet-web") or {})["spec"] == own


def test_a_cluster_beyond_the_bound_does_not_join_and_says_so() -> None:
    fleet = Fleet(WorkspaceBounds(clusters=2))
    fleet.kcp.put(CLUSTER, "c3", {"providerRef": {"name": "kind"}}, creationTimestamp="2026-12-01T00:00:00Z")
    fleet.turn(CLUSTERS)
    assert [entry["name"] for entry in fleet.runs[0].variables["fleet"]["clusters"]] == ["c1", "c2"]
    assert (fleet.status(CLUSTER, "c3")["phase"], fleet.ready(CLUSTER, "c3")) == ("Error", ("False", "QuotaExceeded"))
    assert fleet.status(CLUSTER, "c1")["phase"] == "Ready"


def test_what_is_made_in_karmada_has_the_mark_of_the_operator(fleet: Fleet) -> None:
    fleet.planes = lambda: Planes(karmada={"kind": "Config"}, operator="uid-of-mine")
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    assert fleet.runs[0].variables["fleet"]["operator"] == "uid-of-mine"


def test_revisions_that_karmada_does_not_keep_are_taken_away(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    revisions = [{"name": f"web-r{n}", "workload": "web", "number": n, "hash": "a" * 64, "snapshot": {"n": n}} for n in (1, 2)]
    fleet.answer = lambda request: (0, workloads("web", revisions=revisions))
    fleet.turn(WORKLOADS)
    fleet.turn(WORKLOADS)
    assert (fleet.kcp.find(REVISION, "web-r1") or {})["spec"]["snapshot"] == {"n": 1}
    fleet.answer = lambda request: (0, workloads("web"))
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(REVISION) == ["web-r1"], "the second one is not in the status any more"


def test_revisions_beyond_one_answer_are_made_with_the_next_ones_soon(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "SNAPSHOTS", 10)
    fleet.kcp.put(WORKLOAD, "web", WEB)
    revisions = [{"name": f"web-r{n}", "workload": "web", "number": n, "hash": "a" * 64, "snapshot": {"n": n}} for n in (1, 2)]
    found = workloads("web")
    found["workloads"][0]["status"]["revisions"] = [{"number": n, "hash": "a" * 64} for n in (1, 2)]
    fleet.answer = lambda request: (0, {**found, "revisions": [row for row in revisions if row["name"] not in fleet.kcp.names(REVISION)]})
    assert fleet.turn(WORKLOADS).seconds == PAUSES[0] and fleet.kcp.names(REVISION) == ["web-r1"]
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(REVISION) == ["web-r1", "web-r2"]


def test_an_answer_whose_parts_are_not_there_is_not_valid(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.turn(WORKLOADS)
    answer = {"steps": 0, "result": {**workloads("web"), SAID: {"parts": 1, "unchanged": [], "later": 0}}}
    with pytest.raises(InvalidAnswer):
        FleetQuestion(fleet.requests[0]).read(answer)


def test_a_tenant_that_is_left_in_karmada_without_a_resource_is_removed(fleet: Fleet) -> None:
    key = FleetKey("gone", "default", WORKLOAD)
    assert fleet.turn(key) == Next(seconds=None) and fleet.requests == []
    fleet.reconciler.orphaned = frozenset({key})
    fleet.answer = lambda request: (1, workloads())
    fleet.turn(key)
    assert [run.variables["fleet"]["workloads"] for run in fleet.runs] == [[]]


def test_a_workload_that_is_deleted_while_its_run_is_at_work_waits_for_the_next_turn(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)

    def ran(request: RunRequest) -> RunResult:
        fleet.kcp.delete(WORKLOAD, "web")
        return RunResult(state=RunState.SUCCESSFUL, rc=0, mesh_result=workloads("web"), last_task="Publish", seconds=1.0)

    fleet.ran = ran
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == ["web"], "it was written just now"
    fleet.answer = lambda request: (0, workloads())
    fleet.turn(WORKLOADS)
    assert fleet.kcp.names(WORKLOAD) == []


def test_a_tenant_hears_nothing_of_the_addresses_of_the_platform(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.kcp.put(POLICY, "new", {"strategy": "Weighted"})
    fleet.turn(WORKLOADS)
    found = {"code": "CM-API-01", "severity": "blocking", "cluster": KARMADA, "summary": "10.1.2.3:6443 refused the connection"}
    fleet.answer = lambda request: (0, {**KARMADA_DOWN, "findings": [found]})
    fleet.turn(WORKLOADS)
    assert "10.1.2.3" not in str(fleet.kcp.find(WORKLOAD, "web")) and "CM-API-01" in str(fleet.status(WORKLOAD, "web"))
    assert "phase" not in fleet.status(POLICY, "new"), "a policy is about nothing that could be read"


def test_workloads_of_a_workspace_with_far_too_many_objects_say_so_and_have_no_run(fleet: Fleet) -> None:
    fleet.kcp.put(WORKLOAD, "web", WEB)
    fleet.store._ignored.add(URL, WORKLOAD, "ws1")
    assert fleet.turn(WORKLOADS) == Next(seconds=300.0) and fleet.requests == [] and fleet.runs == []
    assert fleet.ready(WORKLOAD, "web") == ("False", "QuotaExceeded")


def test_a_cluster_without_cilium_can_be_a_member_of_karmada() -> None:
    cluster = {
        "metadata": {"name": "m"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "kubeconfigSecretRef": {"name": "m-kubeconfig"},
            "capabilities": [{"name": "cilium-cni", "details": {"status": "not-installed"}}],
        },
    }
    assert isinstance(secret_of(cluster, "c1"), NotUsable)
    assert isinstance(secret_of(cluster, "c1", with_cilium=False), SecretRef)
