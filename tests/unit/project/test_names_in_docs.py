# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files, modules and names that documents mention exist: a rename that forgets a page fails here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.rows import in_one_test

FOLDERS: Final = ("docs", "meta", "molecule", "operator", "playbooks", "plugins", "requirements", "roles", "tests", "changelogs", ".ci")
FILES: Final = tuple(
    path.relative_to(CHECKOUT).as_posix()
    for folder in FOLDERS
    for path in sorted((CHECKOUT / folder).rglob("*"))
    if "__pycache__" not in path.parts
)
EXAMPLES: Final = ("CM-SVC-05", "mesh_operator_")
"""Parts of names that a recipe gives as an example, and the prefix of metrics, which code puts before each name."""
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{4,}\b")  # as in `checks/FAMILY.py`
_SOURCES: Final = (".py", ".yml", ".yaml", ".toml", ".j2", ".sh")


@cache
def words() -> frozenset[str]:
    """Return every identifier that occurs in a source file, and the name of every playbook."""
    found = {Path(name).stem for name in FILES if name.startswith("playbooks/")}
    for name in FILES:
        if name.endswith(_SOURCES) and name != Path(__file__).relative_to(CHECKOUT).as_posix():
            found.update(re.findall(r"[A-Za-z_]\w*", (CHECKOUT / name).read_text(encoding="utf-8")))
    return frozenset(found)


def missing(page: Path) -> Iterator[str]:
    """Yield each quoted path or name of a page that the tree does not have."""
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), start=1):
        for quoted in re.findall(r"`([^`]+)`", line):
            if not _PLACEHOLDER.search(quoted) and not any(part in quoted for part in EXAMPLES) and not exists(quoted):
                yield f"{number}: {quoted}"


def exists(quoted: str) -> bool:
    """Return whether a path or a name of Python is in the tree; true for all else."""
    path = quoted.partition("::")[0].rstrip("/")
    if re.fullmatch(r"[\w./-]+\.py", path):
        return any(file == path or file.endswith(f"/{path}") for file in FILES)
    if re.fullmatch(rf"(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]+", path):
        return path in FILES
    if re.fullmatch(r"_?[a-z]+(?:_[a-z]+)+(?:\.[A-Za-z_]+)*(?:\(\))?", quoted):  # such as `link_stage`, `sync_wave.of()`
        return words().issuperset(re.findall(r"\w+", quoted))
    return True


PAGES: Final = sorted([*CHECKOUT.glob("*.md"), *(path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.md"))])


@in_one_test
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_what_a_page_quotes_exists(page: Path) -> None:
    assert list(missing(page)) == []


@pytest.mark.parametrize("quoted", ["leases/gone.py", "plugins/module_utils/gone", "no_such_name_at_all", "tests/gone.py::test_x"])
def test_what_does_not_exist_is_found(quoted: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"First.\n\nIt is in `{quoted}`.\n", encoding="utf-8")
    assert list(missing(page)) == [f"3: {quoted}"]


@pytest.mark.slow
def test_every_program_of_the_tests_that_is_named_can_be_imported_by_itself() -> None:
    """As ``python -m`` does it, without what pytest prepares."""
    texts = (CHECKOUT / name for name in FILES if name.endswith((*_SOURCES, ".md")))
    named = {match for path in texts for match in re.findall(r"python -m (tests(?:\.[a-z_]+)+)", path.read_text(encoding="utf-8"))}
    assert {"tests.testing.drawings", "tests.testing.fleet_goldens", "tests.lab"} <= named
    script = f"import importlib\nfor name in {sorted(named)!r}:\n    importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
