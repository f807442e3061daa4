# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Start of a program in confinement, for runs of playbooks: limits, no new privileges, and with Landlock only the files that it needs.

What the program starts inherits all of it. Unlike a dry run it has to start programs of the system, and Ansible's queues need semaphores,
which glibc keeps in /dev/shm (sem_open(3)).
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import landlock
from .confinement import SYSTEM, set_no_new_privileges

MEMORY: Final = 1024 * 1024 * 1024  # bytes of data of one process
FILE_SIZE: Final = 256 * 1024 * 1024  # bytes of the largest file
SEMAPHORES: Final = "/dev/shm"
_PREFIXES: Final = (sys.prefix, sys.base_prefix, sys.exec_prefix)  # not known to a Python without its module site
_START: Final = "import sys; sys.path.insert(0, sys.argv[1]); from mesh_operator.confined.launch import main; main(sys.argv[2:])"


def confined_command(command: Sequence[str], folder: str, readable: Sequence[str]) -> list[str]:
    """Return the command that runs another one in confinement.

    :param folder: the one in which it may write, besides semaphores.
    :param readable: what it may read besides the files of the system.
    """
    paths = {"folder": folder, "readable": [*readable, *SYSTEM], "executable": [*_PREFIXES, *SYSTEM]}
    return [sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parents[2]), json.dumps(paths), *command]


def main(arguments: Sequence[str]) -> None:
    """Confine this process, and become the program. Where Landlock is missing, the limits hold alone.

    :param arguments: the paths as JSON, and the command.
    :raises OSError: when a measure that the platform offers fails, or there is no such program.
    """
    paths = json.loads(arguments[0])
    with suppress(OSError):  # when memory is short, the kernel ends a run before the operator
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    for kind, bound in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, FILE_SIZE), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (least, least))
    set_no_new_privileges()
    with suppress(landlock.LandlockUnavailable):
        landlock.version()
        landlock.restrict(paths["readable"], (paths["folder"], "/dev/null", SEMAPHORES), executable=paths["executable"])
    os.execv(arguments[1], list(arguments[1:]))
