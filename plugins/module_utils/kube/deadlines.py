# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Deadline for everything that one request does on its TLS connection, however slowly the other side sends or reads.

The timeouts of sockets are for silence: a server that sends one byte every few seconds never meets them. ``ssl.SSLContext.sslsocket_class``
is Python's hook for a socket class of one's own, and urllib3 and websocket-client both take their sockets from our context. So one class
bounds heads, bodies and frames alike. Without TLS there is no deadline; the operator accepts no such server from a tenant.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

_AHEAD: Final = 4096  # bytes

_until: ContextVar[float | None] = ContextVar("_until", default=None)  # time.monotonic


@contextmanager
def all_within(seconds: float) -> Iterator[None]:
    """Let all operations in this block on connections of ``DeadlineSocket`` end after ``seconds`` together, by TimeoutError."""
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


class DeadlineSocket(ssl.SSLSocket):
    """TLS connection whose operations heed ``all_within``. OpenSSL bounds a single handshake, read or write by the socket's timeout."""

    _ahead = b""  # received, and not asked for yet

    def do_handshake(self, block: bool = False) -> None:
        """Do the handshake, within the deadline."""
        with self._in_time():
            super().do_handshake(block)

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
        if self._ahead:
            found = self.recv(nbytes or len(memoryview(buffer).cast("B")))
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
            raise TimeoutError("the deadline of the request has passed")
        self.settimeout(left)
        try:
            yield
        finally:
            with suppress(OSError):  # closed meanwhile
                self.settimeout(before)
