# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Lines that a waiting run shows: each link when it enters a stage, and every 20 seconds of silence how many are ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..base.tables import count
from ..status.links import LinkState
from .ports import Ports
from .shown import Sentence, Tone

EVERY: Final = 20.0  # seconds of silence
FEW: Final = 12  # links; of more, only the number that is ready is shown


@dataclass
class Progress:
    """Progress of a wait for links, as it is shown. ``entered`` and ``sleep`` are arguments of ``wait_for_links``; times in seconds."""

    ports: Ports
    links: int
    timeout: float
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _ready: set[tuple[str, str]] = field(default_factory=set)
    _began: float = 0.0
    _spoke: float = 0.0

    def __post_init__(self) -> None:
        self._began = self._spoke = self.ports.clock()

    def entered(self, state: LinkState) -> None:
        """Show that a link entered a stage, unless the link is ready from the start."""
        link = (state.cluster, state.peer)
        news = not state.ready or link in self._seen
        self._seen.add(link)
        if state.ready:
            self._ready.add(link)
        else:
            self._ready.discard(link)
        if news and self.links <= FEW:
            error = f" ({state.error})" if state.error else ""
            self._say(f"{state.cluster} -> {state.peer}: {state.stage.value}{error}", "good" if state.ready else "")

    def sleep(self, seconds: float) -> None:
        """Sleep between two readings, and show the number of ready links if no line was shown for ``EVERY`` seconds."""
        if self.ports.clock() - self._spoke >= EVERY:
            self._say(f"waiting: {len(self._ready)} of {count(self.links, 'link')} ready")
        self.ports.sleep(seconds)

    def _say(self, text: str, tone: Tone = "") -> None:
        self._spoke = self.ports.clock()
        self.ports.show(Sentence(f"  {self._spoke - self._began:5.1f} s of {self.timeout:.0f} s  {text}", tone))
