# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""First statuses of new objects, whatever the workers do: nothing is read from a cluster for them.

They have a queue and a thread of their own, fair between workspaces as that of meshes. An object that has a status keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from .base.keys import FleetKey, MeshKey, ObjectKey
from .base.kinds import BY_KIND, CLUSTER, FABRIC
from .base.log import log
from .fleets.status import first_fleet_status
from .meshes.status_in_progress import first_status_of
from .schedule.queue import FairQueue, Urgency
from .source.resource_writer import ResourceWriter
from .source.resources import all_of
from .source.store import Store
from .source.stored import Stored

SOON: Final = 0.3  # seconds after an object came: those that come together are done together
NOT_LISTED: Final = 1.0  # seconds until the next try while an object that exists may be unknown
A_TURN: Final = 16  # objects of one mesh in one turn, so that no workspace keeps the others waiting


class FirstStatuses:
    """Queue of meshes with objects without a status, and what writes these. Thread-safe.

    :ivar queue: meshes.
    """

    def __init__(self, store: Store, writer: ResourceWriter, clock: Callable[[], float], *, fleets: bool = False) -> None:
        """Prepare the queue.

        :param clock: monotonic seconds.
        :param fleets: whether objects of fleets have a status of the operator's.
        """
        self._store, self._writer, self._fleets = store, writer, fleets
        self.queue = FairQueue[MeshKey | FleetKey](workers=1, clock=clock)

    def changed(self, key: ObjectKey, obj: dict[str, Any] | None) -> None:
        """Take note that an object changed."""
        if obj is None or key.kind == FABRIC or _has_status(obj):
            return
        if self._fleets:
            for unit in self._store.units_of(key)[:1]:
                self.queue.add_after(unit, SOON, Urgency.CHANGE)
        for mesh in self._store.meshes_of(key, obj) if key.kind != CLUSTER else ():
            self.queue.add_after(mesh, SOON, Urgency.CHANGE)

    def next(self, timeout: float) -> bool:
        """Write the statuses for the next mesh, and return whether there was one within the timeout. Raises nothing."""
        key = self.queue.get(timeout)
        if key is None:
            return False
        try:
            again = self._write(key)
        except Exception as error:  # one mesh never stops the others'
            log("first_status_failed", workspace=key.workspace, namespace=key.namespace, name=key.name, error=error)
            self.queue.failed(key)
            return True
        self.queue.forget(key)
        self.queue.done(key)
        if again is not None:
            self.queue.add_after(key, again, Urgency.CHANGE)
        return True

    def _write(self, key: MeshKey | FleetKey) -> float | None:
        """Write some statuses, and return the seconds until there is more to do; None when there is nothing more."""
        if isinstance(key, FleetKey):
            return self._write_fleet(key)
        mesh = self._store.mesh(key)
        found = [stored for stored in (*all_of(mesh), *mesh.beyond) if _is_new(stored)]
        if found and not mesh.listed:  # of a workspace with far too many objects the turns of its meshes say so
            return None if mesh.ignored else NOT_LISTED
        for stored in found[:A_TURN]:
            self._writer.first_status(stored, first_status_of(stored, mesh, datetime.now(UTC)))
        return SOON if len(found) > A_TURN else None

    def _write_fleet(self, key: FleetKey) -> float | None:
        tenant, now = self._store.tenant(key.workspace, key.namespace), datetime.now(UTC)
        statuses = [
            (stored, first_fleet_status(stored, now)) for stored in tenant.objects if BY_KIND[stored.key.kind].units and _is_new(stored)
        ]
        found = [(stored, status) for stored, status in statuses if status is not None]
        for stored, status in found[:A_TURN]:
            self._writer.first_status(stored, status)
        return SOON if len(found) > A_TURN else None


def _is_new(stored: Stored) -> bool:
    return stored.missing_since is None and not stored.deleting and not _has_status(stored.obj)


def _has_status(obj: dict[str, Any]) -> bool:
    return bool((obj.get("status") or {}).get("phase"))
