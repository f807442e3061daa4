# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""List and watch of one resource at one URL, until it is stopped: pages, bookmarks, 410, 404 (not served), cuts, relists."""

from __future__ import annotations

import random as chance
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final, Protocol

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Defect, MeshError, ServerRefused
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import number
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Object

LONGEST: Final = (240.0, 300.0)  # seconds of one watch, drawn anew each time, so that they do not all begin again at once
BACKOFF: Final = (1.0, 60.0)  # seconds after a failure: the first, and the most
UNSERVED: Final = (2.0, 30.0)  # seconds between lists of a resource that is not served
PAUSE: Final = (0.1, 1.0)  # seconds between two watches
PATIENCE: Final = 3  # failures in a row, after which the version is given up and all is listed again
GONE: Final = (404, 410)  # of a watch: not served any more; its version, or that of a page, is too old


class Source(Protocol):
    """API server that can be listed and watched. ``kube.client.Cluster`` is one."""

    def page(self, path: str, *, token: str = "", field_selector: str = "", metadata_only: bool = False) -> Object | None:
        """Return one page of a collection; None if there is no such resource (404)."""

    def watch(self, path: str, *, version: str, seconds: int, field_selector: str = "", metadata_only: bool = False) -> Iterator[Object]:
        """Yield events ``{type, object}`` until the watch ends."""
        ...


class Sink(Protocol):
    """Receiver of the objects of a watch."""

    def replace(self, objects: Iterable[Object]) -> None:
        """Take a whole list."""

    def unserved(self) -> None:
        """Take that the API server has no such resource (404): nothing is known of its objects."""

    def put(self, obj: Object) -> None:
        """Take an object that was added or modified."""

    def missing(self, obj: Object) -> None:
        """Take an object that was deleted."""


@dataclass(kw_only=True)
class WatchState:
    """State of a watch for /readyz and /metrics. Times are monotonic seconds."""

    listed_at: float | None = None  # the last whole list, or the last answer that the resource is not served
    served: bool = True
    error: str = ""  # the last error's sentence; "" after a success
    restarts: int = 0  # number of lists and watches begun anew after an error
    failing_since: float | None = None  # the first of the errors in a row


class Watcher:
    """List and watch on a thread of its own until ``stop`` is set; a read in progress then is not cut short, but passes nothing on."""

    def __init__(
        self,
        api: Source,
        path: str,
        sink: Sink,
        stop: Event,
        *,
        field_selector: str = "",
        metadata_only: bool = False,
        clock: Callable[[], float],
        wait: Callable[[float], object] | None = None,  # sleeps; default stop.wait
        relist: float = 600.0,
        random: Callable[[float, float], float] | None = None,
        reception: Callable[[], Callable[[Object], Any]] = lambda: _whole,
    ) -> None:
        """Prepare the watcher.

        :param reception: called for each list, for the function that takes its objects page by page; what it returns is the list for the
            sink.
        """
        self._reception = reception
        self._api, self._path, self._sink, self._stop = api, path, sink, stop
        self._chosen: dict[str, Any] = {"field_selector": field_selector, "metadata_only": metadata_only}
        self._clock, self._wait, self._random = clock, wait or stop.wait, random or chance.uniform
        self._relist = relist
        self._version = ""  # of the last event or list; "": a list is next
        self._due = 0.0  # time of the next list in any case: a watch may be silent for ever (kcp#4384), and lose events
        self._failures = 0  # since a watch last worked
        self._unserved = 0  # lists in a row
        self.state = WatchState()

    def start(self) -> None:
        """Run on a thread of its own."""
        Thread(target=self.run, name=f"watch {self._path}", daemon=True).start()

    def run(self) -> None:
        """List and watch until ``stop`` is set. Raises nothing."""
        while not self._stop.is_set():
            try:
                if self._version and self._clock() < self._due:
                    self._watch()
                else:
                    self._list()
            except MeshError as error:
                self._fail(error)
            except Exception as error:  # if this thread died, the store would keep an old state for ever
                place = traceback.extract_tb(error.__traceback__)[-1]
                self._version = ""
                self._fail(Defect(f"Unexpected {type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}."))

    def _list(self) -> None:
        objects: list[Any] = []
        version, token, keep = "", "", self._reception()
        while (page := self._api.page(self._path, token=token, **self._chosen)) is not None:
            metadata = page.get("metadata") or {}
            # The version of the first page: if a later page were newer, events between the two would be lost.
            version = version or str(metadata.get("resourceVersion") or "")
            for obj in (page.get("items") or ()) if version else ():
                if self._stop.is_set():
                    return
                objects.append(keep(obj))
            token = str(metadata.get("continue") or "")
            if not token or self._stop.is_set():
                break
        if self._stop.is_set():
            return
        # kcp before 0.33 answers 404 for an API that no workspace has bound, later ones an empty list without a version.
        self._version = version if page is not None else ""
        if page is None:
            self._sink.unserved()
        else:
            self._sink.replace(objects)
        self.state.listed_at, self.state.served, self.state.error, self.state.failing_since = self._clock(), bool(self._version), "", None
        self._due = self._clock() + self._relist * self._random(0.9, 1.1)
        self._unserved = 0 if self._version else self._unserved + 1
        if self._unserved:
            self._wait(_doubled(UNSERVED, self._unserved))

    def _watch(self) -> None:
        seconds = max(1, int(min(self._random(*LONGEST), self._due - self._clock())))
        for event in self._api.watch(self._path, version=self._version, seconds=seconds, **self._chosen):
            if self._stop.is_set():
                return
            self._take(str(event.get("type")), event.get("object") or {})
        self._failures, self.state.error, self.state.failing_since = 0, "", None
        self._wait(self._random(*PAUSE))

    def _take(self, kind: str, obj: Object) -> None:
        if kind == "ERROR":  # its object is a Status, whose text may quote anything
            status = number(obj, "code")
            raise ServerRefused(f"The API server ended the watch of {self._path} with status {status}.", status=status)
        self._failures, self.state.error, self.state.failing_since = 0, "", None
        if kind in ("ADDED", "MODIFIED"):
            self._sink.put(obj)
        elif kind == "DELETED":
            self._sink.missing(obj)
        self._version = str((obj.get("metadata") or {}).get("resourceVersion") or self._version)

    def _fail(self, error: MeshError) -> None:
        self._failures += 1
        self.state.error, self.state.restarts = str(error), self.state.restarts + 1
        self.state.failing_since = self._clock() if self.state.failing_since is None else self.state.failing_since
        if getattr(error, "status", 0) in GONE or self._failures % PATIENCE == 0:
            self._version = ""
        delay = _doubled(BACKOFF, self._failures)
        self._wait(self._random(delay / 2, delay))


def _whole(obj: Object) -> Object:
    return obj


def _doubled(bounds: tuple[float, float], times: int) -> float:
    first, most = bounds
    return min(most, first * 2.0 ** min(times - 1, 10))
