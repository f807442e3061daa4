# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Memory of the operator's container: the most that each part takes, and their sum, which its limit has to hold.

Where the kernel runs out of a container's memory, it may end all of its processes at once: the kubelet asks for that on cgroup v2
(memory.oom.group). So every part has a limit of its own. docs/operator.md has the table; a test compares it, and the chart, with this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024

LEADER: Final = 512 * MIB  # the operator's process: 150 MiB of its own, 240 MiB of objects (decision 0068), and lists on their way
ANSWER: Final = 160 * MIB  # an answer while a worker reads it: 16 MiB as text and 400,000 values, and as many bytes of parts (0065)
FORK_SERVER: Final = 160 * MIB  # 110 MiB of imports, which all of its children share
CLIENT: Final = 16 * MIB  # the process that ansible-runner starts (runs/confined/playbook_client.py)
RUN_PROCESS: Final = 512 * MIB  # data of one process of a run, held by the kernel
RUN_PROCESSES: Final = 2  # Ansible, and its worker: a run has one task at a time (ANSIBLE_FORKS)
SHM: Final = 64 * MIB  # volumes in memory, as the chart limits them: semaphores,
TMP: Final = 128 * MIB  # and the folders of runs and dry runs

_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_UNLIMITED: Final = 1 << 60  # version 1 shows the largest number of pages, in bytes


def memory_needed(max_runs: int, dry_run_memory: int) -> int:
    """Return the most bytes that all processes and volumes take. A worker makes a dry run or a run, and never both.

    :param max_runs: workers.
    :param dry_run_memory: MiB of a dry run.
    """
    child = max(dry_run_memory * MIB, CLIENT + RUN_PROCESSES * RUN_PROCESS)
    return LEADER + FORK_SERVER + SHM + TMP + max_runs * (ANSWER + child)


def memory_limit(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """Return the limit of this process's container in bytes; None where there is none, or where it cannot be read.

    :param root: where cgroups are mounted.
    :param own: file that names the cgroups of this process, as proc(5) describes.
    """
    found = list[int]()
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mounted, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            mounted, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the mount is its own cgroup, also where the path is the one that the node sees.
        folder = mounted / path.lstrip("/")
        for place in (folder, *folder.parents):
            if place.is_relative_to(mounted) and (limit := _limit(place / name)) is not None:
                found.append(limit)
    return min(found, default=None)


def memory_shortage(max_runs: int, dry_run_memory: int, limit: int | None) -> str:
    """Return a sentence about a limit that does not hold what may be needed; "" if it does, or if there is none."""
    needed = memory_needed(max_runs, dry_run_memory)
    if limit is None or limit >= needed:
        return ""
    return (
        f"The container may have {limit // MIB} MiB of memory, and needs up to {needed // MIB} MiB with {max_runs} runs at a time: "
        "the kernel may end it. Raise its limit, or lower --max-runs."
    )


def _limit(file: Path) -> int | None:
    try:
        limit = int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max"
        return None
    return limit if limit < _UNLIMITED else None
