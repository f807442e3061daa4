# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files on the controller: written whole or not at all, read with an error that names the file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ..module_utils.errors import InvalidInput

SIZE_LIMIT = 64 * 1024 * 1024  # bytes; the plan of 255 clusters is 20 MB


def write_whole(path: str, text: str) -> bool:
    """Make ``path`` hold the text; False when it did already. Whoever reads it meanwhile sees the old file or the new one.

    :raises InvalidInput: the file cannot be written.
    """
    target = Path(os.path.expanduser(path))
    try:
        if target.is_file() and target.read_text(encoding="utf-8", errors="replace") == text:
            return False
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o666 & ~_umask())  # mkstemp makes it readable by its owner alone
            os.replace(name, target)
        except BaseException:  # an interrupt, too, leaves nothing behind
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be written: {error.strerror}.", remedy="Name a file in a folder that exists and may be written to."
        ) from None
    return True


def read_json(path: str) -> Any:
    """What a JSON file holds.

    :raises InvalidInput: it cannot be read, or is no JSON.
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


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
