# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What clients get for an answer, and what agents say of the way between nodes: asked in their pods, past the collection."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self

from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from tests.demo_traffic.scene import CLIENT, NAME, SPACE
from tests.demo_traffic.verdict import NO_ANSWER, Count, Paths, Reply
from tests.lab import workloads
from tests.lab.control import LabError
from tests.lab.lab import ClusterHandle

REQUESTS: Final = 20
"""Requests of one count."""

_SYSTEM: Final = "kube-system"
_AT_ONCE: Final = 5  # a server of Python's standard library keeps no more connections waiting; a further one would come a second late
_PATIENCE: Final = 1  # seconds until a request counts as one without an answer
_BATCH: Final = 5
_PAUSE: Final = 0.05  # seconds between two requests of a stream


class Client:
    """The client of one cluster. It asks the Service of its own cluster."""

    def __init__(self, cluster: ClusterHandle) -> None:
        self._kubeconfig = cluster.kubeconfig
        self._curl = f"curl --silent --max-time {_PATIENCE} http://{NAME}/"

    def count(self, requests: int = REQUESTS) -> Count:
        """Ask side by side; return how many requests each cluster answered, and how many of them none."""
        found = Counter(self._run(f"seq {requests} | xargs -P {_AT_ONCE} -I N {self._curl}").split())
        return {**found, NO_ANSWER: requests - found.total()}

    def replies(self, requests: int = _BATCH) -> list[Reply]:
        """Ask one after the other; return each reply with the time at which it was there, or was given up."""
        once = f'text=$({self._curl}); echo "$(date +%s.%N) $text"; sleep {_PAUSE}'
        rows = [line.split() for line in self._run(f"for n in $(seq {requests}); do {once}; done").splitlines()]
        return [Reply(at=float(row[0]), by=row[1] if len(row) > 1 else NO_ANSWER) for row in rows]

    def _run(self, script: str) -> str:
        return workloads.execute(self._kubeconfig, SPACE, CLIENT, ["sh", "-c", script], limit=60).text


class Stream(AbstractContextManager["Stream"]):
    """A client that asks again and again, in a thread, until the ``with`` block ends."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="stream", daemon=True)
        self.replies: list[Reply] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ended.is_set():
            try:
                self.replies += self._client.replies()
            except (LabError, HTTPError, WebSocketException, OSError):
                return  # without further replies nothing is proven, which the verdict says


class Agent:
    """A cilium-agent. ``node``: its node; "" in a cluster with one."""

    def __init__(self, cluster: ClusterHandle, node: str = "") -> None:
        self._kubeconfig = cluster.kubeconfig
        pods = cluster.api.list(f"/api/v1/namespaces/{_SYSTEM}/pods", label_selector="k8s-app=cilium")
        (self._pod,) = [pod["metadata"]["name"] for pod in pods if node in ("", pod["spec"]["nodeName"])]

    def run(self, *command: str) -> workloads.Answer:
        """Run a command in its container."""
        return workloads.execute(self._kubeconfig, _SYSTEM, self._pod, command, limit=90)

    def paths(self, node: str) -> Paths:
        """Return what its last probe of a node of a peer says; it probes every 11 s in a lab.

        :param node: as Cilium names it, CLUSTER/NODE
        """
        answer = self.run("cilium-health", "status", "-o", "json")
        return paths_in(json.loads(answer.text) if answer.code == 0 else {}, node)


def paths_in(health: dict[str, Any], node: str) -> Paths:
    """Return whether cilium-health of a node answers at its address, and through the tunnel; None while there is no probe."""
    (found,) = [entry for entry in health.get("nodes") or [] if entry["name"] == node] or [{}]
    address, tunnel = (((found.get(part) or {}).get("primary-address") or {}).get("http") for part in ("host", "health-endpoint"))
    return _passes(address), _passes(tunnel)


def _passes(http: dict[str, Any] | None) -> bool | None:
    return None if http is None else not http.get("status")


def tail(replies: Sequence[Reply], number: int) -> set[str]:
    """Return who gave the last replies; nothing as long as there are fewer of them."""
    return {reply.by for reply in replies[-number:]} if len(replies) >= number else set()
