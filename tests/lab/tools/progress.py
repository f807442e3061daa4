# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Saying that a long step is alive."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO, runtime_checkable

Progress = Callable[[str], None]

PLAIN_INTERVAL = 15.0  # seconds between two lines in a log
LIVE_INTERVAL = 1.0


@runtime_checkable
class LiveProgress(Protocol):
    """A progress that can rewrite its last line. ``live("")`` wipes it."""

    def __call__(self, line: str, /) -> None: ...

    def live(self, line: str) -> None: ...


class Plain:
    """Lines for a log or a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, line: str, /) -> None:
        print(line, file=self._stream, flush=True)


class Terminal(Plain):
    """Lines for a terminal, the last of which is rewritten."""

    def __call__(self, line: str, /) -> None:
        self.live("")
        super().__call__(line)

    def live(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()


def console(stream: TextIO | None = None) -> Plain:
    """What suits ``stream`` (stderr when None)."""
    stream = stream or sys.stderr
    return Terminal(stream) if stream.isatty() else Plain(stream)


class Heartbeat:
    """Tells every now and then how long a step has been running; call ``beat()`` often."""

    def __init__(self, what: str, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._progress = progress
        self._clock = clock
        self._start = self._last = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    def beat(self) -> None:
        live = isinstance(self._progress, LiveProgress)
        if self._clock() - self._last < (LIVE_INTERVAL if live else PLAIN_INTERVAL):
            return
        self._last = self._clock()
        line = f"  {self._what}: still at it, {duration(self.elapsed)} so far"
        if isinstance(self._progress, LiveProgress):
            self._progress.live(line)
        else:
            self._progress(line)

    def wipe(self) -> None:
        if isinstance(self._progress, LiveProgress):
            self._progress.live("")


def duration(seconds: float) -> str:
    """ "42 s", "3 min 05 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def usual(minutes: float) -> str:
    """How long something usually takes, in words: "under a minute", "about 5 minutes"."""
    if minutes < 0.8:
        return "under a minute"
    whole = max(1, round(minutes))
    return f"about {whole} minute{'s' if whole > 1 else ''}"
