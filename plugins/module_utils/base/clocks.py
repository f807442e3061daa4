# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run, as functions: the date, seconds that only grow, and sleep. Tests give others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Functions for everything that a run has to do with time."""

    now: Callable[[], datetime]  # aware, UTC
    clock: Callable[[], float]  # seconds, monotonic
    sleep: Callable[[float], None]


def real_clocks() -> Clocks:
    """Return the clocks of this machine."""
    return Clocks(now=lambda: datetime.now(UTC), clock=time.monotonic, sleep=time.sleep)
