# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between an operator and kcp, on demand. Each fault ends when it was met ``times`` times, or with its ``with`` block.

``shard`` and ``plural`` say which requests meet it; "" is all. Faults are for virtual workspaces unless ``everywhere`` is set.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.testing.kcp_double.answers import Reply, Request, Target, failure, status_object

_EXPIRED = "The resourceVersion for the provided watch is too old."


@dataclass(eq=False)
class Fault:
    """One fault. ``times``: how often yet; None is any number of times. ``met``: how often it was."""

    faults: Faults
    shard: str = ""
    plural: str = ""
    verbs: Collection[str] = ()
    times: int | None = None
    everywhere: bool = False
    pages: bool = False  # only requests for a further page
    status: int = 0  # answer with it
    as_event: bool = False  # in the stream of a watch, not as its status
    delay: float = 0.0  # seconds
    silent: bool = False  # say nothing until it ends
    mute: bool = False  # watches stay open and bring nothing
    met: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        self.faults.remove(self)

    def fits(self, request: Request, target: Target, virtual: bool) -> bool:
        if not (virtual or self.everywhere) or (self.shard and self.shard != request.shard):
            return False
        if (self.plural and self.plural != target.plural) or (self.verbs and target.verb not in self.verbs):
            return False
        return not self.pages or bool(request.query.get("continue"))


@dataclass(eq=False)
class Live:
    """A watch that is under way."""

    request: Request
    target: Target
    virtual: bool
    reply: Reply
    broken: bool = False  # end without the last chunk, as when a connection is lost


class Faults:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._live: list[Live] = []

    def answer(
        self,
        status: int,
        *,
        shard: str = "",
        plural: str = "",
        verbs: Collection[str] = (),
        times: int | None = None,
        everywhere: bool = False,
    ) -> Fault:
        """Refuse with 403, 404, 503 or whatever."""
        return self._add(Fault(self, shard, plural, verbs, times, everywhere, status=status))

    def expire_watch(self, *, shard: str = "", plural: str = "", times: int = 1, as_event: bool = True) -> Fault:
        """410 to the next watch. A real server sends it either way: as the status, or as the first event (``as_event``)."""
        return self._add(Fault(self, shard, plural, ("watch",), times, status=410, as_event=as_event))

    def expire_page(self, *, shard: str = "", plural: str = "", times: int = 1) -> Fault:
        """410 to the next request for a further page."""
        return self._add(Fault(self, shard, plural, ("list",), times, pages=True, status=410))

    def silence(self, *, shard: str = "", plural: str = "", verbs: Collection[str] = (), times: int | None = None) -> Fault:
        """Take requests, and answer nothing until the fault ends; then hang up."""
        return self._add(Fault(self, shard, plural, verbs, times, silent=True))

    def delay(
        self,
        seconds: float,
        *,
        shard: str = "",
        plural: str = "",
        verbs: Collection[str] = (),
        times: int | None = None,
        everywhere: bool = False,
    ) -> Fault:
        """Answer later; with 0 seconds only count the requests."""
        return self._add(Fault(self, shard, plural, verbs, times, everywhere, delay=seconds))

    def mute(self, *, shard: str = "", plural: str = "") -> Fault:
        """Watches, those under way too, stay open and lose what happens meanwhile (kcp#4384)."""
        return self._add(Fault(self, shard, plural, ("watch",), mute=True))

    def cut_watches(self, *, shard: str = "", plural: str = "", clean: bool = False, everywhere: bool = False) -> int:
        """End all watches that are under way. ``clean``: as a server does it after its time. Returns how many there were."""
        probe = Fault(self, shard, plural, everywhere=everywhere)
        with self._lock:
            hit = [live for live in self._live if probe.fits(live.request, live.target, live.virtual)]
        for live in hit:
            live.broken = not clean
            if live.reply.stop is not None:
                live.reply.stop()
        return len(hit)

    def clear(self) -> None:
        """No more faults."""
        for fault in list(self._faults):
            self.remove(fault)

    def remove(self, fault: Fault) -> None:
        with self._lock:
            if fault in self._faults:
                self._faults.remove(fault)
        fault.ended.set()

    def watches(self, *, shard: str = "", plural: str = "") -> int:
        """How many watches of virtual workspaces are under way."""
        probe = Fault(self, shard, plural)
        with self._lock:
            return sum(probe.fits(live.request, live.target, live.virtual) for live in self._live)

    def meet(self, request: Request, target: Target, virtual: bool) -> Reply | None:
        """What a fault makes of a request; None when nothing is wrong with it."""
        if (fault := self._next(request, target, virtual)) is not None:
            if fault.silent:
                fault.ended.wait()
                return Reply(hang_up=True)
            if not fault.status:
                fault.ended.wait(fault.delay)
                return None
            message = _EXPIRED if fault.status == 410 else f"a test asked the double to answer {fault.status}"
            if fault.as_event:
                event = {"type": "ERROR", "object": status_object(410, message, "Expired")}
                return Reply(stream=iter([json.dumps(event).encode() + b"\n"]))
            return failure(fault.status, message)
        return None

    def is_mute(self, request: Request, target: Target, virtual: bool) -> bool:
        return any(fault.mute and fault.fits(request, target, virtual) for fault in list(self._faults))

    def begin(self, live: Live) -> None:
        with self._lock:
            self._live.append(live)

    def finish(self, live: Live) -> None:
        with self._lock:
            self._live.remove(live)

    def _next(self, request: Request, target: Target, virtual: bool) -> Fault | None:
        with self._lock:
            found = next((one for one in self._faults if not one.mute and one.fits(request, target, virtual)), None)
            if found is not None:
                found.met += 1
                if found.times is not None and found.met >= found.times:
                    self._faults.remove(found)
            return found

    def _add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault
