# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..module_utils.base.errors import Defect
from ..module_utils.base.tables import count, table
from ..module_utils.identity.decide import IdentityDecision, IdentityVerdict
from ..module_utils.pipeline.shown import (
    ArchiveMade,
    FindingsMade,
    IdentitiesDecided,
    LinksMeasured,
    PlanMade,
    RightsMade,
    Sentence,
    Shown,
    Tone,
    Waiting,
    WritesBegin,
)
from .archive_lines import archive_lines
from .fitted import WHOLE, Line
from .report import brief_lines, findings_lines, plan_lines, status_lines

FINDINGS_AT_ONCE: Final = 200  # about items, the worst first; of hundreds of items there may be thousands

CONNECTED: Final = "Connected"

_TONES: Final[Mapping[Tone, str]] = {"": "", "good": "green", "attention": "yellow", "bad": "red"}
_VERDICTS: Final = {IdentityVerdict.REFUSE: "red", IdentityVerdict.ASSIGN: "yellow", IdentityVerdict.RESUME: "yellow"}


Formats: TypeAlias = Mapping[type, Callable[[Any, bool], list[Line]]]
"""Type of a value -> its lines, by the value and ``whole``. An action has those that only it shows, as each imports what made the value."""


def lines_of(shown: Shown, formats: Formats, *, whole: bool = False) -> list[Line]:
    """Return the lines of one value that a run shows; [] if it is empty.

    :param formats: for values that are not of every run.
    :param whole: everything, also of large meshes and of many findings (``-v``).
    :raises Defect: when there is no format of this type.
    """
    if (form := formats.get(type(shown))) is not None:
        return form(shown, whole)
    match shown:
        case Sentence(text, tone):
            return [Line(text, _TONES[tone])]
        case Waiting(_state, news, tone):
            return [Line(news, _TONES[tone])] if news else []
        case FindingsMade(findings, brief, which):
            if brief and not whole:
                return brief_lines(findings, which=which)
            most = FINDINGS_AT_ONCE if any(finding.item for finding in findings) else len(findings)
            return findings_lines(findings, most, which=which)
        case WritesBegin(steps):
            # When Ctrl-C ends them, nothing of the run can be printed any more.
            again = "If this run is interrupted, run it again: what is written stays, and the rest follows."
            return [Line(f"Writing {count(steps, 'step')}. {again}")]
        case PlanMade(plan):
            return plan_lines(plan, whole=whole)
        case LinksMeasured(name, status, brief):
            lines = status_lines(name, status, whole=whole)
            return lines[-1:] if brief and not whole and status.get("phase") == CONNECTED else lines
        case IdentitiesDecided(decisions):
            return _decision_lines(decisions)
        case RightsMade(clusters, manifest):
            return [Line(f"# Rights in {', '.join(clusters)}"), *(Line(line, hang=WHOLE) for line in manifest.splitlines())]
        case ArchiveMade(path, summary, size):
            return archive_lines(path, summary, size)
    raise Defect(f"No lines are known for {type(shown).__name__}.")


def _decision_lines(decisions: Sequence[IdentityDecision]) -> list[Line]:
    rows = [(d.host, d.verdict.value, d.name or "-", str(d.id or "-"), "; ".join(d.reasons)) for d in decisions]
    lines = [Line(f"  {row}", _VERDICTS.get(d.verdict, "")) for row, d in zip(table(rows), decisions, strict=True)]
    return [Line("Identities:"), *lines] if lines else []
