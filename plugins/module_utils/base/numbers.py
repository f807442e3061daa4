# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Numbers in text that another program writes and a third one reads."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def whole_number(text: str) -> int | None:
    """Return a whole number in decimal digits, of at most ten; None for any other text.

    Go reads 010 as 8 where it detects the base (Cilium reads flags so). Such a text is none here, so that it is reported and never compared
    by another meaning.
    """
    return int(text) if _PLAIN.fullmatch(text) else None
