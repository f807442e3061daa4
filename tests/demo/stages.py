# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the demos have in common: what they print, how they fail, how they are stopped, and the servers that they need."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType

from tests.lab.tools import ALL, ToolUnavailable, crds_for_profile, ensure
from tests.lab.tools.cache import cache_root
from tests.lab.tools.progress import console

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORIGINS = {"MESH_LAB_TOOLS": "the folder MESH_LAB_TOOLS", "PATH": "PATH", "built": f"{cache_root()} (built once)"}


class StageFailed(Exception):
    """A stage did not do what it is for. The text says what to do."""


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
