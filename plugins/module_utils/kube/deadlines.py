# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Deadline for everything that one request does on its connection, however slowly the other side sends or reads.

The timeouts of sockets are for silence: a server that sends one byte every few seconds never meets them. ``ssl.SSLContext.sslsocket_class``
is Python's hook for a socket class of one's own, and urllib3 and websocket-client both take their sockets from our context. So one class
bounds heads, bodies and frames alike. A connection without TLS becomes such a socket as soon as it is made (``connections.py``), but for
streams (``streams.py``) and what goes through a SOCKS proxy; the operator accepts neither from a tenant.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

_AHEAD: Final = 4096  # bytes


class DeadlinePassed(TimeoutError):
    """End of the time for a request, whatever it was waiting for."""


_until: ContextVar[float | None] = ContextVar("_until", default=None)  # time.monotonic


@contextmanager
def all_within(seconds: float) -> Iterator[None]:
    """Let all operations in this block on sockets with deadlines end after ``seconds`` together, by TimeoutError."""
    outer, until = _until.get(), time.monotonic() + seconds
    token = _until.set(until if outer is None else min(outer, until))
    try:
        yield
    finally:
        _until.reset(token)


def deadline_passed() -> bool:
    """Return whether the deadline of the block has passed; False outside of one."""
    until = _until.get()
    return until is not None and time.monotonic() >= until


class _Bounded(socket.socket):
    """Socket whose operations heed ``all_within``. The system bounds a single one by the socket's timeout."""

    _ahead = b""  # received, and not asked for yet

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive bytes, within the deadline.

        websocket-client reads the head of an answer byte by byte, which costs more than all the rest of a short command; so what a single
        byte is asked of is read ahead.
        """
        if not self._ahead:
            self._ahead = self._received(_AHEAD if buflen == 1 and not flags else buflen, flags)
        found, self._ahead = self._ahead[:buflen], self._ahead[buflen:]
        return found

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Receive bytes into a buffer, within the deadline."""
        nbytes = nbytes or len(memoryview(buffer).cast("B"))  # None and 0 mean that to one of the two kinds of sockets each
        if self._ahead:
            found = self.recv(nbytes)
            memoryview(buffer).cast("B")[: len(found)] = found
            return len(found)
        if self._bounded():
            return super().recv_into(buffer, nbytes, flags)
        with self._in_time():
            return super().recv_into(buffer, nbytes, flags)

    def _received(self, size: int, flags: int) -> bytes:
        if self._bounded():
            return super().recv(size, flags)
        with self._in_time():
            return super().recv(size, flags)

    def send(self, data: Any, flags: int = 0) -> int:
        """Send bytes, within the deadline."""
        with self._in_time():
            return super().send(data, flags)

    def _bounded(self) -> bool:
        """Return whether the timeout of the socket ends the next operation before the deadline does, or there is no deadline."""
        until = _until.get()
        if until is None:
            return True
        own = self.gettimeout()
        return own is not None and own <= until - time.monotonic()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        if self._bounded():
            yield
            return
        until, before = _until.get(), self.gettimeout()
        left = 0.0 if until is None else until - time.monotonic()
        if left <= 0:
            raise DeadlinePassed("the deadline of the request has passed")
        self.settimeout(left)
        try:
            yield
        except TimeoutError:
            raise DeadlinePassed("the deadline of the request has passed") from None
        finally:
            with suppress(OSError):  # closed meanwhile
                self.settimeout(before)


class PlainDeadlineSocket(_Bounded):
    """Connection without TLS whose operations heed ``all_within``."""

    @classmethod
    def instead_of(cls, connection: socket.socket) -> PlainDeadlineSocket:
        """Return a socket for a connection that another socket had; that one is closed."""
        timeout = connection.gettimeout()
        made = cls(connection.family, connection.type, connection.proto, fileno=connection.detach())
        made.settimeout(timeout)
        return made

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all bytes, within the deadline."""
        with self._in_time():
            super().sendall(data, flags)


class DeadlineSocket(_Bounded, ssl.SSLSocket):
    """TLS connection whose operations heed ``all_within``. OpenSSL bounds a single handshake by the socket's timeout, too."""

    def do_handshake(self, block: bool = False) -> None:
        """Do the handshake, within the deadline."""
        with self._in_time():
            super().do_handshake(block)
