# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events in a tenant's workspace, if it permits them: the claim on ``events`` is optional, so nothing depends on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, ServerRefused, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import digest, one_line

from ..base.api import MANAGER, Api
from ..base.kinds import BY_KIND, VERSION
from ..base.log import log
from .stored import Stored

PAUSE: Final = 600.0  # seconds without a try in a workspace that has not accepted the claim
_KNOWN: Final = 4096  # Events whose count is kept


class EventRecorder:
    """Recorder of Events. Thread-safe enough: a count may be one short.

    :param api_for: returns the client for the URL of a virtual workspace.
    """

    def __init__(self, api_for: Callable[[str], Api], clock: Callable[[], float] = time.monotonic) -> None:
        self._api_for, self._clock = api_for, clock
        self._paused: dict[str, float] = {}  # workspace -> until
        self._counts: dict[str, int] = {}  # by the Event's name; since this process started, as the claim does not permit reading

    def record(self, stored: Stored, kind: str, reason: str, message: str) -> None:
        """Write an Event, or increase its count if the same object has it with the same reason. Raises nothing.

        :param kind: Normal or Warning.
        """
        workspace = stored.key.workspace
        try:
            if self._clock() >= self._paused.get(workspace, 0.0):
                self._write(stored, kind, reason, one_line(message, 1000))
        except Exception as error:  # an Event is optional; the status holds the same
            if isinstance(error, Forbidden) or (isinstance(error, ServerRefused) and error.status == 404):
                self._paused[workspace] = self._clock() + PAUSE
            log("event_not_written", workspace=workspace, error=error)

    def _write(self, stored: Stored, kind: str, reason: str, message: str) -> None:
        key, api = stored.key, self._api_for(stored.url)
        name = f"{key.name[:200].rstrip('.-')}.{digest(f'{stored.uid}|{reason}'.encode())[:16]}"
        collection = f"/clusters/{key.workspace}/api/v1/namespaces/{key.namespace}/events"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if len(self._counts) >= _KNOWN:
            self._counts.clear()
        count = self._counts.get(name, 0) + 1
        again = {"type": kind, "message": message, "count": count, "lastTimestamp": now}
        who = {
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": stored.uid,
            "apiVersion": f"{BY_KIND[key.kind].group}/{VERSION}",
        }
        first = {"reason": reason, "source": {"component": MANAGER}, "firstTimestamp": now}
        metadata = {"name": name, "namespace": key.namespace}
        # An API server fills in the kind of an object; the virtual workspaces of kcp answer 400 without it.
        event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": who, **first, **again}
        try:
            api.create(collection, event, manager=MANAGER)
        except WriteConflict:  # the Event exists; by default for an hour after its last write
            api.merge_patch(f"{collection}/{name}", again, manager=MANAGER)
        self._counts[name] = count
