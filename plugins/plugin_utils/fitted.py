# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Lines that fit into the width of a terminal. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

WORDS: Final[Mapping[str, Any]] = {"break_long_words": False, "break_on_hyphens": False}
"""For textwrap: names, addresses and options stay whole."""

WHOLE: Final = -1
_COMMAND: Final = re.compile(r"\b(?:ansible-playbook|cilium|cmctl|helm|kubectl) \S+ .*--?\w")


class Line(NamedTuple):
    """Line for the terminal, its colour in Ansible's names ("" is the terminal's own), and the column in which its last column begins.

    ``hang`` is WHOLE for a line that is never broken, since it is there to be copied; None: the line has no columns.
    """

    text: str
    colour: str = ""
    hang: int | None = None


def fitted(line: Line, width: int | None) -> list[str]:
    """Return the lines of at most ``width`` columns that the line becomes; the line as it is, if there is no width.

    Its last column is continued below itself, or begins a line of its own where it would have less than half of the width.
    """
    if width is None or len(line.text) <= width or line.hang == WHOLE:
        return [line.text]
    indent = " " * (len(line.text) - len(line.text.lstrip()) + 4)
    if line.hang is None:
        return textwrap.wrap(line.text, width, subsequent_indent=indent, **WORDS)
    head, last = line.text[: line.hang], line.text[line.hang :]
    if line.hang <= width // 2:
        return textwrap.wrap(line.text, width, subsequent_indent=" " * line.hang, **WORDS)
    heads = textwrap.wrap(head, width, subsequent_indent=indent, **WORDS)
    return [*heads, *textwrap.wrap(last, width, initial_indent=indent, subsequent_indent=indent, **WORDS)]


def to_copy(text: str) -> bool:
    """Return whether a line of a fix is a command, ends in one, or is a line of YAML; a sentence begins with a capital letter.

    A command may be the path of a program.
    """
    return text[:1].islower() or text[:1] in (" ", "/") or _COMMAND.search(text) is not None
