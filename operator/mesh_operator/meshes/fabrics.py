# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of Fabrics, computed from those of their bindings. Nothing else is done for a Fabric, and no cluster is contacted.

A Fabric may name 255 bindings of 64 clusters, so they have a queue and a thread of their own, fair between workspaces as that of meshes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from ..base.keys import MeshKey, ObjectKey
from ..base.kinds import BINDING, BY_KIND, FABRIC
from ..base.log import log
from ..schedule.queue import FairQueue, Urgency
from ..source.status_patch import Status
from ..source.store import Store, Stored
from .status import status_of_fabric, status_of_refused

SOON: Final = 2.0  # seconds after a change: the statuses of several bindings often change together
NEW: Final = 0.3  # seconds, for a Fabric without a status
AGAIN: Final = 300.0  # seconds; what is shown of a binding gets out of date with time alone


class FabricRollUp:
    """Queue of the Fabrics whose statuses have to be computed, and what does it. Thread-safe.

    :ivar queue: Fabrics, by the key that a mesh of that name would have.
    """

    def __init__(self, store: Store, write: Callable[[Stored, Status], None], clock: Callable[[], float]) -> None:
        """Prepare the queue.

        :param write: writes a status, if it is worth it.
        :param clock: monotonic seconds.
        """
        self._store, self._write = store, write
        self.queue = FairQueue[MeshKey](workers=1, clock=clock)

    def changed(self, key: ObjectKey) -> None:
        """Take note that an object changed, its status included."""
        if key.kind == BINDING:
            for fabric in self._store.fabrics_of(key):
                self.queue.add_after(MeshKey(*fabric.key[1:]), SOON, Urgency.CHANGE)
        elif key.kind == FABRIC:
            found = self._store.get(key)
            is_new = found is not None and not found.obj.get("status")
            self.queue.add_after(MeshKey(*key[1:]), NEW if is_new else SOON, Urgency.CHANGE)

    def next(self, timeout: float) -> bool:
        """Compute the status of the next Fabric, and return whether there was one within the timeout. Raises nothing."""
        key = self.queue.get(timeout)
        if key is None:
            return False
        stored = self._store.get(ObjectKey(FABRIC, *key))
        try:
            if stored is not None and stored.missing_since is None:
                self._write(stored, self._status(stored))
        except Exception as error:  # one Fabric never stops the others'
            log("fabric_failed", workspace=key.workspace, namespace=key.namespace, name=key.name, error=error)
            self.queue.failed(key)
            return True
        self.queue.forget(key)
        self.queue.done(key)
        if stored is not None and stored.missing_since is None:
            self.queue.add_after(key, AGAIN)
        return True

    def _binding(self, key: ObjectKey) -> Stored | None:
        """Return a binding; None if there is none, or if it was being deleted and is gone."""
        found = self._store.get(key)
        return None if found is not None and found.gone else found

    def _status(self, stored: Stored) -> Status:
        if stored.beyond:
            return status_of_refused(stored, datetime.now(UTC))
        names = BY_KIND[FABRIC].names_of_bindings(stored.obj)
        place = (stored.key.workspace, stored.key.namespace)
        bindings = {name: self._binding(ObjectKey(BINDING, *place, name)) for name in names}
        return status_of_fabric(stored, bindings, datetime.now(UTC))
