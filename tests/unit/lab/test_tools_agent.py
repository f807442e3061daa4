# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The agent stand-in says what a real etcd lets it see, and no more. Real etcd, real certificates; skipped where they are not built yet."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.patience import scaled
from tests.lab.profiles.pki import issue, make_ca
from tests.lab.tools.provide import Tools, at_hand
from tests.testing.waiting import wait_for

PEER = {"id": 7, "capabilities": {"syncedCanaries": True, "maxConnectedClusters": 255}}
KINDS = ("nodes", "services", "identities", "ip")
WAITING = "Waiting for initial connection to be established: "


@dataclass
class Peer:
    """A mesh etcd as Cilium's etcdinit leaves it: user ``remote`` may read c2's state."""

    tools: Tools
    folder: Path
    port: int

    def put(self, key: str, value: str = "{}") -> None:
        self.etcdctl("put", key, value)

    def etcdctl(self, *words: str) -> None:
        files = [f"--{option}={self.folder}/{name}" for option, name in (("cacert", "ca.crt"), ("cert", "root.crt"), ("key", "root.key"))]
        argv = [str(self.tools["etcdctl"]), f"--endpoints=https://127.0.0.1:{self.port}", *files, *words]
        subprocess.run(argv, check=True, capture_output=True, timeout=scaled(20))

    def configure(self, name: str, *, ca: str = "ca", client: str = "remote", endpoint: str = "", more: str = "") -> None:
        endpoint = endpoint or f"https://127.0.0.1:{self.port}"
        files = f"trusted-ca-file: {self.folder}/{ca}.crt\ncert-file: {self.folder}/{client}.crt\nkey-file: {self.folder}/{client}.key\n"
        (self.folder / "mesh" / name).write_text(f"endpoints:\n- {endpoint}\n{files}{more}")

    def status(self, **env: str) -> dict[str, dict[str, Any]]:
        answer = subprocess.run(
            [self.tools["lab-agent"], "status", "-o", "json"],
            env={**os.environ, "CILIUM_CLUSTERMESH_CONFIG": str(self.folder / "mesh"), "LAB_CLUSTER_NAME": "c1", **env},
            check=True,
            capture_output=True,
            timeout=scaled(20),
        )
        return {cluster["name"]: cluster for cluster in json.loads(answer.stdout)["cluster-mesh"]["clusters"] or []}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def write_certificates(folder: Path) -> None:
    ca, other = make_ca("one", key_type="ec"), make_ca("two", key_type="ec")
    (folder / "ca.crt").write_text(ca.cert_pem)
    (folder / "other.crt").write_text(other.cert_pem)
    server = issue(ca, "server", dns=["*.mesh.cilium.io"], ips=["127.0.0.1"], key_type="ec")
    clients = {name: issue(ca, name, key_type="ec") for name in ("root", "remote", "remote-c1")}
    for name, leaf in {"server": server, "alien": issue(other, "remote", key_type="ec"), **clients}.items():
        (folder / f"{name}.crt").write_text(leaf.cert_pem)
        (folder / f"{name}.key").write_text(leaf.key_pem)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    names = ("etcd", "etcdctl", "lab-agent")
    tools = Tools(at_hand(names, print))
    if missing := set(names) - set(tools):
        pytest.skip(f"not built yet: {', '.join(sorted(missing))} (python -m tests.lab.tools build)")
    folder = tmp_path_factory.mktemp("etcd")
    write_certificates(folder)
    peer = Peer(tools, folder, free_port())
    url, peers = f"https://127.0.0.1:{peer.port}", f"http://127.0.0.1:{free_port()}"
    tls = [
        f"--{option}={folder}/{name}"
        for option, name in (("trusted-ca-file", "ca.crt"), ("cert-file", "server.crt"), ("key-file", "server.key"))
    ]
    place = [f"--data-dir={folder}/data", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}"]
    cluster = [f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}", "--unsafe-no-fsync"]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen([tools["etcd"], *place, *cluster, *tls, "--client-cert-auth"], stdout=log, stderr=log)
    try:
        prepare(peer, child)
        yield peer
    finally:
        child.kill()
        child.wait()


def prepare(peer: Peer, child: subprocess.Popen[bytes]) -> None:
    def is_healthy() -> bool:
        peer.etcdctl("endpoint", "health")
        return True

    wait_for(
        is_healthy,
        what="etcd is healthy",
        passing=(subprocess.CalledProcessError,),
        hopeless=lambda: "" if child.poll() is None else "it ended",
        explain=lambda: (peer.folder / "log").read_text()[-2000:],
    )
    for user in ("root", "remote"):
        peer.etcdctl("user", "add", user, "--no-password")
        peer.etcdctl("role", "add", user)
        peer.etcdctl("user", "grant-role", user, user)
    for prefix in ("cilium/.heartbeat", "cilium/state/", "cilium/cache/", "cilium/synced/", "cilium/cluster-config/c2"):
        peer.etcdctl("role", "grant-permission", "remote", "read", prefix, "--prefix")
    peer.etcdctl("auth", "enable")
    (peer.folder / "mesh").mkdir()


