# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A table that is one test runs every row, and names every row that fails."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.testing.rows import in_one_test

SEEN: list[tuple[int, str]] = []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["a", pytest.param("b", id="second")])
@pytest.mark.parametrize(("number", "even"), [(1, False), (2, True), (4, False)])
def rows(number: int, even: bool, text: str, tmp_path: Path) -> None:
    SEEN.append((number, text))
    assert tmp_path and (number % 2 == 0) is even


def test_every_row_runs_and_every_failure_is_named(tmp_path: Path) -> None:
    whole = in_one_test(rows)
    assert list(inspect.signature(whole).parameters) == ["tmp_path"]
    assert [mark.name for mark in whole.__dict__["pytestmark"]] == ["filterwarnings"]
    with pytest.raises(ExceptionGroup, match="2 of 6 rows fail") as caught:
        whole(tmp_path=tmp_path)
    assert SEEN == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "a"), (4, "b")]
    assert [note for error in caught.value.exceptions for note in error.__notes__] == [
        "in row: (4, False) a",
        "in row: (4, False) second",
    ]


def test_a_table_without_rows_is_a_mistake() -> None:
    @pytest.mark.parametrize("text", [])
    def nothing(text: str) -> None:
        raise AssertionError(text)

    with pytest.raises(AssertionError, match="has no rows"):
        in_one_test(nothing)
