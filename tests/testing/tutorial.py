# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A page that is followed as it stands: its files are written, its commands run, and what they print is compared with what it shows.

Fenced blocks of such a page are

    yaml    a file, named by its first line: ``# NAME`` writes it, and ``# at the end of NAME`` appends the rest of the block to it
    shell   commands, run by bash in the folder of the files; the block has to end with status 0
    text    what the block of commands before it prints, among other lines: each line in this order, a line ``…`` for any number of lines,
            and every other line directly below the one before
    sh      what is not run, such as what a reader does before; page_commands.py says of each command why

``shell nodes`` and ``text nodes`` are commands for nodes whose agents are real, and what they print there. A reader that has none leaves
them out. In such a text parts of addresses may differ, numbers of Services, and how columns are set apart.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

KINDS: Final = ("yaml", "shell", "text", "sh")
LONGEST: Final = 300  # seconds of one block of commands
_BLOCK: Final = re.compile(r"^```(\w*)( nodes)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (at the end of )?((?:[\w-]+/)?[\w.-]+\.yml)\n")
_OF_AGENTS: Final = re.compile(r"(?<=\b\d\d\.\d\.)\d+\.\d+|(?<=172\.20\.)\d+\.\d+|^\d+(?= )")
"""Of addresses what differs from lab to lab, and the numbers that an agent gives Services."""
_VARYING: Final = re.compile(r"\bhash [0-9a-f]{12}\b")  # a hash covers uids and CAs of the clusters


class Block(NamedTuple):
    """Fenced block of a page, and the number of its first line. ``nodes``: it is for nodes whose agents are real."""

    kind: str
    text: str
    line: int
    nodes: bool = False


def blocks_of(page: str) -> list[Block]:
    """Return all fenced blocks of a page in their order.

    :raises AssertionError: one has a kind that is not followed or no fence, or a text stands where no command printed it.
    """
    found = [Block(match[1], match[3], page.count("\n", 0, match.start()) + 2, bool(match[2])) for match in _BLOCK.finditer(page)]
    assert len(found) * 2 == len(re.findall(r"^```", page, re.MULTILINE)), "a block has no end"
    indented = re.search(r"(?m)^(?: {4}|\t)\S.*$", _BLOCK.sub("", page))
    assert indented is None, f"a block without a fence is not followed: {indented[0].strip()}"
    for block, before in zip(found, [None, *found], strict=False):
        assert block.kind in KINDS, f"line {block.line}: a block of kind {block.kind!r} is not followed"
        assert block.kind != "yaml" or _FILE.match(block.text), f"line {block.line}: no name of a file"
        printed = before is not None and (before.kind, before.nodes) == ("shell", block.nodes)
        assert block.kind != "text" or printed, f"line {block.line}: nothing prints this"
    return found


@dataclass
class Reader:
    """Follows a page in a folder. ``environment``: of the commands; ``nodes``: are there real agents? ``changes``: what this reader writes
    in the place of parts of files."""

    folder: Path
    environment: Mapping[str, str]
    nodes: bool = False
    changes: Mapping[str, str] = field(default_factory=dict)
    printed: str = ""  # by the last block of commands

    def follow(self, block: Block) -> None:
        """Do what one block says.

        :raises AssertionError: it does not come as the page shows it.
        """
        if block.nodes and not self.nodes:
            return
        if block.kind == "yaml":
            self._write(block)
        elif block.kind == "shell":
            self._run(block)
        elif block.kind == "text":
            lost = first_missing(block.text, self.printed, block.nodes)
            assert lost is None, f"line {block.line}: the page shows\n{lost}\nwhich is not in\n{self.printed}"

    def _write(self, block: Block) -> None:
        head = _FILE.match(block.text)
        assert head is not None
        path = self.folder / head[2]
        text = block.text.removeprefix(head[0]) if head[1] else block.text
        for part, other in self.changes.items():
            text = text.replace(part, other)
        path.parent.mkdir(exist_ok=True)
        with path.open("a" if head[1] else "w", encoding="utf-8") as file:
            file.write(text)

    def _run(self, block: Block) -> None:
        done = subprocess.run(
            ["bash", "-c", block.text],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
        )
        self.printed = done.stdout
        assert done.returncode == 0, f"line {block.line}: status {done.returncode}\n{block.text}\n{done.stdout}"


def first_missing(shown: str, printed: str, nodes: bool = False) -> str | None:
    """Return the first part of ``shown`` that is not in ``printed`` below what comes before it; None if all of it is. ``nodes``: it is what
    real agents print."""
    lines, place = _comparable(printed, nodes), 0
    for part in re.split(r"^…$\n?", shown, flags=re.MULTILINE):
        wanted = _comparable(part, nodes)
        found = next((start for start in range(place, len(lines) + 1) if lines[start : start + len(wanted)] == wanted), None)
        if found is None:
            return part
        place = found + len(wanted)
    return None


def _comparable(text: str, nodes: bool) -> Sequence[str]:
    if nodes:
        return [" ".join(_OF_AGENTS.sub("…", line).split()) for line in text.splitlines()]
    return [_VARYING.sub("hash …", line.rstrip()) for line in text.splitlines()]
