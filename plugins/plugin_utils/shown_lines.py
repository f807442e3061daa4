# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..module_utils.base.tables import cell, count, row, table, text, widths
from ..module_utils.ca.roll import RollPlan
from ..module_utils.findings.finding import Finding, Severity
from ..module_utils.identity.decide import IdentityDecision, IdentityVerdict
from ..module_utils.mesh.item_kinds import ItemKind, ItemRef
from ..module_utils.pipeline.ca_roll import stage_rows
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
from ..module_utils.reconcile.kinds import ROWS
from ..module_utils.reconcile.status import GOOD
from .archive_lines import archive_lines
from .envelope_lines import envelope_lines
from .fitted import WHOLE, Line
from .rehearsal_lines import rehearsal_lines
from .report import PHASE_COLOURS, brief_lines, finding_lines, findings_lines, plan_lines, status_lines

ITEMS_SHOWN: Final = 40  # of more, only those that are not ready or have findings that need action
FINDINGS_SHOWN: Final = 5  # of one item
FINDINGS_AT_ONCE: Final = 200  # about items, the worst first; of hundreds of items there may be thousands

_BADNESS: Final = {"Error": 0, "Degraded": 1, "Pending": 2}

CONNECTED: Final = "Connected"

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

Entry = tuple[ItemRef, Mapping[str, Any]]

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
            lines = items_lines(name, rows, findings)
            good = all(entry["phase"] in GOOD for entries in rows.values() for entry in entries)
            return lines[-1:] if brief and not whole and good and not findings else lines
        case IdentitiesDecided(decisions):
            return _decision_lines(decisions)
        case StageReached(name, plan):
            return stage_lines(name, plan)
        case WorkloadsMeasured(name, workloads):
            return workloads_lines(name, workloads)
        case LossesRehearsed(name, rehearsals):
            return rehearsal_lines(name, rehearsals)
        case EnvelopeMeasured(name, envelope):
            return envelope_lines(name, envelope)
        case RightsMade(clusters, manifest):
            return [Line(f"# Rights in {', '.join(clusters)}"), *(Line(line, hang=WHOLE) for line in manifest.splitlines())]
        case ArchiveMade(path, summary, size):
            return archive_lines(path, summary, size)
    return trust_lines(shown.name, shown.report)


