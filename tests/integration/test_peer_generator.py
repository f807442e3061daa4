# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A real kvstoremesh reads what the peer generator publishes."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.lab.peer_generator import GeneratedPeers, PeerSize
from tests.lab.tools import ensure
from tests.testing.waiting import wait_for

CLUSTERS = 20
SIZE = PeerSize(nodes=3, services=2, identities=4, addresses=6)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _number in range(count)]
        return [server.getsockname()[1] for server in servers]


def test_a_real_kvstoremesh_takes_every_generated_peer_for_a_ready_one(servers: None, tmp_path: Path) -> None:
    tools = ensure(("etcd", "clustermesh-apiserver"), progress=print)
    etcd, program = tools.path("etcd"), str(tools.path("clustermesh-apiserver"))
    api, *others = free_ports(4)
    with GeneratedPeers(etcd, tmp_path / "peers", clusters=CLUSTERS, size=SIZE) as peers, _own(etcd, tmp_path) as own:
        peers.write_configurations(tmp_path / "mesh", alike=False)
        (tmp_path / "own.yaml").write_text(own.configuration(), encoding="utf-8")
        argv = [program, "kvstoremesh", "--cluster-name=c1", "--cluster-id=1", f"--clustermesh-config={tmp_path}/mesh", "--kvstore=etcd"]
        argv += [f"--kvstore-opt=etcd.config={tmp_path}/own.yaml", "--kvstore-opt=etcd.qps=10000", f"--api-serve-addr=127.0.0.1:{api}"]
        argv += [
            f"--{flag}" for flag in (f"prometheus-serve-addr=127.0.0.1:{others[0]}", f"gops-port={others[1]}", f"pprof-port={others[2]}")
        ]
        with (tmp_path / "kvstoremesh.log").open("wb") as log:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(
                lambda: [row["name"] for row in clusters(program, api) if row.get("ready")] == list(peers.names),
                what="kvstoremesh is ready for every peer",
                hopeless=lambda: "" if child.poll() is None else "it ended",
                explain=lambda: (tmp_path / "kvstoremesh.log").read_text(encoding="utf-8")[-2000:],
            )
            seen = {
                tuple(row[f"num-{kind}"] for kind in ("nodes", "shared-services", "identities", "endpoints"))
                for row in clusters(program, api)
            }
        finally:
            child.kill()
            child.wait()
    assert seen == {(SIZE.nodes, SIZE.services, SIZE.identities, SIZE.addresses)}


def _own(etcd: Path, folder: Path) -> GeneratedPeers:
    """The etcd into which kvstoremesh copies."""
    return GeneratedPeers(etcd, folder / "own", clusters=1, first_id=500)


def clusters(program: str, port: int) -> list[dict[str, Any]]:
    argv = [program, "kvstoremesh-dbg", "status", "-o", "json", "-H", f"127.0.0.1:{port}"]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    found: list[dict[str, Any]] = json.loads(answer.stdout) if answer.returncode == 0 else []
    return sorted(found, key=lambda row: str(row["name"]))
