# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the demos have in common: what they print, how they fail, how they are stopped, and the servers that they need."""

from __future__ import annotations

import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import ClassVar

from tests.demo.verdict import Verdict
from tests.lab.control import LabError
from tests.lab.controlplane import StartError
from tests.lab.tools import ALL, ToolUnavailable, crds_for_profile, ensure
from tests.lab.tools.cache import cache_root
from tests.lab.tools.progress import console

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORIGINS = {"MESH_LAB_TOOLS": "the folder MESH_LAB_TOOLS", "PATH": "PATH", "built": f"{cache_root()} (built once)"}


class StageFailed(Exception):
    """A stage did not do what it is for. The text says what to do."""


class Demo(ABC):
    """Stages, one after the other, on clusters that end with them, and a verdict on what was seen, which is the last line."""

    STAGES: ClassVar[int]
    ENDED: ClassVar[str] = "the clusters are gone"

    def __init__(self) -> None:
        self.stage = 0

    @abstractmethod
    def run(self) -> None:
        """All stages. Raises StageFailed."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Judge what was seen until now."""

    def begin(self, title: str, what: str) -> None:
        self.stage += 1
        say(f"\n[{self.stage}/{self.STAGES}] {title}: {what}")

    def perform(self, introduction: str) -> int:
        """Run all stages and print the verdict. Returns the exit status: 0 only if nothing failed and all was seen."""
        stop_on_signals()
        started = time.monotonic()
        say(introduction)
        try:
            self.run()
        except KeyboardInterrupt:
            say(f"\nStopped in stage {self.stage} of {self.STAGES}; {self.ENDED}.")
            return 130
        except (StageFailed, LabError, StartError, ToolUnavailable, AssertionError) as error:
            first = str(error).partition("\n")[0]  # an AssertionError has all that was compared below it
            say(f"\nStage {self.stage} of {self.STAGES} failed: {first}")
            say(self.verdict().text)
            return 1
        say(f"\nDone after {time.monotonic() - started:.0f} s; {self.ENDED}.")
        verdict = self.verdict()
        say(verdict.text)
        return 0 if verdict.good else 1


def say(line: str) -> None:
    print(line, flush=True)


def find_servers(cilium: str, more: Sequence[str] = ()) -> None:
    """The lab's programs, more of its programs, and the CRDs of that Cilium, found or built. Raises StageFailed."""
    progress = console(sys.stdout)
    try:
        tools = ensure((*ALL, *more), progress=progress)
        crds_for_profile(cilium, progress=progress)
    except ToolUnavailable as error:
        raise StageFailed(str(error)) from None
    origins = Counter(tools.origin(name) for name in tools)
    say(f"      {len(tools)} programs at hand: " + ", ".join(f"{number} from {ORIGINS[origin]}" for origin, number in origins.items()))


def stop_on_signals() -> None:
    """From now on the first signal raises KeyboardInterrupt, so that ``with`` blocks end everything; further ones are ignored."""
    for number in STOPS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for further in STOPS:
        signal.signal(further, signal.SIG_IGN)  # cleaning up takes seconds and is not to be cut short
    raise KeyboardInterrupt
