# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of Fabrics, computed from those of their bindings. Nothing else is done for a Fabric, and no cluster is contacted.

They have a queue and a thread of their own, fair between workspaces as that of meshes. A Fabric may name 255 bindings with thousands of
links each: a binding is counted when it changes, so that a Fabric costs the leader no more than a line for each of its bindings.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.fabric import BindingRow

from ..base.keys import MeshKey, ObjectKey
from ..base.kinds import BINDING, BY_KIND, FABRIC
from ..base.log import log
from ..schedule.queue import FairQueue, Urgency
from ..source.status_patch import Status
from ..source.store import Store
from ..source.stored import Stored
from .status import row_of_binding, status_of_fabric, status_of_refused

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
        self._rows: dict[ObjectKey, tuple[Stored, BindingRow]] = {}  # bindings as they were counted last

    def changed(self, key: ObjectKey) -> None:
        """Take note that an object changed, its status included."""
        if key.kind == BINDING:
            self._rows.pop(key, None)
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
            else:  # no Fabric may ask for its bindings any more
                self._rows = {binding: row for binding, row in self._rows.items() if self._store.get(binding) is row[0]}
        except Exception as error:  # one Fabric never stops the others'
            log("fabric_failed", workspace=key.workspace, namespace=key.namespace, name=key.name, error=error)
            self.queue.failed(key)
            return True
        self.queue.forget(key)
        self.queue.done(key)
        if stored is not None and stored.missing_since is None:
            self.queue.add_after(key, AGAIN)
        return True

    @property
    def remembered(self) -> int:
        """How many bindings are remembered as they were counted."""
        return len(self._rows)

    def _row(self, key: ObjectKey) -> BindingRow:
        """Return a binding, counted when it has changed. One that was being deleted and is gone counts as none."""
        found = self._store.get(key)
        binding = None if found is not None and found.gone else found
        before = self._rows.get(key)
        if binding is not None and before is not None and before[0] is binding:
            return before[1]
        row = row_of_binding(key.name, binding)
        if binding is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (binding, row)
        return row

    def _status(self, stored: Stored) -> Status:
        if stored.beyond:
            return status_of_refused(stored, datetime.now(UTC))
        names = BY_KIND[FABRIC].names_of_bindings(stored.obj)
        place = (stored.key.workspace, stored.key.namespace)
        rows = [self._row(ObjectKey(BINDING, *place, name)) for name in dict.fromkeys(names)]
        return status_of_fabric(stored, rows, datetime.now(UTC))
