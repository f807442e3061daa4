# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of a hub with 50 and 200 peers: wall, memory, and lines on the terminal.

Each cluster is a namespace of one real API server, and has an agent and a pod of clustermesh-apiserver. Nothing runs in them: the lab's
kubelet answers exec with what kvstoremesh, the agents and ``troubleshoot`` of such a mesh print, also node health of two nodes for each
peer. The Secrets hold the peers, whose mesh endpoint is one real etcd, so the controller proves every peer. kube-apiserver passes no
request on to a pod with an address of loopback, so metrics are not to be had, and kvstoremesh is asked by exec. Servers, kubelet and
answers share the processors with what is measured.
"""

from __future__ import annotations

import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.bench.table import Target, columns
from tests.demo.play import Desk
from tests.lab.api import APPLY, path_of
from tests.lab.kubelet import Node, node_objects
from tests.lab.peer_generator import GeneratedPeers
from tests.lab.tools import ensure
from tests.lab.tools.progress import console
from tests.testing.namespaced import install_clusters, install_definitions, inventory_of, mesh_variable
from tests.testing.one_server import OneServer

SIZES: Final = (50, 200)
CILIUM: Final = "1.20"
HUB: Final = "hub"
NODES: Final = 2  # of each peer, in node health
SECONDS, MEGABYTES, LINES, RATIO = 12.0, 200.0, 100, 4.5
_AT_ONCE: Final = 4
_FILES: Final = "/var/lib/cilium/clustermesh/common-etcd-client"  # where pods have the certificate of their links
_ANSWER: Final = """#!/bin/sh
# What a pod of the cluster answers to a command: ANSWER CLUSTER COMMAND...
folder=${0%/*}/$1
shift
case "$*" in
  *troubleshoot*) exec cat "$folder/troubleshoot" ;;
  *kvstoremesh-dbg*) exec cat "$folder/kvstoremesh" ;;
  sh*) exec cat "$folder/agent" "$folder/between" "$folder/health" ;;
  *) exec cat "$folder/agent" ;;
esac
"""


def measure(say: Callable[[str], None], sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """A row per size."""
    rows: list[dict[str, Any]] = []
    with (
        OneServer(kubelet=True) as server,
        tempfile.TemporaryDirectory(prefix="mesh-answers-") as folder,
        GeneratedPeers(ensure(("etcd",), progress=console()).path("etcd"), Path(folder) / "etcd", clusters=1) as endpoint,
    ):
        install_definitions(server.api, CILIUM)
        names: list[str] = []
        for size in sizes:
            wanted = [HUB, *_spokes(size)]
            new = wanted[len(names) :]
            say(f"{size} peers: making {len(new)} clusters")
            install_clusters(server, new, version=CILIUM, first_id=len(names) + 1)
            if not names:  # definitions are served some time after they were made
                for obj in node_objects(Node("node-1", f"127.{server.lab}.1.10", "10.1.0.0/24"), server.kubelet_address):
                    server.api.create(obj)
            _install_pods(server, Path(folder), new)
            names = wanted
            peers = {name: [peer for peer in names if peer != HUB] if name == HUB else [HUB] for name in names}
            for name in names:
                _write_answers(Path(folder) / name, peers[name])
            _write_peers(server, {name: peers[name] for name in (HUB, *new)}, endpoint.endpoint, Path(folder) / "etcd")
            endpoint.beat()
            rows.append(_of_size(server, names, size, say))
    return rows


def targets(rows: Iterable[dict[str, Any]]) -> list[Target]:
    """What issue and documentation promise."""
    small, large = list(rows)
    return [
        Target(f"status of a hub with {large['peers']} peers, wall s", large["wall"], SECONDS),
        Target(f"status of a hub with {large['peers']} peers, peak MB", large["peak"] / 1e6, MEGABYTES),
        Target(f"status of a hub with {large['peers']} peers, lines", large["lines"], LINES),
        Target(f"status of {large['peers']} peers against {small['peers']}, wall", large["wall"] / small["wall"], RATIO),
    ]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    body = [
        (f"hub with {row['peers']} peers", f"{row['wall']:.2f}", f"{row['cpu']:.2f}", f"{row['peak'] / 1e6:.0f}", str(row["lines"]))
        for row in rows
    ]
    return columns([("status", "wall s", "CPU s", "peak MB", "lines"), *body])


def _spokes(size: int) -> list[str]:
    return [f"s{number}" for number in range(1, size + 1)]


def _of_size(server: OneServer, names: Sequence[str], size: int, say: Callable[[str], None]) -> dict[str, Any]:
    mesh = mesh_variable(names)
    mesh["binding"]["topology"] = {"mode": "HubAndSpoke", "hubs": [HUB]}
    with Desk({}, {"cilium_mesh": mesh}) as desk:
        desk.write("inventory.json", inventory_of(server, names))
        say(f"{size} peers: status")
        output = desk.path / "output"
        run = desk.run("status", output=output)
        status = (run.mesh_result or {}).get("status", {}).get("binding", {})
        links = status.get("links", ())
        ready, read = (
            sum(link["ready"] for link in links),
            sum((link["lastProof"] or {}).get("heartbeatAgeSeconds") is not None for link in links),
        )
        if run.status != 0 or (ready, read) != (2 * size, 2 * size):
            said = f"{ready} links ready, {read} heartbeats read"
            raise SystemExit(f"status of {size} peers ended with status {run.status}: {said}.\n{output.read_text()[-4000:]}")
        lines = len(output.read_text(encoding="utf-8").splitlines())
    return {"peers": size, "wall": run.wall, "cpu": run.cpu, "peak": run.peak, "lines": lines}


def _install_pods(server: OneServer, folder: Path, names: Sequence[str]) -> None:
    """A pod of the agents and one of clustermesh-apiserver in each cluster, which answer exec with files."""
    answer = folder / "answer"
    answer.write_text(_ANSWER, encoding="ascii")
    answer.chmod(0o755)

    def one(name: str) -> None:
        for app, containers in (("cilium", ("cilium-agent",)), ("clustermesh-apiserver", ("etcd", "apiserver", "kvstoremesh"))):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{app}-1", "namespace": name, "labels": {"k8s-app": app}},
                "spec": {
                    "nodeName": "node-1",
                    "containers": [{"name": container, "image": "example.invalid/none"} for container in containers],
                },
            }
            server.api.create(pod)
            status = {"phase": "Running", "podIP": f"127.{server.lab}.1.10", "conditions": [{"type": "Ready", "status": "True"}]}
            server.api.patch(f"{path_of(pod)}/status", {"status": status})
            listing = {"containers": {c: {"exec": [str(answer), name], "log": os.devnull} for c in containers}, "connect": []}
            (server.pods / f"{name}_{app}-1.json").write_text(json.dumps(listing), encoding="utf-8")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, names))


def _write_peers(server: OneServer, peers: dict[str, list[str]], endpoint: str, folder: Path) -> None:
    """The Secrets of the links: every peer is dialled at ``endpoint``, with the certificate in ``folder``."""
    text = f"endpoints:\n- {endpoint}\ntrusted-ca-file: {_FILES}-ca.crt\ncert-file: {_FILES}.crt\nkey-file: {_FILES}.key\n"
    own = {key: (folder / file).read_bytes() for key, file in (("ca.crt", "ca.crt"), ("tls.crt", "remote.crt"), ("tls.key", "remote.key"))}

    def one(name: str) -> None:
        for secret, values in (
            ("cilium-kvstoremesh", dict.fromkeys(peers[name], text.encode())),
            ("clustermesh-apiserver-remote-cert", own),
        ):
            data = {key: b64encode(value).decode() for key, value in values.items()}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": name}, "data": data}
            server.api.patch(path_of(body), body, kind=APPLY, field_manager="bench", force=True)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, peers))


def _write_answers(folder: Path, peers: Sequence[str]) -> None:
    """What kvstoremesh, an agent and ``troubleshoot`` print of a mesh in which all is well."""
    folder.mkdir(exist_ok=True)
    synced = dict.fromkeys(("nodes", "endpoints", "identities", "services"), True)
    clusters = [
        {
            "name": peer,
            "ready": True,
            "connected": True,
            "status": "etcd: 1/1 connected, leases=0, lock leases=0, has-quorum=true: endpoint status checks are disabled, ID: 1a2b3c4d",
            "num-nodes": NODES,
            "num-endpoints": 10,
            "num-identities": 5,
            "num-shared-services": 2,
            "config": {"required": True, "retrieved": True, "cluster-id": number},
            "synced": synced,
        }
        for number, peer in enumerate(peers, 1)
    ]
    probe = {"latency": 512345, "lastProbed": "2026-09-01T12:00:00Z"}
    address = {"primary-address": {"ip": "192.0.2.1", "http": probe, "icmp": probe}}
    nodes = [{"name": f"{peer}/node-{n}", "host": address, "health-endpoint": address} for peer in peers for n in range(NODES)]
    sections = [f'Cluster "{peer}":\n✅ Etcd connection successfully established\n\n' for peer in sorted(peers)]
    (folder / "kvstoremesh").write_text(json.dumps(clusters, indent=2), encoding="utf-8")
    (folder / "agent").write_text(json.dumps({"cluster-mesh": {"clusters": clusters}}, indent=2) + "\n", encoding="utf-8")
    (folder / "between").write_text("---\n", encoding="ascii")
    (folder / "health").write_text(json.dumps({"nodes": nodes, "timestamp": "2026-09-01T12:00:00Z"}, indent=2) + "\n", encoding="utf-8")
    (folder / "troubleshoot").write_text("".join(sections), encoding="utf-8")
