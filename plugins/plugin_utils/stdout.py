# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owner of standard output: a callback for people, beside which lines may be printed, or one with a format of its own."""

from __future__ import annotations

import os
from typing import Any, Final

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as DefaultCallback
from ansible.plugins.loader import callback_loader
from ansible.utils.display import Display

DEFAULT: Final = frozenset({"default", "ansible.builtin.default", "ansible.legacy.default"})


def prints_for_people() -> bool:
    """Return whether the callback for standard output is ansible.builtin.default or derives from it, as those of AWX, dense and diy do.

    What another one prints, as ansible.posix.json or ansible.builtin.minimal, may be read by a program, so nothing is printed beside it.
    """
    name = str(constants.DEFAULT_STDOUT_CALLBACK)
    if name in DEFAULT:
        return True
    try:
        found: Any = callback_loader.get(name, class_only=True)
    except Exception:  # the run has loaded it already; a loader may raise anything
        return False
    return isinstance(found, type) and issubclass(found, DefaultCallback)


_TERMINAL: Final = os.isatty(1)
"""Whether people see standard output in a terminal. A worker of ansible-core has none, but an action is imported before it is forked.
https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/plugins/strategy/linear.py"""


def width_of_terminal() -> int | None:
    """Return the columns of the terminal: those that COLUMNS says, or else that Ansible measured; None where there is no terminal."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return int(Display().columns) if _TERMINAL else None


def is_redrawn() -> bool:
    """Return whether a line of standard output can be written anew.

    It is a terminal that can move its cursor, and no program keeps what is printed, as AWX does.
    """
    can = os.environ.get("TERM", "") not in ("", "dumb")
    return can and _TERMINAL and str(constants.DEFAULT_STDOUT_CALLBACK) in DEFAULT
