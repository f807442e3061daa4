# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Messages between the operator and its confined children: values of JSON with their length before them, bounded before they are read."""

from __future__ import annotations

import math
import socket
import struct
import time
from itertools import chain
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import NotJson, load_json

from .json_pieces import json_pieces

VALUES: Final = 400_000  # commas and brackets of an answer, so that a few bytes a value do not become a hundred
_LENGTH: Final = struct.Struct("!Q")


class Broken(Exception):
    """Message that did not come whole: the other side is gone."""


class Late(Broken):
    """Message that did not come in time."""


class Invalid(Broken):
    """Message that is too long, has too many values, or is no JSON: a clause that says which."""


def send(connection: socket.socket, value: Any, *, until: float = math.inf) -> None:
    """Send a value, of which there is no second copy as a whole. ``until``: in seconds of time.monotonic.

    :raises Late: when the other side does not read it in time.
    :raises Broken: when the other side is gone.
    """
    length = sum(map(len, json_pieces(value)))
    try:
        for piece in chain([_LENGTH.pack(length)], json_pieces(value)):
            rest = memoryview(piece)
            while rest:
                _set_time(connection, until)
                rest = rest[connection.send(rest) :]
    except TimeoutError:
        raise Late("it was not read in time") from None
    except OSError:
        raise Broken("the other side is gone") from None


def receive(connection: socket.socket, limit: int, *, until: float = math.inf, most: float = VALUES) -> Any:
    """Return a value of at most ``limit`` bytes. ``until``: in seconds of time.monotonic.

    :param most: values in it, as commas and brackets tell; a child has a limit of memory instead, and reads what the operator wrote.

    :raises Late: when it does not come in time.
    :raises Invalid: when it is too long, has too many values, or is no JSON.
    :raises Broken: when it ends early.
    """
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, until))
    if length > limit:
        raise Invalid("it is too long")
    return decoded(_read(connection, length, until), most)


def decoded(content: bytes, most: float = VALUES) -> Any:
    """Return the value of a message.

    :raises Invalid: when it has too many values, or is no JSON.
    """
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > most:
        raise Invalid("it has too many values")
    try:
        return load_json(content)
    except NotJson:
        raise Invalid("it is no JSON") from None


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
