# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A playbook that is killed, controller and all, at a moment that the caller chooses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.testing.playbooks import COLLECTION, SETTINGS, _environment
from tests.testing.waiting import wait_for


def run_until_killed(name: str, *, inventory: Mapping[str, Any], variables: Mapping[str, Any], moment: Callable[[], bool]) -> bool:
    """Start the collection's playbook ``name`` and kill it, with the workers that it forked, as soon as ``moment()`` holds.

    :returns: whether it was killed; False when it ended by itself before.
    """
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="mesh-kill-", dir=scratch) as folder:
        for file, content in (("inventory.json", inventory), ("variables.json", variables)):
            Path(folder, file).write_text(json.dumps(dict(content)), encoding="utf-8")
        Path(folder, "ansible.cfg").write_text(SETTINGS, encoding="ascii")
        argv = ["-i", f"{folder}/inventory.json", "-e", f"@{folder}/variables.json", f"{COLLECTION}.{name}"]
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "ansible-playbook"), *argv],
            cwd=folder,
            env={**os.environ, **_environment(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: process.poll() is not None or moment(), what=f"the moment to kill {name} is there", stall=300, every=0.05)
            return process.poll() is None
        finally:
            if process.poll() is None:
                kill_run(process.pid)
            process.wait()


def kill_run(pid: int) -> None:
    """Kill a play at once, with its workers, which have sessions of their own (ansible-core, worker.py)."""
    for process in (pid, *descendants(pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on, of a process of ours."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = list(parents.get(pid, []))
    for child in found:  # grows while it is walked
        found.extend(parents.get(child, []))
    return found
