# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cgroups of the nodes with real agents.

An agent attaches its socket load balancing to the root of the cgroup2 mount that it sees. On the machine's own root that would rewrite
connections of every process of the machine, so each node has a cgroup of its own, and its processes see nothing above it.
Standard library only: the keeper removes what is left.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PREFIX = "mesh-lab-"


def machine_root(mountinfo: str | None = None) -> Path | None:
    """Return where the machine's cgroup2 is mounted; None where it is not."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mountinfo is None else mountinfo
    for line in text.splitlines():
        own, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(own.split()[4].encode().decode("unicode_escape"))
    return None


def folder_of(root: Path, lab: Path) -> Path:
    """Return the cgroup of all nodes of a lab, by the name of its folder and its user."""
    return root / f"{_PREFIX}{os.geteuid()}-{lab.name}"


def remove(folder: Path) -> None:
    """Remove a cgroup with all below it, and end the processes that are in it. None is fine."""
    if not folder.is_dir():
        return
    for path in [*(Path(name) for name, _, _ in os.walk(folder, topdown=False))]:
        for line in (path / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)
        with contextlib.suppress(OSError):
            path.rmdir()
