# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes to custom resources: statuses and the operator's own finalizers, only to the object that was read and to none that is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.api import MANAGER, Api
from ..base.kinds import BINDING, BY_KIND
from .resources import finalizers_of, path_of
from .status_patch import Status, patch_of, worth_writing
from .stored import Stored

AT_ONCE: Final = 8  # writes of one mesh side by side
EVENTS: Final = 5  # about findings that are new in one status
TRIES: Final = 3  # of one write that meets another writer's
_ALARMING: Final = ("blocking", "outage")  # severities of findings whose Event is a Warning

Event = Callable[[Stored, str, str, str], None]
"""Callback that records an Event: object, Normal or Warning, reason, message."""


class ResourceWriter:
    """Writer of statuses and finalizers. Thread-safe.

    :param api_at: returns the client for the URL of a virtual workspace.
    :param replaced: finalizers of a provider that was stopped for good. The operator's own takes their place in one write.
    """

    def __init__(self, api_at: Callable[[str], Api], event: Event, replaced: Iterable[str] = ()) -> None:
        self._api_at, self._event, self._replaced = api_at, event, frozenset(replaced)

    def status(self, stored: Stored, status: Status | None, *, before: Mapping[str, Any] | None = None) -> None:
        """Write a status, if it says something new, and an Event if the phase is another one.

        :param before: the status that the object has now, if ``stored`` is older.
        :raises WriteConflict: when other writers change the object all the time.
        :raises ClusterError: when kcp does not answer, or refuses.
        """
        before = stored.obj.get("status") if before is None else before
        if status is None or not worth_writing(before, status, datetime.now(UTC)):
            return
        if not self._write(stored, status):
            return
        if (before or {}).get("phase") != status.get("phase"):
            kind = "Normal" if status.get("phase") not in ("Error", "Degraded") else "Warning"
            self._event(stored, kind, str(status.get("phase")), f"phase is {status.get('phase')}")
        known = {row.get("code") for row in rows_of(before, "findings")}
        for row in [row for row in status.get("findings") or () if row["code"] not in known][:EVENTS]:
            about = f"{row['code']} {row.get('cluster', '')}: {row.get('summary', '')}"
            kind = "Warning" if row.get("severity") in _ALARMING else "Normal"
            self._event(stored, kind, f"Finding{row['code'].replace('-', '')}", about)

    def statuses(self, wanted: Iterable[tuple[Stored, Status | None]], before: Mapping[Any, Mapping[str, Any]]) -> None:
        """Write the statuses of one mesh side by side. Every write is tried before an error is raised; raises as ``status``.

        :param wanted: asked for one status after the other, so that no more than AT_ONCE of them are there at a time.
        :param before: by key, statuses that are newer than those of the stored objects.
        """
        writes, failures = deque[Future[None]](), list[BaseException | None]()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for stored, status in wanted:
                if status is not None:
                    writes.append(pool.submit(self.status, stored, status, before=before.get(stored.key)))
                if len(writes) == AT_ONCE:
                    failures.append(writes.popleft().exception())
            failures += [write.exception() for write in writes]
        for failure in filter(None, failures):
            raise failure

    def first_status(self, stored: Stored, status: Status) -> None:
        """Write a status to an object that has none, and leave every other one alone: a worker was quicker. Raises as ``status``."""
        self._write(stored, status, unless=lambda current: bool((current.get("status") or {}).get("phase")))

    def _write(self, stored: Stored, status: Status, unless: Callable[[Mapping[str, Any]], bool] = lambda _current: False) -> bool:
        """Write a status, and return whether the object is there to have it."""
        api = self._api_at(stored.url)
        for attempt in range(TRIES):
            current = api.get(path_of(stored))
            if current is None or current["metadata"].get("uid") != stored.uid or unless(current):
                return False
            body = {
                "metadata": {"resourceVersion": current["metadata"]["resourceVersion"]},
                "status": patch_of(current.get("status") or {}, status),
            }
            try:
                api.merge_patch(f"{path_of(stored)}/status", body, manager=MANAGER)
                return True
            except WriteConflict:  # a finalizer or the spec changed in between; no other process writes the status
                if attempt == TRIES - 1:
                    raise
        return False

    def release(self, going: Iterable[Stored]) -> None:
        """Remove the operator's finalizers, that of the binding last. Objects that are gone already need no request.

        :raises ClusterError: as ``status``.
        """
        for stored in sorted(going, key=lambda entry: entry.key.kind == BINDING):
            if stored.missing_since is None and BY_KIND[stored.key.kind].finalizer in finalizers_of(stored.obj):
                self.set_finalizer(stored, wanted=False)

    def is_guarded(self, stored: Stored) -> bool:
        """Return whether an object has the operator's own finalizer, and none that it replaces."""
        found = finalizers_of(stored.obj)
        return BY_KIND[stored.key.kind].finalizer in found and self._replaced.isdisjoint(found)

    def set_finalizer(self, stored: Stored, *, wanted: bool) -> bool:
        """Set or remove the operator's own finalizer, if the object still has the same uid, and return whether it is there to have it.

        Finalizers that it replaces are removed with the same write, so the object is never without one. Others' finalizers stay.

        :raises ClusterError: as ``status``.
        """
        api, finalizer = self._api_at(stored.url), BY_KIND[stored.key.kind].finalizer
        current = api.get(path_of(stored))
        if current is None or current["metadata"].get("uid") != stored.uid:
            return False  # the object is gone, and needs no finalizer
        kept = [entry for entry in finalizers_of(current) if entry != finalizer and entry not in self._replaced]
        metadata = {
            "finalizers": kept + ([finalizer] if wanted else []),
            "resourceVersion": current["metadata"]["resourceVersion"],
        }
        api.merge_patch(path_of(stored), {"metadata": metadata}, manager=MANAGER)
        return True
