# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator's threads: an endpoint is complete when other threads first read it, and a defect ends the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from mesh_operator import operator as operator_module
from mesh_operator.kinds import ROWS
from mesh_operator.operator import Operator
from mesh_operator.serve import Metrics
from mesh_operator.settings import Settings

URL = "https://kcp.example.org/services/apiexport/root/edge-portal-networking"
SLICE = {"status": {"endpoints": [{"url": URL}]}}


class EmptyServer:
    """API server without objects, which counts its requests by verb."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def page(self, path: str, **options: Any) -> dict[str, Any]:
        self.requests["list"] += 1
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, path: str, **options: Any) -> Iterator[dict[str, Any]]:
        return iter(())

    def get(self, path: str) -> None:
        return None

    def list(self, path: str, **options: Any) -> list[Any]:
        return []


class OneServer:
    """Connections that reach the same server under every URL."""

    def __init__(self) -> None:
        self.server = EmptyServer()

    def own(self) -> EmptyServer:
        return self.server

    def at(self, url: str) -> EmptyServer:
        return self.server

    def outdated(self) -> list[str]:
        return []


def an_operator() -> Operator:
    settings = Settings(kcp_kubeconfig="/kcp", mgmt_kubeconfig="/mgmt", node_id="one")
    server: Any = OneServer()
    return Operator(settings, server, server, Metrics(), Event())


def test_an_endpoint_has_the_state_of_every_kind_before_any_of_them_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an endpoint counts as listed too early, and the thread that tends the queue ends with a KeyError."""
    operator = an_operator()
    known: list[set[str]] = []

    class Started:
        def __init__(self, **options: Any) -> None: ...

        def start(self) -> None:
            known.append(set(operator._endpoints[URL].states))

    monkeypatch.setattr(operator_module, "Thread", Started)
    operator._take_slice(SLICE)
    assert known == [{row.kind for row in ROWS}] * len(ROWS)


def test_a_defect_in_the_main_thread_ends_the_workers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the process would live on, with probes that answer, and without what feeds the queue."""
    operator = an_operator()

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(operator, "_tend", broken)
    monkeypatch.setattr(operator_module, "TENDING", 0.0)
    with pytest.raises(ZeroDivisionError):
        operator.work()
    assert operator.stop.is_set()
    assert operator._workers
    assert not any(worker.is_alive() for worker in operator._workers)
