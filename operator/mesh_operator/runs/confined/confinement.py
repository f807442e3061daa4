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
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from . import landlock

ADDRESSES: Final = 1024 * 1024 * 1024  # bytes of address space beyond the memory: stacks and arenas that are reserved and hardly used

SYSTEM: Final = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/gnutls"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
    *("/etc/localtime", "/etc/ld.so.cache", "/etc/passwd", "/etc/group"),
    *("/dev/urandom", "/dev/random", "/sys/devices/system/cpu"),
)
"""Files and folders that Python, TLS and the resolver read. None holds a credential of the operator."""
SEMAPHORES: Final = "/dev/shm"  # where glibc keeps them (sem_open(3)); Ansible's queues need some
_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # environment of OpenSSL

# linux/prctl.h
_SET_PDEATHSIG, _SET_DUMPABLE = 1, 4
_CAPABILITY_VERSION_3: Final = 0x20080522  # linux/capability.h


@dataclass(frozen=True, kw_only=True)
class ProcessLimits:
    """Limits of a process. ``memory``: bytes beyond what it starts with; ``cpu``: seconds of processor time, 0 for any.

    ``file_size``: bytes of the largest file; ``descriptors``: open files.
    """

    memory: int
    cpu: int
    file_size: int = 1024 * 1024  # certificates and keys are written for OpenSSL to read
    descriptors: int = 1024


@dataclass(frozen=True, kw_only=True)
class Program:
    """Program that a confined process is, beyond answering questions: Ansible, which works in a given folder and starts processes.

    ``folder``: the one in which it may write, besides semaphores; ``readable``: paths that it may read besides those of every process.
    """

    folder: str
    readable: tuple[str, ...] = ()


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


def memory_folder() -> str:
    """Return the folder for private files: in memory, and if possible not among the semaphores, where a run may read what others have."""
    named = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), SEMAPHORES)
    places = [place for place in named if os.access(place, os.W_OK) and in_memory(place)]
    return min(places, key=_among_semaphores, default=tempfile.gettempdir())


def in_memory(folder: str, mounts: Path = Path("/proc/mounts")) -> bool:
    """Return whether what is written into a folder stays in memory.

    :param mounts: file of mounts in the form of proc(5).
    """
    lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    within = [(len(point), number, kind) for number, (_, point, kind, *_) in enumerate(map(str.split, lines)) if _is_within(folder, point)]
    return max(within, default=(0, 0, ""))[2] in ("tmpfs", "ramfs")  # of mounts at one place, the last one is seen


def _is_within(folder: str, point: str) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(point)


def _among_semaphores(folder: str) -> bool:
    return _is_within(folder, SEMAPHORES)


def readable_here() -> tuple[str, ...]:
    """Return the paths that a confined process may read: the system's, Python's, and the folders of all modules that are imported."""
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    # Ansible gives packages of collections a file that does not exist, without a folder.
    folders = {os.path.realpath(os.path.dirname(file)) for file in modules if file and os.path.isfile(file)}
    named = [os.environ[name] for name in _CERTIFICATES if os.environ.get(name)]
    installed = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    roots = {os.path.realpath(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, *installed)} - {"/"}
    for folder in sorted(folders):  # a folder comes before those that are in it
        if not any(Path(folder).is_relative_to(root) for root in (*roots, "/usr")):
            roots.add(folder)
    return (*SYSTEM, *named, *sorted(roots))


