# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A mesh that grows costs each cluster no request more. Many "clusters" by namespace on one real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from tests.testing.namespaced import install_clusters, install_definitions, inventory_of, mesh_variable
from tests.testing.one_server import OneServer
from tests.testing.playbooks import PlaybookRun, run_warm

MOST = 30
LOCK = 4
NAMES = ("c1", "c2", "c3", "c4", "c5")


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as running:
        install_definitions(running.api)
        install_clusters(running, NAMES)
        yield running


def connect(server: OneServer, names: Sequence[str], binding: str) -> PlaybookRun:
    variables = {"cilium_mesh": mesh_variable(names, binding), "mesh_connect_wait": False}
    return run_warm("connect", inventory=inventory_of(server, names), variables=variables)


def requests(run: PlaybookRun) -> dict[str, int]:
    """API requests by cluster, as the action counts them."""
    for event in map(json.loads, run.events):
        found = (event.get("event_data", {}).get("res") or {}).get("requests")
        if event.get("event") == "runner_on_ok" and found:
            return {str(name): int(number) for name, number in found.items()}
    raise AssertionError(run.output)


def test_each_cluster_gets_the_same_number_of_writes_however_many_peers_it_has(server: OneServer) -> None:
    totals: dict[int, dict[str, int]] = {}
    writes: dict[int, dict[str, int]] = {}
    for size in (2, 5):
        names = NAMES[:size]
        first = connect(server, names, binding=f"mesh-of-{size}")
        assert first.rc == 0, first.output
        steps = [step["cluster"] for step in first.result["plan"]["steps"]]
        totals[size] = requests(first)
        writes[size] = {name: steps.count(name) for name in names}
        second = connect(server, names, binding=f"mesh-of-{size}")
        assert (second.rc, second.changed) == (0, 0), second.output
        reads = requests(second)
        # The first run of a mesh observes once, as later ones do, and creates, takes, looks back at and empties the lock of each cluster.
        once = {name: totals[size][name] - reads[name] for name in names}
        assert once == {name: writes[size][name] + LOCK for name in names}, "a write is one request"
        for name in names:
            assert set(names) - {name} <= set(server.api.get(f"/api/v1/namespaces/{name}/secrets/cilium-clustermesh")["data"])  # type: ignore[index]  # the Secret is there
        _forget(server, names, f"mesh-of-{size}")
    assert {*writes[2].values()} == {*writes[5].values()}
    assert len({*totals[2].values(), *totals[5].values()}) == 1
    assert max(totals[5].values()) <= MOST


def _forget(server: OneServer, names: Sequence[str], binding: str) -> None:
    run = run_warm("disconnect", inventory=inventory_of(server, names), variables={"cilium_mesh": mesh_variable(names, binding)})
    assert run.rc == 0, run.output
