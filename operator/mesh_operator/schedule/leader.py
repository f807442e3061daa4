# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Leader election: one replica works, the others wait, by a Lease, as client-go does (tools/leaderelection).

``kubernetes.leaderelection`` (37.0.2) is not used: there a lost connection ends the election by an exception while the work goes on, a
request may hang longer than the Lease lasts, setting the clock ends others' Leases, waiting cannot be stopped, a Lease is never given back,
and the client keeps its keys in files.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from logging import WARNING
from threading import Event, Thread
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError

from ..base.api import MANAGER, Api
from ..base.log import log


class Election:
    """Candidate for the lead.

    A Lease that did not change for ``lease`` seconds, by each candidate's own clock, may be taken. The leader stops ``renew`` seconds after
    its last renewal began. All candidates try every ``retry`` seconds.

    :param api: best a client with timeouts of ``retry``, so that a request that hangs costs one try.
    :param identity: prefix of the holder's name, to which a random part is added: a restarted replica is another candidate.
    """

    def __init__(
        self, api: Api, namespace: str, name: str, identity: str, *, lease: int = 15, renew: float = 10.0, retry: float = 2.0
    ) -> None:
        self._api, self._name, self._lease, self._renew, self._retry = api, name, lease, renew, retry
        self.clock: Callable[[], float] = time.monotonic
        self.identity = f"{identity}_{secrets.token_hex(4)}"
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._seen: tuple[Any, float] = (None, 0.0)  # the Lease's version, and since when
        self._until = 0.0  # until then this candidate certainly holds the Lease
        self._said = ""

    def lead(self, work: Callable[[], None], stop_work: Callable[[], None], stop: Event) -> bool:
        """Wait for the Lease, do ``work`` in this thread, and give the Lease back when that returns. ``stop`` ends the waiting.

        Returns False if the Lease was lost. ``stop_work`` is called then, in another thread; ``lease - renew`` seconds later another
        candidate may start.
        """
        while not self._try():
            if stop.wait(self._retry):
                return True
        log("leading", node=self.identity)
        ended, lost = Event(), Event()
        keeper = Thread(target=self._keep, args=(ended,), daemon=True)
        guard = Thread(target=self._guard, args=(ended, lost, stop_work), daemon=True)
        try:
            keeper.start()
            guard.start()
            work()
        finally:
            ended.set()
            keeper.join(self._renew)
            if self.clock() < self._until and not keeper.is_alive():
                self._try(release=True)
        return not lost.is_set()

    def _keep(self, ended: Event) -> None:
        while not ended.wait(self._retry):
            self._try()

    def _guard(self, ended: Event, lost: Event, stop_work: Callable[[], None]) -> None:
        """Call ``stop_work`` when the Lease is lost.

        It has a thread of its own: a request may hang, in DNS for example without any limit.
        """
        while not ended.wait(min(self._retry, max(0.0, self._until - self.clock()))):
            if self.clock() >= self._until:
                lost.set()
                log("leadership_lost", level=WARNING, node=self.identity)
                return stop_work()

    def _try(self, *, release: bool = False) -> bool:
        """Take, renew or release the Lease. Return False if another candidate holds it, or if that cannot be known."""
        begun = self.clock()
        try:
            ours, self._said = self._ask(release), ""
        except MeshError as error:
            if self._said != error.message:  # once, not every two seconds
                log("lease_not_reached", level=WARNING, node=self.identity, code=error.code, reason=error.message)
            self._said = error.message
            return False
        self._until = begun + self._renew if ours else 0.0
        return ours

    def _ask(self, release: bool) -> bool:
        lease = self._api.get(f"{self._leases}/{self._name}")
        spec, metadata = (lease.get("spec") or {}, lease["metadata"]) if lease else ({}, {"name": self._name})
        holder, version, now = spec.get("holderIdentity"), metadata.get("resourceVersion"), self.clock()
        if self._seen[0] != version:
            self._seen = (version, now)
        if holder not in (None, "", self.identity) and now < self._seen[1] + (spec.get("leaseDurationSeconds") or self._lease):
            return False
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        wanted = {"holderIdentity": None if release else self.identity, "leaseDurationSeconds": self._lease, "renewTime": date}
        if holder != self.identity:
            wanted |= {"acquireTime": date, "leaseTransitions": (spec.get("leaseTransitions") or 0) + 1}
        if lease is None:
            self._api.create(self._leases, {"metadata": metadata, "spec": wanted}, manager=MANAGER)
        else:
            body = {"metadata": {"resourceVersion": version}, "spec": wanted}  # WriteConflict if another candidate was faster
            self._api.merge_patch(f"{self._leases}/{self._name}", body, manager=MANAGER)
        return True
