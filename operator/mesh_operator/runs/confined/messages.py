# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Messages between the operator and its confined children: values of JSON with their length before them, bounded before they are read.

A job is sent in pieces, each with its length, up to one without bytes: it has the statuses of a whole mesh, and the operator neither holds
it as one text nor writes it in one go, in which no other thread would work.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import NotJson, load_json

from .json_pieces import json_pieces

VALUES: Final = 400_000  # commas and brackets of an answer, so that a few bytes a value do not become a hundred
PART: Final = "part"  # key of a message that is a part of an answer, which comes before it
_LENGTH: Final = struct.Struct("!Q")


class Broken(Exception):
    """Message that did not come whole: the other side is gone."""


class Late(Broken):
    """Message that did not come in time."""


class Invalid(Broken):
    """Message that is too long, has too many values, or is no JSON: a clause that says which."""


def send(connection: socket.socket, value: Any, *, until: float = math.inf) -> None:
    """Send a value. ``until``: in seconds of time.monotonic.

    :raises Late: when the other side does not read it in time.
    :raises Broken: when the other side is gone.
    """
    _write(connection, json.dumps(value, allow_nan=False).encode(), until)


def send_job(connection: socket.socket, job: Any, *, until: float = math.inf) -> None:
    """Send a job, which ``receive_job`` reads. Raises as ``send``."""
    for piece in filter(None, json_pieces(job)):
        _write(connection, piece, until)
    _write(connection, b"", until)


def receive(connection: socket.socket, limit: int, *, until: float = math.inf) -> bytes:
    """Return a message of at most ``limit`` bytes, as it came: see ``decoded``. ``until``: in seconds of time.monotonic.

    :raises Late: when it does not come in time.
    :raises Invalid: when it is too long.
    :raises Broken: when it ends early.
    """
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, until))
    if length > limit:
        raise Invalid("it is too long")
    return _read(connection, length, until)


def receive_job(connection: socket.socket, limit: int) -> Any:
    """Return a job of at most ``limit`` bytes. A child has a limit of memory, so its values are not counted. Raises as ``receive``."""
    found = bytearray()
    while piece := receive(connection, limit - len(found)):
        found += piece
    return decoded(bytes(found), math.inf)


def values_in(content: bytes) -> int:
    """Return the number of values of a message, as commas and brackets tell: never fewer than it has but one."""
    return sum(content.count(mark) for mark in (b",", b"[", b"{"))


def decoded(content: bytes, most: float = VALUES) -> Any:
    """Return the value of a message.

    :raises Invalid: when it has too many values, or is no JSON.
    """
    if values_in(content) > most:
        raise Invalid("it has too many values")
    try:
        return load_json(content)
    except NotJson:
        raise Invalid("it is no JSON") from None


def _write(connection: socket.socket, content: bytes, until: float) -> None:
    rest = memoryview(_LENGTH.pack(len(content)) + content)
    try:
        while rest:
            _set_time(connection, until)
            rest = rest[connection.send(rest) :]
    except TimeoutError:
        raise Late("it was not read in time") from None
    except OSError:
        raise Broken("the other side is gone") from None


def _read(connection: socket.socket, length: int, until: float) -> bytes:
    found = bytearray()
    try:
        while len(found) < length:
            _set_time(connection, until)
            part = connection.recv(min(length - len(found), 1 << 20))
            if not part:
                raise Broken("it ends early")
            found += part
    except TimeoutError:
        raise Late("it did not come in time") from None
    except OSError:
        raise Broken("the other side is gone") from None
    return bytes(found)


def _set_time(connection: socket.socket, until: float) -> None:
    if until == math.inf:
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
