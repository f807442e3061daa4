# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""IgnoredObjects: what is known to exist, and not kept because there is far too much of it. It must not count as deleted. Pure."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

_MOST: Final = 10_000  # workspaces, for each URL and kind

_Place = tuple[str, str]  # URL, kind


class IgnoredObjects:
    """Workspaces of which objects are ignored. ``count``: how often one was, and objects that do not say whose they are."""

    def __init__(self) -> None:
        self.count = 0
        self._workspaces: dict[_Place, set[str]] = {}
        self._in_this_list: dict[_Place, set[str]] = {}

    def add(self, url: str, kind: str, workspace: str) -> None:
        """Take that an object of a workspace is ignored, at least until the next list of its kind."""
        self.count += 1
        for found in (self._workspaces, self._in_this_list):
            workspaces = found.setdefault((url, kind), set())
            if len(workspaces) < _MOST:
                workspaces.add(workspace)

    def begin(self, url: str, kind: str) -> None:
        """Begin a list, which shows what is still ignored."""
        self._in_this_list.pop((url, kind), None)

    def end(self, url: str, kind: str) -> None:
        """End a list."""
        self._workspaces.pop((url, kind), None)
        if workspaces := self._in_this_list.pop((url, kind), None):
            self._workspaces[url, kind] = workspaces

    def drop(self, url: str) -> None:
        """Drop a URL: what it had is missing, not ignored."""
        for found in (self._workspaces, self._in_this_list):
            for place in [place for place in found if place[0] == url]:
                del found[place]

    def has_of(self, workspace: str) -> bool:
        """Return whether an object of a workspace is ignored."""
        return any(workspace in workspaces for workspaces in self._workspaces.values())

    def workspaces(self, kind: str) -> int:
        """Return how many workspaces have objects of a kind that are ignored."""
        return len(set().union(*(workspaces for (_, of), workspaces in self._workspaces.items() if of == kind)))

    @property
    def kinds(self) -> Set[str]:
        """Kinds of which an object is ignored."""
        return {kind for _, kind in self._workspaces}
