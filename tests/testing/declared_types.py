# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whether a value is of the type that is declared for it, down to the leaves: mypy believes what code says of foreign data."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def strays(value: object, declared: object) -> list[str]:
    """Return each place in the value that is not of the declared type, with what is there."""
    return list(_strays(value, declared, "the value"))


def _strays(value: Any, declared: Any, place: str) -> Iterator[str]:
    origin, inner = get_origin(declared), get_args(declared)
    if declared is Any:
        return
    if origin in (Union, types.UnionType):
        tries = [list(_strays(value, one, place)) for one in inner]
        yield from min(tries, key=len)
    elif origin is tuple and inner[-1:] == (...,) and type(value) is tuple:
        for number, entry in enumerate(value):
            yield from _strays(entry, inner[0], f"{place}[{number}]")
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _strays(key, inner[0], f"a key of {place}")
            yield from _strays(entry, inner[1], f"{place}[{key!r}]")
    elif is_dataclass(declared) and type(value) is declared:
        for name, hint in _hints(declared).items():
            yield from _strays(getattr(value, name), hint, f"{place}.{name}")
    elif type(value) is not declared:
        yield f"{place} is {value!r}, and declared as {declared}"
