# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The fleet side of the operator, put together: its reconciler, the watches of Karmada, and which unit a change concerns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from logging import WARNING
from threading import Event
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import text

from ..base.api import MANAGER, Api, Connections
from ..base.cancel import Cancel
from ..base.keys import FleetKey, ObjectKey
from ..base.kinds import BINDING, METRICS, REVISION, UNITS, WORKLOAD
from ..base.log import log
from ..base.serve import Metrics
from ..base.settings import Settings
from ..credentials.clusters import ClusterSource
from ..credentials.own_kubeconfigs import whole_kubeconfig
from ..runs.dry_runs import DryRuns
from ..runs.runner import Runner
from ..schedule.queue import Urgency
from ..source.resource_writer import Event as Recorded
from ..source.resource_writer import ResourceWriter
from ..source.store import Store
from ..source.watch import Watcher
from .answers import FleetAnswers
from .karmada_watch import BINDINGS, CLUSTERS, FleetOrphans, KarmadaBindings, KarmadaClusters
from .reconcile import FleetReconciler
from .request import ABANDON, Planes, connected_by

GATHERING: Final = 0.2  # seconds after a change: objects that come together share their turn
IDENTITY: Final = "fleet-operator"
"""ConfigMap in the operator's namespace whose uid marks what it makes in Karmada."""

SETTLING: Final = 0.7  # seconds after a change in Karmada, of which a rollout makes many

Object = dict[str, Any]
Touched = Callable[[Any, float, Urgency], None]
"""Callback with a unit, the seconds until its turn, and the urgency."""


class FleetSide:
    """Fleet side of the operator.

    :ivar reconciler: of its units.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        karmada: Connections,
        mgmt: Api,
        store: Store,
        clusters: ClusterSource,
        dry_runs: DryRuns,
        runner: Runner,
        writer: ResourceWriter,
        api_at: Callable[[str], Api],
        cancel: Cancel,
        clusters_listed: Callable[[], bool],
        metrics: Metrics,
        event: Recorded,
        touched: Touched,
    ) -> None:
        """Prepare everything. ``touched`` is called with a unit whose turn should come. ``mgmt`` has the operator's namespace."""
        self._settings, self._karmada, self._store, self._touched = settings, karmada, store, touched
        self._mgmt, self._uid = mgmt, ""
        self._orphans = FleetOrphans(karmada.own(), settings.orphan_grace)
        # Clusters are made only where they have the kind for which the engine writes.
        self._makes_clusters = settings.source == "kcp" and settings.mgmt_cluster_resource == Settings.mgmt_cluster_resource
        self.reconciler = FleetReconciler(
            store=store,
            clusters=clusters,
            dry_runs=dry_runs,
            runner=runner,
            writer=writer,
            answers=FleetAnswers(store, api_at),
            planes=self._planes,
            cancel=cancel,
            clusters_listed=clusters_listed,
            teardown_deadline=settings.teardown_deadline,
            check_interval=settings.mesh_check_interval,
            metrics=metrics,
            event=event,
        )

    def _planes(self) -> Planes:
        management = whole_kubeconfig(self._settings.mgmt_kubeconfig, "--mgmt-kubeconfig") if self._makes_clusters else None
        karmada = whole_kubeconfig(self._settings.karmada_kubeconfig, "--karmada-kubeconfig")
        return Planes(
            karmada=karmada,
            management=management,
            namespace=self._settings.mgmt_namespace,
            operator=self._identity(),
            max_evictions=self._settings.max_evictions,
        )

    def _identity(self) -> str:
        """Return the uid of an object of the operator's own, which no restart changes and no other operator has."""
        if not self._uid:
            path = f"/api/v1/namespaces/{self._settings.namespace or self._settings.mgmt_namespace}/configmaps"
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": IDENTITY}}
            self._uid = text(self._mgmt.get(f"{path}/{IDENTITY}") or self._mgmt.create(path, made, manager=MANAGER), "metadata", "uid")
        return self._uid

    def watchers(self, stop: Event) -> Iterator[Watcher]:
        """Yield the watches of Karmada, to be run until ``stop`` is set."""

        def touched(key: FleetKey) -> None:
            self._touched(key, max(SETTLING, self.reconciler.rest(key)), Urgency.CHANGE)

        bindings, clusters = KarmadaBindings(self._store.tenants, touched), KarmadaClusters(touched)
        yield Watcher(self._karmada.own(), BINDINGS, bindings, stop, clock=time.monotonic, metadata_only=True)
        yield Watcher(self._karmada.own(), CLUSTERS, clusters, stop, clock=time.monotonic)

    def changed(self, key: ObjectKey, before: Object | None, after: Object | None) -> None:
        """Take note that a custom resource changed, and let the units that it concerns have their turn soon."""
        if key.kind == BINDING:
            if connected_by(before) != connected_by(after):  # placements may ask for clusters that a mesh has connected
                self._add(FleetKey(key.workspace, key.namespace, WORKLOAD))
            return
        if before is not None and after is not None and _requested(before) == _requested(after):
            return  # only a status or another writer's field
        for unit in self._store.units_of(key):
            self._add(unit)
        if key.kind in (REVISION, METRICS) and after is None:  # an answer that was deleted is made again
            for name in UNITS:
                self._add(FleetKey(key.workspace, key.namespace, name))

    def touch(self, workspace: str) -> None:
        """Let all units of a workspace have their turn, as the management plane changed."""
        for place in self._store.tenants():
            if place[0] == workspace:
                for name in UNITS:
                    self._add(FleetKey(*place, name))

    def search_orphans(self, now: float) -> None:
        """Find tenants in Karmada without a custom resource of workloads, and let what is left of these be removed."""
        if now < self._orphans.due:
            return
        kept = [place for place in self._store.tenants() if any(map(self._store.tenant(*place).of, UNITS[WORKLOAD].kinds))]
        found = self._orphans.search(kept, self._identity, now)
        if found is not None:
            known, self.reconciler.orphaned = self.reconciler.orphaned, found
            for key in found - known:
                log("fleet_orphaned", level=WARNING, workspace=key.workspace, namespace=key.namespace, name=key.name)
                self._touched(key, 0.0, Urgency.RESYNC)

    def _add(self, key: FleetKey) -> None:
        self._touched(key, GATHERING, Urgency.CHANGE)


def _requested(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields of an object that its users request."""
    metadata = obj["metadata"]
    abandoned = (metadata.get("annotations") or {}).get(ABANDON)
    return metadata.get("uid"), metadata.get("generation"), metadata.get("deletionTimestamp"), abandoned
