# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""JUnit report of a run, from ``mesh_result`` alone, so that every playbook has one. Pure.

It has a failure if and only if the run failed: what is wrong in a run that did not fail, as a blocking finding about one item, is the
``system-out`` of its case. Elements and attributes are those of report/junit.py. A case is the run itself, a code of findings in one place,
and each row that a playbook measures: links, items, hops, losses, limits, and the steps of a plan that should be empty.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..base.redact import one_line
from ..findings.finding import Severity
from ..mesh.binding.fleet_kinds import FleetKind
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.link_stage import LinkStage
from .result_document import RunEnd

_LINE: Final = 8000  # characters, as in report/junit.py
_NAME: Final = 200
_GOOD: Final = frozenset(kind.good for kind in ItemKind)

_Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class JUnitCase:
    """One thing that the run checked. ``wrong``: what is wrong with it; "" if nothing is. ``skipped``: why it was not checked."""

    suite: str
    name: str
    wrong: str = ""
    text: str = ""  # further lines
    skipped: str = ""


def junit_of_result(result: _Entry, end: RunEnd, *, judges_changes: bool = False) -> bytes:
    """Return the report as XML in UTF-8.

    :param judges_changes: the run fails where there is something to write: then each step is a case.
    """
    run = JUnitCase(suite="run", name=end.playbook or "playbook", wrong=end.error)
    suites: dict[str, list[JUnitCase]] = {"run": [run]}
    for case in _cases(result, judges_changes=judges_changes):
        suites.setdefault(case.suite, []).append(case)
    root = ET.Element("testsuites", name=one_line(end.mesh or end.playbook, _NAME))
    for name, cases in suites.items():
        _suite(root, name, cases, end)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: ET.Element, name: str, cases: Sequence[JUnitCase], end: RunEnd) -> None:
    suite = ET.SubElement(root, "testsuite", name=one_line(name, _NAME), timestamp=end.time.strftime("%Y-%m-%dT%H:%M:%S"), time="0")
    for entry in cases:
        case = ET.SubElement(suite, "testcase", name=one_line(entry.name, _NAME), classname=one_line(name, _NAME), time="0")
        lines = "\n".join(one_line(line, _LINE) for line in f"{entry.wrong}\n{entry.text}".splitlines() if line.strip())
        if entry.wrong and end.error:
            failure = ET.SubElement(case, "failure", type="failed", message=one_line(entry.wrong, _NAME))
            failure.text = lines
        elif entry.skipped:
            ET.SubElement(case, "skipped", message=one_line(entry.skipped, _NAME))
        elif lines:
            ET.SubElement(case, "system-out").text = lines
    for total, tag in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(total, str(sum(case.find(tag) is not None for case in suite)))
    suite.set("tests", str(len(cases)))
    suite.set("errors", "0")


def _cases(result: _Entry, *, judges_changes: bool) -> Iterator[JUnitCase]:
    yield from _findings(result["findings"])
    status = result["status"]
    for link in (status.get("binding") or {}).get("links") or ():
        yield _link(link)
    for binding in (status.get("fabric") or {}).get("bindings") or ():
        good = binding["phase"] == "Connected"
        wrong = "" if good else f"{binding['phase']}. {binding.get('message', '')}".strip()
        yield JUnitCase(suite="bindings", name=binding["name"], wrong=wrong)
    for kind in ItemKind:
        for row in status[kind.value]:
            yield JUnitCase(suite=kind.value, name=row["name"], wrong="" if row["phase"] in _GOOD else _reason(row))
    if judges_changes:
        for step in result["plan"]["steps"]:
            name = f"{step['verb']} {step['object']} in {step['cluster']}"
            yield JUnitCase(suite="changes", name=name, wrong=f"it would be written: {step['why']}")
    workloads = FleetKind.WORKLOAD
    for workload in result.get(workloads.reported) or ():
        good = workload["status"]["phase"] == workloads.good
        yield JUnitCase(suite=workloads.reported, name=workload["name"], wrong="" if good else _reason(workload["status"]))
    for hop in (result.get("explanation") or {}).get("hops") or ():
        where = f"{hop['hop']} in {hop['cluster']}" if hop["cluster"] else hop["hop"]
        broken, skipped = hop["verdict"] == "broken", hop["verdict"] == "skipped"
        fix = f"fix: {hop['fix']}" if hop["fix"] else ""
        text = "" if skipped else "\n".join(filter(None, ("" if broken else hop["summary"], *hop["evidence"], fix)))
        yield JUnitCase(
            suite="hops", name=where, wrong=hop["summary"] if broken else "", text=text, skipped=hop["summary"] if skipped else ""
        )
    for loss in (result.get("rehearsal") or {}).get("losses") or ():
        yield _loss(loss)
    for row in (result.get("envelope") or {}).get("rows") or ():
        yield _limit(row)


