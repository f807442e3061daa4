# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Report of a forecast: its steps, what a run returns, and what a gate refuses. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from ..base.tables import count
from ..reach.difference import ChangeKind
from ..reach.report import flow_text
from .effect import Effect, Need
from .forecast import Forecast
from .steps import UpgradeStep, upgrade_steps

ROWS: Final = 200
"""Changed flows in the result of a run; the file has all of them."""


class UpgradeGate(StrEnum):
    """Result on which a run can be made to fail."""

    PREPARE = "prepare"  # something has to be done before a hop, or set with it
    LOST = "lost"  # policies deny a flow after a hop that they do not deny now
    GAINED = "gained"  # policies allow a flow after a hop that they do not allow now


@dataclass(frozen=True)
class UpgradeReport:
    """Forecast together with its steps."""

    forecast: Forecast

    @cached_property
    def steps(self) -> tuple[UpgradeStep, ...]:
        """Ordered steps."""
        return upgrade_steps(self.forecast)

    @cached_property
    def must_prepare(self) -> tuple[Effect, ...]:
        """Effects that ask for something before a hop or with it."""
        return tuple(effect for effect in self.forecast.effects if effect.need in (Need.BEFORE, Need.WITH))

    @property
    def summary(self) -> str:
        """One sentence: how many steps there are, and how many of them prepare a hop."""
        found = self.forecast
        needed = count(len(self.must_prepare), "effect")
        text = f"{count(len(self.steps), 'step')} to Cilium {found.target}; {needed} to prepare for"
        changed = f"; {count(len(found.rows), 'row')} of flows change without the values above" if found.rows else ""
        return f"{text}{changed}"

    def violations(self, gates: Collection[str]) -> list[str]:
        """Return a sentence for each gate that is not passed. A member of which nothing can be said passes no gate."""
        found = []
        if UpgradeGate.PREPARE.value in gates and self.must_prepare:
            first = self.must_prepare[0]
            found.append(f"prepare: {first.cluster}: {first.summary}")
        for gate, kind in ((UpgradeGate.LOST, ChangeKind.LOST), (UpgradeGate.GAINED, ChangeKind.GAINED)):
            row = next((row for row in self.forecast.rows if row.kind in (kind, ChangeKind.UNSURE)), None)
            if gate.value in gates and row is not None:
                found.append(f"{gate.value}: {flow_text(row.flow)}")
        if gates and self.forecast.unknown:
            found.append(f"nothing can be said of {', '.join(self.forecast.unknown)}, so no gate is passed")
        return found

    def to_dict(self, rows: int = ROWS) -> dict[str, Any]:
        """Return the report as results have it; of changed flows the first ``rows``."""
        found = self.forecast
        return {
            "target": str(found.target),
            "members": [{"cluster": host, "minor": str(minor)} for host, minor in found.minors.items()],
            "unknown": [{"cluster": host, "reason": why} for host, why in found.unknown.items()],
            "skewed": [list(pair) for pair in found.skewed],
            "steps": [step.to_dict() for step in self.steps],
            "effects": [effect.to_dict() for effect in found.effects],
            "hops": [
                {
                    "cluster": hop.hop.host,
                    "before": str(hop.hop.before),
                    "after": str(hop.hop.after),
                    "writes": [{"cluster": s.cluster, "verb": s.verb, "object": s.object, "disruption": s.disruption} for s in hop.writes],
                    "findings": [entry.to_dict() for entry in hop.findings],
                    "planned": hop.planned,
                }
                for hop in found.hops
            ],
            "changes": [row.to_dict() for row in found.rows[:rows]],
            "changesLeftOut": max(0, len(found.rows) - rows),
        }


def upgrade_json(report: UpgradeReport) -> bytes:
    """Return the whole report as JSON."""
    return (json.dumps({"schema": 1, **report.to_dict(len(report.forecast.rows))}, separators=(",", ":")) + "\n").encode()
