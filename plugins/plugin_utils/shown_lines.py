# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..module_utils.base.tables import count, table
from ..module_utils.identity.decide import IdentityDecision, IdentityVerdict
from ..module_utils.pipeline.shown import (
    ArchiveMade,
    EnvelopeMeasured,
    FindingsMade,
    IdentitiesDecided,
    ItemsMeasured,
    LinksMeasured,
    LossesRehearsed,
    PlanMade,
    RightsMade,
    Sentence,
    Shown,
    StageReached,
    Tone,
    Waiting,
    WorkloadsMeasured,
    WritesBegin,
)
from .archive_lines import archive_lines
from .fitted import WHOLE, Line
from .report import brief_lines, findings_lines, plan_lines, status_lines

if TYPE_CHECKING:
    from ..module_utils.ca.roll import RollPlan

FINDINGS_AT_ONCE: Final = 200  # about items, the worst first; of hundreds of items there may be thousands

CONNECTED: Final = "Connected"

_TONES: Final[Mapping[Tone, str]] = {"": "", "good": "green", "attention": "yellow", "bad": "red"}
_VERDICTS: Final = {IdentityVerdict.REFUSE: "red", IdentityVerdict.ASSIGN: "yellow", IdentityVerdict.RESUME: "yellow"}


def lines_of(shown: Shown, *, whole: bool = False) -> list[Line]:
    """Return the lines of one value that a run shows; [] if it is empty.

    :param whole: everything, also of large meshes and of many findings (``-v``).
    """
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
        case ItemsMeasured(name, rows, findings, brief):
            from .items_lines import all_good, items_lines  # here, as a run without items does not need what it imports

            lines = items_lines(name, rows, findings)
            return lines[-1:] if brief and not whole and all_good(rows) and not findings else lines
        case IdentitiesDecided(decisions):
            return _decision_lines(decisions)
        case StageReached(name, plan):
            return stage_lines(name, plan)
        case WorkloadsMeasured(name, workloads):
            from .workloads_lines import workloads_lines  # likewise

            return workloads_lines(name, workloads)
        case LossesRehearsed(name, rehearsals):
            from .rehearsal_lines import rehearsal_lines  # likewise

            return rehearsal_lines(name, rehearsals)
        case EnvelopeMeasured(name, envelope):
            from .envelope_lines import envelope_lines  # likewise

            return envelope_lines(name, envelope)
        case RightsMade(clusters, manifest):
            return [Line(f"# Rights in {', '.join(clusters)}"), *(Line(line, hang=WHOLE) for line in manifest.splitlines())]
        case ArchiveMade(path, summary, size):
            return archive_lines(path, summary, size)
    return trust_lines(shown.name, shown.report)


def _decision_lines(decisions: Sequence[IdentityDecision]) -> list[Line]:
    rows = [(d.host, d.verdict.value, d.name or "-", str(d.id or "-"), "; ".join(d.reasons)) for d in decisions]
    lines = [Line(f"  {row}", _VERDICTS.get(d.verdict, "")) for row, d in zip(table(rows), decisions, strict=True)]
    return [Line("Identities:"), *lines] if lines else []


def trust_lines(name: str, report: Mapping[str, Any]) -> list[Line]:
    """Return a table with a row per cluster, and one with a row per ordered pair.

    :param report: as ``ca.report.trust_report`` returns it.
    """
    head = ("cluster", "CA", "CA until", "certificates by", "until", "next renewal", "roll")
    rows = [head, *(_cluster_row(row) for row in report["clusters"])]
    lines = [Line(f"Trust of {name}"), *(Line(f"  {text}") for text in table(rows))]
    pairs: Sequence[Mapping[str, Any]] = report["pairs"]
    if pairs:
        head = ("link", "trust", "shows", "peer's CA", "ends first", "until", "renewed from")
        texts = table([head, *(_pair_row(pair) for pair in pairs)])
        lines.append(Line(f"  {texts[0]}"))
        lines += [
            Line(f"  {text}", "yellow" if pair["due"] or not pair["mode"] else "") for pair, text in zip(pairs, texts[1:], strict=True)
        ]
    return lines


def _cluster_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    ca = row["ca"] or {}
    return (
        row["cluster"],
        ca.get("fingerprint", "")[:12] or "-",
        _day(ca.get("expires", "")),
        row["method"] or "-",
        _day(row["expires"]),
        _day(row["nextRenewal"]) if row["nextRenewal"] else "by hand" if row["method"] in ("helm", "provided") else "-",
        row["roll"] or "-",
    )


def _pair_row(pair: Mapping[str, Any]) -> tuple[str, ...]:
    server_ca = pair["certificates"]["serverCa"] or {}
    return (
        f"{pair['cluster']} -> {pair['peer']}",
        pair["mode"] or "none",
        pair["user"] or "-",
        server_ca.get("fingerprint", "")[:12] or "-",
        pair["expiresFirst"] or "-",
        _day(pair["expires"]),
        _day(pair["renewFrom"]),
    )


def _day(time: str) -> str:
    return time[:10] or "-"


def stage_lines(name: str, plan: RollPlan) -> list[Line]:
    """Return a table of the stages of a roll: done, now or later."""
    if plan.stage is None:
        return [Line(f"CA roll of {name}: nothing to roll", "green")]
    colours = {"done": "green", "now": "yellow", "later": ""}
    from ..module_utils.pipeline.ca_roll import stage_rows  # likewise

    rows = stage_rows(plan)
    texts = table([(row["stage"], row["state"], row["what"]) for row in rows])
    lines = [Line(f"CA roll of {name}: {', '.join(plan.clusters)}")]
    return lines + [Line(f"  {text}", colours[row["state"]]) for row, text in zip(rows, texts, strict=True)]
