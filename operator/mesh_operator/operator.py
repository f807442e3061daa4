# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Operator: its parts, put together and run until it is stopped: watches -> store -> queue -> workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread, current_thread
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.status_counts import StatusCounts

from .base.api import Connections
from .base.choices import PlatformChoices
from .base.keys import FleetKey, MeshKey, ObjectKey
from .base.kinds import BINDING, FLEET_ROWS, WORKLOAD
from .base.log import log
from .base.serve import Metrics
from .base.settings import Settings
from .base.workspace_bounds import WorkspaceBounds
from .credentials.clusters import RESOLVING, Clusters
from .credentials.namespace_clusters import NamespaceClusters
from .credentials.tenant_addresses import DeniedNetworks
from .first_status import FirstStatuses
from .fleets.side import FleetSide
from .meshes.fabrics import FabricRollUp
from .meshes.foreign_records import ForeignRecords
from .meshes.orphans import OrphanTracker
from .meshes.reconcile import Reconciler
from .meshes.records import Records
from .runs.confined.process import ConfinedProcesses
from .runs.dry_runs import HANDLER, Bounds, DryRuns, Permits
from .runs.runner import HANDLER as PLAYBOOKS
from .runs.runner import Runner, settings_of_runs
from .schedule.queue import FairQueue, Urgency
from .schedule.unit_turns import Next
from .source.endpoint_watches import EndpointWatches
from .source.events import EventRecorder
from .source.namespaces import NamespaceTenants, workspace_of, workspace_of_label
from .source.resource_writer import ResourceWriter
from .source.resources import finalizers_of
from .source.source_identity import SourceIdentity, uid_of_cluster, uid_of_export
from .source.store import Store
from .source.watch import Watcher

Object = dict[str, Any]

Key = MeshKey | FleetKey
TENDING: Final = 2.0  # seconds between two rounds
ENDING: Final = 0.5  # seconds between two searches for turns that have to end
GATHERING: Final = 0.5  # seconds after the first object of a new mesh: items that come with their binding share its first run
STOPPING: Final = 15.0  # seconds that workers have to end; a run that is cancelled ends within some of them
HANG_MARGIN: Final = 300.0  # seconds beyond the longest credentials, dry run and run after which a worker that is busy with one mesh hangs


