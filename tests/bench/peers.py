# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading hundreds of peers, which one real etcd plays: the controller's proof of each, and the stand-in of the agent beside it."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns
from tests.lab.peer_generator import GeneratedPeers, PeerSize
from tests.lab.tools import ensure
from tests.lab.tools.progress import console

PEERS: Final = (50, 200, 500)
SIZE: Final = PeerSize(nodes=3, services=10, identities=20, addresses=30)
SECONDS: Final = 5.0


def measure(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per number of peers, each with an etcd of its own."""
    tools = ensure(("etcd", "lab-agent"), progress=console())
    rows = []
    for number in PEERS:
        say(f"{number} peers")
        with tempfile.TemporaryDirectory(prefix="mesh-bench-peers-") as made:
            folder = Path(made)
            with GeneratedPeers(tools.path("etcd"), folder, clusters=number, size=SIZE) as peers:
                asked = {"endpoint": peers.endpoint, "names": peers.names, "folder": made}
                row = measured("peers_run", asked=asked) | {"peers": number, "keys": peers.keys}
                for alike, name in ((True, "shared"), (False, "dialled")):
                    peers.write_configurations(folder / name, alike=alike)
                    row[name] = _agent(tools.path("lab-agent"), folder / name)
                rows.append(row)
    return rows


def targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    """Of 200 peers: what a status of a mesh of that size pays for its proofs."""
    row = next(row for row in rows if row["peers"] == 200)
    return [Target("the controller's proofs of 200 peers, s", row["wall"], SECONDS)]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    head = ("peers", "keys", "proofs: s", "CPU s", "peak MB", "agent, one kvstoremesh: s", "agent, each dialled: s")
    body = [
        (
            str(row["peers"]),
            str(row["keys"]),
            f"{row['wall']:.2f}",
            f"{row['cpu']:.2f}",
            f"{row['peak'] / 1e6:.0f}",
            f"{row['shared']:.2f}",
            f"{row['dialled']:.2f}",
        )
        for row in rows
    ]
    return columns([head, *body])


def _agent(program: Path, configurations: Path) -> float:
    """Seconds that one status of the stand-in takes, in which every peer has to be ready."""
    environment = {**os.environ, "CILIUM_CLUSTERMESH_CONFIG": str(configurations), "LAB_CLUSTER_NAME": "c1"}
    began = time.monotonic()
    answer = subprocess.run([program, "status", "-o", "json"], env=environment, check=True, capture_output=True)
    took = time.monotonic() - began
    found = json.loads(answer.stdout)["cluster-mesh"]["clusters"]
    if not all(cluster.get("ready") for cluster in found):
        raise SystemExit(f"of {len(found)} peers only {sum(bool(cluster.get('ready')) for cluster in found)} are ready to the agent.")
    return took
