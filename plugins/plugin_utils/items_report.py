# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The items of a run as lines for a person: one each with its phase and counts, its findings below. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ..module_utils.columns import cell, count, row, text, widths
from ..module_utils.findings import Finding, Severity
from ..module_utils.items.kinds import ItemKind, ItemRef
from ..module_utils.items.rows import GOOD
from ..module_utils.model import Mesh
from .report import PHASE_COLOURS, Line, finding_lines

ITEMS_SHOWN: Final = 40  # of more, only those that are not as they should be, or of which something has to be told
FINDINGS_SHOWN: Final = 5  # of one item
NAMED: Final = 3

_DONE: Final = {ItemKind.GLOBAL_SERVICE: "exportedClusters", ItemKind.INTENT: "appliedClusters"}

_BADNESS: Final = {"Error": 0, "Degraded": 1, "Pending": 2}

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


Entry = tuple[ItemRef, Mapping[str, Any]]


def items_lines(name: str, rows: Rows, findings: Sequence[Finding]) -> list[Line]:
    """A line per item, its findings below it, and last how many are in which phase. ``rows``: as ``items.rows.item_rows``."""
    every = [(ItemRef(kind, str(entry["name"])), entry) for kind in ItemKind for entry in rows.get(kind.value, ())]
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.item, []).append(finding)
    chosen = _chosen(every, about)
    shown = chosen[:ITEMS_SHOWN]
    cells = [(str(ref), str(entry["phase"]), _counts(ref.kind, entry)) for ref, entry in shown]
    found = widths(cells)
    lines: list[Line] = []
    told = 0
    for (ref, entry), columns in zip(shown, cells, strict=True):
        own = about.get(str(ref), [])[:FINDINGS_SHOWN]
        lines.append(Line(f"  {row(columns, found)}  {_why(entry)}".rstrip(), _colour(str(entry["phase"]))))
        lines += finding_lines(own, under_item=True)
        told += len(own)
    gone = _of_no_item(every, about)[:ITEMS_SHOWN]
    lines += [*finding_lines(gone), *_rest(len(chosen) - len(shown), len(findings) - told - len(gone))]
    return [*lines, _verdict(name, [entry for _ref, entry in every])] if every else lines


def _chosen(every: Sequence[Entry], about: Mapping[str, Sequence[Finding]]) -> list[Entry]:
    """All of few; of many those that need a look, the worst first."""
    if len(every) <= ITEMS_SHOWN:
        return list(every)

    def told(entry: Entry) -> bool:
        return any(finding.severity is not Severity.ADVISORY for finding in about.get(str(entry[0]), ()))

    wanting = [entry for entry in every if entry[1]["phase"] not in GOOD or told(entry)]
    return sorted(wanting, key=lambda entry: _BADNESS.get(str(entry[1]["phase"]), len(_BADNESS)))


def _of_no_item(every: Sequence[Entry], about: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """About items that are no more: what they made could not be taken away."""
    known = {str(ref) for ref, _entry in every}
    return [finding for item, entries in about.items() if item not in known for finding in entries]


def _rest(items: int, findings: int) -> list[Line]:
    texts = [count(items, "more item") if items > 0 else "", count(findings, "more finding") if findings > 0 else ""]
    kept = [text for text in texts if text]
    return [Line(f"  and {' and '.join(kept)}; all are in the result", "yellow")] if kept else []


def absent_line(mesh: Mesh, kinds: Collection[ItemKind], reached: Sequence[str], failed: Collection[str]) -> Line:
    """``edge-mesh-eu: globalServices taken away (2/3 clusters); not reached, and left as they are: cluster-ber-2``."""
    which = ", ".join(kind.value for kind in ItemKind if kind in kinds)
    if failed:
        return Line(f"{cell(mesh.binding.name)}: {which} not wholly taken away", "red")
    silent = [host for host in mesh.clusters if host not in reached]
    done = f"{cell(mesh.binding.name)}: {which} taken away ({len(reached)}/{len(mesh.clusters)} clusters)"
    return Line(f"{done}; not reached, and left as they are: {', '.join(silent)}", "yellow") if silent else Line(done, "green")


def some_items(refs: Iterable[str], what: str) -> str:
    """``2 refused (globalServices/a, globalServices/b)``; "" when there is none."""
    names = [cell(ref) for ref in refs]
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} {what} ({', '.join(names[:NAMED])}{more})"


def _counts(kind: ItemKind, entry: Mapping[str, Any]) -> str:
    if kind is ItemKind.EXPOSURE:
        places = entry.get("addresses") or ()
        return count(sum(bool(place.get("serving")) for place in places), "cluster") if places else "-"
    done = entry.get(_DONE[kind])
    texts = [count(len(done), "cluster")] if isinstance(done, (list, tuple)) else []
    summary = entry.get("endpointSummary")
    if isinstance(summary, (list, tuple)):
        texts.append(count(sum(int(place.get("endpoints") or 0) for place in summary), "endpoint"))
    probe = entry.get("probeStatus")
    if isinstance(probe, Mapping):
        texts.append(str(probe.get("result", "")))
    return ", ".join(texts) or "-"


def _why(entry: Mapping[str, Any]) -> str:
    """Why it is not ready, in the words of its condition; where findings tell more, they stand below."""
    if entry["phase"] in GOOD:
        return ""
    ready = next((c for c in entry.get("conditions", ()) if c.get("type") == "Ready" and c.get("status") != "True"), None)
    return text(f"{ready.get('reason')}: {ready.get('message')}" if ready.get("message") else str(ready.get("reason"))) if ready else ""


def _verdict(name: str, rows: Sequence[Mapping[str, Any]]) -> Line:
    """``edge-mesh-eu: 3 items: 2 Exported, 1 Error``."""
    phases = Counter(str(entry["phase"]) for entry in rows)
    texts = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items(), key=lambda one: (one[0] not in GOOD, one[0])))
    worst = next((phase for phase in ("Error", "Degraded", "Pending") if phase in phases), "")
    return Line(f"{cell(name)}: {count(len(rows), 'item')}: {texts}", _colour(worst) if worst else "green")


def _colour(phase: str) -> str:
    return "green" if phase in GOOD else PHASE_COLOURS.get(phase, "yellow")
