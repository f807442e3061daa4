# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How kube-apiserver reaches pods: an HTTP CONNECT proxy on a unix socket, as its egress selector wants it (konnectivity's protocol).

Pod addresses exist in the API only; the proxy turns them into the pod's network namespace. Kubelets are reached as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.lab.hub import dial_place
from tests.lab.netns import NetNs, new_socket
from tests.lab.relay import splice

_HEAD_LIMIT = 8192
FindPod = Callable[[str], NetNs | None]


def configuration(path: str) -> str:
    """Content for ``--egress-selector-config-file``; ``path`` of the socket may be relative to the server's working directory."""
    transport = {"uds": {"udsName": path}}
    selections = [
        {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}},
        {"name": "controlplane", "connection": {"proxyProtocol": "Direct"}},
        {"name": "etcd", "connection": {"proxyProtocol": "Direct"}},
    ]
    return yaml.safe_dump({"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": selections})


class EgressProxy:
    """The proxy of one cluster; ``find_pod`` gives a pod's namespace for its address, or None."""

    def __init__(self, path: Path, find_pod: FindPod) -> None:
        self._find_pod = find_pod
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._tasks: set[asyncio.Task[None]] = set()
        self._track(self._accept())

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._listener.close()

    def _track(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        while True:
            client, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            self._track(self._serve(client))

    async def _serve(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with client, contextlib.suppress(OSError, ExceptionGroup):
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _HEAD_LIMIT:
                data = await loop.sock_recv(client, _HEAD_LIMIT)
                if not data:
                    return
                head += data
            head, _, rest = head.partition(b"\r\n\r\n")
            try:
                server = await self._dial(head.split(b"\r\n")[0].decode("ascii", errors="replace"))
            except OSError as error:
                await loop.sock_sendall(client, f"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\n\r\n{error}\n".encode())
                return
            with server:
                await loop.sock_sendall(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
                await splice(client, server, first=rest)

    async def _dial(self, request: str) -> socket.socket:
        host, port = parse_connect(request)
        place = self._find_pod(host)
        if place:
            return await dial_place(place, port)
        if not ipaddress.ip_address(host).is_loopback:
            raise OSError(f"no pod with a process of its own has the address {host}")
        made = new_socket(None)
        try:
            await asyncio.get_running_loop().sock_connect(made, (host, port))
        except OSError:
            made.close()
            raise
        return made


def parse_connect(request: str) -> tuple[str, int]:
    """Host and port of ``CONNECT host:port HTTP/1.1``. Raises OSError for anything else."""
    words = request.split()
    if len(words) == 3 and words[0] == "CONNECT":
        host, _, port = words[1].rpartition(":")
        try:
            return str(ipaddress.ip_address(host.strip("[]"))), int(port)
        except ValueError:
            pass
    raise OSError(f"the proxy knows only CONNECT ADDRESS:PORT, not {request[:80]!r}")
