# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md describes the code that is there: its drawings, its packages, and the functions that it names."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.drawings import DRAWINGS, IMAGES
from tests.testing.layers import ALLOWED, BANDS, ROOM_BANDS, ROOMS
from tests.testing.rows import one_test

PAGE: Final = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED: Final = re.findall(r"^\| [^|]+ \| `((?:plugins|operator)/[^`]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_shows_the_rules_of_today(name: str) -> None:
    """``python -m tests.testing.drawings`` writes it anew."""
    assert (IMAGES / name).read_text(encoding="utf-8") == DRAWINGS[name]()


def test_every_package_is_drawn_once_and_imports_nothing_from_a_band_above_its_own() -> None:
    for bands, allowed in ((BANDS, ALLOWED), (ROOM_BANDS, ROOMS)):
        band_of = {package: number for number, (_, _, packages) in enumerate(bands) for package in packages}
        assert sorted(package for _, _, packages in bands for package in packages) == sorted(allowed)
        assert [
            f"{source} -> {target}" for source, names in allowed.items() for target in names.split() if band_of[target] < band_of[source]
        ] == []


def test_the_page_says_what_each_package_is_for() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ALLOWED)
    assert {name for row in rows for name in re.findall(r"`(\w+)/`", row)} == set(ROOMS)


@one_test("path function", *NAMED)
def test_a_function_that_the_page_names_is_in_the_file_that_it_names(path: str, function: str) -> None:
    assert re.search(rf"^ *(?:def|class) {function}\b", (CHECKOUT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_no_step_of_the_page_goes_without_the_function_that_takes_it() -> None:
    """A row of another form than ``NAMED`` knows would not be compared with the code."""
    tables = [text.partition("\n\n")[0].splitlines()[1:] for text in PAGE.split("| Step | File | Function |")[1:]]
    assert [lines[0] for lines in tables] == ["| --- | --- | --- | --- |"] * 4
    assert sum(len(lines) - 1 for lines in tables) == len(NAMED)
