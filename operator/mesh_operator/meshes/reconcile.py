# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of one mesh: (1) finalizers and record, (2) dry run in a confined process, (3) playbook if it found changes, (4) statuses.

The order of finalizers: set before the first write into a cluster, removed after the last write was undone (kcp keeps the binding, and with
it the operator's access, until they are gone).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import DryRun
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import RETRY_SECONDS, meaning_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.choices import DEFAULT, PlatformChoices
from ..base.keys import MeshKey, ObjectKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER
from ..base.serve import Metrics
from ..credentials.clusters import ClusterSource
from ..credentials.management_plane import NotUsable, Usable
from ..runs.dry_runs import DRY_RUN_FAILED, DryRunFailed, DryRunProcess, DryRuns
from ..runs.item_parts import ItemParts
from ..runs.runner import RUNNER_FAILED, Runner, RunRequest, RunState
from ..runs.unit_runs import note_failed_dry_run, run_unit
from ..schedule.queue import Urgency
from ..schedule.unit_turns import AT_ONCE, Next, UnitTurn, UnitTurns
from ..source.bounds import QUOTA_EXCEEDED
from ..source.resource_writer import ResourceWriter
from ..source.resources import all_of, deleting, finalizers_of, generation_of, is_abandoned, ref_of, refs_of
from ..source.status_patch import Status
from ..source.store import Store
from ..source.stored import MeshObjects, Stored
from ..statuses.findings import MOST
from ..statuses.withheld import WithheldLog
from .answered_statuses import answered_statuses
from .dry_run import MeshQuestion
from .foreign_records import HELD, RECORD_OF_ANOTHER_SOURCE, record_that_holds
from .memory import GoodLinks, MeshMemories
from .orphans import mesh_to_remove
from .records import Record, Records
from .removal import Removal
from .request import ASSIGNS, MeshRequest, NoOp, Wait, request_of
from .status import (
    GOOD,
    status_of_failed_dry_run,
    status_of_failed_run,
    status_of_refused,
    status_of_result,
    status_of_waiting,
)
from .status_in_progress import status_during_run, status_of_removal, while_assigning

ANOTHER_RUN: Final = "AnotherRun"
SOONEST: Final = 10.0  # seconds between two checks of a mesh at least, whatever its items ask for: their specs are a tenant's
WAITING: Final = 30.0  # seconds between two turns of a mesh whose clusters cannot be used; of a new mesh fewer


class Reconciler:
    """Reconciler of meshes. Thread-safe for different meshes; one mesh is reconciled by one thread at a time (queue.py).

    :ivar memories: what is remembered of each mesh.
    """

    def __init__(
        self,
        *,
        store: Store,
        clusters: ClusterSource,
        dry_runs: DryRuns,
        records: Records,
        runner: Runner,
        writer: ResourceWriter,
        cancel: Event,
        clusters_listed: Callable[[], bool],
        teardown_deadline: float,
        check_interval: float,
        metrics: Metrics,
        event: Callable[[Stored, str, str, str], None],
        holder: str = "mesh-operator",
        choices: PlatformChoices = DEFAULT,
    ) -> None:
        """Prepare the reconciler.

        :param clusters_listed: returns whether the Clusters of the management plane are known; until then they look as if they were gone.
        :param holder: who the operator's runs are, for users whose runs meet them at the lock of a mesh.
        :param choices: of the platform, for all runs.
        """
        self._holder, self._choices = holder, choices
        self._store, self._clusters, self._records, self._runner = store, clusters, records, runner
        self._dry_runs, self._writer = dry_runs, writer
        self._metrics, self._event = metrics, event
        self._clusters_listed, self._interval = clusters_listed, check_interval
        self._turns = UnitTurns[MeshKey](cancel, metrics)
        self.memories = MeshMemories()
        self._removal = Removal(records=records, writer=writer, memories=self.memories, deadline=teardown_deadline, event=event)
        self._withheld = WithheldLog()
        self.orphaned: frozenset[MeshKey] = frozenset()  # recorded meshes without a resource (orphans.py)

    def reconcile(self, key: MeshKey) -> Next:
        """Reconcile a mesh once. Errors of kcp are a failure that is tried again; nothing that a cluster or a tenant does raises."""
        return self._turns.take(key, self._reconcile)

    def end_turn(self, key: MeshKey) -> None:
        """End the turn of a mesh early, from another thread: it comes again, in the lane of slow meshes."""
        self._turns.end(key)

    def is_outdated(self, key: MeshKey) -> bool:
        """Return whether the turn of a mesh makes what is to be removed: its deletion was requested after the turn began."""
        turn, binding = self._turns.get(key), self._store.mesh(key).binding
        return turn is not None and not turn.removes and binding is not None and binding.deleting

    def _reconcile(self, key: MeshKey, turn: UnitTurn) -> Next:
        mesh = self._store.mesh(key)
        if (foreign := record_that_holds(mesh, self._records)) is not None:
            return self._hold_for(foreign, mesh)
        record = self._records.get(key)
        if key in self.orphaned and record is not None and mesh.binding is None:
            mesh = mesh_to_remove(record, listed=mesh.listed)
        elif mesh.binding is not None and mesh.binding.gone and (record is None or record.tombstone):
            mesh = replace(mesh, binding=None)  # its deletion is complete, and nothing of its items is left in any cluster that answers
        elif mesh.binding is not None and mesh.binding.missing_since is not None:
            if record is None:
                self._writer.release(deleting(mesh))  # without a record, no cluster holds anything of its items
            return Next(seconds=self._interval)  # missing is not deleted
        if (mesh.beyond or mesh.ignored) and self._refuse(mesh, recorded=record is not None):
            return Next(seconds=self._interval)
        if not (mesh.listed and self._clusters_listed()):
            return Next(seconds=1.0)  # objects that are not listed yet look as if they were gone
        names = dict.fromkeys((*refs_of(mesh), *(record.clusters if record else ())))
        place = (key.workspace, key.namespace)
        turn.removes = mesh.binding is not None and mesh.binding.deleting
        known = {name: self._store.get(ObjectKey(CLUSTER, *place, name)) for name in names}
        sealed = self._clusters.resolve_all(key, known, turn.is_set)
        if turn.is_set():  # what was not read says nothing of the clusters
            return AT_ONCE
        try:
            with self._dry_runs.begin(len(names)) as process:
                turn.process = process
                try:
                    planned = self._plan(mesh, process.open(sealed), process)
                finally:
                    turn.process = None
        except DryRunFailed as failed:
            if turn.is_set():  # others wait, or the operator ends, and its processes with it
                return AT_ONCE
            return self._note_failed_dry_run(mesh, failed, sealed)
        if isinstance(planned, Next):
            return planned
        request, dry, items = planned
        if dry is None or dry.steps or any(ref_of(stored) not in dry.kept for stored in request.leaving):
            return self._run(request, mesh, turn, dry)  # the process of the dry run is gone
        self._writer.release([stored for stored in request.leaving if is_abandoned(stored)])
        return self._report(mesh, dry, items)

    def _plan(
        self, mesh: MeshObjects, clusters: Mapping[str, Usable | NotUsable], process: DryRunProcess
    ) -> Next | tuple[MeshRequest, DryRun | None, ItemParts]:
        """Return the request for a mesh, its dry run (None: there is something to do for sure) and the statuses of items that this found.

        Return what to do instead where there is no run.

        :raises DryRunFailed: when the process fails.
        """
        record = self._records.get(mesh.key)
        request = request_of(mesh, clusters, record, self._choices)
        if mesh.binding is None:
            self.memories.forget(mesh.key)
        if request is None:
            return Next(seconds=None)
        if isinstance(request, NoOp):
            self.memories.forget(mesh.key)
            self._writer.release(deleting(mesh))  # no cluster holds anything of it
            return Next(seconds=None)
        if isinstance(request, Wait):
            return self._hold(mesh, request, clusters)
        if request.absent and not any(isinstance(found, Usable) for found in clusters.values()):
            self._removal.give_up(mesh, deleting(mesh), request.unavailable)
            return Next(seconds=self._interval)
        self._put_finalizers(request, mesh)
        held = self.memories.recall(mesh.key).held
        if request.absent or (self._recent_good_links(request) and _items_changed(request, held)):
            return request, None, ItemParts()
        question = MeshQuestion(request)
        dry = process.dry_run(question)
        self._remember(request, dry.result if dry and dry.linked else None)
        return request, dry, question.items

    # Meshes without a run

    def _hold(self, mesh: MeshObjects, wait: Wait, clusters: Mapping[str, Any]) -> Next:
        for stored in all_of(mesh):
            if not stored.deleting:
                self._writer.status(stored, status_of_waiting(stored, wait, datetime.now(UTC)))
        self._removal.release_unremovable(mesh, clusters)
        since = parse_time(str(mesh.binding.obj["metadata"].get("creationTimestamp"))) if mesh.binding else None
        young = (datetime.now(UTC) - since).total_seconds() / 10 if since else WAITING
        return Next(seconds=min(max(SOONEST, young), WAITING, self._interval))

    def _hold_for(self, foreign: Record, mesh: MeshObjects) -> Next:
        """Report that nothing is done for a mesh because of a record of another source."""
        wait = Wait(phase="Error", reason=RECORD_OF_ANOTHER_SOURCE, message=HELD, standing=foreign.key == mesh.key)
        for stored in all_of(mesh):
            if not stored.deleting:
                self._writer.status(stored, status_of_waiting(stored, wait, datetime.now(UTC)))
        known = rows_of(mesh.binding.obj.get("status"), "conditions") if mesh.binding is not None else ()
        if mesh.binding is not None and not any(row.get("reason") == RECORD_OF_ANOTHER_SOURCE for row in known):
            self._event(mesh.binding, "Warning", RECORD_OF_ANOTHER_SOURCE, HELD)
        return Next(seconds=min(WAITING, self._interval))

    def _note_failed_dry_run(self, mesh: MeshObjects, failed: DryRunFailed, clusters: Mapping[str, Any]) -> Next:
        """Report a dry run that failed; the mesh is requeued later and later."""
        note_failed_dry_run(mesh.key, failed, self._metrics)
        self.memories.recall(mesh.key).good_links = None
        now = datetime.now(UTC)
        for stored in all_of(mesh):
            if not stored.deleting:
                self._writer.status(stored, status_of_failed_dry_run(stored, str(failed), now))
        if mesh.binding is not None:
            self._event(mesh.binding, "Warning", DRY_RUN_FAILED, str(failed))
        unread = {name: NotUsable(name=name, reason=DRY_RUN_FAILED, message=str(failed)) for name in clusters}
        self._removal.release_unremovable(mesh, unread | {name: found for name, found in clusters.items() if isinstance(found, NotUsable)})
        return Next(seconds=None, failed=True)

    def _refuse(self, mesh: MeshObjects, *, recorded: bool) -> bool:
        """Report objects beyond the bounds of the workspace, and return whether nothing can be done for the whole mesh.

        That is so if the binding is one of them, or an item that a run got: a run without it would remove its objects. So it is if
        there are objects that are not even known.
        """
        for stored in mesh.beyond:
            if not stored.deleting:
                self._writer.status(stored, status_of_refused(stored, datetime.now(UTC)))
        if not recorded:
            self._writer.release([stored for stored in mesh.beyond if stored.deleting])  # no cluster holds anything of it
        known_to_runs = [
            stored
            for stored in mesh.beyond
            if stored.key.kind == BINDING or BY_KIND[stored.key.kind].finalizer in finalizers_of(stored.obj)
        ]
        message = "The workspace has more objects than the operator takes from one."
        wait = Wait(phase="Pending", reason=QUOTA_EXCEEDED, message=message, standing=recorded)
        for stored in all_of(mesh) if known_to_runs or mesh.ignored else ():
            if not stored.deleting and not stored.beyond:
                self._writer.status(stored, status_of_waiting(stored, wait, datetime.now(UTC)))
        return bool(known_to_runs) or mesh.ignored

    def _report(self, mesh: MeshObjects, dry: DryRun, items: ItemParts) -> Next:
        self._withheld.take(mesh.key, dry.result)
        staying = (stored for stored in all_of(mesh) if not stored.deleting)
        self._writer.statuses(answered_statuses(staying, dry.result, items, datetime.now(UTC)), {})
        return self._next_check(mesh.key, dry.result, SOONEST if items.later else self._check_after(dry.result))

    def _next_check(self, key: MeshKey, result: Mapping[str, Any], otherwise: float) -> Next:
        """Return when the mesh is checked again: soon while its links come up."""
        pause = self.memories.recall(key).awaited.pause(str((result["status"].get("binding") or {}).get("phase")), time.monotonic())
        return Next(seconds=otherwise) if pause is None else Next(seconds=min(pause, self._interval), urgency=Urgency.FOLLOW_UP)

    # Runs

    def _recent_good_links(self, request: MeshRequest) -> GoodLinks | None:
        """Return the links of this request if they needed nothing within the check interval; the next check observes them again."""
        last_good = self.memories.recall(request.key).good_links
        return last_good if last_good and last_good.linked == request.linked and time.monotonic() < last_good.at + self._interval else None

    def _remember(self, request: MeshRequest, result: Mapping[str, Any] | None) -> None:
        memory = self.memories.recall(request.key)
        memory.good_links = None
        status = result["status"].get("binding") if result else None
        if result and status and status.get("phase") == "Connected":
            every = rows_of(result, "advice") or rows_of(result, "findings")
            found = tuple(row for row in every if not row.get("item"))[:MOST]  # a status has no more, and they stay in memory
            memory.good_links = GoodLinks(linked=request.linked, at=time.monotonic(), status=status, findings=found)

    def _run(self, request: MeshRequest, mesh: MeshObjects, turn: UnitTurn, dry: DryRun | None) -> Next:
        """Make the run, which waits for no link. Links that needed nothing a short while ago are left out: it is a second shorter then."""
        key, binding, last_good = request.key, mesh.binding, self._recent_good_links(request)
        was_new = self._was_never_carried_out(mesh)
        shown = self._show_run(request, mesh, dry, was_new=was_new)
        variables = {"cilium_mesh_lock_holder": self._holder, "mesh_connect_wait": False, **request.variables}
        variables["cilium_mesh_accept_incomplete"] = ["all"]  # statuses tell of items; a run fails if something was not written
        variables |= {"cilium_mesh_binding_status": last_good.status} if last_good else {}
        if dry is not None:  # it found every name and id
            variables.pop(ASSIGNS, None)
        if not request.absent and binding is not None:
            self._records.remember(key, binding.uid, (host for host in request.hosts if host not in request.unavailable))
        run_request = RunRequest(playbook="mesh", hosts=request.hosts, variables=variables, name=request.owner)
        run = run_unit(key, run_request, turn, runner=self._runner, metrics=self._metrics)
        if run.state is RunState.CANCELED:
            return AT_ONCE
        now, result = datetime.now(UTC), run.mesh_result
        if why := meaning_of(result).waiting:
            return self._come_back(request, mesh, why, shown)
        self._withheld.take(key, result)
        if result is not None and ASSIGNS in variables:
            result = while_assigning(result)
        if last_good and result is not None:  # the run did not observe the links
            found = [*last_good.findings, *rows_of(result, "findings")]
            result = {**result, "findings": found, "status": {**result["status"], "binding": last_good.status}}
        objects = (*filter(None, [binding]), *request.items)  # no item is good before its mesh
        failed = ((stored, status_of_failed_run(stored, run, now)) for stored in objects)
        self._writer.statuses(failed if result is None else answered_statuses(objects, result, run.items, now, shown), shown)
        self._removal.clean_up(request, mesh, run)
        if result is None:
            self.memories.recall(key).good_links = None
            if binding is not None:
                self._event(binding, "Warning", RUNNER_FAILED, f"the run ended as {run.state.value} in task {run.last_task or 'unknown'}")
            return Next(seconds=None, failed=True)
        changed, phase = bool(result.get("changed", True)), str((result["status"].get("binding") or {}).get("phase"))
        if was_new and not changed and phase not in GOOD:  # no cluster holds anything of it, and its deletion needs no run
            self._records.forget(key)
        if not last_good:
            self._remember(request, result)
            if changed:
                self.memories.recall(key).awaited.written(time.monotonic())
        later = last_good.at + self._interval - time.monotonic() if last_good else self._interval
        return self._next_check(key, result, max(0.0, min(SOONEST if run.items.later else self._check_after(result), later)))

    def _show_run(self, request: MeshRequest, mesh: MeshObjects, dry: DryRun | None, *, was_new: bool) -> dict[ObjectKey, Status]:
        """Write the statuses that hold while the run is at work, and return them by key.

        Of a mesh that is not connected, a run carries out items only if its links come up at once.
        """
        now, found = datetime.now(UTC), dict[ObjectKey, Status | None]()
        binding, stored_now = mesh.binding, {stored.key: stored for stored in all_of(mesh) if stored.missing_since is None and stored.url}
        leaving = stored_now.values() if request.absent else [stored for stored in request.leaving if stored.deleting]
        found |= {stored.key: status_of_removal(stored, now) for stored in leaving}
        if not request.absent and binding is not None:
            measured = status_of_result(binding, dry.result, now) if dry else None
            phase = str((measured or binding.obj.get("status") or {}).get("phase"))
            # Links that are up need not be the binding's, as before an adoption: it is not Connected while something is to be written.
            is_true = measured is not None and dry is not None and phase in GOOD and (dry.linked or phase != "Connected")
            found[binding.key] = measured if is_true else status_during_run(binding, now)
            if phase in GOOD or dry is None or was_new:  # else a dry run has read that the items go on waiting for the mesh
                anew = bool(request.variables.get("cilium_mesh_former"))  # items are removed from clusters that leave
                found |= {stored.key: status_during_run(stored, now, anew=anew) for stored in request.items}
        shown = {key: status for key, status in found.items() if status is not None and key in stored_now}
        self._writer.statuses(((stored_now[key], status) for key, status in shown.items()), {})
        return shown

    def _was_never_carried_out(self, mesh: MeshObjects) -> bool:
        """Return whether there was never a run for a mesh. A record alone may be lost; the finalizer is older than the first write, too."""
        binding = mesh.binding
        return self._records.get(mesh.key) is None and binding is not None and BY_KIND[BINDING].finalizer not in finalizers_of(binding.obj)

    def _check_after(self, result: Mapping[str, Any]) -> float:
        """Return the seconds until the next check. What the items ask for counts between SOONEST and the check interval."""
        return min(max(SOONEST, float(result.get("requeueSeconds", 60))), self._interval)

    def _come_back(self, request: MeshRequest, mesh: MeshObjects, why: str, shown: Mapping[ObjectKey, Status]) -> Next:
        """Try again soon after a run that met another run at the lock of the mesh. Good statuses stay; other objects are Pending."""
        self._metrics.errors.labels(ANOTHER_RUN).inc()
        wait, now = Wait(phase="Pending", reason=ANOTHER_RUN, message=why), datetime.now(UTC)
        for stored in all_of(mesh):
            before = stored.obj.get("status") or {}
            if not stored.deleting and not request.absent and (stored.key in shown or not before.get("phase")):
                status = before if before.get("phase") in GOOD else status_of_waiting(stored, wait, now)
                self._writer.status(stored, status, before=shown.get(stored.key))
        if mesh.binding is not None:
            self._event(mesh.binding, "Normal", ANOTHER_RUN, why)
        if request.absent:
            self._removal.give_up(mesh, deleting(mesh), request.unavailable)
        self.memories.recall(request.key).good_links = None
        return Next(seconds=RETRY_SECONDS)

    def _put_finalizers(self, request: MeshRequest, mesh: MeshObjects) -> None:
        for stored in (*request.items, *((mesh.binding,) if mesh.binding else ())):
            if not stored.deleting and not self._writer.is_guarded(stored):
                self._writer.set_finalizer(stored, wanted=True)


def _items_changed(request: MeshRequest, held: Container[str]) -> bool:
    """Return whether a run has something to do for items. ``held``: those whose objects the last run kept."""
    current = all(generation_of(s.obj) == (s.obj.get("status") or {}).get("observedGeneration") for s in request.items)
    return any(ref_of(stored) not in held for stored in request.leaving) or not current
