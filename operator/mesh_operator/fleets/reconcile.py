# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of the fleet side of one namespace: its clusters, or its workloads.

(1) A dry run in a confined process, (2) finalizers, (3) the playbook if the dry run found something to do, (4) statuses and the objects
that are answers. Nothing is run that no dry run has gone through, within its limits. All state is in Karmada, so an operator that is killed
goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from logging import WARNING
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import ERROR
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import REVISIONS_LATER
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import FleetDryRun
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.cancel import Cancel
from ..base.keys import FleetKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER, UNITS, WORKLOAD
from ..base.log import log
from ..base.serve import Metrics
from ..credentials.clusters import ClusterSource
from ..credentials.management_plane import NotUsable, Usable
from ..runs.dry_runs import DRY_RUN_FAILED, DryRunFailed, DryRuns
from ..runs.item_parts import ItemParts
from ..runs.runner import Runner, RunRequest, RunState
from ..runs.unit_runs import note_failed_dry_run, run_unit
from ..schedule.queue import Urgency
from ..schedule.unit_turns import AT_ONCE, Next, UnitTurn, UnitTurns
from ..source.bounds import QUOTA_EXCEEDED, STUB
from ..source.resource_writer import ResourceWriter
from ..source.resources import age_of
from ..source.store import Store
from ..source.stored import Stored, TenantObjects
from ..statuses.withheld import WithheldLog
from .answers import FleetAnswers
from .dry_run import FleetQuestion
from .request import Planes, UnitRequest, abandons, connected_in, going_of, is_guarded, requests_of, wanted_of
from .status import cause_of, failure_of, fleet_statuses, interrupted_status, leaving_status, refused_status

PAUSES: Final = (1.0, 15.0)  # seconds between two turns of a unit on its way: at first, and at most; Karmada's watch brings earlier ones
QUICK: Final = 3.0  # seconds of a turn after which nothing has to rest
LONGEST_REST: Final = 10.0
"""Seconds at most between two turns of a unit for reports of Karmada. Each turn observes hundreds of objects while the same servers
bring them to their clusters: a unit with so many objects rests for as long as its turn took."""
_CREDENTIALS: Final = "CredentialsInvalid"  # reason while a kubeconfig of the platform cannot be used
_TOO_MANY: Final = "The workspace has more objects than the operator takes from one."