def workloads_lines(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line per workload, and below it one per cluster where something is not as wanted.

    :param rows: ``{name, status}``, the status in the form of the custom resource.
    """
    lines = [Line(f"Workloads of {name}:" if rows else f"Workloads of {name}: none")]
    heads = [_workload_row(entry["name"], entry["status"]) for entry in rows]
    for entry, head in zip(rows, table(heads), strict=True):
        status = entry["status"]
        lines.append(Line(f"  {head}", _colour(status["phase"])))
        lines += [
            Line(f"      {part['clusterName']}: {text(part['message'])}", "yellow")
            for part in status.get("placements", ())
            if part.get("message")
        ]
    return lines


def _workload_row(name: str, status: Mapping[str, Any]) -> tuple[str, ...]:
    rollout = status.get("rollout", {})
    ready: Mapping[str, Any] = next((entry for entry in status["conditions"] if entry["type"] == "Ready"), {})
    wave = f" {rollout['wave']}/{rollout['of']}" if rollout.get("of") else ""
    revision = status.get("updatedRevision", "-")
    rest = str(rollout.get("message", "")).removeprefix(f"Revision {revision} is rolled out.").strip()  # pauses and rollbacks
    return (
        name,
        status["phase"],
        f"{status.get('readyReplicas', 0)}/{status.get('replicas', 0)} ready",
        f"revision {revision}",
        f"{rollout.get('phase', '-')}{wave}",
        str(ready.get("message") or rest),
    )


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
    rows = stage_rows(plan)
    texts = table([(row["stage"], row["state"], row["what"]) for row in rows])
    lines = [Line(f"CA roll of {name}: {', '.join(plan.clusters)}")]
    return lines + [Line(f"  {text}", colours[row["state"]]) for row, text in zip(rows, texts, strict=True)]


def items_lines(name: str, rows: Rows, findings: Sequence[Finding]) -> list[Line]:
    """Return a line per item with its findings below, and last the number of items in each phase.

    :param name: name of the binding.
    :param rows: as ``reconcile.status.item_rows`` returns them.
    """
    every = [(ItemRef(kind, str(entry["name"])), entry) for kind in ItemKind for entry in rows.get(kind.value, ())]
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.item, []).append(finding)
    chosen = _items_to_show(every, about)
    shown = chosen[:ITEMS_SHOWN]
    cells = [(str(ref), str(entry["phase"]), ROWS[ref.kind].brief(entry) or "-") for ref, entry in shown]
    found = widths(cells)
    lines: list[Line] = []
    shown_findings = 0
    for (ref, entry), columns in zip(shown, cells, strict=True):
        own = about.get(str(ref), [])[:FINDINGS_SHOWN]
        head = f"  {row(columns, found)}  "
        lines.append(Line(f"{head}{_reason(entry)}".rstrip(), _colour(str(entry["phase"])), len(head)))
        lines += finding_lines(own, under_item=True)
        shown_findings += len(own)
    orphaned = _findings_of_removed_items(every, about)[:ITEMS_SHOWN]
    lines += [*finding_lines(orphaned), *_rest_lines(len(chosen) - len(shown), len(findings) - shown_findings - len(orphaned))]
    return [*lines, _verdict(name, [entry for _ref, entry in every])] if every else lines


def _items_to_show(every: Sequence[Entry], about: Mapping[str, Sequence[Finding]]) -> list[Entry]:
    """Return the items to show: all of few; of many those that are not ready or have findings that need action, worst first."""
    if len(every) <= ITEMS_SHOWN:
        return list(every)

    def needs_action(entry: Entry) -> bool:
        return any(finding.severity is not Severity.ADVISORY for finding in about.get(str(entry[0]), ()))

    wanting = [entry for entry in every if entry[1]["phase"] not in GOOD or needs_action(entry)]
    return sorted(wanting, key=lambda entry: _BADNESS.get(str(entry[1]["phase"]), len(_BADNESS)))


def _findings_of_removed_items(every: Sequence[Entry], about: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """Return the findings about items that do not exist any more and whose objects could not be pruned."""
    known = {str(ref) for ref, _entry in every}
    return [finding for item, entries in about.items() if item not in known for finding in entries]


def _rest_lines(items: int, findings: int) -> list[Line]:
    texts = [count(items, "more item") if items > 0 else "", count(findings, "more finding") if findings > 0 else ""]
    kept = [text for text in texts if text]
    return [Line(f"  and {' and '.join(kept)}; all are in the result", "yellow")] if kept else []


def _reason(entry: Mapping[str, Any]) -> str:
    """Return reason and message of the condition Ready of an item that is not ready; "" for one that is."""
    if entry["phase"] in GOOD:
        return ""
    ready = next((c for c in entry.get("conditions", ()) if c.get("type") == "Ready" and c.get("status") != "True"), None)
    return text(f"{ready.get('reason')}: {ready.get('message')}" if ready.get("message") else str(ready.get("reason"))) if ready else ""


def _verdict(name: str, rows: Sequence[Mapping[str, Any]]) -> Line:
    """Return ``edge-mesh-eu: 3 items: 2 Exported, 1 Error``."""
    phases = Counter(str(entry["phase"]) for entry in rows)
    texts = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items(), key=lambda one: (one[0] not in GOOD, one[0])))
    worst = next((phase for phase in ("Error", "Degraded", "Pending") if phase in phases), "")
    return Line(f"{cell(name)}: {count(len(rows), 'item')}: {texts}", _colour(worst) if worst else "green")


def _colour(phase: str) -> str:
    return "green" if phase in GOOD else PHASE_COLOURS.get(phase, "yellow")