def measures_here(readable: Iterable[str], folder: str) -> Measures:
    """Return the measures that this platform offers. It forks once if the process is root, to try another user.

    :param readable: paths that every process may read.
    :param folder: parent of the folders of dry runs; those of runs are in the same place (``memory_folder``).
    """
    missing = list[str]()
    try:
        offered = landlock.version()
    except landlock.LandlockUnavailable as error:
        offered = 0
        missing.append(f"No Landlock: {error}; file permissions alone decide what a dry run may open.")
    if not in_memory(folder):
        missing.append(
            f"No folder in memory: keys and kubeconfigs are in {folder}, on a disk, while a run or dry run uses them. Set XDG_RUNTIME_DIR "
            "to a folder in memory, or mount a tmpfs at /tmp."
        )
    if _among_semaphores(folder):
        missing.append(
            f"{SEMAPHORES} is the only folder in memory, where a run can read the folders of other runs: set XDG_RUNTIME_DIR to "
            "another one, or mount one at /tmp."
        )
    user = -1
    if os.geteuid() != 0:
        missing.append("No other user: only root may change it; dry runs have the operator's user.")
    elif (unprivileged := _unprivileged_user()) is None or not _can_open(unprivileged, readable, os.R_OK):
        missing.append(
            "No other user: the user nobody cannot read the folders of Python and of the operator; dry runs have the operator's user."
        )
    elif not _can_open(unprivileged, [folder], os.X_OK):  # systemd makes XDG_RUNTIME_DIR with mode 0700
        missing.append(f"No other user: the user nobody cannot pass through to {folder}; dry runs have the operator's user.")
    else:
        user = unprivileged
    return Measures(landlock=offered, user=user, missing=tuple(missing))


def confine(
    limits: ProcessLimits, measures: Measures, folder: str, readable: Sequence[str], parent: int, program: Program | None = None
) -> None:
    """Confine this process, which has one thread, for good.

    :param folder: the only one in which it may write.
    :param parent: id of its parent, with which it ends.
    :param program: it keeps its user, who owns its folder, and may start programs of the system and of Python.
    :raises OSError: when a measure that the platform offers fails.
    """
    with suppress(OSError):  # the kernel ends this process first when memory is short, and not the operator; a program after the others
        Path("/proc/self/oom_score_adj").write_text("500" if program else "1000", encoding="ascii")
    _limit(limits)
    if measures.user >= 0 and program is None:
        os.setgroups([])
        os.setresgid(measures.user, measures.user, measures.user)
        os.setresuid(measures.user, measures.user, measures.user)
    _drop_capabilities()
    _prctl(_SET_DUMPABLE, 0)  # no other process of this user reads its memory, and no core is written
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which clears it
    if os.getppid() != parent:
        os._exit(0)
    landlock.set_no_new_privileges()
    if measures.landlock and program is None:
        landlock.restrict(readable, (folder, "/dev/null"))
    elif measures.landlock and program is not None:
        executable = (*SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix)
        landlock.restrict((*readable, *program.readable), (folder, "/dev/null", SEMAPHORES), executable=executable)
    if program is not None:  # its own processes too: they may outlive it, when it is killed
        os.register_at_fork(after_in_child=partial(_prctl, _SET_PDEATHSIG, signal.SIGKILL))


def hide_memory() -> None:
    """Keep other processes of this user from reading the memory and the environment of this one, by ptrace(2) or /proc/PID."""
    _prctl(_SET_DUMPABLE, 0)


def _limit(limits: ProcessLimits) -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines())
    data, size = (int(status[name].split()[0]) * 1024 for name in ("VmData", "VmSize"))
    for kind, bound in (
        (resource.RLIMIT_DATA, data + limits.memory),
        (resource.RLIMIT_AS, size + limits.memory + ADDRESSES),
        (resource.RLIMIT_CPU, limits.cpu + 1 if limits.cpu else resource.RLIM_INFINITY),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        least = min((size for size in (bound, hard) if size != resource.RLIM_INFINITY), default=resource.RLIM_INFINITY)
        # At the soft limit of processor time the kernel sends SIGXCPU, which says why; at the hard one SIGKILL.
        soft = max(1, least - 1) if kind == resource.RLIMIT_CPU and least != resource.RLIM_INFINITY else least
        resource.setrlimit(kind, (soft, least))


def _drop_capabilities() -> None:
    """Drop every capability: for a process that stays root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be dropped")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


def _unprivileged_user() -> int | None:
    with suppress(KeyError):
        return pwd.getpwnam("nobody").pw_uid
    return None


def _can_open(user: int, paths: Iterable[str], how: int) -> bool:
    """Return whether a user may open these paths as ``access(2)`` says, those that root may not find left out. It tries in a child."""
    existing = [path for path in paths if os.path.exists(path)]
    child = os.fork()
    if child == 0:
        status: Any = 1
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            status = 0 if all(os.access(path, how) for path in existing) else 1
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
