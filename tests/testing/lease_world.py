# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API servers in memory that keep Leases as real ones do: each write makes a version, and a write over another version is refused.

Time passes only when a test lets it pass. A server's Date may differ from the time of the runs, and has whole seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import Clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, ServerRefused, WriteConflict

START = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


class LeaseServer:
    """API server of one member, with its objects of kind Lease by path."""

    def __init__(self, host: str, world: LeaseWorld) -> None:
        self.host, self.world = host, world
        self.objects: dict[str, dict[str, Any]] = {}
        self.ahead = 0.0  # seconds by which its clock is ahead of the runs'
        self.sends_date = True
        self.versions = count(1)
        self.events: list[tuple[int, str, dict[str, Any]]] = []  # version, type, object

    @property
    def lease(self) -> dict[str, Any] | None:
        """The only Lease, if there is one."""
        return next(iter(self.objects.values()), None)

    @property
    def holder(self) -> str:
        """Its holder; "" without one."""
        return str(((self.lease or {}).get("spec") or {}).get("holderIdentity") or "")


class LeaseWorld:
    """Members, and the time in seconds."""

    def __init__(self, *hosts: str) -> None:
        self.time = 1000.0
        self.servers = {host: LeaseServer(host, self) for host in hosts}

    def clock(self) -> float:
        """Return the monotonic time of every run."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds

    def clocks(self, sleep: Callable[[float], None] | None = None) -> Clocks:
        """Return the clocks of a run; ``sleep`` takes the place of its own."""
        return Clocks(now=lambda: START, clock=self.clock, sleep=sleep or self.sleep)

    def client(self, host: str, before: Callable[[str, str], None] = lambda host, verb: None) -> LeaseClient:
        """Return a connection; ``before`` is called with the host and the verb of each request, and may raise what the request raises."""
        return LeaseClient(self.servers[host], before)


class LeaseClient:
    """Connection to a server, with the methods of the engine's client that a lock uses."""

    def __init__(self, server: LeaseServer, before: Callable[[str, str], None]) -> None:
        self.host, self.namespace = server.host, "kube-system"
        self.requests: Counter[str] = Counter()
        self._server, self._before = server, before
        self._dated: datetime | None = None

    def server_time(self) -> datetime | None:
        return self._dated

    def close(self) -> None:
        return

    def get(self, path: str) -> dict[str, Any] | None:
        self._ask("get")
        return deepcopy(self._server.objects.get(path))

    def page(self, path: str, *, field_selector: str) -> dict[str, Any]:
        self._ask("list")
        found = [deepcopy(obj) for place, obj in self._server.objects.items() if place == self._place(path, field_selector)]
        return {"metadata": {"resourceVersion": self._next()}, "items": found}

    def watch(self, path: str, *, version: str, seconds: int, grace: float, field_selector: str) -> Iterator[dict[str, Any]]:
        self._ask("watch")
        name = field_selector.partition("=")[2]
        for at, kind, obj in self._server.events:
            if at > int(version) and obj["metadata"]["name"] == name:
                yield {"type": kind, "object": deepcopy(obj)}

    def _place(self, path: str, field_selector: str) -> str:
        return f"{path}/{field_selector.partition('=')[2]}"

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self._ask("apply")
        assert "spec" not in body, "an apply that sets a holder would take the lock of another run of the same binding"
        if path not in self._server.objects:
            metadata = {**body["metadata"], "uid": f"uid-{next(self._server.versions)}", "resourceVersion": self._next()}
            self._server.objects[path] = {**deepcopy(dict(body)), "metadata": metadata}
            self._note("ADDED", self._server.objects[path])
        return deepcopy(self._server.objects[path])

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self._ask("patch")
        found = self._server.objects.get(path)
        if found is None:
            raise ServerRefused("The API server answered 404 to patch leases.", cluster=self.host, status=404)
        self._compare(found, body["metadata"]["resourceVersion"])
        spec = {**(found.get("spec") or {}), **body["spec"]}
        metadata = {**found["metadata"], "resourceVersion": self._next()}
        self._server.objects[path] = {**found, "metadata": metadata, "spec": {k: v for k, v in spec.items() if v is not None}}
        self._note("MODIFIED", self._server.objects[path])
        return deepcopy(self._server.objects[path])

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._ask("delete")
        found = self._server.objects.get(path)
        if found is not None:
            self._compare(found, resource_version)
            del self._server.objects[path]
            self._note("DELETED", {**found, "metadata": {**found["metadata"], "resourceVersion": self._next()}})

    def _compare(self, found: Mapping[str, Any], version: str) -> None:
        if version != found["metadata"]["resourceVersion"]:
            raise WriteConflict("Cannot patch leases: it changed since it was read (409).", cluster=self.host)

    def _note(self, kind: str, obj: dict[str, Any]) -> None:
        self._server.events.append((int(obj["metadata"]["resourceVersion"]), kind, deepcopy(obj)))

    def _next(self) -> str:
        return str(next(self._server.versions))

    def _ask(self, verb: str) -> None:
        self.requests[verb] += 1
        self._before(self.host, verb)
        if self._server.sends_date:
            self._dated = START + timedelta(seconds=int(self._server.world.time + self._server.ahead))


def failing(error: ClusterError) -> Callable[[str, str], None]:
    """Return what makes every request end with ``error``."""

    def before(host: str, verb: str) -> None:
        raise error

    return before
