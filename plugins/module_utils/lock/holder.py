# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Name of the run that holds a lock, as other users read it: what it does, who started it, and where."""

from __future__ import annotations

import getpass
import os
import secrets
import socket

from ..base.redact import one_line
from .state import HOLDER_LIMIT

_SUFFIX_LIMIT = 40  # characters that are kept for process and run


def holder_name(action: str, given: str = "") -> str:
    """Return the holder's name, for instance ``connect by max@laptop, process 4711, run 3fa9c1d2``. No two runs have the same.

    :param given: who runs it, instead of user and host.
    """
    who = one_line(f"{action} by {given or f'{_user()}@{socket.gethostname()}'}", HOLDER_LIMIT - _SUFFIX_LIMIT)
    return one_line(f"{who}, process {os.getpid()}, run {secrets.token_hex(4)}", HOLDER_LIMIT)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a uid without a name; KeyError before Python 3.13
        return f"uid {os.getuid()}"
