# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A memory cgroup of a test's own, where one can be made: its kernel counts all processes, page tables and files in memory, as in a pod."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PLACES = (  # of version 1 and of version 2: folder, and the files with the limit and the peak
    (ROOT / "memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
    (ROOT, "memory.max", "memory.peak", "memory.events"),
)


@dataclass(frozen=True)
class MemoryCgroup:
    """One cgroup with a limit."""

    folder: Path
    _peak: str
    _events: str

    def take(self, pid: int) -> None:
        """Put a process into it; what that starts is in it too."""
        (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def peak(self) -> int:
        """Return the most bytes that it had at a time."""
        return int((self.folder / self._peak).read_text(encoding="ascii"))

    def killed(self) -> int:
        """Return how many of its processes the kernel killed for memory."""
        rows = dict(line.split() for line in (self.folder / self._events).read_text(encoding="ascii").splitlines())
        return int(rows["oom_kill"])


@contextmanager
def memory_cgroup(limit: int) -> Iterator[MemoryCgroup | None]:
    """Make a cgroup with a limit in bytes, and remove it afterwards; None where none can be made, which is printed."""
    made = None
    for place, limit_file, peak, events in PLACES:
        folder = place / f"mesh-test-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            if (folder / peak).exists():
                (folder / limit_file).write_text(str(limit), encoding="ascii")
                made = MemoryCgroup(folder, peak, events)
                break
            folder.rmdir()
    print("measured in a memory cgroup" if made else "measured by VmHWM alone: no memory cgroup can be made here")
    try:
        yield made
    finally:
        until = time.monotonic() + 10
        while made is not None and made.folder.exists() and time.monotonic() < until:
            with suppress(OSError):  # a process of it is still dying
                made.folder.rmdir()
            time.sleep(0.05)
