# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Progress of a wait for links, as people see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..base.tables import count
from ..mesh.link_stage import LinkStage
from ..status.links import LinkState
from .ports import Ports
from .progress import Progress

GUARDED: Final = 10.0  # seconds between two looks at the lock while links are awaited
FEW: Final = 12  # links; of more, only the number that is ready is shown
_ORDER: Final = tuple(LinkStage)  # the one furthest behind first


@dataclass
class LinkProgress:
    """Progress of a wait for links. ``entered`` and ``sleep`` are arguments of ``wait_for_links``; times in seconds.

    ``guard`` raises when another run has come between: what is awaited may then never come.
    """

    ports: Ports
    links: int
    timeout: float
    guard: Callable[[], None] = lambda: None
    _states: dict[tuple[str, str], LinkState] = field(default_factory=dict)
    _progress: Progress = field(init=False)
    _guarded: float = field(init=False)

    def __post_init__(self) -> None:
        self._progress = Progress(ports=self.ports, timeout=self.timeout, quiet=0.0)
        self._guarded = self.ports.clock()

    def entered(self, state: LinkState) -> None:
        """Show that a link entered a stage, unless the link is ready from the start."""
        link = (state.cluster, state.peer)
        news = not state.ready or link in self._states
        self._states[link] = state
        if news and self.links <= FEW:
            error = f" ({state.error})" if state.error else ""
            words = f"{state.cluster} -> {state.peer}: {state.stage.value}{error}"
            self._progress.report(self._where(), words, "good" if state.ready else "")

    def sleep(self, seconds: float) -> None:
        """Sleep between two readings, and show the number of ready links.

        :raises LockLost: when another run has come between.
        """
        if self.ports.clock() - self._guarded >= GUARDED:
            self.guard()
            self._guarded = self.ports.clock()
        self._progress.alive(self._where(), f"waiting: {self._ready()}")
        self.ports.sleep(seconds)

    def _ready(self) -> str:
        ready = sum(state.ready for state in self._states.values())
        return f"{ready} of {count(self.links, 'link')} ready"

    def _where(self) -> str:
        """Return how many links are ready, and the one that is furthest behind."""
        late = [state for state in self._states.values() if not state.ready]
        if not late:
            return self._ready()
        last = min(late, key=lambda state: _ORDER.index(state.stage))
        return f"{self._ready()}, {last.cluster} -> {last.peer}: {last.stage.value}"
