# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What statuses withhold from tenants, for the log of the platform: each reason once, and bounded in lines and in memory. Pure.

The texts are those of clusters, which a tenant may run: one that has another text in each answer must not fill a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from ..base.redact import one_line
from .links import rows_of

MOST: Final = 50  # reasons of one unit, in one result and in one hour; a mesh of 255 members has 64,770 links
HOUR: Final = 3600.0
UNITS: Final = 10_000  # that are remembered; the one whose result is the oldest is forgotten
CUT: Final = f"more than {MOST} reasons within an hour; the others are left out"

Unit = TypeVar("Unit")


@dataclass(frozen=True)
class _Noted:
    """Reasons of the last result, and how many lines a unit has had since a time."""

    reasons: frozenset[tuple[str, str]]
    since: float
    lines: int


class NewReasons(Generic[Unit]):
    """Reasons that the last result of a unit did not have. Used by one thread for each unit."""

    def __init__(self) -> None:
        self._noted: dict[Unit, _Noted] = {}

    def take(self, unit: Unit, result: Mapping[str, Any] | None, now: float) -> list[str]:
        """Return the lines to log about a ``mesh_result``, whose texts are not trusted; None: the run had none, which says nothing.

        A result without reasons forgets the unit, but for the lines that it has had.

        :param now: seconds of a clock that never goes back.
        """
        if result is None:
            return []
        rows = [[one_line(row.get(part)) for part in ("cluster", "peer", "reason")] for row in rows_of(result, "withheld")[:MOST]]
        found = frozenset((f"{cluster} to {peer}" if peer else cluster, reason) for cluster, peer, reason in rows if reason)
        before = self._noted.pop(unit, _Noted(frozenset(), now, 0))
        since, had = (before.since, before.lines) if now < before.since + HOUR else (now, 0)
        new = [f"{where}: {reason}" for where, reason in sorted(found - before.reasons)]
        lines = new[: max(0, MOST - had)] + ([CUT] if had <= MOST < had + len(new) else [])
        if found or had:
            self._noted[unit] = _Noted(found, since, min(had + len(new), MOST + 1))
        while len(self._noted) > UNITS:
            del self._noted[next(iter(self._noted))]
        return lines
