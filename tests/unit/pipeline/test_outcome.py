# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The result of an action, as playbooks and other programs read it."""

from __future__ import annotations

import json

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.tables import count
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import (
    Interrupted,
    Outcome,
    Recorder,
    after_disconnect,
    failure_findings,
    finding_of,
    refusal_sentence,
)
from tests.testing.facts_builders import failure
from tests.testing.rows import one_test

BLOCKING = Finding(code="CM-CIDR-01", severity=Severity.BLOCKING, cluster="c1", summary="Pod networks overlap")


def test_a_result_has_every_key_also_when_nothing_happened_and_is_plain_json() -> None:
    result = Outcome().to_result()
    assert result == {
        "changed": False,
        "findings": [],
        "plan": {"hash": "", "steps": []},
        "status": None,
        "mesh": [],
        "requests": {},
        "requeue_seconds": 60,
    }
    assert json.loads(json.dumps(Outcome(findings=(BLOCKING,), error="x").to_result()))["failed"] is True


def test_an_error_fails_the_task_and_keeps_what_was_found() -> None:
    result = Outcome(changed=True, findings=(BLOCKING,), error="1 of 2 steps done").to_result()
    assert (result["failed"], result["msg"], result["changed"]) == (True, "1 of 2 steps done", True)
    assert result["findings"][0]["anchor"] == "docs/runbooks/CM-CIDR-01.md"


@one_test(
    "outcome seconds",
    (Outcome(status={"phase": "Connected"}), 300),
    (Outcome(status={"phase": "Connecting"}), 15),
    (Outcome(status={"phase": "Degraded"}), 60),
    (Outcome(changed=True), 15),
    (Outcome(changed=True, error="writing failed"), 60),
    (Outcome(), 60),
)
def test_the_time_until_the_requeue_follows_the_phase(outcome: Outcome, seconds: int) -> None:
    assert outcome.requeue_seconds == seconds


def test_a_refusal_names_the_codes_once_and_what_it_means() -> None:
    findings = (BLOCKING, BLOCKING, Finding(code="CM-VER-02", severity=Severity.ADVISORY, summary="Versions differ"))
    assert refusal_sentence(findings, "nothing was written anywhere.") == "2 blocking findings (CM-CIDR-01); nothing was written anywhere."
    assert refusal_sentence(findings[2:], "nothing was written anywhere.") == ""


def test_an_accepted_finding_refuses_nothing() -> None:
    accepted = Finding(code="CM-CIDR-01", severity=Severity.BLOCKING, summary="Pod networks overlap", accepted=True)
    assert refusal_sentence([accepted], "x") == ""


def test_errors_of_the_engine_become_findings_with_their_remedy() -> None:
    found = finding_of(Unreachable("The API server does not answer.", remedy="Start it.", cluster="c2"))
    assert (found.code, found.cluster, found.fix, found.blocks) == ("CM-API-01", "c2", "Start it.", True)
    (silent,) = failure_findings([failure("c2")], Severity.REMEDIABLE, "It is left as it is.")
    assert (silent.cluster, silent.evidence, silent.blocks) == ("c2", "It is left as it is.", False)


def test_a_mesh_taken_apart_has_no_status_unless_a_cluster_was_silent() -> None:
    assert after_disconnect([]) is None
    status = after_disconnect(["c2"])
    assert status is not None
    assert status["phase"] == "Degraded"
    assert "c2" in status["conditions"][0]["message"]


def test_nouns_agree_with_their_number() -> None:
    assert [count(n, "link") for n in (0, 1, 2)] == ["0 links", "1 link", "2 links"]


def test_an_error_after_a_write_leaves_with_what_was_written() -> None:
    with pytest.raises(Interrupted) as stopped, Recorder(Outcome(clusters=("c1",))) as recorder:
        recorder.note(changed=True, findings=(BLOCKING,))
        raise Unreachable("no answer", cluster="c1")
    assert stopped.value.outcome == Outcome(clusters=("c1",), changed=True, findings=(BLOCKING,))
    assert isinstance(stopped.value.error, Unreachable)
