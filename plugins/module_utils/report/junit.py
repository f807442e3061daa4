# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""JUnit report of findings for CI systems: a suite per cluster, one for the pairs and one for the mesh; a case per check.

A check without a finding is a case that passed, a check that could not run is skipped, and only a blocking finding is a failure. The
suite's properties have the severity of every check, the case's ``system-out`` the findings that do not block. The elements and
attributes are those of Jenkins' schema (jenkinsci/xunit-plugin, junit-10.xsd), which has no properties for a single case.

Text of clusters and tenants is hostile: control characters are not valid in XML 1.0, and the length of each line is limited.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..base.redact import one_line
from ..checks.registry import Check
from ..findings.finding import Finding, Scope

_LINE: Final = 8000  # characters; four times what a check lets its evidence have
_NAME: Final = 200
_PAIRS, _MESH = "pairs", "mesh"


@dataclass(frozen=True, kw_only=True)
class JUnitReport:
    """Checks and findings of one run.

    :param observed: inventory names of the clusters that answered; for the others, the checks of a cluster are skipped.
    :param checks: those that were run. A finding of another code is a case of its own.
    :param skipped: code -> why that check could not run.
    """

    name: str  # of the mesh
    clusters: tuple[str, ...]
    observed: frozenset[str]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    now: datetime  # aware
    skipped: Mapping[str, str] = field(default_factory=dict)


def junit(report: JUnitReport) -> bytes:
    """Return the report as XML in UTF-8."""
    scopes = {check.code: check.scope for check in report.checks}
    by_suite: dict[str, list[Finding]] = {suite: [] for suite in (*map(_cluster, report.clusters), _PAIRS, _MESH)}
    for finding in report.findings:
        by_suite[_suite_of(finding, scopes.get(finding.code), by_suite)].append(finding)
    root = ET.Element("testsuites", name=_text(report.name))
    for host in report.clusters:
        checks = [check for check in report.checks if check.scope is Scope.CLUSTER]
        why = "" if host in report.observed else "the cluster did not answer"
        _suite(root, _cluster(host), checks, by_suite[_cluster(host)], report, why)
    pairs = [check for check in report.checks if check.scope is Scope.PAIR]
    rest = [check for check in report.checks if check.scope not in (Scope.PAIR, Scope.CLUSTER)]
    for name, checks in ((_PAIRS, pairs), (_MESH, rest)):
        if checks or by_suite[name]:
            _suite(root, name, checks, by_suite[name], report, "")
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _cluster(host: str) -> str:
    """Return the name of a cluster's suite. The prefix is needed since a cluster may be called "mesh"."""
    return f"cluster {host}"


def _suite_of(finding: Finding, scope: Scope | None, suites: Mapping[str, object]) -> str:
    """Return the suite by the scope of the check; a finding of no check belongs to the cluster, or the pair, that it names."""
    own = _cluster(finding.cluster)
    if scope is Scope.PAIR or (scope is None and finding.peer):
        return _PAIRS
    return own if scope in (Scope.CLUSTER, None) and own in suites else _MESH


def _suite(root: ET.Element, name: str, checks: Iterable[Check], findings: Sequence[Finding], report: JUnitReport, unseen: str) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(name), timestamp=report.now.strftime("%Y-%m-%dT%H:%M:%S"), time="0")
    titles = {check.code: check.title for check in checks}
    severities = {check.code: check.severity.value for check in checks}
    for finding in findings:  # codes of no check
        titles.setdefault(finding.code, "")
        severities.setdefault(finding.code, finding.severity.value)
    properties = ET.SubElement(suite, "properties")
    for code, severity in sorted(severities.items()):
        ET.SubElement(properties, "property", name=f"severity.{_text(code)}", value=severity)
    for code in sorted(titles):
        case = ET.SubElement(suite, "testcase", name=_text(f"{code} {titles[code]}"), classname=_text(name), time="0")
        _fill(case, [f for f in findings if f.code == code], unseen or report.skipped.get(code, ""))
    for total, tag in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(total, str(sum(case.find(tag) is not None for case in suite.iter("testcase"))))
    suite.set("tests", str(len(titles)))
    suite.set("errors", "0")


def _fill(case: ET.Element, findings: Sequence[Finding], skipped: str) -> None:
    blocking = [finding for finding in findings if finding.blocks]
    if blocking:
        failure = ET.SubElement(case, "failure", type="blocking", message=_text(blocking[0].summary))
        failure.text = "\n".join(map(_described, blocking))
    if len(findings) > len(blocking):
        ET.SubElement(case, "system-out").text = "\n".join(_described(finding) for finding in findings if not finding.blocks)
    if not findings and skipped:
        ET.SubElement(case, "skipped", message=_text(skipped))


def _described(finding: Finding) -> str:
    where = f"{finding.cluster} -> {finding.peer}" if finding.peer else finding.cluster or "mesh"
    severity = f"{finding.severity.value}, accepted" if finding.accepted else finding.severity.value
    lines = [f"{severity}: {where}: {finding.summary}"]
    for label, text in (("read", finding.evidence), ("fix", finding.fix), ("page", finding.anchor)):
        lines += [f"  {label}: {line}" for line in text.splitlines() if line.strip()]
    return "\n".join(("  " if line.startswith("  ") else "") + one_line(line, _LINE) for line in lines)


def _text(value: str) -> str:
    return one_line(value, _NAME)
