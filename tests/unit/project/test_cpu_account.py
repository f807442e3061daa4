# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The account of processor time: nothing that a process below used is lost, and nothing counts twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.testing.cpu_account import PROPERTY, Account, Programs, used

pytestmark = pytest.mark.slow  # its processes burn processor time, and nothing else would show

TICKS = 0.03  # seconds by which the kernel's account of a process may be off
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WORK = f"""
import os, subprocess, sys
{BURN.format(seconds=0.1)}
print(flush=True)
sys.stdin.readline()
subprocess.run([sys.executable, "-S", "-c", {BURN.format(seconds=0.2)!r}], check=True)
print(flush=True)
sys.stdin.readline()
"""


@contextmanager
def worker() -> Iterator[subprocess.Popen[str]]:
    """A process that has used 0.1 s, uses 0.2 s more by a child when it gets a line, and ends with the next one."""
    command = [sys.executable, "-S", "-c", WORK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        go_on(process, "")
        yield process


def go_on(process: subprocess.Popen[str], line: str = "\n") -> None:
    assert process.stdin and process.stdout
    process.stdin.write(line)
    process.stdin.flush()
    process.stdout.readline()


def test_what_a_process_uses_goes_by_its_name_and_what_its_children_used_by_that_of_their_parent() -> None:
    with worker() as process:
        programs = Programs(process.pid)
        programs.observe()
        assert programs.starts == {"python -c": 1}
        assert 0.1 - TICKS <= programs.seconds["python -c"] < 0.2
        go_on(process)
        programs.observe()
        assert 0.2 - TICKS <= programs.seconds["short ones of python -c"] < 0.4
        once = dict(programs.seconds)
        programs.observe()
        assert sum(programs.seconds.values()) == pytest.approx(sum(once.values()), abs=2 * TICKS)


def test_the_time_of_a_family_that_ends_between_two_observations_counts_once() -> None:
    programs, earlier = Programs(os.getpid()), used()
    programs.observe()
    start, later = sum(programs.seconds.values()), used()
    with worker() as process:
        programs.observe()
        go_on(process)
        go_on(process)
    least = used() - later
    programs.observe()  # it takes time itself, the more processes the machine has, of which a part is not in the account yet
    most = used() - earlier
    assert least >= 0.3 - TICKS
    assert least - 2 * TICKS <= sum(programs.seconds.values()) - start <= most + 2 * TICKS


def test_a_test_has_what_its_worker_and_all_below_used_while_it_ran() -> None:
    before = used()
    with worker():
        living = used() - before
    assert living >= 0.1 - TICKS
    assert used() - before >= living


class Terminal:
    """What a summary writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    write_line = section


def test_the_summary_has_groups_tests_and_programs() -> None:
    account: Any = Account(worker=False)
    account.pytest_sessionstart()
    for number, nodeid in enumerate(("tests/a.py::test_1@lab-x", "tests/b.py::test_2@lab-x", "tests/c.py::test_3")):
        for when in ("call", "teardown"):
            report = pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, when, user_properties=[(PROPERTY, 1.0 + number)])
            account.pytest_runtest_logreport(report)
    terminal = Terminal()
    account.pytest_terminal_summary(terminal)
    assert "processor time of 2 groups: 6 s" in terminal.lines
    assert "     3.00s lab-x" in terminal.lines and "     3.00s tests/c.py" in terminal.lines
    assert "     2.00s tests/b.py::test_2@lab-x" in terminal.lines
    assert any(line.endswith("(1 started)") for line in terminal.lines)
