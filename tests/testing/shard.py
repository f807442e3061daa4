# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A part of the deep run: ``--shard 2/4`` of pytest, ``make test-all SHARD=2/4``.

``python -m tests.testing.shard 2/4`` ends with an error where there is no such part: the deep run asks it before it builds anything.
"""

from __future__ import annotations

import re
import sys
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
            raise ValueError(f"There is no shard {text!r}: write a number from 1 to a count of at most 99, such as 2/4.")
        return cls(int(match[1]), int(match[2]))


if __name__ == "__main__":
    try:
        Shard.parse(sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
