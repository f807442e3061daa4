# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of a test run goes: by group of tests, and by program. ``pytest --cpu`` prints it at the end.

Time on a clock says little on a machine that does other things too; processor time can be compared. It is read from proc(5): that of a
test is what its worker and every process below it used while it ran, so the start of a shared lab counts for the first test of it.
Programs are observed every second. What a process used between the last time and its end goes by the name of its parent, since the
kernel adds it there.
"""

from __future__ import annotations

import os
import re
import resource
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

OPTION: Final = "--cpu"
PROPERTY: Final = "cpu"
_EVERY: Final = 1.0  # seconds between two observations
_ROWS: Final = 40
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_INTERPRETER: Final = re.compile(r"python[\d.]*$")


@dataclass(frozen=True)
class Stat:
    """What proc(5) says of a process: seconds of its own, and of its children that have ended."""

    pid: int
    parent: int
    start: int
    command: str
    own: float
    children: float


def read_stat(pid: int) -> Stat | None:
    """Return the line of a process; None when it is gone."""
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    times = [int(text) * _TICK for text in fields[11:15]]
    return Stat(pid, int(fields[1]), int(fields[19]), head.partition("(")[2], times[0] + times[1], times[2] + times[3])


def below(root: int) -> Iterator[Stat]:
    """Yield every living process below ``root``."""
    try:
        threads = os.listdir(f"/proc/{root}/task")
    except OSError:
        return
    for thread in threads:
        try:
            text = Path(f"/proc/{root}/task/{thread}/children").read_text(encoding="ascii")
        except OSError:
            continue
        for pid in map(int, text.split()):
            stat = read_stat(pid)
            if stat is not None:
                yield stat
                yield from below(pid)


def used() -> float:
    """Return the seconds that this process and all below it have used so far."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(stat.own + stat.children for stat in below(os.getpid()))


def program_of(stat: Stat) -> str:
    """Return the name of what a process runs: of Python, the module or the script."""
    try:
        line = Path(f"/proc/{stat.pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        line = []
    if not line or not line[0]:
        return stat.command
    first, rest = os.path.basename(line[0]), [text for text in line[1:] if text]
    if not _INTERPRETER.match(first):
        return first
    for before, text in zip(["", *rest], rest, strict=False):
        if before == "-m":
            return f"python -m {text}"
        if before == "-c":
            return "python -c (worker of pytest-xdist)" if "execnet" in text else "python -c"
        if not text.startswith("-"):
            return f"python {os.path.basename(text)}"
    return "python"


@dataclass
class Programs:
    """Processor time and number of processes by program, below one process."""

    root: int
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    starts: Counter[str] = field(default_factory=Counter)
    _known: dict[tuple[int, int], tuple[Stat, str]] = field(default_factory=dict)

    def observe(self) -> None:
        """Count what was used since the last call."""
        root = read_stat(self.root)
        found = {(stat.pid, stat.start): stat for stat in ([root] if root else []) + list(below(self.root))}
        parents = {stat.pid: stat.parent for stat, _ in self._known.values()}
        alive = {pid for pid, _ in found}
        gone: defaultdict[int, float] = defaultdict(float)
        for key in self._known.keys() - found.keys():
            ended, _ = self._known.pop(key)
            heir = ended.parent
            while heir not in alive and heir in parents:  # its parent ended too: the time has gone to who lives
                heir = parents[heir]
            gone[heir] += ended.own + ended.children
        for key, stat in found.items():
            last, name = self._known.get(key, (None, ""))
            if last is None or last.command != stat.command:  # new, or another program by execve
                name = program_of(stat)
                self.starts[name] += 1
            self.seconds[name] += stat.own - (last.own if last else 0.0)
            short = stat.children - (last.children if last else 0.0) - gone[stat.pid]
            self.seconds[f"short ones of {name}"] += max(0.0, short)
            self._known[key] = (stat, name)


class Account:
    """The plugin of one pytest process."""

    def __init__(self, *, worker: bool) -> None:
        self._worker = worker
        self._before = 0.0
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._programs = Programs(os.getpid())
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._observe_on, daemon=True)

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        if not self._worker:
            self._watch.start()

    @pytest.hookimpl
    def pytest_collection_finish(self) -> None:
        self._before = used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            now = used()
            report.user_properties.append((PROPERTY, now - self._before))
            self._before = now
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._tests[report.nodeid] += sum(float(str(value)) for name, value in report.user_properties if name == PROPERTY)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._ended.set()
        self._watch.join()
        groups: defaultdict[str, float] = defaultdict(float)
        for nodeid, seconds in self._tests.items():
            groups[nodeid.rpartition("@")[2] if "@" in nodeid else nodeid.partition("::")[0]] += seconds
        tables: Mapping[str, Mapping[str, float]] = {
            f"processor time of {len(groups)} groups": groups,
            f"processor time of {len(self._tests)} tests": self._tests,
            "processor time of programs": self._programs.seconds,
        }
        for title, rows in tables.items():
            terminalreporter.section(f"{title}: {sum(rows.values()):.0f} s")
            for name, seconds in sorted(rows.items(), key=lambda row: -row[1])[:_ROWS]:
                count = self._programs.starts.get(name)
                terminalreporter.write_line(f"{seconds:9.2f}s {name}" + (f" ({count} started)" if count else ""))

    def _observe_on(self) -> None:
        while not self._ended.wait(_EVERY):
            self._programs.observe()
        self._programs.observe()


def register(config: pytest.Config) -> None:
    """Keep the account, where the option asks for it."""
    if config.getoption(OPTION):
        config.pluginmanager.register(Account(worker=hasattr(config, "workerinput")), "cpu-account")
