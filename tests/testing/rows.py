# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tables of many short rows as one test each: pytest and pytest-xdist take 2 ms of CPU time for a test, and a row often less than one."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest


def in_one_test(test: Callable[..., None]) -> Callable[..., None]:
    """Make one test of all rows that ``pytest.mark.parametrize`` below this decorator gives. It names every row that fails.

    All rows share the fixtures of the test.
    """
    marks: Sequence[pytest.Mark] = test.pytestmark  # type: ignore[attr-defined]  # pytest puts it there
    tables = [list(_rows(*mark.args, **mark.kwargs)) for mark in marks if mark.name == "parametrize"]
    rows = [(" ".join(name for name, _ in parts), dict(ChainMap(*(row for _, row in parts)))) for parts in itertools.product(*tables)]
    assert rows, f"{test.__name__} has no rows"

    @functools.wraps(test)
    def all_rows(**fixtures: Any) -> None:
        failed: list[Exception] = []
        for name, values in rows:
            try:
                test(**fixtures, **values)
            except Exception as error:  # whatever fails in one row, the others run too; all are raised together
                error.add_note(f"in row: {name}")
                failed.append(error)
        if failed:
            raise ExceptionGroup(f"{len(failed)} of {len(rows)} rows fail", failed)

    given = inspect.signature(test)
    left = [parameter for parameter in given.parameters.values() if parameter.name not in rows[0][1]]
    all_rows.__dict__["__signature__"] = given.replace(parameters=left)
    all_rows.__dict__["pytestmark"] = [mark for mark in marks if mark.name != "parametrize"]
    return all_rows


def one_test(names: str, *rows: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make one test of a table: the names of its parameters, separated by spaces, and its rows. It is `in_one_test` with one mark."""
    mark = pytest.mark.parametrize(names if " " not in names else names.split(), rows)
    return lambda test: in_one_test(mark(test))


def alike(expected: Any, *given: Any) -> list[tuple[Any, Any]]:
    """Return rows of which the same is expected: (given, expected) of each."""
    return [(value, expected) for value in given]


def _rows(names: str | Sequence[str], values: Any, ids: Any = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, value by parameter) of each row of one mark."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = list(ids) if ids and not callable(ids) else None
    for number, entry in enumerate(values):
        marked = isinstance(entry, type(pytest.param()))
        row = tuple(entry.values) if marked else tuple(entry) if len(keys) > 1 else (entry,)
        label = entry.id if marked else ids(entry) if callable(ids) else named[number] if named else None
        yield label or _shown(entry), dict(zip(keys, row, strict=True))


def _shown(value: Any) -> str:
    try:
        return str(value)[:200]
    except ValueError:  # an integer of thousands of digits
        return f"a long {type(value).__name__}"
