# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Recipe: what adds one thing to the project, carried out in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT

PAGE: Final = CHECKOUT / "docs" / "contributing" / "recipes.md"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Change of a file: ``text`` in the place of ``at``, or behind it with ``keep``. ``at`` is there once, unless it is ``everywhere``."""

    path: str
    at: str
    text: str
    keep: bool = True
    everywhere: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a contributor does.

    ``heading``: of its section in PAGE, without the number of files. ``generators``: arguments of Python for programs that the section
    names; what they write is not counted. ``tests``: tests that its sample changes or adds; ``around``: folders of tests that have to pass
    as well. ``packages``: of the engine, with new files.
    """

    heading: str
    new: Mapping[str, str] = field(default_factory=dict)  # path -> text
    edits: tuple[Edit, ...] = ()
    generators: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def files(self) -> set[str]:
        """Return the paths of the files that the recipe counts."""
        return {*self.new, *(edit.path for edit in self.edits)}

    @property
    def section(self) -> str:
        """Return the section of PAGE.

        :raises LookupError: there is none.
        """
        found = re.search(rf"(?ms)^## {re.escape(self.heading)}: [0-9]+ files?\n.*?(?=^## |\Z)", PAGE.read_text(encoding="utf-8"))
        if found is None:
            raise LookupError(f"{PAGE.name} has no section {self.heading!r}")
        return found[0]

    @property
    def promised(self) -> int:
        """Return the number of files in the heading."""
        return int(re.findall("[0-9]+", self.section.partition("\n")[0])[-1])

    def carried_out(self, copy: Path) -> None:
        """Carry it out in a copy of the checkout.

        :raises AssertionError: a new file is there already, or the place of an edit is not there once.
        """
        for path, text in self.new.items():
            assert not (copy / path).exists(), f"{path} is there already"
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_text(text, encoding="utf-8")
        for edit in self.edits:
            before = (copy / edit.path).read_text(encoding="utf-8")
            count = before.count(edit.at)
            assert count == 1 or (count and edit.everywhere), f"{edit.path} has {count} times: {edit.at!r}"
            (copy / edit.path).write_text(before.replace(edit.at, (edit.at if edit.keep else "") + edit.text), encoding="utf-8")
        for arguments in self.generators:
            python(copy, *arguments)


def copied(folder: Path) -> Path:
    """Return a copy of what is in the checkout, without what is ignored there; it has a repository of its own."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(asked, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and ((CHECKOUT / name).is_symlink() or (CHECKOUT / name).is_file()):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name, follow_symlinks=False)
    if (CHECKOUT / ".venv").is_dir():  # the programs of make
        (folder / ".venv").symlink_to((CHECKOUT / ".venv").resolve())
    for arguments in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def python(copy: Path, *arguments: str) -> str:
    """Run Python in the copy, with the copy's modules, and return what it prints.

    :raises AssertionError: it fails; the message is its output.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" and not key.startswith(("PYTEST_", "COV_"))}
    found = subprocess.run([sys.executable, *arguments], cwd=copy, env=environment, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
