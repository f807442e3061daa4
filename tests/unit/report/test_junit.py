# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The JUnit report: every check is a case, only what blocks is a failure, and nothing that a tenant wrote breaks the document."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Scope, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.junit import JUnitReport, junit
from tests.testing.facts_builders import NOW, cluster_facts, context_of, failure
from tests.testing.known import known

EVERY = tuple(registered().values())

# What jenkinsci/xunit-plugin's junit-10.xsd allows, of what is used here: element -> (attributes, those required, children).
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"name"}, {"failure", "skipped", "system-out"}),
    "failure": ({"type", "message"}, set(), set()),
    "skipped": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def report(*findings: Finding, **values: Any) -> JUnitReport:
    made: dict[str, Any] = {"name": "edge-mesh-eu", "clusters": ("c1", "c2"), "observed": frozenset({"c1", "c2"}), "checks": EVERY}
    return JUnitReport(**{**made, "findings": findings, "now": NOW, **values})


def parsed(made: JUnitReport) -> ET.Element:
    root = ET.fromstring(junit(made))
    for element in root.iter():
        allowed, required, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= allowed, element.tag
        assert {child.tag for child in element} <= children, element.tag
    for suite in root:
        cases = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(cases))
        for total, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert suite.get(total) == str(sum(case.find(tag) is not None for case in cases))
    for total in ("tests", "failures", "errors"):
        assert root.get(total) == str(sum(int(suite.get(total, "")) for suite in root))
    return root


def case(root: ET.Element, suite: str, code: str) -> ET.Element:
    (found,) = [c for s in root if s.get("name") == suite for c in s.iter("testcase") if (c.get("name") or "").partition(" ")[0] == code]
    return found


def finding(code: str, severity: Severity = Severity.BLOCKING, **values: Any) -> Finding:
    return Finding(
        **{"code": code, "severity": severity, "cluster": "c1", "summary": "it is so", "evidence": "read there", "fix": "do this", **values}
    )


def test_a_healthy_mesh_has_a_passed_case_for_every_check() -> None:
    root = parsed(report())
    names = [suite.get("name") for suite in root]
    assert names == ["cluster c1", "cluster c2", "pairs", "mesh"]
    of_one = [check for check in EVERY if check.scope is Scope.CLUSTER]
    counts = {suite.get("name"): int(suite.get("tests", "")) for suite in root}
    assert counts["cluster c1"] == counts["cluster c2"] == len(of_one)
    assert counts["cluster c1"] + counts["pairs"] + counts["mesh"] == len(EVERY)
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert all(len(c) == 0 for c in root.iter("testcase"))


def test_severities_stand_in_the_properties_of_the_suite() -> None:
    root = parsed(report())
    found = {p.get("name"): p.get("value") for p in root.iter("property")}
    assert found == {f"severity.{check.code}": check.severity.value for check in EVERY}


def test_only_what_blocks_is_a_failure() -> None:
    root = parsed(
        report(
            finding("CM-CERT-03"),
            finding("CM-CERT-04", Severity.REMEDIABLE),
            finding("CM-PROBE-03", Severity.ADVISORY, cluster="c2"),
            finding("CM-ELB-01", accepted=True),
        )
    )
    assert root.get("failures") == "1"
    failed = case(root, "cluster c1", "CM-CERT-03")[0]
    assert (failed.tag, failed.get("type"), failed.get("message")) == ("failure", "blocking", "it is so")
    assert known(failed.text).splitlines() == [
        "blocking: c1: it is so",
        "  read: read there",
        "  fix: do this",
        "  page: docs/runbooks/CM-CERT-03.md",
    ]
    texts = {
        code: case(root, suite, code).findtext("system-out") or ""
        for suite, code in (("cluster c1", "CM-CERT-04"), ("cluster c2", "CM-PROBE-03"), ("cluster c1", "CM-ELB-01"))
    }
    assert [text.partition(":")[0] for text in texts.values()] == ["remediable", "advisory", "blocking, accepted"]
    assert len(case(root, "cluster c2", "CM-CERT-03")) == 0


def test_a_finding_goes_to_the_scope_of_its_check() -> None:
    root = parsed(report(finding("CM-EP-05", peer="c2"), finding("CM-ID-05", peer="c2"), finding("CM-ERR-00", cluster="")))
    assert case(root, "pairs", "CM-EP-05").find("failure") is not None
    assert case(root, "mesh", "CM-ID-05").find("failure") is not None
    assert case(root, "mesh", "CM-ERR-00").get("name") == "CM-ERR-00"


def test_of_a_cluster_that_does_not_answer_the_checks_are_skipped_and_the_reason_fails() -> None:
    context = context_of(cluster_facts("c1"), failures=[failure("c2")])
    root = parsed(report(*run_checks(context), observed=frozenset({"c1"})))
    assert case(root, "cluster c2", "CM-API-01").find("failure") is not None
    assert known(case(root, "cluster c2", "CM-CERT-03").find("skipped")).get("message") == "the cluster did not answer"
    assert len(case(root, "cluster c1", "CM-CERT-03")) == 0


def test_checks_that_could_not_read_are_skipped_and_those_that_were_not_run_are_left_out() -> None:
    one = tuple(check for check in EVERY if check.scope is Scope.CLUSTER)
    root = parsed(report(checks=one, skipped={"CM-PROBE-01": "probe is off"}))
    assert [suite.get("name") for suite in root] == ["cluster c1", "cluster c2"]
    assert known(case(root, "cluster c1", "CM-PROBE-01").find("skipped")).get("message") == "probe is off"


def test_a_run_that_ended_before_any_cluster_was_asked_is_one_failed_case() -> None:
    early = JUnitReport(name="", clusters=(), observed=frozenset(), checks=(), findings=(finding("CM-INPUT-01", cluster=""),), now=NOW)
    root = parsed(early)
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in root] == [("mesh", "1", "1")]


def test_a_cluster_called_mesh_keeps_its_findings_to_itself() -> None:
    root = parsed(report(finding("CM-CERT-03", cluster="mesh"), clusters=("mesh", "pairs"), observed=frozenset({"mesh", "pairs"})))
    assert case(root, "cluster mesh", "CM-CERT-03").find("failure") is not None


HOSTILE = st.text(max_size=200) | st.sampled_from(["]]><x/>", "\x00\x1b[31m", "&#0;", "\ud800", "\uffff\u202e", "a\nb\r\n\x0bc", "<!--"])


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_whatever_a_tenant_wrote_the_document_is_whole(summary: str, evidence: str, fix: str, name: str) -> None:
    hostile = finding("CM-CERT-03", summary=summary, evidence=evidence, fix=fix)
    made = report(hostile, replace(hostile, severity=Severity.ADVISORY, cluster=name), name=name, clusters=("c1", f"another{name}"))
    root = parsed(made)
    texts = [text for element in root.iter() for text in (*element.attrib.values(), element.text or "")]
    assert all(c.isprintable() or c in "\n " for text in texts for c in text)
    assert root.get("failures") == "1"
