# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..module_utils.base.tables import table
from ..module_utils.identity.decide import IdentityDecision, IdentityVerdict
from ..module_utils.pipeline.shown import (
    FindingsMade,
    IdentitiesDecided,
    ItemsMeasured,
    LinksMeasured,
    PlanMade,
    Sentence,
    Shown,
    StageReached,
    Tone,
)
from .ca_lines import stage_lines, trust_lines
from .items_report import items_lines
from .report import Line, findings_lines, plan_lines, status_lines

_TONES: Final[Mapping[Tone, str]] = {"": "", "good": "green", "attention": "yellow", "bad": "red"}
_VERDICTS: Final = {IdentityVerdict.REFUSE: "red", IdentityVerdict.ASSIGN: "yellow", IdentityVerdict.RESUME: "yellow"}


def lines_of(shown: Shown) -> list[Line]:
    """Return the lines of one value that a run shows; [] if it is empty."""
    match shown:
        case Sentence(text, tone):
            return [Line(text, _TONES[tone])]
        case FindingsMade(findings):
            return findings_lines(findings)
        case PlanMade(plan):
            return plan_lines(plan)
        case LinksMeasured(name, status):
            return status_lines(name, status)
        case ItemsMeasured(name, rows, findings):
            return items_lines(name, rows, findings)
        case IdentitiesDecided(decisions):
            return _decision_lines(decisions)
        case StageReached(name, plan):
            return stage_lines(name, plan)
    return trust_lines(shown.name, shown.report)


def _decision_lines(decisions: Sequence[IdentityDecision]) -> list[Line]:
    rows = [(d.host, d.verdict.value, d.name or "-", str(d.id or "-"), "; ".join(d.reasons)) for d in decisions]
    lines = [Line(f"  {row}", _VERDICTS.get(d.verdict, "")) for row, d in zip(table(rows), decisions, strict=True)]
    return [Line("Identities:"), *lines] if lines else []
