# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files on the controller: written in one step or not at all, and read with errors that name the file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput

_OTHERWISE: Final = "Name another file, or correct what the message says."
_REMEDIES: Final[Mapping[int | None, str]] = {
    errno.ENOENT: "Make its folder first; folders are not made on the way.",
    errno.ENOTDIR: "Name a file in a folder; a part of the path is a file.",
    errno.EACCES: "Change the mode of its folder, or name another file.",
    errno.EPERM: "Change the mode of its folder, or name another file.",
    errno.EROFS: "Name a file on a file system that can be written.",
    errno.ENOSPC: "Make room there, or name another file.",
    errno.EDQUOT: "Make room there, or name another file.",
}

SIZE_LIMIT = 64 * 1024 * 1024  # bytes; the plan of 255 clusters is 20 MB


def check_places(places: Mapping[str, str]) -> dict[str, str]:
    """Return the absolute paths of the options that are set, after verifying that files can be written there.

    Called before the run, so that no run begins whose result cannot be written.

    :param places: option -> path as the user wrote it; relative ones start where Ansible was started.
    :raises InvalidInput: when the folder of a path does not exist or cannot be written, the path is no file, or two options have one path.
    """
    found = {option: os.path.abspath(path) for option, path in places.items() if path}
    for option, path in found.items():
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise InvalidInput(f"{option}: there is no folder {folder}.", remedy="Make it first; folders are not made on the way.")
        if os.path.isdir(path):
            raise InvalidInput(f"{option}: {path} is a folder.", remedy="Name a file in it.")
        if os.path.lexists(path) and not os.path.isfile(path):  # a device, which a rename would replace; a link to nowhere
            raise InvalidInput(f"{option}: {path} is no regular file.", remedy="Name a file that may be replaced.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidInput(f"{option}: the folder {folder} cannot be written.", remedy="Change its mode, or name another one.")
    if len(set(found.values())) < len(found):
        raise InvalidInput(f"{' and '.join(found)} name the same file.", remedy="Give each a file of its own.")
    return found


def write_whole(option: str, path: str, content: bytes, mode: int = 0o666) -> None:
    """Replace ``path`` by ``content`` in one step: readers get the old or the new content.

    :param option: the option that has the path, which the error names.
    :param path: ``~`` is the home of the user who runs the playbook.
    :param mode: mode of the new file, of which the umask takes bits away.
    :raises InvalidInput: when the file cannot be written; the old file stays.
    """
    path = os.path.expanduser(path)
    scratch = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise InvalidInput(
            f"{option}: {path} cannot be written: {error.strerror}.", remedy=_REMEDIES.get(error.errno, _OTHERWISE)
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)  # already renamed if all went well


def forget(path: str) -> None:
    """Remove a file if it exists, so that the result of an earlier run is not taken for that of this one."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def read_json(path: str) -> Any:
    """Read a JSON file; ``~`` is expanded.

    :raises InvalidInput: when it cannot be read, is larger than ``SIZE_LIMIT`` bytes, or is not JSON.
    """
    target = Path(os.path.expanduser(path))
    try:
        if target.stat().st_size > SIZE_LIMIT:
            raise InvalidInput(f"{target} is larger than any plan.", remedy="Name the file that the playbook plan wrote.")
        return json.loads(target.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{target} cannot be read: {error.strerror}.", remedy="Name the file that the playbook plan wrote.") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"{target} does not hold JSON.", remedy="Name the file that the playbook plan wrote with plan_json.") from None


def read_bounded(option: str, path: str, most: int, *, end: bool) -> tuple[str, int]:
    """Return the text of a file that a user names, and how many bytes of it were left out.

    :param most: bytes to read; of a longer file the first ones, or the last ones with ``end``.
    :raises InvalidInput: when it cannot be read, or is no regular file.
    """
    target = os.path.expanduser(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            raise InvalidInput(f"{option}: {path} is no regular file.", remedy="Name a file. No cluster was contacted.")
        with open(target, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most) if end else 0)
            return file.read(most).decode("utf-8", "replace"), max(0, size - most)
    except OSError as error:
        raise InvalidInput(
            f"{option}: {path} cannot be read: {error.strerror}.", remedy="Name a file that can be read. No cluster was contacted."
        ) from None
