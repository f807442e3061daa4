# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Limits on the size of a spec, which may be a tenant's, and on what is said about it. Pure.

They are checked before anything else: Python refuses to write numbers of thousands of digits, and to recurse through thousands of levels,
with errors that no parser expects. A spec within the limits fits into an object of the API server, which ends at 1.5 MiB (etcd).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEPTH: Final = 16
VALUES: Final = 20_000
CHARACTERS: Final = 262_144
NUMBER: Final = 10**18

PROBLEMS: Final = 20
"""Problems reported per item. They become the message of a condition, at most 32768 characters (apimachinery, metav1.Condition)."""


def exceeded_limit(spec: Any) -> str:
    """Return which limit ``spec`` exceeds, as the end of a sentence; "" if it exceeds none."""
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


def truncate_problems(problems: list[str]) -> tuple[str, ...]:
    """Return the first ``PROBLEMS`` problems, then a count of the rest."""
    more = len(problems) - PROBLEMS
    return (*problems[:PROBLEMS], f"and {more} more problems") if more > 1 else tuple(problems)


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
