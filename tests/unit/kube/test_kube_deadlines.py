# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The socket below every connection to an API server: what it reads ahead is read by the next caller, and its deadline holds."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.deadlines import DeadlineSocket, all_within
from tests.testing.scripted_server import Answer, ScriptedServer

BODY = {"text": "x" * 9000}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ScriptedServer(folder) as made:
        made.answer = lambda asked: Answer(200, BODY, delay=5.0 if asked.path == "/slow" else 0.0)
        yield made


@contextmanager
def connected(server: ScriptedServer, path: str) -> Iterator[ssl.SSLSocket]:
    """A connection that has asked for ``path``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = DeadlineSocket
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address, port = server.url.removeprefix("https://").split(":")
    with context.wrap_socket(socket.create_connection((address, int(port)))) as found:
        found.sendall(f"GET {path} HTTP/1.0\r\nconnection: close\r\n\r\n".encode())
        yield found


def read_by(found: ssl.SSLSocket, sizes: list[int]) -> bytes:
    """All that comes: by ``recv`` of these sizes, by ``recv_into`` where they are negative, and the rest at once."""
    parts = []
    for size in sizes:
        if size > 0:
            parts.append(found.recv(size))
            assert len(parts[-1]) <= size
        else:
            buffer = bytearray(-size)
            parts.append(bytes(buffer[: found.recv_into(buffer)]))
    while part := found.recv(65536):
        parts.append(part)
    return b"".join(parts)


SIZES = st.lists(st.sampled_from([1, 1, 1, 2, 700, 5000, -1, -3, -800]), max_size=40)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES)
def test_nothing_that_was_read_ahead_is_lost_or_comes_twice(server: ScriptedServer, sizes: list[int]) -> None:
    with connected(server, "/version") as found:
        head, _empty, body = read_by(found, sizes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.") and body.count(b"x") == 9000 + body.count(b'"text"') and body.endswith(b"}")


@pytest.mark.parametrize("size", [1, 100])
def test_a_byte_that_does_not_come_ends_with_the_deadline(server: ScriptedServer, size: int) -> None:
    started = time.monotonic()
    with connected(server, "/slow") as found, all_within(0.2), pytest.raises(TimeoutError):
        found.recv(size)
    assert time.monotonic() - started < 4
