# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The listening side: HTTPS on loopback, one server for each shard, a thread for each connection."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.testing.kcp_double.answers import Reply, Request, failure

App = Callable[[Request], Reply]
# What a reader of a connection that was closed under him may raise.
_GONE: Final = (ssl.SSLError, OSError, ValueError)


class ShardServer:
    """``answer`` is called for every request; ``streaming(request, reply)`` is entered while a watch goes on, and says whether it broke."""

    def __init__(self, shard: str, context: ssl.SSLContext, answer: App, streaming: Callable[[Request, Reply], Any]) -> None:
        self.shard = shard
        self._context = context
        self._answer = answer
        self._streaming = streaming
        self._server: _Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self, *, new_port: bool = False) -> None:
        """On the port that it had before, unless a new one is wanted."""
        self._server = _Server(("127.0.0.1", 0 if new_port else self.port), self.shard, self._context, self._answer, self._streaming)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name=f"kcp-double-{self.shard}", daemon=True).start()

    def stop(self) -> None:
        """All connections break."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.break_all()
            self._server = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], shard: str, context: ssl.SSLContext, answer: App, streaming: Callable[[Request, Reply], Any]
    ) -> None:
        self.shard = shard
        self.answer = answer
        self.streaming = streaming
        self._context = context
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = self.socket.accept()
        # The handshake belongs to the connection's thread, or a silent client would stop all others.
        connection = self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go; that is no news."""

    def break_all(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(*_GONE):
                # Of the plain socket: an SSL socket's own method would drop its state under the thread that is reading.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request.of(self.server.shard, self.command, self.path, self.headers, body)
        try:
            reply = self.server.answer(request)
        except Exception as error:
            traceback.print_exc()
            reply = failure(500, f"the double failed: {type(error).__name__}: {error}")
        if reply.hang_up:
            self.close_connection = True
        elif reply.stream is not None:
            self._stream(request, reply)
        else:
            self._head(reply, {"Content-Length": str(len(reply.body))})
            if self.command != "HEAD":
                self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _head(self, reply: Reply, more: dict[str, str]) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.content_type, **reply.headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, request: Request, reply: Reply) -> None:
        assert reply.stream is not None
        self._head(reply, {"Transfer-Encoding": "chunked"})
        with self.server.streaming(request, reply) as live:
            for line in reply.stream:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if live.broken:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: tests read the output."""
