# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Time limits that a busy machine does not break: their seconds are those of a machine with nothing else to do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

PATIENCE: Final = "TEST_PATIENCE"  # environment variable: a factor for machines whose slowness the load does not show
_LOAD: Final = Path("/proc/loadavg")


def slowness() -> float:
    """Return by which factor this machine is slower now than one on which every process that wants to run has a core; at least 1."""
    patience = float(os.environ.get(PATIENCE, "1"))
    try:
        fields = _LOAD.read_text(encoding="ascii").split()
        wanting = max(float(fields[0]), float(fields[3].partition("/")[0]))  # the last minute's, and those of this moment
    except (OSError, ValueError, IndexError):
        wanting = 0.0
    return max(1.0, wanting / len(os.sched_getaffinity(0))) * max(1.0, patience)


def scaled(seconds: float) -> float:
    """Return an upper bound for what takes at most ``seconds`` on a machine with nothing else to do."""
    return seconds * slowness()


class Budget:
    """A number of seconds that runs down the slower, the more the machine has to do. To be asked again and again."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._moment = time.monotonic()

    def is_spent(self) -> bool:
        """Return whether nothing of it is left, after taking off the time since the last call."""
        now = time.monotonic()
        self._left -= (now - self._moment) / slowness()
        self._moment = now
        return self._left < 0
