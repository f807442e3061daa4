# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Confinement of the process that calls ``confine``: limits of memory and processor, files that it may open, rights that it gives up.

Limits, no_new_privs and the end with its parent hold everywhere. Another user and Landlock hold where the platform offers them;
``measures_here`` says which do, and why others do not.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from . import landlock

FILE_SIZE: Final = 1024 * 1024  # bytes of the largest file; certificates and keys are written for OpenSSL to read
DESCRIPTORS: Final = 1024
ADDRESSES: Final = 1024 * 1024 * 1024  # bytes of address space beyond the memory: stacks and arenas that are reserved and hardly used

SYSTEM: Final = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/gnutls"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
    *("/etc/localtime", "/etc/ld.so.cache", "/etc/passwd", "/etc/group"),
    *("/dev/urandom", "/dev/random", "/sys/devices/system/cpu"),
)
"""Files and folders that Python, TLS and the resolver read. None holds a credential of the operator."""
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # environment of OpenSSL

# linux/prctl.h
_SET_PDEATHSIG, _SET_DUMPABLE = 1, 4
_CAPABILITY_VERSION_3: Final = 0x20080522  # linux/capability.h


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a process. ``memory``: bytes beyond what it starts with; ``cpu``: seconds of processor time."""

    memory: int
    cpu: int


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Measures that hold besides limits.

    ``landlock``: version of its interface, 0 without; ``user``: id of the other user, -1 without. ``missing``: sentences about the others.
    """

    landlock: int = 0
    user: int = -1
    missing: tuple[str, ...] = ()

    def words(self) -> str:
        """Return the measures that hold, in words."""
        found = [f"Landlock {self.landlock}"] if self.landlock else []
        found += [f"user {self.user}"] if self.user >= 0 else []
        return ", ".join(("limits", "no new privileges", *found))


_libc: Final = ctypes.CDLL(None, use_errno=True)


def readable_here() -> tuple[str, ...]:
    """Return the paths that a confined process may read: the system's, Python's, and the folders of all modules that are imported."""
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    folders = {os.path.realpath(os.path.dirname(file)) for file in modules if file}
    named = [os.environ[name] for name in _CERTIFICATES if os.environ.get(name)]
    installed = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    roots = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, *installed)} - {"/"}
    for folder in sorted(folders):  # a folder comes before those that are in it
        if not any(Path(folder).is_relative_to(root) for root in (*roots, "/usr")):
            roots.add(folder)
    return (*SYSTEM, *named, *sorted(roots))


def measures_here(readable: Iterable[str]) -> Measures:
    """Return the measures that this platform offers. It forks once if the process is root, to try another user."""
    missing = list[str]()
    try:
        offered = landlock.version()
    except landlock.LandlockUnavailable as error:
        offered = 0
        missing.append(f"No Landlock: {error}; file permissions alone decide what a dry run may open.")
    user = -1
    if os.geteuid() != 0:
        missing.append("No other user: only root may change it; dry runs have the operator's user.")
    elif (nobody := _nobody()) is None or not _can_read(nobody, readable):
        missing.append("No other user: nobody cannot read the folders of Python and of the operator; dry runs have the operator's user.")
    else:
        user = nobody
    return Measures(landlock=offered, user=user, missing=tuple(missing))


def confine(limits: Limits, measures: Measures, folder: str, readable: Sequence[str], parent: int) -> None:
    """Confine this process, which has one thread, for good. ``folder``: the only one in which it may write; ``parent``: its parent's id.

    :raises OSError: when a measure that the platform offers fails.
    """
    with suppress(OSError):  # the kernel ends this process first when memory is short, and not the operator
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    _limit(limits)
    if measures.user >= 0:
        os.setgroups([])
        os.setresgid(measures.user, measures.user, measures.user)
        os.setresuid(measures.user, measures.user, measures.user)
    _drop_capabilities()
    _prctl(_SET_DUMPABLE, 0)  # no other process of this user reads its memory, and no core is written
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which clears it
    if os.getppid() != parent:
        os._exit(0)
    landlock.set_no_new_privileges()
    if measures.landlock:
        landlock.restrict(readable, (folder, "/dev/null"))


def hide_memory() -> None:
    """Keep other processes of this user from reading the memory and the environment of this one, by ptrace(2) or /proc/PID."""
    _prctl(_SET_DUMPABLE, 0)


def _limit(limits: Limits) -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines())
    data, size = (int(status[name].split()[0]) * 1024 for name in ("VmData", "VmSize"))
    for kind, bound in (
        (resource.RLIMIT_DATA, data + limits.memory),
        (resource.RLIMIT_AS, size + limits.memory + ADDRESSES),
        (resource.RLIMIT_CPU, limits.cpu + 1),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        # At the soft limit of processor time the kernel sends SIGXCPU, which says why; at the hard one SIGKILL.
        resource.setrlimit(kind, (max(1, least - 1) if kind == resource.RLIMIT_CPU else least, least))


def _drop_capabilities() -> None:
    """Drop every capability: for a process that stays root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


def _nobody() -> int | None:
    with suppress(KeyError):
        return pwd.getpwnam("nobody").pw_uid
    return None


def _can_read(user: int, readable: Iterable[str]) -> bool:
    """Return whether a user may read these paths, those that root may not find left out. It tries in a process of its own."""
    there = [path for path in readable if os.path.exists(path)]
    child = os.fork()
    if child == 0:
        status: Any = 1
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            status = 0 if all(os.access(path, os.R_OK) for path in there) else 1
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
