# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items with their findings, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..module_utils.base.tables import cell, count, row, text, widths
from ..module_utils.findings.finding import Finding, Severity
from ..module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ..module_utils.pipeline.shown import ItemsMeasured
from ..module_utils.reconcile.kinds import ROWS
from ..module_utils.reconcile.status import GOOD
from .fitted import Line
from .report import PHASE_COLOURS, finding_lines
from .shown_lines import Formats

ITEMS_SHOWN: Final = 40  # of more, only those that are not ready or have findings that need action
FINDINGS_SHOWN: Final = 5  # of one item

_BADNESS: Final = {"Error": 0, "Degraded": 1, "Pending": 2}

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

Entry = tuple[ItemRef, Mapping[str, Any]]


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
        lines.append(Line(f"{head}{_reason(entry)}".rstrip(), colour_of(str(entry["phase"])), len(head)))
        lines += finding_lines(own, under_item=True)
        shown_findings += len(own)
    orphaned = _findings_of_removed_items(every, about)[:ITEMS_SHOWN]
    lines += [*finding_lines(orphaned), *_rest_lines(len(chosen) - len(shown), len(findings) - shown_findings - len(orphaned))]
    return [*lines, _verdict(name, [entry for _ref, entry in every])] if every else lines


def _measured_lines(shown: ItemsMeasured, whole: bool) -> list[Line]:
    lines = items_lines(shown.name, shown.rows, shown.findings)
    good = all(entry["phase"] in GOOD for entries in shown.rows.values() for entry in entries)
    return lines[-1:] if shown.brief and not whole and good and not shown.findings else lines


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
    return Line(f"{cell(name)}: {count(len(rows), 'item')}: {texts}", colour_of(worst) if worst else "green")


def colour_of(phase: str) -> str:
    """Return the colour of the phase of an item or a workload."""
    return "green" if phase in GOOD else PHASE_COLOURS.get(phase, "yellow")


FORMATS: Final[Formats] = {ItemsMeasured: _measured_lines}
