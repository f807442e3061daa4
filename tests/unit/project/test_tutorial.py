# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A page that is followed by a test shows nothing that is not compared, and a line that is not printed is noticed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.page_commands import FOLLOWED
from tests.testing.tutorial import Reader, blocks_of, first_missing

PAGES = {
    "quickstart.md": (10, {"verify", "connect", "plan", "apply", "status", "mesh", "disconnect"}),
    "fleet-tutorial.md": (11, {"fleet_clusters", "fleet", "fleet_status", "fleet_rollout"}),
    "failover-tutorial.md": (11, {"connect", "mesh", "explain", "rehearse", "status"}),
    "awx.md": (1, set()),  # it runs files of the project, which import the playbooks
    "migrate-from-cilium-cli.md": (8, {"status", "verify", "adopt", "connect", "hand_back"}),
}
"""How many blocks of commands each page that is followed has at least, and which playbooks it runs."""
PRINTED = "Plan: 1 step, hash 0123456789ab\n  write  \nweb: one\nweb: two\nweb: three\n"


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_tutorial_is_followed_by_what_it_prints(name: str) -> None:
    blocks = blocks_of((CHECKOUT / "docs" / name).read_text(encoding="utf-8"))
    kinds = [block.kind for block in blocks]
    least, playbooks = PAGES[name]
    assert kinds.count("shell") >= least and all(after == "text" for kind, after in itertools.pairwise([*kinds, ""]) if kind == "shell")
    commands = [block.text for block in blocks if block.kind in ("shell", "sh")]
    assert {found for text in commands for found in re.findall(r"edge_portal\.cilium_mesh\.(\w+)", text)} == playbooks


def test_every_page_that_is_followed_is_followed_by_a_test_of_the_lab() -> None:
    tests = (CHECKOUT / "tests" / "integration").glob("test_*.py")
    followed = {name for path in tests for name in re.findall(r'\bfollow\([^"\n]*"([\w-]+\.md)"\)', path.read_text(encoding="utf-8"))}
    assert followed == set(PAGES) == {page.removeprefix("docs/") for page in FOLLOWED}


@pytest.mark.parametrize(
    "shown",
    ["web: one\nweb: two\n", "Plan: 1 step, hash ba9876543210\n…\nweb: three\n", "…\nweb: two\n…\n", "web: one\n…\nweb: two\n"],
)
def test_what_was_printed_is_found(shown: str) -> None:
    assert first_missing(shown, PRINTED) is None


@pytest.mark.parametrize(
    "shown", ["web: four\n", "web: one\nweb: three\n", "web: two\n…\nweb: one\n", "web: tw\n", "Plan: 2 steps, hash 0123456789ab\n"]
)
def test_what_was_not_printed_is_missing(shown: str) -> None:
    assert first_missing(shown, PRINTED) is not None


@pytest.mark.parametrize(
    "page",
    [
        "```console\n$ ls\n```\n",
        "```yaml\na: b\n```\n",
        "```text\nx\n```\n",
        "```sh\nls\n```\n\n```text\nx\n```\n",
        "```shell\nls\n",
        "```shell\nls\n```\n\n```text nodes\nx\n```\n",
        "Run:\n\n    ls\n",
    ],
)
def test_a_block_that_could_not_be_compared_is_an_error(page: str) -> None:
    with pytest.raises(AssertionError):
        blocks_of(page)


def test_what_needs_real_agents_is_followed_where_they_are_and_nowhere_else(tmp_path: Path) -> None:
    page = "```yaml\n# a.yml\nx: 1\n```\n```shell nodes\ncat a.yml; echo '7  10.1.0.9 up'\n```\n```text nodes\nx: 2\n12 10.1.3.4 up\n```\n"
    for nodes, changes in ((False, {}), (True, {"x: 1": "x: 2"})):
        reader = Reader(tmp_path, {"PATH": "/usr/bin:/bin"}, nodes, changes)
        for block in blocks_of(page):
            reader.follow(block)
        assert bool(reader.printed) is nodes
    assert first_missing("12 10.1.3.4 up\n", "7  10.2.0.9 up\n", nodes=True) is not None, "a pod of another cluster"


def test_files_are_written_and_extended_and_commands_have_to_succeed(tmp_path: Path) -> None:
    reader = Reader(tmp_path, {"PATH": "/usr/bin:/bin"})
    page = "```yaml\n# a.yml\nx: 1\n```\n```yaml\n# at the end of a.yml\ny: 2\n```\n```shell\ncat a.yml\n```\n```text\nx: 1\ny: 2\n```\n"
    for block in blocks_of(page):
        reader.follow(block)
    for wrong in ("```shell\nfalse\n```\n", "```shell\necho a\n```\n```text\nb\n```\n"):
        with pytest.raises(AssertionError):
            for block in blocks_of(wrong):
                reader.follow(block)
