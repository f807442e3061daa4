# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A listener on loopback, with TLS or without, that speaks in whatever way a test wants, byte by byte, and the kubeconfig for it."""

from __future__ import annotations

import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.testing.made_certificates import make
from tests.testing.scripted_server import CANARY, kubeconfig
from tests.testing.waiting import PATIENT

DECODE_ERROR = b"\x15\x03\x03\x00\x02\x02\x32"  # a fatal alert (RFC 8446, 6.2)
DRIP = 0.02  # seconds between two bytes
_ESTABLISHED = 1  # the first byte of struct tcp_info, tcpi_state (linux/tcp.h)


class HostileServer:
    """``speak`` is called for each connection whose request was read, with the connection and the request's head."""

    def __init__(self, folder: Path, *, tls: bool = True) -> None:
        self._scheme = "https" if tls else "http"
        self._authority = make("server CA", ca=True)
        certificate = make("server", issuer=self._authority, names=["127.0.0.1"])
        pem = folder / "hostile.pem"
        pem.write_bytes(certificate.pem + certificate.key)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pem)
        self.speak: Callable[[socket.socket, str], None] = lambda connection, head: None
        self.heads: list[str] = []
        self.breaks = 0  # TLS handshakes, from the first on
        self.handshakes = 0
        self.stop = threading.Event()
        self._spoken_to: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def connections(self) -> frozenset[socket.socket]:
        """Return the connections that it speaks on and that the client has not closed: the kernel closes those of a process that ended."""
        return frozenset(connection for connection in list(self._spoken_to) if _is_established(connection))

    def kubeconfig(self) -> dict[str, Any]:
        authority = base64.b64encode(self._authority.pem).decode()
        trusted = {"certificate-authority-data": authority} if self._scheme == "https" else {}
        return kubeconfig({"server": self.url, **trusted}, {"token": CANARY})

    def drip(self, connection: socket.socket, data: Iterable[int]) -> None:
        """Send byte by byte until the client hangs up or the test ends."""
        for byte in data:
            if self.stop.wait(DRIP):
                return
            connection.sendall(bytes([byte]))

    def wait(self, connection: socket.socket) -> None:
        """Say nothing until the client hangs up or the test ends."""
        connection.settimeout(DRIP)
        while not self.stop.is_set():
            with suppress(TimeoutError):
                if not connection.recv(4096):
                    return

    def _accept(self) -> None:
        while not self.stop.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=[connection]))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENT)
        self.handshakes += 1
        if self.handshakes <= self.breaks:
            with connection:
                connection.recv(1 << 16)
                connection.sendall(DECODE_ERROR)
            return
        with suppress(OSError), self._wrapped(connection) as wrapped:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                received = wrapped.recv(4096)
                if not received:
                    return
                head += received
            self.heads.append(head.decode())
            self._spoken_to.add(wrapped)
            try:
                self.speak(wrapped, self.heads[-1])
            finally:
                self._spoken_to.discard(wrapped)

    def _wrapped(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._scheme == "https" else connection


def _is_established(connection: socket.socket) -> bool:
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
    except OSError:  # closed meanwhile
        return False


def upgrade(head: str) -> bytes:
    """The answer that begins a WebSocket (RFC 6455, 4.2.2)."""
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n"))}
    accepted = hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {base64.b64encode(accepted).decode()}\r\n"
        f"Sec-WebSocket-Protocol: {fields['sec-websocket-protocol'].split(',')[0]}\r\n\r\n"
    ).encode()
