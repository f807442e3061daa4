# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Landlock: which files a process may open, by the three system calls of landlock(7). No privilege is needed; nothing lifts it again.

The bindings on PyPI are not used: decision 0044.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

# The numbers are the same on every architecture that Linux has but Alpha (since 5.0 new calls get one number everywhere).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION: Final = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH: Final = 1  # LANDLOCK_RULE_PATH_BENEATH
_NO_NEW_PRIVS: Final = 38  # PR_SET_NO_NEW_PRIVS of linux/prctl.h

# LANDLOCK_ACCESS_FS_* of linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG, _TRUNCATE = 1 << 7, 1 << 8, 1 << 14
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_RIGHTS: Final = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
"""Rights by the version of the interface that brought them: of 1.0 all from EXECUTE to MAKE_SYM; REFER; TRUNCATE; IOCTL_DEV."""
_BIND_TCP: Final = 1  # LANDLOCK_ACCESS_NET_BIND_TCP, from version 4
_SCOPES: Final = 3  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL, from version 6

_WHY: Final = {
    errno.ENOSYS: "the kernel has no Landlock (it came with 5.13)",
    errno.EOPNOTSUPP: "Landlock is switched off in this kernel (boot parameter lsm=)",
    errno.EPERM: "the container's seccomp profile refuses Landlock",
}


class LandlockUnavailable(Exception):
    """Reason for which Landlock cannot be used here, as a clause."""


class _Attributes(ctypes.Structure):
    """``struct landlock_ruleset_attr``. An older kernel accepts the longer form if the fields that it does not know are 0."""

    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


_libc: Final = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of the interface that the kernel offers, from 1.

    :raises LandlockUnavailable: when it offers none.
    """
    found = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))
    if found < 1:
        number = ctypes.get_errno()
        raise LandlockUnavailable(_WHY.get(number, f"the kernel refuses Landlock ({os.strerror(number)})"))
    return found


def restrict(readable: Iterable[str], writable: Iterable[str], *, executable: Iterable[str] = ()) -> None:
    """Restrict this thread, and all that it starts, to these files and folders with what is beneath them.

    Nothing but ``executable`` can be executed, no TCP port listened on (from version 4), and no process outside signalled or reached by an
    abstract socket (from version 6). No other process can be traced, so that /proc/PID/environ and /proc/PID/mem are closed too. It also
    sets no_new_privs. Paths that do not exist are left out. What is open stays open.

    :raises LandlockUnavailable: when the kernel offers no Landlock.
    :raises OSError: when it refuses a rule.
    """
    offered = version()
    handled = sum(rights for since, rights in _RIGHTS.items() if since <= offered)
    attributes = _Attributes(fs=handled, net=_BIND_TCP if offered >= 4 else 0, scoped=_SCOPES if offered >= 6 else 0)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    try:
        reading = _READ_FILE | _READ_DIR
        changing = reading | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
        for paths, rights in ((readable, reading), (writable, changing), (executable, reading | _EXECUTE)):
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError):
                    _allow(ruleset, path, rights & handled)
        set_no_new_privileges()
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def set_no_new_privileges() -> None:
    """Keep this process, and all that it starts, from gaining privileges by the programs that it runs.

    :raises OSError: when the kernel refuses.
    """
    if _libc.prctl(_NO_NEW_PRIVS, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")


def _allow(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        of_file = not stat.S_ISDIR(os.fstat(parent).st_mode)
        rule = _PathBeneath(allowed=rights & _OF_FILES if of_file else rights, parent=parent)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(parent)


def _call(number: int, *arguments: object) -> int:
    found = int(_libc.syscall(number, *arguments))
    if found < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return found
