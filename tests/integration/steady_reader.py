# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clients that read through the mesh the whole time, each time over a new connection, and write down every failure.

One reads the peer's etcd with the files that the cluster's own kvstoremesh sees at that moment, as its kubelet projected them. The other
asks the agents' stand-in, which connects to its own kvstoremesh's etcd with the files of its pod and reads the peer's cached state there.
As etcd's own client does for reads, a read whose connection breaks is tried once more at once (etcd clientv3, retry_interceptor.go): a pod
that is replaced breaks connections, also in the middle of a handshake. What is refused is refused again. A user that may not read counts
when it may not for a while: clustermesh-apiserver makes the users of a new etcd and grants their roles when its pod takes connections
already (clustermesh-apiserver/clustermesh/users_mgmt.go), and its clients try again. In the same way a new kvstoremesh of the lab has not
copied its peer for a moment: its binary has no /readyz, which would keep the pod out of the Service until then (tests/lab/translate.py).

Both live in a process of their own: gRPC and a test that starts programs do not go together in one (grpc, doc/fork_support.md).
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import Sealed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdAccess, EtcdError, EtcdReader, ReadFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.patience import scaled

MOUNT = "/var/lib/cilium/clustermesh/"
EVERY = 0.3  # seconds between two reads of etcd
AGENT_EVERY = 1.0  # a connection, a TLS handshake and three processes each
GRANTED = 5.0  # seconds until which a new etcd lets its users read, or has what it copies; on a quiet machine it takes some milliseconds
NOT_COPIED = "remote cluster configuration required but not found"
TIMEOUT = 10.0  # machines that run many tests are slow; a refusal is not


