# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values of JSON, written in pieces: what a mesh has may be 32 MiB as JSON, and the operator holds no second copy of it as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

PIECE: Final = 64 * 1024  # bytes after which a piece is given out
_LEVELS: Final = 4  # levels that are walked: below these is one part of one object, which the API server bounds


def json_pieces(value: Any) -> Iterator[bytes]:
    """Yield the JSON of ``value`` in pieces of some ``PIECE`` bytes, as ASCII. Other threads go on between its objects.

    :raises TypeError: when it has something that is no value of JSON, which the text does not quote.
    :raises ValueError: when a number is none.
    """
    batch, size = list[str](), 0
    for text in _texts(value, _LEVELS):
        batch.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(batch).encode("ascii")
            batch, size = [], 0
    yield "".join(batch).encode("ascii")


def _texts(value: Any, levels: int) -> Iterator[str]:
    if levels and isinstance(value, Mapping) and value:
        for number, (key, below) in enumerate(value.items()):
            named = json.dumps(key) if isinstance(key, str) else json.dumps({key: 0})[1:-4]  # a number becomes a text
            yield f"{',' if number else '{'}{named}:"
            yield from _texts(below, levels - 1)
        yield "}"
    elif levels and isinstance(value, (list, tuple)) and value:
        for number, below in enumerate(value):
            yield "," if number else "["
            yield from _texts(below, levels - 1)
        yield "]"
    else:
        yield json.dumps(value, allow_nan=False, default=_as_dict)


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")
