# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pairs of specs of which one has an empty list or mapping where the other has nothing, for every optional field of the CRDs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .crd_examples import examples
from .crd_schema import nodes, schemas

SAYS_SOMETHING: Final[Mapping[tuple[str, str], str]] = {
    ("GlobalService", "failover"): "it asks for failover with the defaults of its fields; without it there is no failover",
}
"""(kind, path) of fields whose empty value is not the same as none, with the reason."""


class Pair(NamedTuple):
    """One example without a field, and with an empty value in it."""

    kind: str
    path: str
    absent: dict[str, Any]
    empty: dict[str, Any]


def optional_fields(kind: str) -> dict[str, Any]:
    """Return path -> empty value of every optional list and mapping of the kind's spec."""
    return optional_in(schemas()[kind]["properties"]["spec"])


def optional_in(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return path -> empty value of every optional list and mapping of a schema."""
    required = set(spec.get("required", ()))
    found: dict[str, Any] = {}
    for path, node in nodes(spec):
        required |= {f"{path}.{name}" for name in node.get("required", ())}
        if path not in required and not path.endswith(("[]", "{}")) and node.get("type") in ("array", "object"):
            found[path] = [] if node["type"] == "array" else {}
    return found


def pairs(kind: str) -> Iterator[Pair]:
    """Yield a pair for every example of the kind and every place in it where an optional field can stand."""
    fields = {path: empty for path, empty in optional_fields(kind).items() if (kind, path) not in SAYS_SOMETHING}
    for example in examples():
        if example.kind == kind and isinstance(example.spec, dict):
            yield from pairs_of(kind, example.spec, fields)


def pairs_of(kind: str, spec: dict[str, Any], fields: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield a pair for every place of a spec in which one of the fields can stand."""
    for path, nothing in fields.items():
        for keys in _places(spec, path.split(".")):
            absent, empty = copy.deepcopy(spec), copy.deepcopy(spec)
            _at(absent, keys[:-1]).pop(keys[-1], None)
            _at(empty, keys[:-1])[keys[-1]] = copy.deepcopy(nothing)
            yield Pair(kind, path, absent, empty)


def _places(value: Any, parts: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each place of a path such as ``source.expressions[].values`` whose parents are there."""
    if not isinstance(value, dict):
        return
    name = parts[0].removesuffix("[]")
    if len(parts) == 1:
        yield (name,)
        return
    inner = value.get(name)
    if parts[0].endswith("[]"):
        for place, entry in enumerate(inner if isinstance(inner, list) else ()):
            yield from ((name, place, *keys) for keys in _places(entry, parts[1:]))
    else:
        yield from ((name, *keys) for keys in _places(inner, parts[1:]))


def _at(value: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        value = value[key]
    return value
