# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Estimate of the memory that a parsed JSON value takes. Pure.

The length of the JSON text tells little: ``[{},{}]`` takes twenty-four times its text in memory, a long string its text alone.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any, Final

_TEXT: Final = 49 + 8  # bytes of a string of ASCII beside its characters (getsizeof("")), and what rounding up to 16 adds on average
_ROUND: Final = 16  # the same for a container, whose values are a block of their own
_NUMBER: Final = 32  # bytes of a float, or of an int of up to 60 bits
_SHARED: Final = range(-5, 257)  # ints of which CPython has one object each


def footprint(value: Any) -> int:
    """Return the bytes of memory that a value takes as ``json.loads`` made it, within about a third of what CPython allocates.

    Keys count once, because the parser makes one string for all equal keys of a document.
    """
    total, keys, level = 0, set[str](), [value]
    while level:
        below: list[Any] = []
        for one in level:
            kind = one.__class__
            if kind is str:
                if len(one) > 1 or one > "\xff":  # CPython has one object for each other single character
                    total += _TEXT + len(one) if one.isascii() else getsizeof(one) + 8
            elif kind is dict:
                keys.update(one)
                below += one.values()
                total += getsizeof(one) + _ROUND
            elif kind is list:
                below += one
                total += getsizeof(one) + _ROUND
            elif kind is int:
                total += 0 if one in _SHARED else _NUMBER if -(1 << 60) < one < 1 << 60 else getsizeof(one) + 8
            elif kind is float:
                total += _NUMBER
        level = below
    return total + 8 * len(keys) + sum(map(getsizeof, keys))
