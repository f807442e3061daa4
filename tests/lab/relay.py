# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Bytes from one socket to another, through a link that may be slow or frozen."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

_CHUNK = 65536
_QUEUE = 64
_RESET = struct.pack("ii", 1, 0)


class Link:
    """The way from one place to a cluster's mesh endpoint: what ails it, and the connections on it. Same for every address of that
    endpoint."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.cut = False
        self.delay = 0.0
        self.blocked: frozenset[str] = frozenset()  # ports between nodes, as "udp/8472"
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def frozen(self) -> bool:
        return not self._thawed.is_set()

    def freeze(self) -> None:
        """Bytes vanish from now on while connections stay. They are kept and delivered when the link thaws, as TCP would send them
        again."""
        self._thawed.clear()

    def heal(self) -> None:
        self.cut = False
        self.blocked = frozenset()
        self.delay = 0.0
        self._thawed.set()

    def faults(self) -> list[str]:
        """What ails it, in words; empty when it is well."""
        found = ["cut"] if self.cut else []
        found += ["frozen"] if self.frozen else []
        found += [f"{port} between nodes blocked" for port in sorted(self.blocked)]
        return found + ([f"slow {self.delay * 1000:g} ms"] if self.delay else [])

    async def pass_on(self, sent_at: float) -> None:
        """Wait until what was sent at ``sent_at`` (loop time) arrives."""
        if self.delay:
            await asyncio.sleep(max(0.0, sent_at + self.delay - asyncio.get_running_loop().time()))
        await self._thawed.wait()

    def carry(self, client: socket.socket, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        """Serve one accepted connection in the background."""
        task = asyncio.get_running_loop().create_task(self._serve(client, dial))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def reset(self) -> None:
        """End all connections with RST."""
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, client: socket.socket, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        with client:
            try:
                await self.pass_on(asyncio.get_running_loop().time())
                server = await dial()
            except (OSError, asyncio.CancelledError):
                abort(client)
                return
            with server:
                try:
                    await splice(client, server, self)
                except (OSError, ExceptionGroup, asyncio.CancelledError):
                    abort(client)
                    abort(server)


async def splice(left: socket.socket, right: socket.socket, link: Link | None = None, *, first: bytes = b"") -> None:
    """Carry bytes both ways until both sides have ended. ``first`` was already read from ``left``.
    Raises an ExceptionGroup of OSError when one side breaks."""
    for end in (left, right):
        if end.family in (socket.AF_INET, socket.AF_INET6):
            # Nagle's algorithm and delayed acknowledgement together hold small messages back for 40 ms, each way, which no wire does.
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(_pump(left, right, link, first))
        group.create_task(_pump(right, left, link, b""))


async def _pump(source: socket.socket, target: socket.socket, link: Link | None, first: bytes) -> None:
    loop = asyncio.get_running_loop()
    if first:
        await loop.sock_sendall(target, first)
    if link is None:
        while data := await loop.sock_recv(source, _CHUNK):
            await loop.sock_sendall(target, data)
    else:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUE)
        async with asyncio.TaskGroup() as group:
            group.create_task(_read(source, queue))
            group.create_task(_write(target, queue, link))
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _read(source: socket.socket, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
    loop = asyncio.get_running_loop()
    data = b"\0"
    while data:
        try:
            data = await loop.sock_recv(source, _CHUNK)
        except ConnectionResetError:
            data = b""
        await queue.put((loop.time(), data))


async def _write(target: socket.socket, queue: asyncio.Queue[tuple[float, bytes]], link: Link) -> None:
    loop = asyncio.get_running_loop()
    while True:
        sent_at, data = await queue.get()
        await link.pass_on(sent_at)
        if not data:
            return
        await loop.sock_sendall(target, data)


def abort(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()
