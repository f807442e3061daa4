# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server on loopback that answers what a test tells it, and the kubeconfig for it.

For faults and answers that a real API server does not give on demand; what a real one does is tested on a real one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.testing.made_certificates import Made, make

CANARY = "canary-5f1e"  # what no message may contain


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """``frames``: answer with a WebSocket that sends these messages and closes."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    frames: list[bytes] | None = None
    hang_up: bool = False
    delay: float = 0.0


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up in the handshake are what many tests are about."""


class ScriptedServer:
    """``answer`` is called for every request, in the server's threads; ``asked`` holds them all."""

    def __init__(self, folder: Path, *, client_ca: Made | None = None) -> None:
        self.authority = make("server CA", ca=True)
        certificate = make("server", issuer=self.authority, names=["127.0.0.1"])
        self.asked: list[Asked] = []
        self.sent_to_websocket: list[bytes] = []
        self.answer: Callable[[Asked], Answer] = lambda asked: Answer(404)
        self.stop = threading.Event()
        pem = folder / "server.pem"
        pem.write_bytes(certificate.pem + certificate.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
        if client_ca:
            tls.load_verify_locations(cadata=client_ca.pem.decode())
            tls.verify_mode = ssl.CERT_REQUIRED
            tls.maximum_version = (
                ssl.TLSVersion.TLSv1_2
            )  # refuses within the handshake; in 1.3 the alert and the end of the connection race
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()

    def kubeconfig(self, user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
        """A kubeconfig for this server; ``cluster`` adds to or replaces its cluster entry (None removes)."""
        entry = {"server": self.url, "certificate-authority-data": base64.b64encode(self.authority.pem).decode()}
        entry = {k: v for k, v in (entry | {k.replace("_", "-"): v for k, v in cluster.items()}).items() if v is not None}
        return kubeconfig(entry, {"token": CANARY} if user is None else user)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for the acknowledgement of its head

            def log_message(self, *_: Any) -> None:
                pass

            def _serve(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(length))
                server.asked.append(asked)
                answer = server.answer(asked)
                server.stop.wait(answer.delay)
                if answer.hang_up:
                    self.close_connection = True
                elif answer.frames is not None:
                    self._speak(answer.frames)
                else:
                    self._send(answer)

            def _send(self, answer: Answer) -> None:
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"content-length": str(len(body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def _speak(self, frames: list[bytes]) -> None:
                key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
                self.send_response(101)
                self.send_header("upgrade", "websocket")
                self.send_header("connection", "Upgrade")
                self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
                self.send_header("sec-websocket-protocol", self.headers["sec-websocket-protocol"].split(",")[0])
                self.end_headers()
                for frame in frames:
                    size = bytes([len(frame)]) if len(frame) < 126 else b"\x7e" + len(frame).to_bytes(2, "big")
                    self.wfile.write(b"\x82" + size + frame)
                self.wfile.write(b"\x88\x00")
                self.wfile.flush()
                server.sent_to_websocket.append(self.connection.recv(4096))
                self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = _serve

        return Handler


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }
