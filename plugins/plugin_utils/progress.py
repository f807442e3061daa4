# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a waiting run says: each link when it enters a stage, and a sign of life now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ..module_utils.status import LinkState
from .outcome import count
from .report import Line

EVERY: Final = 20.0  # seconds of silence
FEW: Final = 12  # links; of more only the number that is ready is told


@dataclass
class Progress:
    """Shows how a wait goes on. Give ``entered`` and ``sleep`` to ``wait_for_links``; times in seconds."""

    show: Callable[[Iterable[Line]], None]
    clock: Callable[[], float]
    pause: Callable[[float], None]
    links: int
    timeout: float
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _ready: set[tuple[str, str]] = field(default_factory=set)
    _began: float = 0.0
    _spoke: float = 0.0

    def __post_init__(self) -> None:
        self._began = self._spoke = self.clock()

    def entered(self, state: LinkState) -> None:
        """A link is in another stage than before. One that is ready from the start is no news."""
        link = (state.cluster, state.peer)
        news = not state.ready or link in self._seen
        self._seen.add(link)
        if state.ready:
            self._ready.add(link)
        else:
            self._ready.discard(link)
        if news and self.links <= FEW:
            error = f" ({state.error})" if state.error else ""
            self._say(f"{state.cluster} -> {state.peer}: {state.stage.value}{error}", "green" if state.ready else "")

    def sleep(self, seconds: float) -> None:
        """Sleep between two readings."""
        if self.clock() - self._spoke >= EVERY:
            self._say(f"waiting: {len(self._ready)} of {count(self.links, 'link')} ready")
        self.pause(seconds)

    def _say(self, text: str, colour: str = "") -> None:
        self._spoke = self.clock()
        self.show([Line(f"  {self._spoke - self._began:5.1f} s of {self.timeout:.0f} s  {text}", colour)])
