# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings, plan and status as lines for a person's terminal.

Pure: data in, lines out. What clusters and tenants wrote is cut to one printable line before it reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..module_utils.findings import Finding
from ..module_utils.redact import one_line
from .outcome import count

COLUMN_LIMIT: Final = 60
TEXT_LIMIT: Final = 600
WHOLE_LIMIT: Final = 8000  # four times what a check lets its evidence have; only against what nobody made for reading
LINKS_NAMED: Final = 3
ERROR_LIMIT: Final = 120


class Line(NamedTuple):
    """One line and the colour that Ansible gives it; "" is the terminal's own."""

    text: str
    colour: str = ""


_COLOURS: Final = {"blocking": "red", "accepted": "yellow", "remediable": "yellow", "advisory": "cyan"}
_PHASES: Final = {"Connected": "green", "Connecting": "yellow", "Pending": "yellow", "Degraded": "yellow", "Error": "red"}


def findings_lines(findings: Sequence[Finding]) -> list[Line]:
    """A row per finding, with what was read and how to mend it below; [] when there is none."""
    if not findings:
        return []
    severities = [_severity(finding) for finding in findings]
    totals = ", ".join(f"{severities.count(kind)} {kind}" for kind in _COLOURS if kind in severities)
    lines = [Line(f"Findings: {totals}")]
    where = [_where(finding) for finding in findings]
    widths = _widths(list(zip(severities, (f.code for f in findings), where, strict=True)))
    for finding, severity, place in zip(findings, severities, where, strict=True):
        head = _row((severity, finding.code, place), widths)
        lines.append(Line(f"  {head}  {_text(finding.summary)}", _COLOURS[severity]))
        lines += _labelled("read", finding.evidence) + _labelled("fix", finding.fix)
    return lines


def plan_lines(plan: Mapping[str, Any]) -> list[Line]:
    """The links that were decided, then the steps in order. ``plan`` is ``Plan.to_dict()``."""
    steps = plan["steps"]
    if not steps:
        return [Line("Plan: nothing to do")]
    lines = [Line(f"Plan: {count(len(steps), 'step')}, hash {plan['hash'][:12]}")]
    for link in plan.get("links", ()):
        pair = f"{_cell(link['cluster'])} -> {_cell(link['peer'])}"
        lines.append(Line(f"  link {pair}  {_text(link['endpoint'])}  trust {_text(link['trust'])}"))
    rows = [(f"wave {step['wave']}", step["cluster"], step["verb"], step["object"]) for step in steps]
    widths = _widths(rows)
    lines += [Line(f"  {_row(row, widths)}  {_text(step['why'])}".rstrip(), "yellow") for step, row in zip(steps, rows, strict=True)]
    return lines + [Line(f"  disruption: {_text(text)}") for text in dict.fromkeys(step["disruption"] for step in steps) if text]


def status_lines(name: str, status: Mapping[str, Any]) -> list[Line]:
    """A row per cluster, a row per link, and last the verdict (see ``verdict``). ``status`` is ``status.binding`` of the result."""
    lines: list[Line] = []
    clusters = [
        ("cluster", "cilium name", "id", "nodes ready", "connected"),
        *(
            (
                row["clusterName"],
                row.get("ciliumName") or "-",
                str(row.get("clusterId") if row.get("clusterId") is not None else "-"),
                f"{row.get('readyNodes', 0)}/{row.get('totalNodes', 0)}",
                "yes" if row.get("connected") else "no",
            )
            for row in status.get("meshStatus", ())
        ),
    ]
    lines += [Line(f"  {text}") for text in _table(clusters)]
    links = status.get("links", ())
    if links:
        texts = _table([("link", "stage", "agents ready", "furthest behind"), *(_link_row(link) for link in links)])
        lines.append(Line(f"  {texts[0]}"))
        for link, text in zip(links, texts[1:], strict=True):
            lines.append(Line(f"  {text}", "green" if link["ready"] else "yellow"))
            lines += [] if link["ready"] else _labelled("error", link["error"])
    lines.append(Line(verdict(name, status), _PHASES.get(str(status.get("phase")), "")))
    return lines


def verdict(name: str, status: Mapping[str, Any]) -> str:
    """``edge-mesh-eu: Connected (2/2 clusters, 2/2 links ready)``."""
    clusters = status.get("meshStatus", ())
    links = status.get("links", ())
    connected = sum(bool(row.get("connected")) for row in clusters)
    ready = sum(bool(link.get("ready")) for link in links)
    return f"{_cell(name)}: {status.get('phase')} ({connected}/{len(clusters)} clusters, {ready}/{len(links)} links ready)"


def disconnected_line(name: str, clusters: Sequence[str], silent: Sequence[str]) -> Line:
    """``edge-mesh-eu: disconnected (1/2 clusters); not reached, and left as it was: cluster-ber-2``."""
    text = f"{_cell(name)}: disconnected ({len(clusters) - len(silent)}/{len(clusters)} clusters)"
    return Line(f"{text}; not reached, and left as it was: {', '.join(silent)}", "yellow") if silent else Line(text, "green")


def behind(status: Mapping[str, Any]) -> str:
    """One sentence on the links that are not ready, for a failure's message: link, stage, last error."""
    late = [link for link in status.get("links", ()) if not link["ready"]]
    texts = [_named(link) + (f" ({one_line(link['error'], ERROR_LIMIT)})" if link["error"] else "") for link in late[:LINKS_NAMED]]
    more = f"; and {len(late) - LINKS_NAMED} more" if len(late) > LINKS_NAMED else ""
    return f"{'; '.join(texts)}{more}." if texts else ""


def _named(link: Mapping[str, Any]) -> str:
    return f"{_cell(link['cluster'])} -> {_cell(link['peer'])}: {link['stage']}"


def _link_row(link: Mapping[str, Any]) -> tuple[str, ...]:
    reader = "" if link["ready"] else link["reader"] or "nobody answers"
    return (f"{link['cluster']} -> {link['peer']}", link["stage"], f"{link['nodesReady']}/{link['nodesTotal']}", reader)


def _severity(finding: Finding) -> str:
    return "accepted" if finding.accepted else finding.severity.value


def _where(finding: Finding) -> str:
    return f"{finding.cluster} -> {finding.peer}" if finding.peer else finding.cluster or "mesh"


def _labelled(label: str, value: str) -> list[Line]:
    """A text of one or several lines (a recipe of commands) below a finding; each whole and on one line, so that it can be copied."""
    texts = [one_line(part, WHOLE_LIMIT) for part in value.splitlines() if part.strip()]
    heads = [f"{label}:", *[" " * (len(label) + 1)] * len(texts)]
    return [Line(f"      {head} {text}") for head, text in zip(heads, texts, strict=False)]


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    kept = list(rows)
    widths = _widths(kept)
    return [_row(row, widths).rstrip() for row in kept]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(_cell(cell)) for cell in column) for column in zip(*rows, strict=True)]


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(_cell(cell).ljust(width) for cell, width in zip(row, widths, strict=True))


def _cell(value: str) -> str:
    return one_line(str(value), COLUMN_LIMIT)


def _text(value: str) -> str:
    return one_line(str(value), TEXT_LIMIT)
