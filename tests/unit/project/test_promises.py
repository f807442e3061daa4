# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/testing.md says where each promise is proven, and in which tier: every row names a test that exists, and every test on real servers
has a row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.collection_path import CHECKOUT
from tests.testing import gate, lab_proof

PLACES = {"data", "lab", "playbook", "full matrix"}
INTEGRATION = "tests/integration"
PAGE = CHECKOUT / "docs" / "testing.md"
# What shows that a test runs ansible-playbook in a process of its own, in its own lines.
OF_ITS_OWN = re.compile(r"own_process=True|verbosity=|environment=|run_until_killed|run_playbook")


class Row(NamedTuple):
    promise: str
    place: str
    tier: str
    file: str
    function: str


def table(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the page, without its two first lines."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")][2:]


def rows() -> list[Row]:
    return [Row(promise, place, tier, *test.strip("`").split("::")) for promise, place, tier, test in table("Promises")]


@cache
def functions(file: str) -> dict[str, str]:
    """Test functions of a file, with the text of each, decorators included."""
    source = (CHECKOUT / file).read_text(encoding="utf-8")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    lines = source.splitlines()
    first = {node.name: min((node.lineno, *(decorator.lineno for decorator in node.decorator_list))) for node in found}
    return {node.name: "\n".join(lines[first[node.name] - 1 : node.end_lineno]) for node in found}


def tier_of(row: Row) -> str:
    """Where the test runs: in the gate too, or in the deep run alone."""
    path = CHECKOUT / row.file
    if row.file.startswith(INTEGRATION):
        whole = row.place != "full matrix" and any(gate.has(test) for test in gate.scenarios() if _is_of(test, row))
        return "gate" if whole else "deep"
    slow = "@pytest.mark.slow" in functions(row.file)[row.function] or "pytestmark = pytest.mark.slow" in path.read_text(encoding="utf-8")
    return "deep" if slow or lab_proof.TESTS in path.parents else "gate"


def _is_of(test: str, row: Row) -> bool:
    return test.partition("[")[0] == f"{row.file}::{row.function}"


def test_every_row_names_a_test_that_exists_in_the_place_and_the_tier_that_it_says() -> None:
    assert len(rows()) > 80
    for row in rows():
        assert row.place in PLACES and row.promise, row
        assert (CHECKOUT / row.file).is_file() and row.function in functions(row.file), row
        assert (row.place in ("lab", "full matrix")) <= row.file.startswith(INTEGRATION), row
        assert (row.place == "data") <= row.file.startswith("tests/unit"), row
        assert (row.place == "playbook") <= bool(OF_ITS_OWN.search(functions(row.file)[row.function])) or "tests/unit" in row.file, row
        assert (row.place == "full matrix") <= ("mark.full" in (CHECKOUT / row.file).read_text(encoding="utf-8")), row
        assert row.tier == tier_of(row), row


def test_every_test_on_real_servers_has_a_row() -> None:
    listed = {(row.file, row.function) for row in rows()}
    files = sorted(path.relative_to(CHECKOUT) for path in Path(CHECKOUT, INTEGRATION).glob("test_*.py"))
    assert len(files) > 30
    assert {(str(file), name) for file in files for name in functions(str(file))} <= listed


def test_no_row_is_there_twice() -> None:
    assert len(rows()) == len({(row.place, row.file, row.function) for row in rows()})


def test_the_page_lists_the_areas_of_the_gate_with_their_scenarios() -> None:
    listed = [
        (area, tuple(cell.strip(" `") for cell in scenarios.split("<br>"))) for area, scenarios in table("What the gate shows on servers")
    ]
    assert listed == [(area, scenarios) for area, scenarios in gate.AREAS.items()]
    for scenarios in gate.AREAS.values():
        for scenario in scenarios:
            file, _, function = scenario.partition("::")
            assert function.partition("[")[0] in functions(f"tests/{file}"), scenario
