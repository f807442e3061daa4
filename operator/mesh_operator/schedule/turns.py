# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How long the turns of meshes take, and the lane in which each mesh therefore waits. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Generic, TypeVar

from ..base.keys import UnitKey

SLOW: Final = 5.0  # seconds; a dry run takes one, most runs two or three, as none waits for links
TOO_LONG: Final = 8.0  # seconds after which a turn that was expected to be quick is ended, if others wait for its worker
KNOWN: Final = 10_000  # meshes and workspaces that are remembered; the least recent ones are forgotten

Key = TypeVar("Key", bound=UnitKey)


class Lane(StrEnum):
    """Lane of a queue. Meshes whose turns are slow, or of which nothing is known, wait apart, so that they hold up no others.

    Workspaces cost nothing, so a tenant may bring ever new ones.
    """

    QUICK = "quick"
    NEW = "new"
    SLOW = "slow"


class Durations(Generic[Key]):
    """Expected seconds of the next turn of each mesh: those of the last one, or half of what was expected before, whichever is more.

    So one quick turn does not bring a mesh back to the quick lane after one of many minutes. A mesh without a turn so far is expected to
    take as long as the last one of its workspace. Not thread-safe.
    """

    def __init__(self) -> None:
        self._meshes: dict[Key, float] = {}
        self._workspaces: dict[str, float] = {}

    def expected(self, key: Key) -> float:
        """Return the seconds that the next turn is expected to take."""
        return self._meshes.get(key, self._workspaces.get(key.workspace, 0.0))  # of a new workspace nothing is known

    def lane(self, key: Key) -> Lane:
        """Return the lane in which the mesh waits."""
        if key not in self._meshes and key.workspace not in self._workspaces:
            return Lane.NEW
        return Lane.SLOW if self.expected(key) > SLOW else Lane.QUICK

    def note(self, key: Key, seconds: float) -> None:
        """Take the duration of a turn that has ended."""
        expected = max(seconds, self._meshes.pop(key, 0.0) / 2)
        self._workspaces.pop(key.workspace, None)
        self._meshes[key] = self._workspaces[key.workspace] = expected
        for known in (self._meshes, self._workspaces):
            if len(known) > KNOWN:
                known.pop(next(iter(known)))  # type: ignore[call-overload]  # the keys of both have a type each
