# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings, plan and status as lines for the terminal.

Pure: data in, lines out. Texts that clusters and tenants wrote are cut to one printable line before they reach the terminal.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from ..module_utils.base.redact import one_line
from ..module_utils.base.tables import cell as _cell
from ..module_utils.base.tables import count
from ..module_utils.base.tables import row as _row
from ..module_utils.base.tables import table as _table
from ..module_utils.base.tables import text as _text
from ..module_utils.base.tables import widths as _widths
from ..module_utils.findings.finding import Finding
from ..module_utils.mesh.binding.fleet_kinds import FleetKind
from ..module_utils.mesh.link_stage import LinkStage
from ..module_utils.report.plan import LINKS_SHOWN, plan_rows
from ..module_utils.report.sentences import LINKS_NAMED, verdict
from .fitted import WHOLE, Line, to_copy

WHOLE_LIMIT: Final = 8000  # characters; four times the limit of evidence (findings/wording.py), against texts of errors without one
STEPS_SHOWN: Final = 60  # a full mesh of 50 clusters takes some 200; the plan as data, and the playbook plan, have them all
CODES_NAMED: Final = 5
CLUSTERS_SHOWN: Final = 50  # of more, only those that are not connected
BEHIND: Final = 15  # clusters and links that are not as they should be, where there are more than CLUSTERS_SHOWN clusters
BRIEF_LINES: Final = 20  # of findings in brief; with these rows and what Ansible prints around them a status stays below 100 lines


_COLOURS: Final = {"blocking": "red", "outage": "red", "accepted": "yellow", "remediable": "yellow", "advisory": "cyan"}
PHASE_COLOURS: Final = {
    "Connected": "green",
    "Connecting": "yellow",
    "Pending": "yellow",
    "Degraded": "yellow",
    "Error": "red",
    FleetKind.WORKLOAD.good: "green",
}


def findings_lines(findings: Sequence[Finding], most: int = sys.maxsize, *, which: str = "") -> list[Line]:
    """Return a heading with totals, and a row for each of the first ``most`` findings with evidence and fix below; [] without one.

    :param which: what the heading says of them.
    """
    rest = [Line(f"  and {count(len(findings) - most, 'more finding')}; all are in the result", "yellow")] if len(findings) > most else []
    if not findings:
        return []
    severities = [_severity(finding) for finding in findings]
    totals = ", ".join(f"{severities.count(kind)} {kind}" for kind in _COLOURS if kind in severities)
    return [Line(f"Findings{f' {which}' if which else ''}: {totals}"), *finding_lines(findings[:most]), *rest]


def finding_lines(findings: Sequence[Finding], *, under_item: bool = False) -> list[Line]:
    """Return a row per finding with evidence and fix below, without a heading.

    :param under_item: the rows are shown below their item and do not name it again.
    """
    severities = [_severity(finding) for finding in findings]
    where = [_place(finding) if under_item else _where(finding) for finding in findings]
    widths = _widths(list(zip(severities, (f.code for f in findings), where, strict=True)))
    indent = "    " if under_item else "  "
    lines: list[Line] = []
    for number, (finding, severity, place) in enumerate(zip(findings, severities, where, strict=True), start=1):
        head = f"{indent}{_row((severity, finding.code, place), widths)}  "
        lines.append(Line(f"{head}{_text(finding.summary)}", _COLOURS[severity], len(head)))
        if _advice(finding) not in map(_advice, findings[number : number + 1]):  # of several in a row, it stands below the last one
            lines += _labelled_lines("read", finding.evidence) + _labelled_lines("fix", finding.fix)
    return lines


