# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs pytest, and those tests on servers that failed once more at the end, alone: ``python -m tests.testing.second_chance ARGUMENTS``.

A test on servers can fail for a moment of the machine. Passing alone says so: the run is green then, and its last lines name the test as
unsteady, to be corrected. A unit test gets no second chance, and neither does a run with more failures than `MOST`: that is no moment.
Both logs stay in `LOGS`. Exit statuses are those of pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT
from tests.testing.shard import OPTION

LOGS: Final = CHECKOUT / ".build" / "tests"
MOST: Final = 3
"""Tests that may be unsteady in one run."""
ON_SERVERS: Final = "tests/integration/"
ALONE: Final = ("--numprocesses", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none")
OF_THE_WHOLE: Final = (OPTION, "--junitxml", "--junit-xml")
"""Options of the first run alone: what failed would be divided anew, and be in no such part; and its report would replace that of all."""
_FAILED: Final = 1  # pytest: tests ran, and some failed

Run = Callable[[Sequence[str], Path], int]
"""Runs pytest with arguments, and writes what it prints to a file; returns its exit status."""


def main(arguments: Sequence[str], run: Run | None = None, logs: Path = LOGS) -> int:
    """Return the exit status of the whole, after printing what it came to.

    :param arguments: those of pytest.
    :param run: how pytest is run; by default in a process of its own, with the output shown as it comes.
    """
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    run, cache = run or _run, logs / "cache"
    remembering = (*arguments, "--override-ini", f"cache_dir={cache}")
    first = run(remembering, logs / "first.log")
    if first != _FAILED:
        return first
    failed = _failed(cache)
    if unit := [test for test in failed if not test.startswith(ON_SERVERS)]:
        return _say(first, f"{len(unit)} of {len(failed)} failed tests are unit tests, so nothing is run again.")
    if not failed or len(failed) > MOST:
        return _say(first, f"{len(failed)} tests on servers failed; up to {MOST} would be run again.")
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    second = run((*_without(OF_THE_WHOLE, remembering), *ALONE), logs / "second.log")
    if second:
        return _say(second, f"Failed twice, of {len(failed)} that failed once: {', '.join(_failed(cache))}. Logs: {logs}")
    return _say(0, *(f"UNSTEADY: {test} failed, and passed alone. Logs: {logs}" for test in failed))


def _without(options: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the arguments without these options, each of which has a value."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(option)
    return parser.parse_known_args(arguments)[1]


def _failed(cache: Path) -> list[str]:
    """Return the ids of the tests that failed last, as they are without pytest-xdist, and leave them to ``--last-failed`` like that."""
    place = cache / "v" / "cache" / "lastfailed"
    found = [_without_group(test) for test in json.loads(place.read_text(encoding="utf-8"))]
    place.write_text(json.dumps(dict.fromkeys(found, True)), encoding="utf-8")
    return sorted(found)


def _without_group(test: str) -> str:
    """Return the id without the ``@group`` that tests/integration/labs.py writes behind it; parameters can hold an @ too."""
    head, bracket, group = test.rpartition("]")
    return head + bracket if bracket else group.partition("@")[0]


def _say(status: int, *lines: str) -> int:
    print("\n" + "\n".join(lines), flush=True)
    return status


def _run(arguments: Sequence[str], log: Path) -> int:
    with log.open("wb") as kept, subprocess.Popen([sys.executable, "-u", "-m", "pytest", *arguments], stdout=subprocess.PIPE) as pytest:
        assert pytest.stdout is not None
        while text := os.read(pytest.stdout.fileno(), 65536):  # as it comes: a line of dots takes minutes to be whole
            kept.write(text)
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    return pytest.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