def _findings(findings: Sequence[_Entry]) -> Iterator[JUnitCase]:
    """Yield a case for each code in one place; a cluster may have several findings of a code."""
    cases: dict[tuple[str, str], list[_Entry]] = {}
    for finding in findings:
        suite = "pairs" if finding["peer"] else f"cluster {finding['cluster']}" if finding["cluster"] else "mesh"
        cases.setdefault((suite, finding["code"]), []).append(finding)
    for (suite, code), entries in cases.items():
        wrong = [entry for entry in entries if entry["severity"] == Severity.BLOCKING and not entry["accepted"]]
        text = "\n".join(_described(entry) for entry in entries)
        yield JUnitCase(suite=suite, name=code, wrong=wrong[0]["summary"] if wrong else "", text=text)


def _described(finding: _Entry) -> str:
    where = f"{finding['cluster']} -> {finding['peer']}" if finding["peer"] else finding["cluster"] or "mesh"
    severity = f"{finding['severity']}, accepted" if finding["accepted"] else finding["severity"]
    about = f"{finding['item']}: " if finding.get("item") else ""
    lines = [f"{severity}: {where}: {about}{finding['summary']}"]
    for label, key in (("read", "evidence"), ("fix", "fix"), ("page", "anchor")):
        lines += [f"  {label}: {line}" for line in str(finding[key]).splitlines() if line.strip()]
    return "\n".join(lines)


def _link(link: _Entry) -> JUnitCase:
    name = f"{link['cluster']} -> {link['peer']}"
    if link["stage"] == LinkStage.NOT_ASKED:
        return JUnitCase(suite="links", name=name, skipped="a limit leaves out the cluster that reads")
    return JUnitCase(suite="links", name=name, wrong="" if link["ready"] else f"{link['stage']}: {link['error'] or 'no error is known'}")


def _limit(row: _Entry) -> JUnitCase:
    name = " ".join(filter(None, (row["limit"], row["cluster"], row["detail"])))
    if row["used"] is None:
        return JUnitCase(suite="limits", name=name, skipped=f"not known of {', '.join(row['unknownOf'])}")
    text = f"{row['used']} of {row['most']}, {row['percent']} percent"
    return JUnitCase(
        suite="limits", name=name, wrong=text if row["used"] > row["most"] else "", text="" if row["used"] > row["most"] else text
    )


def _loss(row: _Entry) -> JUnitCase:
    if row["verdict"] == "unknown":
        return JUnitCase(suite="losses", name=row["name"], skipped=row["summary"])
    harmful = bool(row["harms"])
    return JUnitCase(suite="losses", name=row["name"], wrong=row["summary"] if harmful else "", text="" if harmful else row["summary"])


def _reason(row: _Entry) -> str:
    """Return phase, and reason and message of the condition Ready."""
    ready = next((entry for entry in row.get("conditions") or () if entry["type"] == "Ready"), None)
    return f"{row['phase']}: {ready['reason']}. {ready['message']}".strip() if ready else str(row["phase"])
