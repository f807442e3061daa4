# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a process and its children cost, read from /proc (proc(5)): CPU seconds, and resident memory while they run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Use as a context manager around what is to be measured; the figures are whole afterwards.

    ``cpu``: seconds of the process and of all children that have ended or still run. ``peak``: bytes, the largest sum of memory of process
    and children at one time, measured every quarter of a second; a page that several share counts once (PSS). ``own_peak``: of the process
    alone.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._stop = pid, Event()
        self._thread = Thread(target=self._sample, daemon=True)
        self.cpu, self.peak, self.own_peak = 0.0, 0, 0

    def __enter__(self) -> Self:
        self._before = _cpu(self._pid)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu = _cpu(self._pid) - self._before

    def _sample(self) -> None:
        while not self._stop.wait(0.25):
            own = _resident([self._pid])
            self.own_peak, self.peak = max(self.own_peak, own), max(self.peak, own + _resident(_children(self._pid)))


def _children(pid: int) -> set[int]:
    """All below it."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has ended
            parents[int(place.name)] = int(_fields(int(place.name))[1])
    found, fresh = set[int](), {pid}
    while fresh := {child for child, parent in parents.items() if parent in fresh}:
        found |= fresh
    return found


def _cpu(root: int) -> float:
    """User and system time of the process, of all that run below it, and of those below them that have ended."""
    ticks = 0
    for pid in {root} | _children(root):
        with suppress(OSError, IndexError):
            ticks += sum(int(entry) for entry in _fields(pid)[11:15])
    return ticks / _TICKS


def _resident(pids: Iterable[int]) -> int:
    found = 0
    for pid in pids:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            found += 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on, which is field 3 of the manual: a name may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
