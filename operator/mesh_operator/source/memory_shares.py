# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Shares that workspaces have of the memory for all objects. Pure.

What a workspace has got it keeps until it needs less, so no other one displaces its objects. What is left goes to those who ask first.
So that a few large workspaces do not take all of it, and that deletions go on when all is taken, it is in three parts:

- a quarter is for the first bytes of each workspace, a 128th of the whole at most for each;
- an eighth is for objects that are being deleted, where their workspace has not enough for them;
- the rest is for all.
"""

from __future__ import annotations

from typing import Final

_FIRST, _ALL, _DELETED = range(3)
FIRST_BYTES: Final = 128  # part of the whole that one workspace has of the first quarter
_NOTHING: Final = (0, 0, 0)


class MemoryShares:
    """Bytes that each workspace may use, of ``total``."""

    def __init__(self, total: int) -> None:
        """Give nothing to any workspace yet."""
        self._first = total // FIRST_BYTES
        self._left = [total // 4, total - total // 4 - total // 8, total // 8]
        self._given: dict[str, tuple[int, int, int]] = {}

    def claim(self, workspace: str, needed: int, deleted: int = 0) -> int:
        """Give a workspace what it needs, as far as there is something left, take back what it needs no more, and return what it has.

        :param needed: bytes of all its objects.
        :param deleted: those of them that are being deleted.
        """
        before = self._given.get(workspace, _NOTHING)
        first = self._part(_FIRST, before[_FIRST], min(needed, self._first))
        common = self._part(_ALL, before[_ALL], needed - first)
        more = self._part(_DELETED, before[_DELETED], min(deleted, needed) - first - common)
        if first + common + more:
            self._given[workspace] = (first, common, more)
        else:
            self._given.pop(workspace, None)
        return first + common + more

    def of(self, workspace: str) -> int:
        """Return what a workspace has."""
        return sum(self._given.get(workspace, _NOTHING))

    @property
    def is_used_up(self) -> bool:
        """Whether no workspace can get more, but for deletions."""
        return not self._left[_FIRST] and not self._left[_ALL]

    def _part(self, part: int, before: int, wanted: int) -> int:
        now = min(max(0, wanted), before + self._left[part])
        self._left[part] += before - now
        return now
