# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The JUnit report of a run has a failure if and only if the run failed, and a case for each thing that the run judged."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.junit_result import junit_of_result
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import mesh_result
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.result_document import RunEnd


def finding(code: str = "CM-ID-01", severity: str = "blocking", **fields: Any) -> dict[str, Any]:
    found = {"code": code, "severity": severity, "accepted": False, "cluster": "c1", "peer": "", "summary": "of it", "evidence": "read"}
    return {**found, "fix": "do", "anchor": "docs/runbooks/x.md", **fields}


def link(stage: str, *, ready: bool) -> dict[str, Any]:
    return {"cluster": "c1", "peer": "c2", "stage": stage, "ready": ready, "error": "refused"}


def report(error: str, *, judges_changes: bool = False, **parts: Any) -> ET.Element:
    result = {**mesh_result({"findings": parts.pop("findings", []), "plan": {}}, {}), **parts}
    end = RunEnd(playbook="status", mesh="eu", time=datetime(2026, 9, 1, tzinfo=UTC), check_mode=False, error=error)
    return ET.fromstring(junit_of_result(result, end, judges_changes=judges_changes))


def cases(root: ET.Element) -> dict[str, str]:
    """Suite and case -> failure, skipped, system-out, or passed."""
    return {
        f"{suite.get('name')}/{case.get('name')}": next((part.tag for part in case), "passed")
        for suite in root
        for case in suite.iter("testcase")
    }


LOSS: dict[str, Any] = {"name": "c1 is gone", "verdict": "degraded", "harms": {"dead-backends": 1}, "summary": "x"}
STATUS: dict[str, Any] = {"binding": None, **{kind.value: [] for kind in ItemKind}}
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a finding": ({"findings": [finding()]}, "cluster c1/CM-ID-01"),
    "a finding about a pair": ({"findings": [finding(peer="c2")]}, "pairs/CM-ID-01"),
    "a link": ({"status": {**STATUS, "binding": {"links": [link("dialling", ready=False)]}}}, "links/c1 -> c2"),
    "a binding": ({"status": {**STATUS, "fabric": {"bindings": [{"name": "eu", "phase": "Degraded", "message": "x"}]}}}, "bindings/eu"),
    "an item": ({"status": {**STATUS, "globalServices": [{"name": "web", "phase": "Error", "conditions": []}]}}, "globalServices/web"),
    "a workload": ({"workloads": [{"name": "web", "status": {"phase": "Degraded", "conditions": []}}]}, "workloads/web"),
    "a hop": (
        {"explanation": {"hops": [{"hop": "link", "cluster": "c1", "verdict": "broken", "summary": "x", "evidence": [], "fix": ""}]}},
        "hops/link in c1",
    ),
    "a loss": ({"rehearsal": {"losses": [LOSS]}}, "losses/c1 is gone"),
    "a limit": (
        {"envelope": {"rows": [{"limit": "nodes", "cluster": "c1", "detail": "", "used": 9, "most": 8, "percent": 112, "unknownOf": []}]}},
        "limits/nodes c1",
    ),
}


@pytest.mark.parametrize("what", PARTS)
def test_what_is_wrong_is_a_failure_of_a_run_that_failed_and_else_a_text(what: str) -> None:
    parts, place = PARTS[what]
    failed, passed = report("it failed", **parts), report("", **parts)
    assert cases(failed)[place] == "failure" and cases(failed)["run/status"] == "failure"
    assert cases(passed)[place] == "system-out" and cases(passed)["run/status"] == "passed"
    assert (failed.get("failures"), passed.get("failures"), failed.get("tests")) == ("2", "0", "2")


def test_steps_are_cases_only_where_the_run_judges_changes() -> None:
    step = {"verb": "patch", "object": "Secret x", "cluster": "c1", "why": "it drifted"}
    plan: dict[str, Any] = {"plan": {"hash": "", "steps": [step]}}
    assert cases(report("There is 1 change.", judges_changes=True, **plan)) == {
        "run/status": "failure",
        "changes/patch Secret x in c1": "failure",
    }
    assert cases(report("", **plan)) == {"run/status": "passed"}


def test_a_link_that_works_passes_and_one_that_was_not_asked_is_skipped() -> None:
    links = [link("ready", ready=True), {**link(LinkStage.NOT_ASKED.value, ready=False), "peer": "c3"}]
    found = cases(report("other", status={**STATUS, "binding": {"links": links}}))
    assert (found["links/c1 -> c2"], found["links/c1 -> c3"]) == ("passed", "skipped")


def test_a_loss_of_which_nothing_is_known_is_skipped() -> None:
    unknown = {**LOSS, "verdict": "unknown", "harms": {}, "summary": "nothing is known of c1"}
    assert cases(report("other", rehearsal={"losses": [unknown]}))["losses/c1 is gone"] == "skipped"


def test_an_accepted_finding_is_no_failure() -> None:
    assert cases(report("other", findings=[finding(accepted=True)]))["cluster c1/CM-ID-01"] == "system-out"


@given(
    error=st.sampled_from(["", "it failed"]),
    findings=st.lists(
        st.builds(
            finding,
            severity=st.sampled_from(["blocking", "outage", "remediable", "advisory"]),
            cluster=st.text(max_size=5),
            peer=st.text(max_size=5),
            summary=st.text(max_size=20),
            evidence=st.text(max_size=20),
        ),
        max_size=5,
    ),
)
def test_there_is_a_failure_if_and_only_if_the_run_failed_whatever_clusters_say(error: str, findings: list[dict[str, Any]]) -> None:
    root = report(error, findings=findings)
    assert (root.get("failures") != "0") is bool(error)
    assert len(list(root.iter("failure"))) == int(root.get("failures") or 0)
