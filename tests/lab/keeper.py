# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The outermost process of a lab. It makes the namespaces that the lab lives in, starts the supervisor there and removes what is left on
disk.

    keeper                      removes the state folder when all others are gone
    └─ init, pid 1 of the lab   collects orphans; the kernel kills every process of the lab when it ends, whatever it was killed by
       └─ supervisor            owns all the rest

The lab has a user namespace when it is started by an ordinary user, and always mount and process id namespaces of its own: mounts vanish
with the last process, and no process can outlive the lab. The network namespace stays that of the machine, since clients come from there.
Standard library only, so that it stays small.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.lab import cgroups

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
_MS_REC_PRIVATE = 16384 | 1 << 18
_PR_SET_PDEATHSIG = 1
_CAP_SYS_ADMIN = 21
_MNT_DETACH = 2

_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_libc = ctypes.CDLL(None, use_errno=True)


class NoNamespacesError(RuntimeError):
    """This kernel does not let this user make the namespaces; the text names the setting."""


def privileged() -> bool:
    """Whether this process may make namespaces without a user namespace (CAP_SYS_ADMIN)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def enter_namespaces() -> None:
    """Move this process to its own namespaces. Its next child is process 1. Raises NoNamespacesError."""
    ordinary = not privileged()
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWUSER if ordinary else 0)
    try:
        _check(_libc.unshare(flags))
        if ordinary:
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
        _check(_libc.mount(b"none", b"/", b"none", ctypes.c_ulong(_MS_REC_PRIVATE), None))
    except OSError as error:
        raise NoNamespacesError(f"{error.strerror}: {remedy(ordinary=ordinary)}") from None


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def remedy(*, ordinary: bool) -> str:
    """What to do about refused namespaces; ``ordinary``: the user has no CAP_SYS_ADMIN."""
    if not ordinary:
        return "namespaces are refused although this process has CAP_SYS_ADMIN; a seccomp filter of the container may forbid unshare"
    settings = {
        "kernel.unprivileged_userns_clone": ("0", "1"),
        "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
        "user.max_user_namespaces": ("0", "10000"),
    }
    for name, (bad, good) in settings.items():
        if _setting(name) == bad:
            return (
                f"an ordinary user needs user namespaces and {name} is {bad}; run `sysctl {name}={good}` as root, or start the lab as root"
            )
    return "an ordinary user needs user namespaces with mounts, and this machine (or this container) refuses them; start the lab as root"


def _setting(name: str) -> str | None:
    """A kernel setting's value; None when this kernel does not have it."""
    path = Path("/proc/sys") / name.replace(".", "/")
    return path.read_text(encoding="ascii").strip() if path.exists() else None


def _on_stop(action: Callable[[], None]) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        action()

    for number in _STOP:
        signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)


def _tell(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _init(command: Sequence[str], watched: int) -> NoReturn:
    """Process 1: start the supervisor, pass the signal to stop on, collect everything that ends, leave with the supervisor."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        if watched >= 0:
            os.set_inheritable(watched, True)
        os.execv(command[0], list(command))
    _on_stop(lambda: _tell(child))
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def keep(folder: Path, command: Sequence[str], watched: int = -1) -> int:
    """Run ``command`` (an absolute program and its arguments) as supervisor inside new namespaces until it ends; then remove ``folder``.

    ``watched``: a file descriptor that the supervisor inherits, or -1. Returns the supervisor's exit status. Raises NoNamespacesError.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # a signal to stop waits until there is a child to pass it to
    try:
        enter_namespaces()
        sys.stdout.flush()
        sys.stderr.flush()
        init = os.fork()
        if init == 0:
            _init(command, watched)
        _on_stop(lambda: _tell(init))
        _, status = os.waitpid(init, 0)
        return os.waitstatus_to_exitcode(status)
    finally:
        _clear(folder)


def _clear(folder: Path) -> None:
    """Remove what a lab leaves if all of it was killed: mounts below its folder, the cgroups of its nodes, the folder."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place = line.split()[4]
        if place.startswith(f"{folder}/"):
            _libc.umount2(place.encode(), _MNT_DETACH)
    if root := cgroups.machine_root():
        cgroups.remove(cgroups.folder_of(root, folder))
    shutil.rmtree(folder, ignore_errors=True)
