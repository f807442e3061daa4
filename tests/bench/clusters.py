# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Connect for meshes of 2 to 50 clusters, each a namespace of one real API server: requests, time by phase, memory.

The API server and its etcd run on the same machine and share its processors with what is measured, so their CPU time is reported too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns
from tests.demo.play import Desk
from tests.testing.namespaced import install_clusters, install_definitions, inventory_of, mesh_variable, reset_clusters
from tests.testing.one_server import OneServer

SIZES: Final = (2, 5, 10, 25, 50)
CILIUM: Final = "1.20"
PHASES: Final = ("observe", "checks", "plan", "write")
FIRST, SECOND = "first connect", "second connect"
SECONDS, REQUESTS = 20.0, 30
NO_WAIT: Final = ("connect", "-e", '{"mesh_connect_wait": false, "mesh_connect_report": false}')


def measure(say: Callable[[str], None], sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """A row per size and kind of connect, first by the engine in a process of its own, then as a whole ansible-playbook run."""
    rows: list[dict[str, Any]] = []
    with OneServer() as server:
        install_definitions(server.api, CILIUM)
        names: list[str] = []
        for size in sizes:
            new = [f"c{number}" for number in range(len(names) + 1, size + 1)]
            say(f"{size} clusters: making {len(new)} more")
            install_clusters(server, new, version=CILIUM, first_id=len(names) + 1)
            names += new
            rows += _of_size(server, names, say)
    return rows


def targets(rows: Iterable[dict[str, Any]]) -> list[Target]:
    """What issue and documentation promise."""
    firsts = [row for row in rows if row["kind"] == FIRST]
    largest = max(firsts, key=lambda row: int(row["clusters"]))
    writes = {row["writes"] for row in firsts}
    total = largest["wall"]["playbook"]
    return [
        Target("requests per cluster, writes: different numbers over all sizes", len(writes), 1),
        Target("requests per cluster, reads and writes", max(row["reads"] + row["writes"] for row in firsts), REQUESTS),
        Target(f"{largest['clusters']} clusters planned and written by connect, wall s", total, SECONDS),
    ]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    head = ("connect without waiting", "clusters", "steps", "reads", "writes", *(f"{name} s" for name in PHASES), "engine s", "CPU s")
    more = ("peak MB", "playbook s", "CPU s", "peak MB", "servers' CPU s")
    body = [
        (
            row["kind"],
            str(row["clusters"]),
            str(row["steps"]),
            str(row["reads"]),
            str(row["writes"]),
            *(f"{row['phases'][name]['wall']:.2f}" for name in PHASES),
            f"{row['wall']['engine']:.2f}",
            f"{row['cpu']['engine']:.2f}",
            f"{row['peak']['engine'] / 1e6:.0f}",
            f"{row['wall']['playbook']:.2f}",
            f"{row['cpu']['playbook']:.2f}",
            f"{row['peak']['playbook'] / 1e6:.0f}",
            f"{row['servers']:.2f}",
        )
        for row in rows
    ]
    note = "reads, writes: requests to each cluster. servers: kube-apiserver and etcd during the playbook's run, on the same processors."
    return f"{columns([(*head, *more), *body])}\n{note}"


def _of_size(server: OneServer, names: Sequence[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Both ways, each from a mesh that is not connected."""
    inventory = {name: {"kubeconfig": str(server.kubeconfig), "namespace": name} for name in names}
    engine, rows = [], []
    reset_clusters(server.api, names)
    for kind in (FIRST, SECOND):
        say(f"{len(names)} clusters: {kind} by the engine")
        engine.append(measured("engine_run", asked={"inventory": inventory, "binding": "many"}))
    reset_clusters(server.api, names)
    with Desk({}, {"cilium_mesh": mesh_variable(names)}) as desk:
        desk.write("inventory.json", inventory_of(server, names))
        for kind, one in zip((FIRST, SECOND), engine, strict=True):
            say(f"{len(names)} clusters: {kind} as a playbook")
            before = server.cpu_seconds()
            run = desk.run(*NO_WAIT, quiet=True)
            if run.status != 0:
                desk.run(*NO_WAIT)  # once more, to be seen
                raise SystemExit(f"connect of {len(names)} clusters ended with status {run.status}; its output is above.")
            rows.append(_row(kind, one, run.wall, run.cpu, run.peak) | {"clusters": len(names), "servers": server.cpu_seconds() - before})
    return rows


def _row(kind: str, engine: dict[str, Any], wall: float, cpu: float, peak: int) -> dict[str, Any]:
    phases = engine["phases"]
    return {
        "kind": kind,
        "steps": engine["steps"],
        "reads": max(requests["reads"] for requests in engine["requests"].values()),
        "writes": max(requests["writes"] for requests in engine["requests"].values()),
        "phases": phases,
        "wall": {"engine": sum(phase["wall"] for phase in phases.values()), "playbook": wall},
        "cpu": {"engine": sum(phase["cpu"] for phase in phases.values()), "playbook": cpu},
        "peak": {"engine": engine["peak"], "playbook": peak},
    }
