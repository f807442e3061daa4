# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md names only phases, reasons, findings and commands that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from tests.collection_path import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
KINDS: Final = ("ClusterMeshBinding", "GlobalService", "ConnectivityIntent")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its own."""
    part = re.split(r"^##+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if not line.startswith("| ---")][1:]


@cache
def literals() -> frozenset[str]:
    """Return every text that stands as a value in the engine or the operator."""
    paths = [path for root in ("plugins", "operator") for path in (CHECKOUT / root).rglob("*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def phases(kind: str) -> frozenset[str]:
    """Return the phases that docs/operator-status.md, which another test holds against the code, has of a kind."""
    page = (CHECKOUT / "docs" / "operator-status.md").read_text(encoding="utf-8")
    table = page.partition("<!-- phases of the kinds: begin -->")[2].partition("<!-- phases of the kinds: end -->")[0]
    return frozenset(word for line in table.splitlines() if line.startswith(f"| {kind} |") for word in re.findall(r"`(\w+)`", line))


def test_every_finding_of_the_page_is_in_the_catalogue() -> None:
    codes = set(re.findall(r"\bCM-[A-Z]+-\d\d\b", PAGE))
    assert len(codes) > 20 and codes <= set(CATALOGUE)


@pytest.mark.parametrize("kind", KINDS)
def test_phases_and_reasons_are_those_of_the_code(kind: str) -> None:
    found = rows(kind)
    assert len(found) >= 5 and phases(kind)
    for phase, reason, _, _ in found:
        named, reasons = re.findall(r"`(\w+)`", phase), re.findall(r"`(\w+)`", reason)
        assert named and set(named) <= phases(kind), phase
        assert reasons and set(reasons) <= literals(), reason


def test_every_command_is_a_playbook_with_options_that_exist() -> None:
    found = rows("With playbooks")
    assert len(found) >= 15
    playbooks = {path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")}
    for _, command, _ in found:
        for quoted in re.findall(r"`([^`]+)`", command):
            name, *options = quoted.split()
            assert name in playbooks, quoted
            assert {option for option in options if option.startswith("-")} <= {"--check", "--diff", "--limit"}, quoted
    variables = set(re.findall(r"\b(?:cilium_mesh|mesh_connect)_\w+", PAGE))
    assert variables <= set(re.findall(r"\w+", (CHECKOUT / "docs" / "variables.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", ["README.md", "docs/README.md", "docs/runbooks/README.md"])
def test_the_page_is_found_from_where_readers_start(page: str) -> None:
    assert "troubleshooting.md" in (CHECKOUT / page).read_text(encoding="utf-8")
