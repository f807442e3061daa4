# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/testing.md says where each promise is proven: every row names a test that exists, and every test on real servers has a row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.collection_path import CHECKOUT

PLACES = {"data", "lab", "playbook", "full matrix"}
INTEGRATION = "tests/integration"
# What shows that a test runs ansible-playbook in a process of its own, in its own lines.
OF_ITS_OWN = re.compile(r"own_process=True|verbosity=|environment=|run_until_killed|run_playbook")


class Row(NamedTuple):
    promise: str
    place: str
    file: str
    function: str


def rows() -> list[Row]:
    text = (CHECKOUT / "docs" / "testing.md").read_text(encoding="utf-8").partition("## Promises")[2]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return [Row(promise, place, *test.strip("`").split("::")) for promise, place, test in found[2:]]


@cache
def functions(file: str) -> dict[str, str]:
    """Test functions of a file, with the text of each."""
    source = (CHECKOUT / file).read_text(encoding="utf-8")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    lines = source.splitlines()
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in found}


def test_every_row_names_a_test_that_exists_in_the_place_that_it_says() -> None:
    assert len(rows()) > 80
    for row in rows():
        assert row.place in PLACES and row.promise, row
        assert (CHECKOUT / row.file).is_file() and row.function in functions(row.file), row
        assert (row.place in ("lab", "full matrix")) <= row.file.startswith(INTEGRATION), row
        assert (row.place == "data") <= row.file.startswith("tests/unit"), row
        assert (row.place == "playbook") <= bool(OF_ITS_OWN.search(functions(row.file)[row.function])) or "tests/unit" in row.file, row
        assert (row.place == "full matrix") <= ("mark.full" in (CHECKOUT / row.file).read_text(encoding="utf-8")), row


def test_every_test_on_real_servers_has_a_row() -> None:
    listed = {(row.file, row.function) for row in rows()}
    files = sorted(path.relative_to(CHECKOUT) for path in Path(CHECKOUT, INTEGRATION).glob("test_*.py"))
    assert len(files) > 30
    assert {(str(file), name) for file in files for name in functions(str(file))} <= listed


def test_no_row_is_there_twice() -> None:
    assert len(rows()) == len({(row.place, row.file, row.function) for row in rows()})
