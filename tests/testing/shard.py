# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A part of the deep run: ``--shard 2/4`` of pytest, ``make test-all SHARD=2/4``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

OPTION: Final = "--shard"


@dataclass(frozen=True)
class Shard:
    """The ``number``-th of ``count`` parts; numbers begin at 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text like "2/4" names.

        :raises ValueError: it names none.
        """
        match = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
        if not match or int(match[1]) > int(match[2]):
            raise ValueError(f"There is no shard {text!r}: it is a number of a count, such as 2/4.")
        return cls(int(match[1]), int(match[2]))
