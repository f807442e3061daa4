# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Screens of runs, kept as text in docs/screens: a file per situation and width of the terminal.

`make screens` writes them anew, for a reader to compare; tests hold that they are current. What differs between two runs of the same
situation (times, ports, hashes, folders, progress) is replaced by a word before it is kept or compared.
"""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.fitted import to_copy
from tests.collection_path import CHECKOUT, link
from tests.testing.playbooks import PlaybookRun

FOLDER: Final = CHECKOUT / "docs" / "screens"
WIDTHS: Final = (80, 160)
MISTAKES: Final = "mistakes"
"""Folder with what is said to mistakes of a new user, at 80 columns."""
WRITE: Final = "WRITE_SCREENS"
"""Variable of the environment with which the tests write the screens."""

LINES_OF_A_FAILURE: Final = 12

_LENGTH: Final = 40
_PLACE: Final = "screens"
_WORDS: Final = (
    (re.compile(rf"/[^\s']*/{_PLACE}_+\w{{8}}(?=/)|/[^\s']*/mesh-play-\w{{8}}(?=/)"), "FOLDER"),
    (re.compile(re.escape(str(link()))), "~/.ansible/collections"),
    (re.compile(r"/[\w./-]*/([\w-]+\.yaml|kubeconfig)\b"), r"KUBECONFIGS/\1"),
    (
        re.compile(r"(?m)^ +\d+\.\d s of (\d+ s  )[^\n]*\n(?: +\d+\.\d s of \d+ s  [^\n]*\n| {8}[^\n]*\n)*"),
        r"    N s of \1(a line per change)\n",
    ),
    (re.compile(r"(?m)^Origin: (?!FOLDER/)\S+"), "Origin: PLAY"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"\b(127(?:\.\d+){3}):\d+"), r"\1:PORT"),
    (re.compile(r"\b127(?:\.\d+){3}\b"), "ADDRESS"),
    (re.compile(r"\b\d+(?:\.\d+)? s\b(?! of)"), "N s"),
    (re.compile(r"\bnodePort \d+|\bNodePort \d+"), "NodePort PORT"),
)
_ERROR: Final = re.compile(r"(\^C)?\[ERROR\]")  # a terminal shows the keys of an interruption
_BLANKS: Final = re.compile(r" {2,}")
_SENTENCE: Final = re.compile(r"(?:fix: +)?[A-Z][^:]*\. [A-Z]")


def screen_of(run: PlaybookRun) -> str:
    """Return what a person saw, without what differs between two runs."""
    text = "\n".join(line.rstrip() for line in run.output.strip().splitlines()) + "\n"
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return text


@contextmanager
def folder_of_one_length() -> Iterator[Path]:
    """Make a folder whose path is as long on every machine, so that texts with it are broken alike; on a screen it is FOLDER."""
    base = os.path.realpath(tempfile.gettempdir())
    fill = _LENGTH - len(f"{base}/{_PLACE}") - 8
    assert fill > 0, f"{base} is too long; TMPDIR says where temporary files are"
    with tempfile.TemporaryDirectory(prefix=_PLACE + "_" * fill, dir=base) as made:
        yield Path(made)


def failure_of(screen: str) -> list[str]:
    """Return the lines with which a screen says why the run failed; [] without a failure.

    They go from Ansible's last error before the line of the host to that line, or to the end where Ansible came to no host.
    """
    lines = screen.splitlines()
    last = next((place for place, line in enumerate(lines) if line.startswith("fatal: ")), len(lines) - 1)
    first = max((place for place, line in enumerate(lines[: last + 1]) if _ERROR.match(line)), default=None)
    return [] if first is None else lines[first : last + 1]


def problems_of(name: str, width: int, run: PlaybookRun, folder: str = "") -> list[str]:
    """Compare a screen with the one that is kept, and return what is wrong with it; in the words of a user, one line each.

    With the variable ``WRITE`` in the environment the screen is kept instead.

    :param folder: below docs/screens; that of the width without it.
    """
    screen, place = screen_of(run), FOLDER / (folder or str(width)) / f"{name}.txt"
    if os.environ.get(WRITE):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(screen, encoding="utf-8")
    kept = place.read_text(encoding="utf-8") if place.exists() else ""
    found = [
        f"{name} at {width} columns: {line}"
        for line in difflib.unified_diff(kept.splitlines(), screen.splitlines(), "kept", "now", lineterm="", n=1)
        if _BLANKS.sub("  ", line).strip()
    ]
    failure = failure_of(screen)
    if bool(failure) != (run.rc > 0):  # a signal ends a run without a word
        found.append(f"{name}: exit status {run.rc}, and {'a' if failure else 'no'} failure on the screen")
    if len(failure) > LINES_OF_A_FAILURE:
        found.append(f"{name}: the failure has {len(failure)} lines")
    twice = {line.strip() for line in failure[1:] if len(line.strip()) > width // 2 and screen.count(line.strip()) > 1}
    found += [f"{name}: twice on the screen: {line}" for line in sorted(twice)]
    wide = [line for line in screen.splitlines() if len(line) > width and not _is_whole(line)]
    return found + [f"{name}: {len(line)} columns: {line}" for line in wide]


def _is_whole(line: str) -> bool:
    """Return whether a line may be longer than the terminal: Ansible's own, one with a command to copy, or one long word.

    A sentence before that of the command can be broken, and is to stand in a line of its own.
    """
    text = line.strip()
    if _SENTENCE.match(text) and to_copy(text):
        return False
    return line.startswith(("TASK ", "PLAY ", "included: ", "fatal: ")) or " : ok=" in line or to_copy(text) or " " not in text


HEADS: Final = ("Situation", "whole, before", "whole", "its failure, before", "its failure")
_NARROW: Final = WIDTHS[0]


def table() -> str:
    """Return the table of docs/screens/README.md: how many lines of the narrow terminal each screen has, and its failure."""
    rows = []
    for place in sorted((FOLDER / str(_NARROW)).glob("*.txt")):
        screens = [(folder / place.name).read_text(encoding="utf-8") for folder in (FOLDER / "before", place.parent)]
        whole, failure = ([_lines(found) for found in part] for part in (screens, map(_failures, screens)))
        rows.append(f"| [{place.stem}]({_NARROW}/{place.name}) | {whole[0]} | {whole[1]} | {failure[0] or '-'} | {failure[1] or '-'} |\n")
    return f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}\n{''.join(rows)}"


def _lines(text: str) -> int:
    """Return how many lines of the narrow terminal a text takes."""
    return sum(max(1, -(-len(line) // _NARROW)) for line in text.splitlines())


def _failures(screen: str) -> str:
    """Return every failure of a screen: before, some had two."""
    found = re.findall(r"(?ms)^\[ERROR\].*?^fatal: [^\n]*\n", screen)
    return "".join(found)


def write_table() -> None:
    """Write the table anew."""
    page = FOLDER / "README.md"
    head = page.read_text(encoding="utf-8").partition("| Situation")[0]
    page.write_text(head + table(), encoding="utf-8")


if __name__ == "__main__":
    write_table()