class FleetReconciler:
    """Reconciler of fleets. Thread-safe for different units; one unit is reconciled by one thread at a time (queue.py)."""

    def __init__(
        self,
        *,
        store: Store,
        clusters: ClusterSource,
        dry_runs: DryRuns,
        runner: Runner,
        writer: ResourceWriter,
        answers: FleetAnswers,
        planes: Callable[[], Planes],
        cancel: Cancel,
        clusters_listed: Callable[[], bool],
        teardown_deadline: float,
        check_interval: float,
        metrics: Metrics,
        event: Callable[[Stored, str, str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the reconciler.

        :param planes: returns the kubeconfigs of the control planes as they are now; raises CredentialsInvalid.
        """
        self._store, self._clusters, self._dry_runs, self._runner = store, clusters, dry_runs, runner
        self._writer, self._answers, self._planes = writer, answers, planes
        self._clusters_listed, self._deadline, self._interval = clusters_listed, teardown_deadline, check_interval
        self._metrics, self._event, self._clock = metrics, event, clock
        self._turns = UnitTurns[FleetKey](cancel, metrics)
        self._withheld = WithheldLog()
        self._pauses: dict[FleetKey, float] = {}  # the last pause of units on their way
        self._took: dict[FleetKey, float] = {}  # seconds of the last turn of units whose turns are not quick
        self.orphaned: frozenset[FleetKey] = frozenset()  # units in Karmada without a custom resource (karmada_watch.py)

    def reconcile(self, key: FleetKey) -> Next:
        """Reconcile a unit once. Raises nothing, as ``Reconciler.reconcile``."""
        began = self._clock()
        found = self._turns.take(key, self._reconcile)
        self._took.pop(key, None)
        if (took := self._clock() - began) > QUICK:
            self._took[key] = took
        rests = found.urgency is Urgency.FOLLOW_UP and found.seconds is not None
        return replace(found, seconds=max(found.seconds or 0.0, rest_after(took))) if rests else found

    def rest(self, key: FleetKey) -> float:
        """Return the seconds after which a report of Karmada brings the next turn of a unit. Thread-safe."""
        took = self._took.get(key, 0.0)
        return rest_after(took) + (took if self._turns.get(key) is not None else 0.0)

    def end_turn(self, key: FleetKey) -> None:
        """End the turn of a unit early, from another thread."""
        self._turns.end(key)

    def _reconcile(self, key: FleetKey, turn: UnitTurn) -> Next:
        unit, tenant = UNITS[key.name], self._store.tenant(key.workspace, key.namespace)
        if tenant.ignored:  # what is not even known looks as if it were gone
            return self._hold(tenant, unit.kind, QUOTA_EXCEEDED, _TOO_MANY, Next(seconds=self._interval))
        if not (tenant.listed and self._clusters_listed()):
            return Next(seconds=1.0)  # objects that are not listed yet look as if they were gone
        wanted, going = wanted_of(tenant, unit.kind), going_of(tenant, unit.kind)
        if self._refuse(tenant, unit.kind):
            return Next(seconds=self._interval)
        if not (wanted or going or key in self.orphaned or self._has_others(tenant, unit.kind)):
            self._answer(tenant, unit.kind, {"workloads": [], "metrics": []})
            self._forget(key)
            return Next(seconds=None)
        turn.removes = not wanted
        try:
            planes = self._planes()
        except MeshError as error:
            log("fleet_waiting", level=WARNING, workspace=key.workspace, namespace=key.namespace, name=key.name, reason=error.message)
            self._release_unread(going, error.message)
            return self._hold(tenant, unit.kind, _CREDENTIALS, error.message)
        try:
            planned = self._plan(key, tenant, planes, turn)
        except DryRunFailed as failed:
            if turn.is_set():
                return AT_ONCE
            note_failed_dry_run(key, failed, self._metrics)
            self._release_unread(going, str(failed))
            self._hold(tenant, unit.kind, DRY_RUN_FAILED, str(failed))
            return Next(seconds=None, failed=True)
        unguarded = [stored for stored in wanted if stored.missing_since is None and not self._writer.is_guarded(stored)]
        if not all(self._writer.set_finalizer(stored, wanted=True) for stored in unguarded):
            return Next(seconds=1.0)  # one was deleted meanwhile: nothing would remove what is written for it
        pauses = [self._carry_out(request, dry, items, turn, tenant) for request, dry, items in planned]
        return min(pauses, key=_soonest) if pauses else Next(seconds=self._interval)

    def _plan(
        self, key: FleetKey, tenant: TenantObjects, planes: Planes, turn: UnitTurn
    ) -> list[tuple[UnitRequest, FleetDryRun, ItemParts]]:
        """Return the requests of the unit with their dry runs, and the statuses that these found.

        :raises DryRunFailed: when the process fails.
        """
        is_clusters = key.name == CLUSTER
        members = [stored for stored in tenant.of(CLUSTER) if stored.missing_since is None] if is_clusters else []
        sealed = self._clusters.resolve_all(key, {stored.key.name: stored for stored in members}, turn.is_set)
        bindings = [one for one in self._store.of_kind(BINDING) if one.key[1:3] == (key.workspace, key.namespace)]
        with self._dry_runs.begin(len(sealed)) as process:
            turn.process = process
            try:
                opened: dict[str, Usable | NotUsable] = process.open(sealed)
                taken = self._answers.taken_services(tenant)
                requests = requests_of(key, tenant, planes, opened, deadline=self._deadline, connected=connected_in(bindings), taken=taken)
                known = self._answers.known_revisions(tenant)
                questions = [FleetQuestion(request, known) for request in requests]
                return [(question.request, process.dry_run(question), question.items) for question in questions]
            finally:
                turn.process = None

    def _carry_out(self, request: UnitRequest, dry: FleetDryRun, items: ItemParts, turn: UnitTurn, planned: TenantObjects) -> Next:
        """Run the playbook if there is something to do, and report.

        :param items: the statuses that the dry run found.
        :param planned: the objects for which the request was made. Statuses are about these, whatever their owners have changed meanwhile.
        """
        key, ran, result = request.key, bool(dry.steps), dry.result
        if ran:
            wanted = RunRequest(playbook=request.unit.playbook, hosts=request.hosts, variables=request.variables, name=request.owner)
            run = run_unit(key, wanted, turn, runner=self._runner, metrics=self._metrics)
            if run.state is RunState.CANCELED:
                return AT_ONCE
            if run.mesh_result is None:
                self._hold(planned, request.unit.kind, run.reason, run.without_result())
                return Next(seconds=None, failed=True)
            result, items = run.mesh_result, run.items
        self._withheld.take(key, result)
        if _is_unread(request, result):
            log("fleet_not_read", level=WARNING, workspace=key.workspace, namespace=key.namespace, name=key.name, reason=cause_of(result))
        tenant = self._store.tenant(key.workspace, key.namespace)
        left = self._report(request, planned, tenant, result, items, ran=ran)
        if not ran:  # a dry run alone has the snapshots of revisions
            self._answer(tenant, key.name, result)
        more = bool(items.later or result.get(REVISIONS_LATER))
        return self._next(request, result, left=left or more, ran=ran)

    def _report(
        self,
        request: UnitRequest,
        planned: TenantObjects,
        tenant: TenantObjects,
        result: Mapping[str, Any],
        items: ItemParts,
        *,
        ran: bool,
    ) -> bool:
        """Write the statuses, release what is gone, and return whether something that is being deleted is left."""
        now, unit = datetime.now(UTC), request.unit
        left: Sequence[Stored] = ()
        if request.absent or not unit.absent:  # else what leaves has a request of its own
            going = going_of(tenant, unit.kind)
            left = self._unread(going) if _is_unread(request, result) else self._left(request, going, result, ran=ran)
            self._release_others(going, left)
            said, names = failure_of(result)[1] or "What it led to is being removed.", _names(request, result)
            for stored, own in fleet_statuses(left, result, items, now):
                if stored.key.name not in names:
                    self._writer.status(stored, leaving_status(stored, said, now))
                elif own is not None:
                    self._writer.status(stored, own)
        if not request.absent:
            objects = [stored for kind in unit.kinds for stored in wanted_of(planned, kind) if stored.missing_since is None]
            statuses = fleet_statuses(objects, result, items, now)
            self._writer.statuses(((stored, status) for stored, status in statuses if not _is_premature(request, stored, status)), {})
        return bool(left)

    def _unread(self, going: Sequence[Stored]) -> Sequence[Stored]:
        """Return the deleted objects that wait for a control plane that cannot be read.

        Those that their owner abandons go. So do workloads after the deadline: orphans are searched for when Karmada is back.
        """
        late = {stored.key for stored in going if stored.key.kind == WORKLOAD and age_of(stored) > self._deadline}
        return [stored for stored in going if stored.key not in late and not abandons(stored)]

    def _left(self, request: UnitRequest, going: Sequence[Stored], result: Mapping[str, Any], *, ran: bool) -> Sequence[Stored]:
        """Return the deleted objects of which something is left, by a result of their request."""
        if request.absent:
            names, asked = _names(request, result), {stored.key for stored in request.objects}
            return [stored for stored in going if stored.key not in asked or stored.key.name in names]
        if not request.objects and ran:
            return going  # the tenant's namespace goes after the last workload: the next dry run tells
        written = {stored.key for stored in request.objects}  # the request was made before their deletion was requested
        leaving = set(result["leaving"])
        return [stored for stored in going if stored.key in written or stored.key.name in leaving]

    def _next(self, request: UnitRequest, result: Mapping[str, Any], *, left: bool, ran: bool) -> Next:
        """Return when to look again. ``left``: something of this turn is left."""
        rows = rows_of(result, request.unit.of.reported)
        phases = {str((row.get("status") or row).get("phase")) for row in rows}
        if not (left or ran or phases & request.unit.of.awaited):
            self._pauses.pop(request.key, None)
            unread = _is_unread(request, result)
            return Next(seconds=min(PAUSES[1], self._interval) if unread else self._interval)
        before = self._pauses.get(request.key)
        pause = PAUSES[0] if ran or before is None else min(before * 1.5, PAUSES[1])
        self._pauses[request.key] = pause
        return Next(seconds=min(pause, self._interval), urgency=Urgency.FOLLOW_UP)

    # What is not carried out

    def _refuse(self, tenant: TenantObjects, kind: str) -> bool:
        """Report objects beyond the bounds of the workspace, and return whether one of them was carried out before.

        A run without such an object would remove what it led to.
        """
        kinds = dict.fromkeys((*UNITS[kind].kinds, CLUSTER))
        found = [stored for reported in kinds for stored in tenant.of(reported) if not stored.deleting]
        beyond = [stored for stored in found if stored.beyond or STUB in stored.obj]
        for stored in beyond:
            self._writer.status(stored, refused_status(stored, datetime.now(UTC)))
        guarding = any(stored.key.kind in (kind, CLUSTER) and is_guarded(stored, BY_KIND[stored.key.kind].finalizer) for stored in beyond)
        if guarding:
            self._hold(tenant, kind, QUOTA_EXCEEDED, _TOO_MANY)
        return guarding

    def _hold(self, tenant: TenantObjects, kind: str, reason: str, message: str, then: Next | None = None) -> Next:
        """Report that nothing is carried out now."""
        now = datetime.now(UTC)
        objects = [stored for reported in UNITS[kind].kinds for stored in wanted_of(tenant, reported) if stored.missing_since is None]
        self._writer.statuses(((stored, interrupted_status(stored, reason, message, now)) for stored in objects), {})
        return then or Next(seconds=min(PAUSES[1], self._interval))

    def _release_unread(self, going: Sequence[Stored], message: str) -> None:
        """Release deleted objects that wait no longer for what cannot be read, and say in the statuses of the others why they wait."""
        left, now = self._unread(going), datetime.now(UTC)
        self._release_others(going, left)
        for stored in left:
            self._writer.status(stored, leaving_status(stored, message, now))

    def _has_others(self, tenant: TenantObjects, kind: str) -> bool:
        """Return whether there are objects beside those of the unit's own kind that wait for a status."""
        return any(wanted_of(tenant, reported) for reported in UNITS[kind].kinds)

    def _answer(self, tenant: TenantObjects, kind: str, result: Mapping[str, Any]) -> None:
        if kind == CLUSTER:
            self._answers.publish_metrics(tenant, result)
            return
        unmade = self._answers.publish_workloads(tenant, result)
        for stored in tenant.of(WORKLOAD):
            if stored.key.name in unmade:
                said = "service.global asks for a ClusterMeshBinding that this operator does not know in the namespace"
                self._event(stored, "Warning", "MeshNotFound", f"{said}. Run it with --profile all, and create the binding.")

    def _release_others(self, going: Iterable[Stored], left: Iterable[Stored]) -> None:
        kept = {stored.key for stored in left}
        self._release(stored for stored in going if stored.key not in kept)

    def _release(self, objects: Iterable[Stored]) -> None:
        for stored in objects:
            if is_guarded(stored, BY_KIND[stored.key.kind].finalizer):
                self._writer.set_finalizer(stored, wanted=False)

    def _forget(self, key: FleetKey) -> None:
        self._pauses.pop(key, None)
        self._withheld.take(key, {})


def _is_unread(request: UnitRequest, result: Mapping[str, Any]) -> bool:
    """Return whether the result says nothing of the objects, since a control plane could not be read."""
    return request.unit.of.reported not in result or ("leaving" not in result and not request.unit.absent)


def _names(request: UnitRequest, result: Mapping[str, Any]) -> set[str]:
    return {str(row.get("name")) for row in rows_of(result, request.unit.of.reported)}


def _is_premature(request: UnitRequest, stored: Stored, status: Mapping[str, Any] | None) -> bool:
    """Return whether a status calls a cluster unreachable that merely has no credentials yet, in the turn in which it became ready.

    That the management plane could not make it is no such status.
    """
    failed = any(row.get("type") == "Provisioned" and row.get("status") == "False" for row in rows_of(status or {}, "conditions"))
    return stored.key.name in request.waiting and (status or {}).get("phase") == ERROR and not failed


def rest_after(took: float) -> float:
    """Return the seconds of rest after a turn of so many seconds."""
    return min(LONGEST_REST, took) if took > QUICK else 0.0


def _soonest(found: Next) -> tuple[bool, float]:
    return (not found.failed, float("inf") if found.seconds is None else found.seconds)