@pytest.fixture
def peer(etcd: Peer) -> Iterator[Peer]:
    """The etcd with an empty store and nothing configured."""
    etcd.etcdctl("del", "cilium/", "--prefix")
    for path in (etcd.folder / "mesh").iterdir():
        path.unlink()
    yield etcd


def publish(peer: Peer, name: str = "c2", *, cached: bool = False, without: str = "") -> None:
    """What clustermesh-apiserver (or, ``cached``, a kvstoremesh for ``name``) writes."""
    tree = "cilium/cache" if cached else "cilium/state"
    capabilities = {**PEER["capabilities"], "cached": cached}  # type: ignore[dict-item]  # its capabilities are a mapping
    peer.put(f"cilium/cluster-config/{name}", json.dumps({**PEER, "capabilities": capabilities}))
    for kind in KINDS:
        if kind != without:
            peer.put(f"cilium/synced/{name}/{tree}/{kind}/v1")
    owner = f"/{name}" if cached else ""
    peer.put(f"{tree}/nodes/v1/{name}/node-1")
    peer.put(f"{tree}/nodes/v1/{name}/node-2")
    peer.put(f"{tree}/services/v1/{name}/shop/cart")
    peer.put(f"{tree}/identities/v1{owner}/id/1")
    peer.put(f"{tree}/ip/v1/{name if cached else 'default'}/10.0.0.1")


@pytest.mark.parametrize("cached", [False, True], ids=["the peer itself", "the local kvstoremesh"])
def test_a_peer_that_has_published_everything_is_ready(peer: Peer, cached: bool) -> None:
    publish(peer, cached=cached)
    peer.configure("c2")
    found = peer.status()["c2"]
    assert found["ready"] and found["connected"]
    assert found["config"] == {"required": True, "retrieved": True, "cluster-id": 7, "sync-canaries": True} | (
        {"kvstoremesh": True} if cached else {}
    )
    assert found["synced"] == dict.fromkeys(("nodes", "endpoints", "identities", "services"), True)
    assert {key: value for key, value in found.items() if key.startswith("num-")} == {
        "num-nodes": 2,
        "num-endpoints": 1,
        "num-identities": 1,
        "num-shared-services": 1,
    }


def test_a_peer_still_synchronising_is_connected_but_not_ready(peer: Peer) -> None:
    publish(peer, without="ip")
    peer.configure("c2")
    found = peer.status()["c2"]
    assert found["connected"] and "ready" not in found
    assert found["synced"] == dict.fromkeys(("nodes", "identities", "services"), True)


def test_a_peer_that_calls_itself_otherwise_is_connected_without_configuration(peer: Peer) -> None:
    publish(peer)
    peer.configure("c3")
    found = peer.status()["c3"]
    assert found["connected"] and "ready" not in found
    assert found["config"] == {"required": True}
    assert "remote cluster configuration required but not found: cilium/cluster-config/c3: etcdserver: permission denied" in found["status"]


@pytest.mark.slow
def test_every_way_of_not_connecting_is_distinguished(peer: Peer) -> None:
    publish(peer)
    peer.configure("ca", ca="other")
    peer.configure("client", client="alien")
    peer.configure("user", client="remote-c1")
    peer.configure("refused", endpoint=f"https://127.0.0.1:{free_port()}")
    peer.configure("file", ca="missing")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peer.configure("frozen", endpoint=f"https://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        found = peer.status()
    assert time.monotonic() - start < scaled(4), "one frozen peer must not hold up the answer"
    reasons = {name: cluster["status"].removeprefix(WAITING) for name, cluster in found.items()}
    assert "x509: certificate signed by unknown authority" in reasons["ca"]
    assert "remote error: tls: " in reasons["client"]
    assert reasons["user"] == "etcdserver: permission denied"
    assert reasons["refused"].endswith("connect: connection refused")
    assert reasons["file"].endswith("missing.crt: no such file or directory")
    assert reasons["frozen"] == "context deadline exceeded"
    for cluster in found.values():
        assert cluster["status"].startswith(WAITING)
        assert "connected" not in cluster and "ready" not in cluster and "config" not in cluster
        assert cluster["num-failures"] == 1


def test_host_aliases_are_tried_in_order_and_only_where_cilium_knows_them(peer: Peer) -> None:
    publish(peer)
    aliases = "cilium-host-aliases:\n- hostname: c2.mesh.cilium.io\n  ips: [127.0.0.9, 127.0.0.1]\n"
    peer.configure("c2", endpoint=f"https://c2.mesh.cilium.io:{peer.port}", more=aliases)
    assert peer.status()["c2"]["ready"]
    assert "connected" not in peer.status(LAB_HOST_ALIASES="false")["c2"]


def test_the_own_cluster_and_files_that_are_no_configuration_are_ignored(peer: Peer) -> None:
    peer.configure("c1")
    (peer.folder / "mesh" / "common-etcd-client.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    assert peer.status() == {}
