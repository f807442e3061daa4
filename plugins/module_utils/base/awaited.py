# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Results of threads, awaited by a thread that stays awake: it alone speaks to people, also while a server is silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Final, TypeVar

T = TypeVar("T")

TICK: Final = 0.5
"""Seconds. A line of a terminal that counts tenths of a second then still seems to move, and a line costs next to nothing."""


def awaited(futures: Sequence[Future[T]], tick: Callable[[], None], *, every: float = TICK) -> list[T]:
    """Return the results of the futures in their order, when all of them are done; raises what the first one that failed raised.

    :param tick: called in this thread every ``every`` seconds until all are done, and once then.
    """
    left = set(futures)
    while left:
        left = wait(left, timeout=every).not_done
        tick()
    return [future.result() for future in futures]
