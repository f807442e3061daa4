# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""API servers of a tenant who attacks: what each does with a request, and what the operator says in the end of a mesh of such clusters."""

from __future__ import annotations

import itertools
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.testing.hostile_server import HostileServer

Speak = Callable[[HostileServer, ssl.SSLSocket, str], None]

REDIRECTS: Final = "redirects with a cookie"
ELSEWHERE: Final = "/elsewhere"
"""Path on the server itself to which it redirects."""
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
_LONG_HEADER: Final = 60_000
"""Characters: nearly all that a client reads of one header (http.client, 64 KiB). An answer with a longer one is none, and no redirect."""


@dataclass(frozen=True)
class HostileApiServer:
    """What it does, and what the operator says of its meshes: one of the ``reasons`` of Ready, with the ``words`` in its message."""

    speak: Speak
    reasons: tuple[str, ...]
    words: str = ""


_GIVEN_UP: Final = ("Timeout", "DryRunFailed", "PrerequisiteNotMet")  # whichever of the limits comes first
_REFUSED: Final = ("PrerequisiteNotMet",)
_NO_MORE: Final = "The API server cannot be reached"  # a tenant is not told what answers at an address


def hostile_api_servers(trap: HostileServer) -> Mapping[str, HostileApiServer]:
    """Return the servers by what they do.

    :param trap: a server of others, to which redirects lead.
    """
    return {
        "an answer byte by byte": HostileApiServer(_drips, _GIVEN_UP),
        "silence": HostileApiServer(_is_silent, _GIVEN_UP),
        "lists without an end": HostileApiServer(_never_ends, _GIVEN_UP),
        "an answer of 64 MiB": HostileApiServer(_is_long, _REFUSED, "longer than 16 MiB"),
        REDIRECTS: HostileApiServer(partial(_redirects, trap), _REFUSED, _NO_MORE),
        "a page in place of an answer": HostileApiServer(_is_a_page, _REFUSED, _NO_MORE),
    }


def _body(connection: ssl.SSLSocket, body: bytes, status: bytes = _HEAD) -> None:
    connection.sendall(status + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _drips(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    server.drip(connection, itertools.chain(_HEAD, itertools.cycle(b"X-More: 1\r\n")))


def _is_silent(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    server.wait(connection)


def _never_ends(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    """A namespace with a uid first, so that the lists are asked for; then pages without end."""
    if "/namespaces/kube-system " in head:
        _body(connection, json.dumps({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "hostile"}}).encode())
        return
    _body(connection, json.dumps({"kind": "List", "metadata": {"continue": "more"}, "items": []}).encode())


def _is_long(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    """64 MiB of objects without content, which cost a parser twenty times as much."""
    connection.sendall(_HEAD + b'Content-Length: 67108864\r\n\r\n{"items":[')
    with suppress(OSError):  # the reader hangs up
        for _ in range(64):
            connection.sendall(b"{}," * (1024 * 1024 // 3))


def _redirects(trap: HostileServer, server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    """By turns to a server of others and to another path of its own."""
    location = (f"{trap.url}/metrics", f"{server.url}{ELSEWHERE}")[len(server.heads) % 2]
    cookie = f"Set-Cookie: stays={'x' * _LONG_HEADER}; Domain=1\r\n"
    _body(connection, b"", f"HTTP/1.1 302 Found\r\nLocation: {location}\r\n{cookie}Connection: close\r\n".encode())


def _is_a_page(server: HostileServer, connection: ssl.SSLSocket, head: str) -> None:
    _body(connection, b"<html>" + b"x" * 200_000)
