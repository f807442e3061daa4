# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of peers out of one real etcd: what their clustermesh-apiservers would publish, for benches and for readers of many peers.

    with GeneratedPeers(tools, folder, clusters=200) as peers:
        peers.write_configurations(folder / "mesh")     # one etcd client file per peer, for kvstoremesh, agents and Cilium's tools

    python -m tests.lab.peer_generator --clusters 200 --folder /tmp/peers

The keys are those of a kvstoremesh (``cilium/cache/KIND/v1/CLUSTER/...`` with ``cached`` in the cluster's configuration), because
identities and addresses of several clusters lie apart only there. Source of keys and values: pkg/clustermesh, pkg/node/types, pkg/ipcache
and pkg/identity of Cilium 1.15 to 1.20.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.patience import scaled
from tests.lab.pki import Authority

KINDS = ("nodes", "services", "identities", "ip")
HOST = "127.0.0.1"
_BATCH = 100  # puts of one transaction; etcd takes 128


@dataclass(frozen=True, kw_only=True)
class PeerSize:
    """How much one peer publishes."""

    nodes: int = 2
    services: int = 2
    identities: int = 5
    addresses: int = 5


def peer_name(number: int) -> str:
    """Name of the peer with this cluster id."""
    return f"peer-{number:03d}"


def peer_keys(number: int, size: PeerSize, *, now: datetime, most: int = 255) -> dict[str, str]:
    """Every key that the peer with this cluster id publishes, with its value. ``most``: maxConnectedClusters of the mesh."""
    name = peer_name(number)
    base = number << (24 - most.bit_length())  # pkg/clustermesh/types/option.go: the cluster id is the upper part of an identity
    network = list(_addresses(number, size.nodes + size.addresses + size.services))
    nodes, pods, services = network[: size.nodes], network[size.nodes :][: size.addresses], network[size.nodes + size.addresses :]
    capabilities = {"syncedCanaries": True, "maxConnectedClusters": most, "cached": True}
    keys = {
        f"cilium/cluster-config/{name}": _json({"id": number, "capabilities": capabilities}),
        **{f"cilium/synced/{name}/cilium/cache/{kind}/v1": now.isoformat() for kind in KINDS},
    }
    for place, address in enumerate(nodes):
        keys[f"cilium/cache/nodes/v1/{name}/{name}/node-{place}"] = _json(
            {
                "Name": f"node-{place}",
                "Cluster": name,
                "ClusterID": number,
                "IPAddresses": [{"Type": "InternalIP", "IP": str(address)}],
                "Source": "kvstore",
            }
        )
    for place in range(size.identities):
        labels = f"k8s:app=app-{place};k8s:io.cilium.k8s.policy.cluster={name};k8s:io.kubernetes.pod.namespace=shop;"
        keys[f"cilium/cache/identities/v1/{name}/id/{base + 1 + place}"] = labels
    for place, address in enumerate(pods):
        entry = {"IP": str(address), "ID": base + 1 + place % max(1, size.identities), "Metadata": f"cilium-global:{name}:node-0"}
        keys[f"cilium/cache/ip/v1/{name}/{address}"] = _json(entry | ({"HostIP": str(nodes[0])} if nodes else {}))
    for place, address in enumerate(services):
        keys[f"cilium/cache/services/v1/{name}/shop/service-{place}"] = _json(_service(number, name, place, address, pods))
    return keys


def _service(number: int, name: str, place: int, address: IPv4Address, pods: list[IPv4Address]) -> Mapping[str, Any]:
    http = {"http": {"Protocol": "TCP", "Port": 80}}
    return {
        "cluster": name,
        "clusterID": number,
        "namespace": "shop",
        "name": f"service-{place}",
        "frontends": {str(address): http},
        "backends": {str(pod): {"http": {"Protocol": "TCP", "Port": 8080}} for pod in pods},
        "labels": {},
        "selector": {"app": f"app-{place}"},
        "shared": True,
        "includeExternal": True,
    }


def _addresses(number: int, count: int) -> Iterator[IPv4Address]:
    """Addresses of the peer: 10.N.0.0/16 of its own for N up to 255, and a range of 172.16.0.0/12 and further on above."""
    network = (
        IPv4Network(f"10.{number}.0.0/16")
        if number < 256
        else IPv4Network(f"172.{16 + (number - 256) // 16}.{(number - 256) % 16 * 16}.0/20")
    )
    hosts = network.hosts()
    return (next(hosts) for _place in range(count))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class PeersUnavailable(RuntimeError):
    """The etcd of the peers did not start, or did not take their keys."""


class GeneratedPeers:
    """A real etcd with the keys of many clusters, served with TLS to clients of its own CA. Use as a context manager."""

    def __init__(self, etcd: Path, folder: Path, *, clusters: int, size: PeerSize | None = None, first_id: int = 2) -> None:
        """``first_id`` is the cluster id of the first peer: id 1 is usually the cluster that reads. PeersUnavailable: too many."""
        if clusters < 1 or first_id < 1 or first_id + clusters - 1 > 511:
            raise PeersUnavailable(f"cluster ids {first_id} to {first_id + clusters - 1}: a mesh has ids 1 to 511")
        self._etcd, self._folder, self._size = etcd, folder, size or PeerSize()
        self.numbers = range(first_id, first_id + clusters)
        self.most = 255 if self.numbers[-1] <= 255 else 511
        self.names = tuple(peer_name(number) for number in self.numbers)
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        authority = Authority(self._folder, "generated peers")
        server = authority.issue("server", "server", names=["peers.mesh.cilium.io", "*.mesh.cilium.io", HOST])
        self._client = authority.issue("remote", "remote")
        self.port, beside = _free_ports()
        self.endpoint = f"https://{HOST}:{self.port}"
        self._child = _start(self._etcd, self._folder, self.endpoint, f"http://{HOST}:{beside}", server.cert, server.key)
        try:
            self._trust = ssl.create_default_context(cafile=str(authority.cert))
            self._trust.load_cert_chain(self._client.cert, self._client.key)
            self._wait()
            self.keys = self._load()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the etcd. Twice is fine."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def configuration(self, *, comment: str = "") -> str:
        """The etcd client file by which any of the peers is read; a ``comment`` makes it a file like no other."""
        lines = [f"# {comment}"] if comment else []
        lines += ["endpoints:", f"- {self.endpoint}", f"trusted-ca-file: {self._folder}/ca.crt"]
        lines += [f"cert-file: {self._client.cert}", f"key-file: {self._client.key}"]
        return "\n".join(lines) + "\n"

    def write_configurations(self, folder: Path, *, alike: bool = True) -> None:
        """One file per peer, by its name. ``alike``: all with the same content, as agents have them that read their own kvstoremesh."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.names:
            (folder / name).write_text(self.configuration(comment="" if alike else name), encoding="utf-8")

    def beat(self, now: datetime | None = None) -> None:
        """Write the heartbeat anew; kvstoremesh believes a peer gone after two minutes without one."""
        self._put({"cilium/.heartbeat": (now or datetime.now(UTC)).isoformat(timespec="seconds")})

    def _load(self) -> int:
        now = datetime.now(UTC)
        self.beat(now)
        total = 1
        for number in self.numbers:
            keys = peer_keys(number, self._size, now=now, most=self.most)
            self._put(keys)
            total += len(keys)
        return total

    def _put(self, keys: Mapping[str, str]) -> None:
        puts = [{"requestPut": {"key": _b64(key), "value": _b64(value)}} for key, value in keys.items()]
        for start in range(0, len(puts), _BATCH):
            self._call("/v3/kv/txn", {"success": puts[start : start + _BATCH]})

    def _wait(self) -> None:
        end = time.monotonic() + scaled(30)
        while True:
            if self._child is not None and self._child.poll() is not None:
                raise PeersUnavailable(f"etcd ended: {self._tail()}")
            try:
                return self._call("/v3/maintenance/status", {})
            except PeersUnavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def _call(self, path: str, body: Mapping[str, Any]) -> None:
        request = urllib.request.Request(f"{self.endpoint}{path}", data=_json(body).encode(), headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=self._trust, timeout=scaled(20)) as answer:
                answer.read()
        except (OSError, urllib.error.URLError) as error:
            raise PeersUnavailable(f"etcd does not take {path}: {error}; {self._tail()}") from None

    def _tail(self) -> str:
        log = self._folder / "etcd.log"
        return log.read_text(encoding="utf-8", errors="replace")[-600:] if log.exists() else ""


def _start(etcd: Path, folder: Path, url: str, peers: str, cert: Path, key: Path) -> subprocess.Popen[bytes]:
    argv = [str(etcd), f"--data-dir={folder}/data", "--name=peers", f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    argv += [f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=peers={peers}"]
    argv += [f"--trusted-ca-file={folder}/ca.crt", f"--cert-file={cert}", f"--key-file={key}", "--client-cert-auth", "--unsafe-no-fsync"]
    with (folder / "etcd.log").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _free_ports() -> tuple[int, int]:
    with socket.create_server((HOST, 0)) as one, socket.create_server((HOST, 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def _b64(text: str) -> str:
    return b64encode(text.encode()).decode()


def main(argv: list[str] | None = None) -> int:
    """Serve the peers until the program is ended, and write the heartbeat as clustermesh-apiserver does."""
    from tests.lab.tools import ensure
    from tests.lab.tools.progress import console

    parser = argparse.ArgumentParser(prog="python -m tests.lab.peer_generator", description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=100)
    for name, least in (("nodes", 2), ("services", 2), ("identities", 5), ("addresses", 5)):
        parser.add_argument(f"--{name}", type=int, default=least, help=f"of each peer (default: {least})")
    parser.add_argument("--first-id", type=int, default=2, help="cluster id of the first peer (default: 2)")
    parser.add_argument("--folder", type=Path, help="where certificates and mesh/PEER are written (default: a temporary folder)")
    args = parser.parse_args(argv)
    size = PeerSize(nodes=args.nodes, services=args.services, identities=args.identities, addresses=args.addresses)
    etcd = ensure(("etcd",), progress=console()).path("etcd")
    with tempfile.TemporaryDirectory(prefix="mesh-peers-") as made:
        folder = args.folder or Path(made)
        try:
            with GeneratedPeers(etcd, folder, clusters=args.clusters, size=size, first_id=args.first_id) as peers:
                peers.write_configurations(folder / "mesh")
                print(f"{len(peers.names)} peers, {peers.keys} keys at {peers.endpoint}; etcd client files in {folder}/mesh", flush=True)
                while signal.sigtimedwait({signal.SIGINT, signal.SIGTERM}, 60) is None:
                    peers.beat()
        except PeersUnavailable as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
