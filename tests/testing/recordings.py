# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The recording of a demo, kept as text in docs/screens: what one run printed, with the figures of that run.

`make screens` writes it anew; a test compares the shape of it with that of another run, and others hold it without a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT

TRAFFIC: Final = CHECKOUT / "docs" / "screens" / "demo-traffic.txt"

_BAR: Final = re.compile(r"(█+) (\d+)")
_OF_THE_MACHINE: Final = re.compile(r"programs at hand|: (?:building|fetching) ")


def text_of(lines: Iterable[str]) -> str:
    """Return what is kept of a run."""
    return "\n".join(lines).replace(str(Path.home()), "~") + "\n"


def shape(text: str) -> str:
    """Return a text without what differs from run to run: figures, the length of bars, and lines about the programs of the machine."""
    rows = [re.sub(r"\d+(?:\.\d+)?", "N", _BAR.sub("█ N", line)) for line in text.splitlines() if not _OF_THE_MACHINE.search(line)]
    return "\n".join(rows)


def counts(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the length of each bar, and the figure beside it."""
    return [(len(bar), int(number)) for line in lines for bar, number in _BAR.findall(line)]
