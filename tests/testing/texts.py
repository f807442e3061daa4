# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Assert of a text for people what it has to name, and not how it says it: whole sentences stand in tests/unit/behaviour/recorded."""

from __future__ import annotations

import re


def mentions(text: str, *facts: object) -> bool:
    """Return whether a text has every fact, such as a name, a number or what another program said, as words of their own."""
    return all(re.search(rf"(?<![\w]){re.escape(str(fact))}(?![\w])", text) for fact in facts)


def stop_inside(text: str) -> str:
    """Return the part of a text in which a sentence ends inside another one, else "".

    A message is a sentence; as a part of another one it is a clause (base/errors.py), without a stop of its own.
    """
    found = re.search(r"(?<=\w)(\.\)|[.!?][;,:]|\.\.(?!\.))(?=\s|\.|$)", text)
    return text[max(0, found.start() - 80) : found.end() + 10] if found else ""
