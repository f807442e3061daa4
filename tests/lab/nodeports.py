# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a lab answer to other nodes: cilium-health says hello, and the tunnel's port sends datagrams back.

The agent stand-in probes both from its own node's network (tests/lab/tools/go/etcd/lab-agent/health.go). A port that is blocked on the way
is refused, as by a firewall that rejects.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final, Protocol

from tests.lab.netns import NetNs, listen

HEALTH, TUNNEL = "tcp/4240", "udp/8472"
PORTS: Final = (HEALTH, TUNNEL)

_HELLO: Final = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"
_REQUEST: Final = 4096


class Answering(Protocol):
    """A port that answers until it is closed."""

    def close(self) -> None: ...


def answer(place: NetNs | None, address: str, port: str) -> Answering:
    """Let a port of a node answer in ``place``. Event loop only. Raises OSError that names address and port."""
    number = int(port.partition("/")[2])
    return _Hello(listen(place, address, number)) if port == HEALTH else _Echo(_datagrams(place, address, number))


def _datagrams(place: NetNs | None, address: str, port: int) -> socket.socket:
    made = place.call(_udp_socket) if place else _udp_socket()
    try:
        made.bind((address, port))
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"bind {address}:{port}/udp in {place.name if place else 'the host'}: {error.strerror}") from None
    return made


def _udp_socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


class _Echo:
    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        asyncio.get_running_loop().add_reader(opened.fileno(), self._return)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def _return(self) -> None:
        with contextlib.suppress(OSError):
            packet, sender = self._socket.recvfrom(_REQUEST)
            self._socket.sendto(packet, sender)


class _Hello:
    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._task = asyncio.get_running_loop().create_task(self._accept())
        self._greetings: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        # As in hub.py: the port must be refused from this moment on.
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._task.cancel()
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._socket)
            task = loop.create_task(_greet(client))
            self._greetings.add(task)
            task.add_done_callback(self._greetings.discard)


async def _greet(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with client, contextlib.suppress(OSError):
        client.setblocking(False)
        await loop.sock_recv(client, _REQUEST)
        await loop.sock_sendall(client, _HELLO)
