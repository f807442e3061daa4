# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How large the spec of one item may be. It may be a tenant's, and one that is beyond all bounds must not end the run of the others.

Looked at before anything else is: Python refuses to write numbers of thousands of digits, and to go down thousands of levels, with errors
that no parser expects. What is within the bounds fits into an object of the API server, which ends at 1.5 MiB (etcd).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEPTH: Final = 16
VALUES: Final = 20_000
CHARACTERS: Final = 262_144
NUMBER: Final = 10**18

PROBLEMS: Final = 20
"""Told of one item. They become the message of a condition, which ends at 32768 characters (apimachinery, metav1.Condition)."""


def beyond(spec: Any) -> str:
    """What of ``spec`` is too large, as the end of a sentence; "" when nothing is."""
    values = characters = 0
    waiting = [(spec, 0)]
    while waiting:
        value, depth = waiting.pop()
        values += 1
        if depth > DEPTH:
            return f"is nested deeper than {DEPTH} levels"
        if isinstance(value, (str, bytes)):
            characters += len(value)
        elif isinstance(value, int) and abs(value) > NUMBER:
            return "has a number of more than 18 digits"
        inner = _inner(value)
        if values + len(waiting) + len(inner) > VALUES:
            return f"has more than {VALUES} values"
        if characters > CHARACTERS:
            return f"has more than {CHARACTERS} characters"
        waiting += [(item, depth + 1) for item in inner]
    return ""


def told(problems: list[str]) -> tuple[str, ...]:
    """The first of them, and how many more there are."""
    more = len(problems) - PROBLEMS
    return (*problems[:PROBLEMS], f"and {more} more problems") if more > 1 else tuple(problems)


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
