# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A server on loopback whose whole answer is an input of fuzzing, and clients that meet it. Plain TCP: TLS is OpenSSL's work."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.connections import connection_pool
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import Credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import Chosen

ANSWERS: Final = 6  # to so many connections the input is given; then an empty list, so that pages of an input end
ACCEPT: Final = b"{accept}"  # in an input: what RFC 6455 wants of the server
_END: Final = b'{"items": []}'
_LAST: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_END), _END)
_KEY: Final = re.compile(rb"(?i)sec-websocket-key: *(\S+)")


class Wire:
    """A listener that gives ``answer`` to each client that sends a request, and hangs up."""

    def __init__(self) -> None:
        self.answer = b""
        self.left = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            self._speak(connection)

    def _speak(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (part := connection.recv(65536)):
            head += part
        answer, self.left = (self.answer if self.left > 0 else _LAST), self.left - 1
        key = _KEY.search(head)
        if key:
            accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            answer = answer.replace(ACCEPT, accept)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):  # closing with unread bytes would be a reset, which drops the answer
            pass


@cache
def wire() -> Wire:
    """Return the one listener of this process."""
    return Wire()


@contextmanager
def answering(data: bytes) -> Iterator[Cluster]:
    """Yield a client whose server answers with ``data``. It does not wait before it tries again; all else is as always."""
    server = wire()
    server.answer, server.left = data, ANSWERS
    credentials = Credentials("c1", "The kubeconfig", Chosen("", {"server": f"http://127.0.0.1:{server.port}"}, {}))
    timeouts = Timeouts(connect=5, read=5, answer=20)
    cluster = Cluster(ClusterAccess(host="c1", kubeconfig=None, context=None), credentials, timeouts=timeouts, connections=1)
    pool = connection_pool(credentials, connect=timeouts.connect, read=timeouts.read, connections=1)
    pool.connection_pool_kw["retries"] = pool.connection_pool_kw["retries"].new(backoff_factor=0, respect_retry_after_header=False)
    cluster._pool = pool
    with cluster:
        yield cluster
