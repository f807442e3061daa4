# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of the items of a mesh as a confined child answers them: kept as the bytes that came, and read one at a time.

The child may be one that a cluster's answer has taken over, so every part is read once when it comes, and forgotten: nothing is written
before all of them are there and each is what it should be.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..statuses.findings import is_row_of_status
from ..statuses.item_statuses import LARGEST, MOST, SAID, VALUES, WHOLE
from .confined.messages import PART, Invalid, decoded, values_in

ITEMS_FILE: Final = "items.jsonl"  # in the folder in which a run may write: a line for each part (parts_of_run.py)


class ItemParts:
    """Parts of one answer. ``unchanged``: items that have their status already; ``later``: how many come with the next answer."""

    def __init__(self) -> None:
        self._parts: dict[str, bytes] = {}
        self._size = 0
        self.unchanged: frozenset[str] = frozenset()
        self.later = 0

    def __len__(self) -> int:
        """Return how many parts there are."""
        return len(self._parts)

    def take(self, part: Any, content: bytes) -> None:
        """Take a part.

        :param content: the message in which it came.
        :raises Invalid: when it is beyond the bounds, has another shape, or is about an item that had one.
        """
        if len(content) > LARGEST or values_in(content) > VALUES:
            raise Invalid("one of its parts is too large")
        if not isinstance(part, dict) or part.keys() != {"item", "status"} or not _is_status(part["status"]):
            raise Invalid("one of its parts is no status of an item")
        item = part["item"]
        if not isinstance(item, str):
            raise Invalid("one of its parts is no status of an item")
        if item in self._parts:
            raise Invalid("it has two parts for one item")
        self._size += len(content)
        if self._size > WHOLE or len(self._parts) == MOST:
            raise Invalid("it has too many parts")
        self._parts[item] = content

    def complete(self, head: Mapping[str, Any]) -> None:
        """Compare the parts with what the head of the result says of them.

        :raises Invalid: when these are not all.
        """
        said = head.get(SAID)
        if said is None and not self._parts:  # the result has its rows itself
            return
        if not isinstance(said, dict) or said.keys() != {"parts", "unchanged", "later"}:
            raise Invalid("it does not say what its parts are")
        unchanged, later = said["unchanged"], said["later"]
        if said["parts"] != len(self._parts):
            raise Invalid("some of its parts are missing")
        if not (isinstance(unchanged, list) and all(isinstance(item, str) for item in unchanged)):
            raise Invalid("it does not say what its parts are")
        if not isinstance(later, int) or isinstance(later, bool) or later < 0 or not self._parts.keys().isdisjoint(unchanged):
            raise Invalid("it does not say what its parts are")
        self.unchanged, self.later = frozenset(unchanged), later

    def read(self, file: Path, head: Mapping[str, Any]) -> None:
        """Take the parts of a run, which may have made any kind of file, or none.

        :raises Invalid: as ``take`` and ``complete``, or when a line does not end.
        """
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self.complete(head)
            return
        with os.fdopen(descriptor, "rb") as opened:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                while line := opened.readline(LARGEST + 2):
                    if not line.endswith(b"\n"):
                        raise Invalid("one of its parts is too large, or ends early")
                    found = decoded(line, VALUES)
                    self.take(found.get(PART) if isinstance(found, dict) else None, line)
        self.complete(head)

    def get(self, item: str) -> dict[str, Any] | None:
        """Return the status of an item; None if there is none to be written."""
        content = self._parts.get(item)
        if content is None:
            return None
        status: dict[str, Any] = decoded(content, VALUES)[PART]["status"]
        return status


def _is_status(value: Any) -> bool:
    """Return whether a value is as much of a status as the operator itself reads: the API server judges the rest by its schema."""
    if not isinstance(value, dict) or not isinstance(value.get("phase"), str):
        return False
    listed = value.get("findings", [])
    return isinstance(listed, list) and all(is_row_of_status(row) for row in listed)