def _advice(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.evidence, finding.fix


def plan_lines(plan: Mapping[str, Any], *, whole: bool = False) -> list[Line]:
    """Return the plan in the words of report/plan.py; of many steps, those that are alike in several clusters share a line.

    :param plan: as ``Plan.to_dict()`` returns it.
    :param whole: also how each step is undone.
    """
    rows = [row for row in plan_rows(plan) if whole or not row.undo]
    first = next((place for place, row in enumerate(rows) if row.step), len(rows))
    steps = _alike_steps(plan["steps"])
    if len(steps) > STEPS_SHOWN:
        steps = [Line(text, "yellow") for text in _joined_steps(plan["steps"])]
    return [*(Line(row.text) for row in rows[:first]), *steps, *(Line(row.text) for row in rows[first:] if not row.step)]


def _alike_steps(steps: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line for each step, or for those that do the same for the same reason in several clusters."""
    clusters: dict[tuple[str, ...], list[str]] = {}
    for step in steps:
        clusters.setdefault((f"wave {step['wave']}", step["verb"], step["object"], step.get("item", ""), step["why"]), []).append(
            _cell(step["cluster"])
        )
    items = any(step.get("item") for step in steps)
    cells = [(what[0], _first_hosts(hosts), *what[1 : 4 if items else 3]) for what, hosts in clusters.items()]
    heads = [f"  {head}  " for head in map(_row, cells, repeat(_widths(cells)))]
    return [Line(f"{head}{_text(what[4])}".rstrip(), "yellow", len(head)) for head, what in zip(heads, clusters, strict=True)]


def _joined_steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Join steps that write the same object in several clusters to one line; if these are too many, all objects of one kind."""
    clusters: dict[tuple[str, str, str], list[str]] = {}
    for step in steps:
        clusters.setdefault((f"wave {step['wave']}", step["verb"], step["object"]), []).append(_cell(step["cluster"]))
    if len(clusters) > STEPS_SHOWN and any(step.get("item") for step in steps):
        clusters = _by_kind(clusters)
    return [f"  {line}" for line in _table([(*what, f"in {_first_hosts(hosts)}") for what, hosts in clusters.items()])]


def _by_kind(clusters: Mapping[tuple[str, str, str], list[str]]) -> dict[tuple[str, str, str], list[str]]:
    kinds: dict[tuple[str, str, str], list[list[str]]] = {}
    for (wave, verb, name), hosts in clusters.items():
        kinds.setdefault((wave, verb, name.partition(" ")[0]), []).append(hosts)
    return {
        (wave, verb, f"{count(len(objects), 'object')} of kind {kind}"): list(dict.fromkeys(host for hosts in objects for host in hosts))
        for (wave, verb, kind), objects in kinds.items()
    }


def _first_hosts(hosts: Sequence[str]) -> str:
    more = len(hosts) - LINKS_NAMED
    return ", ".join(hosts[:LINKS_NAMED]) + (f" and {more} more" if more > 0 else "")


_UNKNOWN: Final = {
    "not_reached": "not reached, nothing is known of it",
    "refused": "refuses to be read, nothing is known of it",
    "credentials_invalid": "not read for lack of valid credentials, nothing is known of it",
    "not_asked": "not asked",
}


def eligibility_lines(rows: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """Return a line per cluster that says whether it is eligible and ready.

    :param rows: inventory name -> ``Eligibility.to_dict()``.
    """
    lines = []
    width = max((len(_cell(host)) for host in rows), default=0)
    for host, row in rows.items():
        eligible, ready = bool(row.get("eligible")), bool(row.get("ready"))
        text = _UNKNOWN.get(str(row.get("answer")), f"{'eligible' if eligible else 'not eligible'}, {'ready' if ready else 'not ready'}")
        text += f", {count(remedies, 'finding')} to remedy" if (remedies := int(row.get("remedies", 0))) and ready else ""
        codes = [_cell(code) for code in row.get("blocking", ())]
        more = f", and {len(codes) - CODES_NAMED} more" if len(codes) > CODES_NAMED else ""
        why = f" ({', '.join(codes[:CODES_NAMED])}{more})" if codes else ""
        colour = "" if row.get("answer") == "not_asked" else "green" if ready else "yellow" if eligible else "red"
        lines.append(Line(f"  {_cell(host).ljust(width)}  {text}{why}", colour))
    return [Line("Clusters:"), *lines] if lines else []


def brief_lines(findings: Sequence[Finding], *, which: str = "") -> list[Line]:
    """Return ``findings_lines`` of as many findings as fit into BRIEF_LINES, at least one, the worst first; the rest is counted."""
    order = list(_COLOURS)
    ranked = sorted(findings, key=lambda finding: order.index(_severity(finding)))
    most, lines = 0, 0
    for finding in ranked:
        lines += len(finding_lines([finding]))
        if most and lines > BRIEF_LINES:
            break
        most += 1
    found = findings_lines(ranked, most, which=which)
    return [*found[:-1], Line(f"{found[-1].text}; -v shows them", found[-1].colour)] if len(ranked) > most else found


def status_lines(name: str, status: Mapping[str, Any], *, whole: bool = False) -> list[Line]:
    """Return a row per cluster, a row per link, and the verdict (see ``verdict``).

    Of more than ``LINKS_SHOWN`` links only the first so many that are not ready are shown, the worst first; the rows of clusters then
    count the ready ones. Of more than ``CLUSTERS_SHOWN`` clusters only those that are not connected have a row. The rest is summed up.

    :param status: ``status.binding`` of the result.
    :param whole: every cluster and every link, with what of the peer has arrived.
    """
    every = status.get("links", ())
    many = len(every) > LINKS_SHOWN and not whole
    lines = _cluster_lines(status.get("meshStatus", ()), every if many else None, whole)
    late = sorted(
        (link for link in every if not link["ready"] and link["stage"] != LinkStage.NOT_ASKED),
        key=lambda link: _STAGES.index(link["stage"]),
    )
    links = late[: BEHIND if len(status.get("meshStatus", ())) > CLUSTERS_SHOWN else LINKS_SHOWN] if many else every
    if links:
        probed = any(link.get("nodePaths") for link in links)
        head = ("link", "stage", "agents", *(("nodes",) if probed else ()), "last proof", "behind")
        rows = [_link_row(link, probed) for link in links]
        texts = _table(row if any(found[-1] for found in rows) else row[:-1] for row in [head, *rows])
        lines.append(Line(f"  {texts[0]}"))
        for link, text in zip(links, texts[1:], strict=True):
            lines.append(Line(f"  {text}", "green" if link["ready"] else "" if link["stage"] == LinkStage.NOT_ASKED else "yellow"))
            lines += [] if link["ready"] else _labelled_lines("error", link["error"])
            lines += _labelled_lines("has", _arrived(link)) if whole else []
    if many and len(late) > len(links):
        rest = Counter(str(link["stage"]) for link in late[len(links) :])
        kinds = ", ".join(f"{number} {stage}" for stage, number in rest.most_common())
        lines.append(Line(f"  and {count(rest.total(), 'more link')} not ready: {kinds}", "yellow"))
    lines += _node_lines(status)
    lines.append(Line(verdict(name, status), PHASE_COLOURS.get(str(status.get("phase")), "")))
    return lines


_STAGES: Final = tuple(stage.value for stage in LinkStage)
"""The stages of links, the one furthest behind first."""


def _cluster_lines(rows: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]] | None, whole: bool) -> list[Line]:
    """Return a heading and a row per cluster. ``links``: those of which each row counts the ready ones; None: no row does."""
    ready = Counter(link["cluster"] for link in links or () if link["ready"])
    total = Counter(link["cluster"] for link in links or ())
    shown, rest = list(rows), list[Mapping[str, Any]]()
    if len(rows) > CLUSTERS_SHOWN and not whole:
        behind = [row for row in rows if not row.get("connected") and row.get("asked", True)]
        shown = sorted(behind, key=lambda row: ready[row["clusterName"]] / (total[row["clusterName"]] or 1))[:BEHIND]
        named = {row["clusterName"] for row in shown}
        rest = [row for row in rows if row["clusterName"] not in named]
    cells = [
        ("cluster", "cilium name", "id", "nodes ready", "connected", *(("links ready",) if links is not None else ())),
        *(
            (
                row["clusterName"],
                row.get("ciliumName") or "-",
                str(row.get("clusterId") if row.get("clusterId") is not None else "-"),
                _nodes_ready(row) if row.get("asked", True) else "-",
                ("yes" if row.get("connected") else "no") if row.get("asked", True) else "not asked",
                *((f"{ready[row['clusterName']]}/{total[row['clusterName']]}",) if links is not None else ()),
            )
            for row in shown
        ),
    ]
    lines = [Line(f"  {text}") for text in _table(cells)] if shown or not rest else []
    return [*lines, Line(f"  {_rest_of_clusters(rest, more=bool(shown))}")] if rest else lines


def _rest_of_clusters(rows: Sequence[Mapping[str, Any]], *, more: bool) -> str:
    asked = [row for row in rows if row.get("asked", True)]
    nodes = f"nodes ready {sum(row.get('readyNodes', 0) for row in asked)}/{sum(row.get('totalNodes', 0) for row in asked)}"
    left_out = f", {len(rows) - len(asked)} not asked" if len(asked) < len(rows) else ""
    connected = f"{sum(bool(row.get('connected')) for row in asked)} connected"
    return (
        f"{'and ' if more else ''}{count(len(rows), 'more cluster' if more else 'cluster')}: {connected}, {nodes}{left_out}; -v shows each"
    )


def _nodes_ready(row: Mapping[str, Any]) -> str:
    """Return ``3/3``; ``100/100, 20 asked`` where a sample was asked."""
    asked, total = row.get("askedNodes", 0), row.get("totalNodes", 0)
    return f"{row.get('readyNodes', 0)}/{total}" + (f", {asked} asked" if 0 < asked < total else "")


def _node_lines(status: Mapping[str, Any]) -> list[Line]:
    """Return a line with the condition NodesReachable, unless it is met."""
    found = next((entry for entry in status.get("conditions", ()) if entry.get("type") == "NodesReachable"), None)
    if found is None or found.get("status") == "True":
        return []
    return [Line(f"  nodes: {_text(found.get('message', ''))}", "" if found.get("status") == "Unknown" else "yellow")]


def _link_row(link: Mapping[str, Any], probed: bool) -> tuple[str, ...]:
    name = f"{link['cluster']} -> {link['peer']}"
    if link["stage"] == LinkStage.NOT_ASKED:
        return (name, "not asked", "-", *(("-",) if probed else ()), "-", "")
    reader = "" if link["ready"] else link["reader"] or "no answer"
    total = link["nodesTotal"]
    agents = f"{link['nodesReady']}/{link['nodesAsked']} of {total}" if 0 < link["nodesAsked"] < total else f"{link['nodesReady']}/{total}"
    return (name, link["stage"], agents, *((_nodes_reached(link),) if probed else ()), _last_proof(link), reader)


def _arrived(link: Mapping[str, Any]) -> str:
    """Return ``3 nodes, 2 services, 41 endpoints, 17 identities``, the records of the peer in a cluster; "" where none is counted."""
    counts = link.get("arrived") or {}
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("nodes", "services", "endpoints", "identities") if kind in counts)


