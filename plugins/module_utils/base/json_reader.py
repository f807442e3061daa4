# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reader of JSON that other people write.

What it returns can be printed, compared, copied and written again: Python's own parser also returns values nested so deep that each of
these ends at the limit of recursion, numbers that are none (NaN, Infinity), and text that cannot be encoded (half a surrogate pair). The
caller bounds the length.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

DEPTH_LIMIT: Final = 128  # levels; objects of the API have some 20, managedFields of a CRD some 60
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class NotJson(ValueError):
    """Text that is not JSON, or not accepted from others. Safe to print: the message repeats nothing of the text."""


def load_json(text: str | bytes) -> Any:
    """Parse a foreign JSON document of at most DEPTH_LIMIT levels. Half a surrogate pair becomes U+FFFD, as Go reads it.

    :raises NotJson: when ``text`` is not one, or is nested too deep.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        if _SURROGATE.search(decoded):
            decoded = _ESCAPE.sub(lambda found: r"\ufffd" if found[2] else found[0], decoded)
        value = _DECODER.decode(decoded)
    except (ValueError, RecursionError):
        raise NotJson("it is not JSON") from None
    if _may_be_deep(decoded) and _is_deep(value):
        raise NotJson(f"it is nested more than {DEPTH_LIMIT} levels deep")
    return value


def _refused(name: str) -> NoReturn:
    raise NotJson(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refused)


def _may_be_deep(text: str) -> bool:
    """Return False only if no value is nested too deep. It sees brackets in texts too; for most documents it takes milliseconds."""
    left = text.encode("utf-8", "replace").translate(None, _NO_BRACKETS)
    for _level in range(DEPTH_LIMIT):
        if not left:
            return False
        less = left.replace(b"[]", b"").replace(b"{}", b"")
        if len(less) == len(left):
            return len(less) > DEPTH_LIMIT  # brackets in texts; as few as that cannot nest deeper
        left = less
    return True


def _is_deep(value: Any) -> bool:
    level = [value]
    for _depth in range(DEPTH_LIMIT + 1):
        level = [below for one in level if isinstance(one, (dict, list)) for below in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True
