# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.compare A B``: the figures of two commits, measured in turns on one machine, and the ratio of each.

Figures of different hours cannot be compared: other work on the machine moves them by more than most changes. So each round measures
both commits, the second one first in every other round, and the medians of the rounds are compared. Both are measured by the benchmark of
B, unless ``--own`` is given: a part that A's benchmark does not have could not be compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.__main__ import PARTS, say
from tests.collection_path import CHECKOUT

BENCH: Final = "tests/bench"
NAMES: Final = ("title", "kind", "size", "clusters", "peers", "name")
"""Keys that name a row of a list of figures."""


def leaves(figures: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the path and value of each number, but for booleans. A row of a list is named by its own names, or else by its place."""
    if isinstance(figures, Mapping):
        for key, value in figures.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(figures, (list, tuple)):
        for place, row in enumerate(figures):
            named = [str(row[key]) for key in NAMES if isinstance(row, Mapping) and key in row]
            yield from leaves(row, (*path, " ".join(named) or str(place)))
    elif isinstance(figures, (int, float)) and not isinstance(figures, bool):
        yield path, float(figures)


def compared(first: Sequence[Any], second: Sequence[Any]) -> list[tuple[str, float, float, float | None]]:
    """Return path, median of the first commit, median of the second one, and their ratio (None for a median of zero).

    :param first: figures of each round. A figure that a round of either commit does not have is left out.
    """
    rounds = [[dict(leaves(figures)) for figures in each] for each in (first, second)]
    common = [path for path in rounds[0][0] if all(path in found for each in rounds for found in each)]
    rows = []
    for path in common:
        a, b = (median(found[path] for found in each) for each in rounds)
        rows.append((" / ".join(path), a, b, b / a if a else None))
    return rows


def as_text(rows: Sequence[tuple[str, float, float, float | None]], names: tuple[str, str]) -> str:
    """Return the figures as a table, those whose ratio is furthest from 1 first."""
    far = sorted(rows, key=lambda row: -abs((row[3] if row[3] is not None else 1.0) - 1.0))
    width = max((len(path) for path, *_ in rows), default=0)
    lines = [f"{'':{width}}  {names[0]:>12}  {names[1]:>12}  ratio"]
    lines += [f"{path:{width}}  {a:12.3f}  {b:12.3f}  {'-' if ratio is None else f'{ratio:.2f}':>5}" for path, a, b, ratio in far]
    return "\n".join(lines)


def checked_out(commit: str, folder: Path, benchmark: str | None) -> str:
    """Check a commit out into ``folder``, with the benchmark of another commit if one is given; return its short name.

    :raises SystemExit: there is no such commit.
    """

    def git(*arguments: str, where: Path = CHECKOUT) -> str:
        run = subprocess.run(["git", "-C", str(where), *arguments], check=False, capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"git {' '.join(arguments)} failed: {run.stderr.strip()}")
        return run.stdout.strip()

    name = git("rev-parse", "--short", f"{commit}^{{commit}}")
    git("clone", "--quiet", "--shared", str(CHECKOUT), str(folder))
    git("checkout", "--quiet", name, where=folder)
    if benchmark is not None:
        shutil.rmtree(folder / BENCH, ignore_errors=True)
        git("checkout", "--quiet", git("rev-parse", benchmark), "--", BENCH, where=folder)
    return name


def figures_of(folder: Path, arguments: Sequence[str]) -> Any:
    """Run the benchmark in a checkout, and return its figures.

    :raises SystemExit: it failed; its errors were shown.
    """
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "figures.json")
        run = subprocess.run(
            [sys.executable, "-m", "tests.bench", *arguments, "--json", str(file)], cwd=folder, check=False, stdout=subprocess.DEVNULL
        )
        if run.returncode != 0:
            raise SystemExit(f"The benchmark failed in the checkout of {folder.name}.")
        return json.loads(file.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description=__doc__)
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--only", choices=PARTS, action="append", required=True, help="this part, or these when given several times")
    parser.add_argument("--turns", type=int, default=3, help="measurements of each commit (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="counted runs of each kind within one measurement (default: %(default)s)")
    parser.add_argument("--own", action="store_true", help="each commit by its own benchmark")
    options = parser.parse_args()
    arguments = [f"--rounds={options.rounds}", *(f"--only={part}" for part in options.only)]
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, side) for side in ("a", "b")]
        names = [
            checked_out(commit, folder, None if options.own else options.commits[1])
            for commit, folder in zip(options.commits, folders, strict=True)
        ]
        figures: tuple[list[Any], list[Any]] = ([], [])
        for turn in range(max(1, options.turns)):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                say(f"turn {turn + 1} of {options.turns}: {names[side]}")
                figures[side].append(figures_of(folders[side], arguments))
    print(as_text(compared(*figures), (names[0], names[1])))


if __name__ == "__main__":
    main()
