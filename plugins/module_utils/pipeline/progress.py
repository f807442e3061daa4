# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Progress of a phase of a run, as people see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..base.tables import count, text
from ..base.tally import Tally
from .ports import Ports
from .shown import Tone, Waiting

EVERY: Final = 20.0  # seconds of silence after which a log has a line
QUIET: Final = 2.0  # seconds; a phase that is over by then shows nothing


@dataclass
class Progress:
    """Signs of life of one phase, which begins now: a line of a terminal that changes, and lines of a log. Times in seconds.

    ``timeout``: how long the phase may take; None: nothing limits it. ``quiet``: how long nothing is shown.
    """

    ports: Ports
    timeout: float | None = None
    quiet: float = QUIET
    _began: float = field(init=False)
    _spoke: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self._spoke = self.ports.clock()

    def alive(self, state: str, news: str = "") -> None:
        """Show where the phase is: in a log only after ``EVERY`` seconds without a line, and there as ``news``, if that is another text."""
        now = self.ports.clock()
        if now - self._spoke >= EVERY:
            self._speak(now, state, news or state)
        elif now - self._began >= self.quiet:
            self.ports.show(Waiting(self._at(now, state)))

    def report(self, state: str, news: str, tone: Tone = "") -> None:
        """Show where the phase is, and in a log ``news``."""
        self._speak(self.ports.clock(), state, news, tone)

    def _speak(self, now: float, state: str, news: str, tone: Tone = "") -> None:
        self._spoke = now
        self.ports.show(Waiting(self._at(now, state), self._at(now, news), tone))

    def _at(self, now: float, words: str) -> str:
        limit = f" of {self.timeout:.0f} s" if self.timeout is not None else ""
        return f"  {now - self._began:5.1f} s{limit}  {words}"


def counted(ports: Ports, part: str, state: str, timeout: float | None = None) -> Callable[[Tally], None]:
    """Return the progress of work that begins now: how many of its parts are in a state, and what it waits for.

    :param part: noun of a part, for instance ``step``.
    :param state: of parts that are done, for instance ``written``.
    """
    progress = Progress(ports=ports, timeout=timeout)

    def show(tally: Tally) -> None:
        head = f"{tally.done} of {count(tally.total, part)} {state}"
        progress.alive(f"{head}, {text(tally.oldest)}" if tally.oldest else head)

    return show


def writing(ports: Ports) -> Callable[[Tally], None]:
    """Return the progress of writes that begin now, as ``apply.apply_plan`` takes it."""
    return counted(ports, "step", "written")