@dataclass
class SteadyReader:
    """Reads ``peer`` from ``cluster`` until it is left. ``errors``: (seconds since the start, what failed)."""

    lab: MeshLab
    cluster: str
    peer: str
    errors: list[tuple[float, str]] = field(default_factory=list)
    reads: int = 0
    agent_reads: int = 0

    def __enter__(self) -> Self:
        service = self.lab.api(self.peer).get(f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver")
        assert service is not None
        ips = tuple(row["ip"] for row in service["status"]["loadBalancer"]["ingress"])
        place = self.lab.lab.folder / "clusters" / self.cluster / "pods"
        kubeconfig = str(self.lab.lab.clusters[self.cluster].kubeconfig)
        agent = self.lab.api(self.cluster).list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=cilium")[0]
        context = multiprocessing.get_context("spawn")
        self._stop, self._found = context.Event(), context.Queue()
        client = Client(cluster=self.cluster, peer=self.peer, ips=ips, place=place, kubeconfig=kubeconfig, agent=agent["metadata"]["name"])
        self._process = context.Process(target=client.run, args=(self._stop, self._found), daemon=True)
        self._process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self.errors, self.reads, self.agent_reads = self._found.get(timeout=4 * TIMEOUT)
        self._process.join(timeout=TIMEOUT)
        if error is not None and self.errors:
            error.add_note(f"Meanwhile reads through the mesh failed, (seconds since the first one, why): {self.errors}")


@dataclass
class Client:
    """What reads, in its own process."""

    cluster: str
    peer: str
    ips: tuple[str, ...]
    place: Path  # of the pods' files
    kubeconfig: str
    agent: str  # pod
    errors: list[tuple[float, str]] = field(default_factory=list)
    reads: int = 0
    agent_reads: int = 0

    def run(self, stop: Any, found: Any) -> None:
        """Until ``stop`` is set; then the errors and both numbers of reads go into ``found``."""
        began = time.monotonic()
        pairs = ((self._read, EVERY), (self._ask_agent, AGENT_EVERY))
        threads = [threading.Thread(target=self._repeat, args=(*pair, began, stop)) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.put((self.errors, self.reads, self.agent_reads))

    def _repeat(self, once: Callable[[], str], pause: float, began: float, stop: Any) -> None:
        while not stop.is_set():
            problem = once()
            if problem:
                self.errors.append((round(time.monotonic() - began, 2), problem))
            stop.wait(pause)

    def _read(self) -> str:
        """ "" or why neither of two reads came back."""
        self.reads += 1
        first = self._heartbeat()
        until = time.monotonic() + scaled(GRANTED)
        while first is not None and first.why is ReadFailure.DENIED and time.monotonic() < until:
            time.sleep(EVERY)
            first = self._heartbeat()
        if first is None or first.why not in (ReadFailure.UNREACHED, ReadFailure.UNTRUSTED):
            return first.message if first else ""
        second = self._heartbeat()  # with the files as they are now
        return f"{first.message} Then: {second.message}" if second else ""

    def _heartbeat(self) -> EtcdError | None:
        try:
            with EtcdReader(self._access(), timeout=TIMEOUT) as reader:
                reader.get("cilium/.heartbeat")
        except EtcdError as error:
            return error
        except (OSError, KeyError, ValueError) as error:
            return EtcdError(ReadFailure.BROKEN, f"no usable configuration in the pod: {error!r}")
        return None

    def _access(self) -> EtcdAccess:
        config, files = self._projected()
        host, _, port = config["endpoints"][0].removeprefix("https://").rpartition(":")
        ca, certificate, key = (Sealed(files[config[name].removeprefix(MOUNT)]) for name in ("trusted-ca-file", "cert-file", "key-file"))
        return EtcdAccess(hostname=host, port=int(port), ips=self.ips, ca=ca, certificate=certificate, key=key)

    def _projected(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The configuration, and every file of its volume, all of one moment: a folder that is replaced meanwhile is read again.

        The lab renames a folder before it empties it (tests/lab/volumes.py), so one that is still there has been read as a whole.
        """
        while True:
            try:
                folder = self._folder()
                files = {path.name: path.read_bytes() for path in folder.iterdir()}
            except FileNotFoundError:
                continue
            if folder.exists():
                return yaml.safe_load(files[self.peer]), files

    def _folder(self) -> Path:
        """The volume of the newest pod of kvstoremesh that has one, as of now: every file in it is of one moment."""
        pods = self.place.glob("[!.]*/volumes/kvstoremesh-secrets/..data")
        newest = max((link for link in pods if (link / self.peer).exists()), key=lambda link: link.parent.stat().st_ctime)
        return newest.resolve()

    def _ask_agent(self) -> str:
        self.agent_reads += 1
        first, copying = self._agent_says()
        until = time.monotonic() + scaled(GRANTED)
        while copying and time.monotonic() < until:
            time.sleep(EVERY)
            first, copying = self._agent_says()
        return f"{first} Then: {second}" if first and (second := self._agent_says()[0]) else ""

    def _agent_says(self) -> tuple[str, bool]:
        """Return "" or what is wrong, and whether that is because its kvstoremesh is new and still copies."""
        access = ClusterAccess(host=self.cluster, kubeconfig=self.kubeconfig, context=None)
        try:
            with open_cluster(access) as client:
                answer = client.exec(self.agent, "cilium-agent", ["cilium", "status", "-o", "json"], timeout=30.0)
        except ClusterError as error:
            return f"the agent cannot be asked: {error.message}", False
        rows = json.loads(answer.stdout)["cluster-mesh"]["clusters"] if answer.exit_code == 0 else []
        row: dict[str, Any] = next((row for row in rows if row["name"] == self.peer), {})
        retrieved, status = row.get("config", {}).get("retrieved"), row.get("status", answer.stderr)
        if row.get("ready") and retrieved:
            return "", False
        # A new kvstoremesh copies the configuration first, and the peer is ready when it has copied every family of keys.
        return f"the agent does not read {self.peer} through its own kvstoremesh: {status}", bool(retrieved) or NOT_COPIED in status
