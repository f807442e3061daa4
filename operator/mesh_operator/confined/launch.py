# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Start of a program in confinement, for runs of playbooks: limits, no new privileges, and with Landlock only the files that it needs.

What the program starts inherits all of it. Unlike a dry run it has to start programs of the system, and Ansible's queues need semaphores,
which glibc keeps in /dev/shm (sem_open(3)). Each run pays for what this module imports, so that is little.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

from . import landlock

MEMORY = 1024 * 1024 * 1024  # bytes of data of one process
FILE_SIZE = 256 * 1024 * 1024  # bytes of the largest file
SEMAPHORES = "/dev/shm"
_BETWEEN = "\n"  # no path of this project has a line break
_PREFIXES = (sys.prefix, sys.base_prefix, sys.exec_prefix)  # not known to a Python without its module site
_START = "import sys; sys.path.insert(0, sys.argv[1]); from mesh_operator.confined.launch import main; main(sys.argv[2:])"


def confined_command(command: Sequence[str], folder: str, readable: Sequence[str], system: Sequence[str]) -> list[str]:
    """Return the command that runs another one in confinement.

    :param folder: the one in which it may write, besides semaphores.
    :param readable: what it may read besides the files of the system.
    :param system: files and folders of the system, in which it may start programs too.
    """
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = (folder, _BETWEEN.join((*readable, *system)), _BETWEEN.join((*_PREFIXES, *system)))
    return [sys.executable, "-I", "-S", "-c", _START, package, *paths, *command]


def main(arguments: Sequence[str]) -> None:
    """Confine this process, and become the program. Where Landlock is missing, the limits hold alone.

    :param arguments: what ``confined_command`` made of folder and paths, and the command.
    :raises OSError: when a measure that the platform offers fails, or there is no such program.
    """
    folder, readable, executable, *command = arguments
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")  # when memory is short, the kernel ends a run before the operator
    for kind, bound in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_FSIZE, FILE_SIZE), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (least, least))
    landlock.set_no_new_privileges()
    with suppress(landlock.LandlockUnavailable):  # the operator has logged it (dry_runs_less_confined)
        landlock.restrict(readable.split(_BETWEEN), (folder, "/dev/null", SEMAPHORES), executable=executable.split(_BETWEEN))
    os.execv(command[0], command)