def _nodes_reached(link: Mapping[str, Any]) -> str:
    paths = link.get("nodePaths") or {}
    return f"{paths['reached']}/{paths['asked']}" if paths.get("asked") else "-"


def _last_proof(link: Mapping[str, Any]) -> str:
    """Return ``now, heartbeat 12 s old``, ``refuted``, ``unknown, last 2026-09-01T12:00:00Z``; "-" without a proof."""
    last, verdict = link.get("lastProof"), link.get("proof", "")
    if verdict == "proven":
        age = (last or {}).get("heartbeatAgeSeconds")
        return "now" if age is None else f"now, heartbeat {age} s old"
    if not last and verdict != "refuted" and not link.get("proofNote"):
        return "-"
    return str(verdict) + (f", last {last.get('time')}" if last else "")


def _severity(finding: Finding) -> str:
    return "accepted" if finding.accepted else finding.severity.value


def _where(finding: Finding) -> str:
    return f"{finding.item} {_place(finding)}".rstrip() if finding.item else _place(finding) or "mesh"


def _place(finding: Finding) -> str:
    """Return the cluster, or the pair; "" where the summary of a finding about an item begins with its clusters."""
    if finding.item and re.match(rf"{re.escape(finding.cluster)}(:|,| and )", finding.summary):
        return ""
    return f"{finding.cluster} -> {finding.peer}" if finding.peer else finding.cluster


def _labelled_lines(label: str, value: str) -> list[Line]:
    """Return evidence or fix of a finding, a line for each of its own; lines to copy are never broken."""
    texts = [part for part in value.splitlines() if part.strip()]
    heads = [f"      {label}: ", *[" " * (len(label) + 8)] * len(texts)]
    return [
        Line(
            f"{head}{' ' * (len(text) - len(text.lstrip()))}{one_line(text, WHOLE_LIMIT)}",
            hang=WHOLE if label == "fix" and to_copy(text) else len(head),
        )
        for head, text in zip(heads, texts, strict=False)
    ]