class Operator:
    """Work of one leader, done once: ``work`` returns after ``stop`` is set."""

    def __init__(
        self,
        settings: Settings,
        kcp: Connections,
        mgmt: Connections,
        metrics: Metrics,
        stop: Event,
        fleet: Connections | None = None,
        karmada: Connections | None = None,
    ) -> None:
        """Prepare the operator.

        :param kcp: the source of custom resources; with ``--source kubernetes`` the management plane itself.
        :param fleet: the source of those of fleets, if it is another one.
        :param karmada: None without the kinds of fleets.
        """
        self._settings, self._kcp, self._mgmt, self.metrics, self.stop = settings, kcp, mgmt, metrics, stop
        self._in_kcp = settings.source == "kcp"
        identity = (
            SourceIdentity(kcp, partial(uid_of_export, export=settings.api_export_name))
            if self._in_kcp
            else SourceIdentity(mgmt, uid_of_cluster, workspace_of)
        )
        source: Connections | NamespaceTenants = kcp if self._in_kcp else NamespaceTenants(mgmt, identity)
        self._karmada = karmada
        self._connections = [one for one in (kcp, mgmt, fleet, karmada) if one is not None]
        self._queue = FairQueue[Key](
            per_workspace=settings.max_runs_per_workspace,
            workers=settings.max_runs,
            clock=time.monotonic,
            waited=metrics.waited,
            took=metrics.took,
        )
        bounds = WorkspaceBounds(
            objects=settings.max_objects_per_workspace,
            bytes=settings.max_bytes_per_workspace,
            bindings=settings.max_bindings_per_workspace,
            fabrics=settings.max_fabrics_per_workspace,
            clusters=settings.max_clusters_per_workspace,
            items=settings.max_items_per_mesh,
            total_bytes=settings.max_bytes,
        )
        self._store = Store(self._changed, time.monotonic, bounds)
        self._endpoints = EndpointWatches(settings, source, fleet or kcp if self._in_kcp else source, self._store)
        namespace = settings.namespace or settings.mgmt_namespace
        self._records = Records(mgmt.own(), namespace, identity)
        self._foreign = ForeignRecords(self._records, settings.take_over_records)
        self._clusters = Clusters(
            mgmt.own(),
            settings.mgmt_namespace,
            self._touched,
            unlabelled=settings.allow_unlabelled_secrets,
            by_name=settings.mgmt_match.partition("=")[2],
            workspace_of_label=str if self._in_kcp else lambda label: workspace_of_label(identity(), label),
        )
        self._processes = ConfinedProcesses(HANDLER, PLAYBOOKS, settings_of_runs)
        denied = DeniedNetworks(
            settings.denied_addresses, lambda: tuple(address for one in self._connections for address in one.addresses())
        )
        permits = Permits(
            networks=settings.allowed_addresses,
            domains=settings.endpoint_domains,
            denied=denied,
            annotations=settings.allowed_annotations,
        )
        self._bounds = Bounds(deadline=settings.dry_run_timeout, memory=settings.dry_run_memory * 1024 * 1024)
        self._counts = StatusCounts()
        self._absence = OrphanTracker(settings.orphan_grace)
        self._runner = Runner(self._processes, job_timeout=int(settings.job_timeout), idle_timeout=int(settings.idle_timeout))
        event = EventRecorder(self._endpoints.api_at).record
        writer = ResourceWriter(self._endpoints.api_at, event, settings.provider_finalizer)
        self._secrets = None if self._in_kcp else NamespaceClusters(mgmt.own(), self._clusters, settings.mgmt_namespace, self._touched)
        dry_runs = DryRuns(self._processes, self._bounds, metrics, permits)
        self._fleets = (
            FleetSide(
                settings=settings,
                karmada=karmada,
                mgmt=mgmt.own(),
                store=self._store,
                clusters=self._secrets or self._clusters,
                dry_runs=dry_runs,
                runner=self._runner,
                writer=writer,
                api_at=self._endpoints.api_at,
                cancel=self.stop,
                clusters_listed=self._are_clusters_listed,
                metrics=metrics,
                event=event,
                touched=self._queue.add_after,
            )
            if karmada
            else None
        )
        self._reconciler = Reconciler(
            store=self._store,
            clusters=self._secrets or self._clusters,
            dry_runs=dry_runs,
            records=self._records,
            runner=self._runner,
            writer=writer,
            cancel=self.stop,
            clusters_listed=self._are_clusters_listed,
            teardown_deadline=settings.teardown_deadline,
            check_interval=settings.mesh_check_interval,
            metrics=metrics,
            event=event,
            holder=f"mesh-operator {settings.node_id}",
            choices=PlatformChoices(
                job_probes=settings.job_probes,
                probe_image=settings.probe_image,
                assign_identities=settings.assign_identities,
                permitted=settings.permitted,
            ),
        )
        self._fabrics = FabricRollUp(self._store, writer.status, time.monotonic)
        self._first_statuses = FirstStatuses(self._store, writer, time.monotonic, fleets=karmada is not None)
        self._workers: list[Thread] = []
        self._busy_since: dict[str, float] = {}  # by name of the worker
        self._stopped_at = 0.0

    def work(self) -> None:
        """Sweep the folders of a dead operator, read the records, watch, reconcile; at the end cancel the runs and wait for them.

        Returns after ``STOPPING`` seconds at the latest when it is stopped; see ``hangs``.
        """
        self.metrics.leader.set(1)
        self._processes.start()  # it imports the engine while the lists are read
        log("swept", count=self._runner.sweep())
        self._records.load()
        plural, version, group = self._settings.mgmt_cluster_resource.split(".", 2)
        place = f"namespaces/{self._settings.mgmt_namespace}"
        own, clusters, secrets = self._mgmt.own(), f"/apis/{group}/{version}/{place}/{plural}", f"/api/v1/{place}/secrets"
        Watcher(own, clusters, self._clusters.objects, self.stop, clock=time.monotonic).start()
        Watcher(own, secrets, self._clusters.secrets, self.stop, clock=time.monotonic, metadata_only=True).start()
        self._endpoints.start(self.stop)
        if self._fleets is not None:
            for watcher in self._fleets.watchers(self.stop):
                watcher.start()
        workers = [Thread(target=self._reconcile, name=f"worker-{n}") for n in range(self._settings.max_runs)]
        workers.append(Thread(target=self._repeat, args=(self._fabrics.next,), name="fabrics"))
        workers.append(Thread(target=self._repeat, args=(self._first_statuses.next,), name="first statuses"))
        if self._secrets is not None:
            workers.append(Thread(target=self._repeat, args=(partial(self._poll, self._secrets),), name="secrets"))
        if self._fleets is not None:
            workers.append(Thread(target=self._repeat, args=(partial(self._search_orphans, self._fleets),), name="orphans"))
        for thread in workers:
            thread.start()
        self._workers = workers  # for the probes, which ask whether each is alive
        try:
            tended = 0.0
            while not self.stop.wait(min(ENDING, TENDING)):
                self._end_turns()
                if time.monotonic() - tended >= TENDING:
                    tended = time.monotonic()
                    self._tend()
        finally:  # also after a defect: workers that go on alone would keep a process that is no operator any more
            self.stop.set()
            self._queue.close()
            self._processes.close()  # dry runs and runs under way end, and their workers return
            self._fabrics.queue.close()
            self._first_statuses.queue.close()
            until = time.monotonic() + STOPPING
            for thread in self._workers:
                thread.join(max(0.0, until - time.monotonic()))

    def hangs(self) -> bool:
        """Return whether a worker goes on although the operator was stopped. Only the end of the process ends it."""
        return self.stop.is_set() and any(thread.is_alive() for thread in self._workers)

    def alive(self) -> tuple[bool, list[str]]:
        """Return whether the process is alive, with sentences that say what is wrong.

        A worker that ended by itself or hangs is a defect, and kubeconfigs are read at the start: a new process is the remedy of all. An
        operator that was stopped has some seconds to end.
        """
        now = time.monotonic()
        if self.stop.is_set():
            self._stopped_at = self._stopped_at or now
            late = now - self._stopped_at > 2 * STOPPING
            return not late, ["the operator was stopped, and has not ended"] * late
        longest = self._settings.job_timeout + self._bounds.longest + RESOLVING + HANG_MARGIN
        hung = [name for name, since in list(self._busy_since.items()) if now - since > longest]
        ended = ["a part of the operator has ended, or hangs"] * (not all(thread.is_alive() for thread in self._workers))
        busy = [f"{name} has been busy with one mesh for more than {longest:.0f} s" for name in hung]
        outdated = [sentence for one in self._connections for sentence in one.outdated()]
        missing = list(dict.fromkeys([*ended, *busy, *outdated]))
        return not missing, missing

    def ready(self) -> tuple[bool, list[str]]:
        """Return whether every URL and kind has been listed once and is not out of reach, with sentences that say what is missing.

        A replica that waits for the lead counts as ready.
        """
        if not self._workers:
            return True, []
        waiting = self._endpoints.waiting()
        return not waiting, waiting

    # What comes in

    def _changed(self, key: ObjectKey, before: Object | None, after: Object | None) -> None:
        self._fabrics.changed(key)
        self._first_statuses.changed(key, after)
        if self._fleets is not None:
            self._fleets.changed(key, before, after)
        if before is not None and after is not None and _requested(before) == _requested(after):
            return  # only the status or a field of another writer changed
        for obj in (before, after):
            for mesh in self._store.meshes_of(key, obj) if obj is not None else ():
                binding = self._store.get(ObjectKey(BINDING, *mesh))
                is_new = binding is not None and not binding.deleting and not finalizers_of(binding.obj)
                self._queue.add_after(mesh, GATHERING if is_new else 0.0, Urgency.CHANGE)

    def _poll(self, secrets: NamespaceClusters, _timeout: float) -> bool:
        """Look for changes of the Secrets of all namespaces with meshes, once in the reconcile interval."""
        meshes = ((mesh.workspace, mesh.namespace) for mesh in self._store.meshes())
        secrets.poll(dict.fromkeys((*meshes, *(self._store.tenants() if self._fleets is not None else ()))), self.stop.is_set)
        return not self.stop.wait(self._settings.reconcile_interval)

    def _search_orphans(self, fleets: FleetSide, _timeout: float) -> bool:
        """Search for tenants without a custom resource. It asks Karmada, for which the main thread, which ends turns, must not wait."""
        if self._endpoints and self.ready()[0] and self._store.serves(*(row.kind for row in FLEET_ROWS)):
            fleets.search_orphans(time.monotonic())
        return not self.stop.wait(TENDING)

    def _touched(self, workspace: str) -> None:
        for mesh in self._store.meshes():
            if mesh.workspace == workspace:
                self._queue.add(mesh, Urgency.CHANGE)
        if self._fleets is not None:
            self._fleets.touch(workspace)

    # What goes out

    def _reconcile(self) -> None:
        while not self.stop.is_set():
            key = self._queue.get(timeout=1.0)
            if key is not None:
                self._busy_since[current_thread().name] = time.monotonic()
                with self.metrics.reconciling():
                    found = self._reconciled(key)
                del self._busy_since[current_thread().name]
                unit = key.name if isinstance(key, FleetKey) else BINDING
                self.metrics.reconciles.labels(unit, "failed" if found.failed else "done").inc()
                self._schedule(key, found)

    def _reconciled(self, key: Key) -> Next:
        if isinstance(key, MeshKey):
            return self._reconciler.reconcile(key)
        return self._fleets.reconciler.reconcile(key) if self._fleets is not None else Next(seconds=None)

    def _repeat(self, step: Callable[[float], bool]) -> None:
        while not self.stop.is_set():
            step(1.0)

    def _schedule(self, key: Key, found: Next) -> None:
        if found.failed:
            self._queue.failed(key)
            return
        self._queue.forget(key)
        self._queue.done(key)
        if found.seconds is not None:
            self._queue.add_after(key, found.seconds, found.urgency)

    def _end_turns(self) -> None:
        """End turns that turned out slow while others wait, and those that make what is to be removed."""
        lasting = [key for key in self._queue.lasting() if isinstance(key, MeshKey) and self._reconciler.is_outdated(key)]
        for key in (*self._queue.overdue(), *lasting):
            if isinstance(key, MeshKey):
                self._reconciler.end_turn(key)
            elif self._fleets is not None:
                self._fleets.reconciler.end_turn(key)

    def _tend(self) -> None:
        """Update metrics, and meshes that have lost their resource, from time to time."""
        now, listed = time.monotonic(), self.ready()[0]
        kinds = self._endpoints.kinds
        self._store.check_bounds()
        self.metrics.show(
            endpoints=len(self._endpoints),
            queued=len(self._queue),
            unlabelled=self._clusters.report_unlabelled(),
            objects={kind: self._store.count(kind) for kind in kinds},
            beyond={kind: self._store.beyond(kind) for kind in kinds},
            ignored={kind: self._store.workspaces_ignored(kind) for kind in kinds},
            foreign=self._foreign.counts,
            states=self._counts.of(stored.obj for kind in (BINDING, WORKLOAD) for stored in self._store.of_kind(kind)),
            ages={kind: self._endpoints.age(kind, now) for kind in kinds},
        )
        if listed and self._endpoints:
            found = self._absence.orphans(self._foreign.own(now), self._store, now) if self._store.serves(BINDING) else []
            known, self._reconciler.orphaned = self._reconciler.orphaned, frozenset(record.key for record in found)
            for key in self._reconciler.orphaned - known:
                self._queue.add(key, Urgency.RESYNC)

    def _are_clusters_listed(self) -> bool:
        """Return whether the management plane is listed, and it is known from which URLs objects come."""
        return self._clusters.objects.listed and self._endpoints.known


def _requested(obj: Object) -> tuple[Any, ...]:
    """Return the fields of an object that its users request, without its status and finalizers."""
    metadata = obj["metadata"]
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key.startswith("networking.edge-portal.eu/")}
    return metadata.get("uid"), metadata.get("generation"), metadata.get("deletionTimestamp"), kept
