# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Lines that fit into the width of a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

WORDS: Final[Mapping[str, Any]] = {"break_long_words": False, "break_on_hyphens": False}
"""For textwrap: names, addresses and options stay whole."""

WHOLE: Final = -1
LEAST_ROOM: Final = 30  # columns behind the hanging indent


class Line(NamedTuple):
    """Line for the terminal, its colour in Ansible's names ("" is the terminal's own), and the column in which its further lines begin.

    ``hang`` is WHOLE for a line that is never broken, since it is there to be copied; None: four columns behind its own indent.
    """

    text: str
    colour: str = ""
    hang: int | None = None


def fitted(line: Line, width: int | None) -> list[str]:
    """Return the lines of at most ``width`` columns that the line becomes; the line as it is, if there is no width."""
    if width is None or len(line.text) <= width or line.hang == WHOLE:
        return [line.text]
    own = len(line.text) - len(line.text.lstrip())
    hang = own + 4 if line.hang is None or line.hang > width - LEAST_ROOM else line.hang
    return textwrap.wrap(line.text, width, subsequent_indent=" " * hang, **WORDS)


def to_copy(text: str) -> bool:
    """Return whether a line of a fix is a command or a line of YAML; a sentence begins with a capital letter."""
    return text[:1].islower() or text[:1] == " "
