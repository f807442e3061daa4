# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user reads in the status of a custom resource, and when it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BINDING, BY_KIND, EXPOSURE, FABRIC, INTENT, SERVICE
from mesh_operator.meshes.request import Wait
from mesh_operator.meshes.status import (
    row_of_binding,
    status_of_fabric,
    status_of_failed_run,
    status_of_result,
    status_of_waiting,
)
from mesh_operator.meshes.status_in_progress import while_assigning
from mesh_operator.runs.runner import RunResult, RunState
from mesh_operator.source.status_patch import SYNC_SECONDS, patch_of, worth_writing
from mesh_operator.source.stored import Stored
from tests.testing.crd_schema import misfits, schemas
from tests.testing.crd_statuses import Made, statuses
from tests.testing.facts_builders import NOW
from tests.testing.known import known
from tests.testing.rows import in_one_test, one_test

LATER = NOW + timedelta(seconds=60)
T0 = "2026-09-01T12:00:00Z"
SCHEMAS = {kind: schema["properties"]["status"] for kind, schema in schemas().items()}
CONNECTED = {"phase": "Connected", "conditions": [{"type": "Ready", "status": "True", "reason": "Connected", "message": ""}]}
EXPORTED = {"phase": "Exported", "conditions": [{"type": "Ready", "status": "True", "reason": "Exported", "message": ""}]}
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
MADE = [made for made in statuses() if made.kind != FABRIC]
NOT_FOUND = Wait(phase="Error", reason="MeshNotFound", message="ClusterMeshBinding x does not exist in this namespace")
NOT_READY = Wait(phase="Pending", reason="ClusterNotReady", message="ffm: not ready.")
RUN = RunResult(state=RunState.FAILED, rc=2, mesh_result=None, last_task="Connect the clusters", seconds=1.0)


def stored(kind: str, status: Mapping[str, Any] | None = None, *, name: str = "nginx", generation: int = 3, **spec: Any) -> Stored:
    obj = {"metadata": {"name": name, "generation": generation}, "spec": spec, **({"status": dict(status)} if status is not None else {})}
    return Stored(ObjectKey(kind, "w", "default", name), obj, "https://kcp/services/x")


def result_of(kind: str, status: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    """A mesh_result that has this status for the resource ``nginx`` of that kind, and another row beside it."""
    found: dict[str, Any] = {"binding": None, **{kind.value: [] for kind in ItemKind}}
    if kind == BINDING:
        found["binding"] = status
    elif status is not None:
        found[BY_KIND[kind].listed] = [{"name": "another", "phase": "Error", "conditions": []}, {"name": "nginx", **status}]
    return {"schema": 1, "status": found, "findings": [], **more}


def blocking(code: str = "CM-CIDR-01", **more: Any) -> dict[str, Any]:
    return {"code": code, "severity": "blocking", "accepted": False, "cluster": "ffm", "summary": "pod networks overlap", **more}


def conditions(status: Mapping[str, Any] | None) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in known(status)["conditions"]}


def message(status: Mapping[str, Any], kind: str = "Ready") -> str:
    return str(next(entry["message"] for entry in status["conditions"] if entry["type"] == kind))


def fits(kind: str, status: Mapping[str, Any]) -> None:
    """The API server would take it, and drop nothing."""
    assert misfits(dict(status), SCHEMAS[kind]) == []
    for entry in status["conditions"]:
        assert REASON.fullmatch(entry["reason"]) and len(entry["reason"]) <= 1024
        assert len(entry["message"]) <= 32768 and "\n" not in entry["message"]
        assert set(entry) == {"type", "status", "reason", "message", "lastTransitionTime"}


# What was measured


@in_one_test
@pytest.mark.parametrize("made", MADE, ids=lambda made: f"{made.kind} {made.about}")
def test_whatever_the_engine_says_becomes_a_status_that_the_crd_has(made: Made) -> None:
    found = known(status_of_result(stored(made.kind), result_of(made.kind, made.status), NOW))
    fits(made.kind, found)
    assert (found["phase"], found["observedGeneration"]) == (made.status["phase"], made.status.get("observedGeneration", 3))
    found, engine = without_advice(found), without_advice(made.status)
    assert conditions(found) == conditions(engine)
    stripped = [{**entry, "message": entry["message"].strip()} for entry in engine["conditions"]]
    whole = {**engine, "observedGeneration": found["observedGeneration"], "conditions": stripped}
    assert not worth_writing(found, whole, NOW)  # nothing got lost on the way


def without_advice(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status without its findings, and the conditions that sum them up."""
    rest = {key: value for key, value in status.items() if key != "findings"}
    return {**rest, "conditions": [entry for entry in status["conditions"] if entry["type"] != "Advised"]}


# Findings


def row(code: str, severity: str = "advisory", **more: Any) -> dict[str, Any]:
    return {"code": code, "severity": severity, "summary": f"{code} is so", "anchor": f"docs/runbooks/{code}.md", **more}


@pytest.mark.parametrize("where", ["findings", "advice"])
def test_findings_of_each_severity_reach_the_object_that_they_are_about(where: str) -> None:
    rows = [
        row("CM-OWN-02", "blocking", cluster="c1", accepted=True),
        row("CM-GS-02", "outage", item="globalServices/nginx"),
        row("CM-CERT-02", "remediable", cluster="c1", peer="c2", fix="renew it\nor not", evidence="secret/x"),
        row("CM-GS-31", item="globalServices/nginx"),
        row("CM-GS-33", item="globalServices/another"),
    ]
    result = {"status": {"binding": CONNECTED, "globalServices": [{"name": "nginx", **EXPORTED}]}, where: rows}
    binding, service = status_of_result(stored(BINDING), result, NOW), status_of_result(stored(SERVICE), result, NOW)
    assert binding is not None and service is not None
    fits(BINDING, binding)
    fits(SERVICE, service)
    assert [(found["code"], found["severity"]) for found in binding["findings"]] == [
        ("CM-OWN-02", "blocking"),
        ("CM-CERT-02", "remediable"),
    ]
    assert binding["findings"][0]["accepted"] is True
    assert binding["findings"][1] == {
        "code": "CM-CERT-02",
        "severity": "remediable",
        "cluster": "c1",
        "peer": "c2",
        "summary": "CM-CERT-02 is so",
        "fix": ["renew it", "or not"],
        "page": "docs/runbooks/CM-CERT-02.md",
    }
    assert [found["code"] for found in service["findings"]] == ["CM-GS-02", "CM-GS-31"]
    assert conditions(binding)["Advised"] == ("True", "FindingsReported") == conditions(service)["Advised"]
    later = status_of_result(stored(BINDING, status=binding), {**result, where: []}, NOW)
    assert later is not None and "findings" not in later and conditions(later)["Advised"] == ("False", "NoFindings")


@given(
    st.lists(
        st.builds(row, st.text(max_size=80), st.text(max_size=20), fix=st.text(max_size=2000), cluster=st.text(max_size=300)), max_size=60
    )
)
def test_findings_in_a_status_are_bounded_and_of_its_schema_whatever_they_say(rows: list[dict[str, Any]]) -> None:
    found = known(status_of_result(stored(BINDING), {"status": {"binding": CONNECTED}, "findings": rows}, NOW))
    fits(BINDING, found)
    assert len(json.dumps(found.get("findings", []))) < 20 * 16384


def test_a_resource_without_a_row_has_no_status_of_this_run() -> None:
    assert status_of_result(stored(SERVICE), result_of(SERVICE, None), NOW) is None
    assert status_of_result(stored(BINDING), result_of(BINDING, None), NOW) is None
    assert status_of_result(stored(SERVICE), {}, NOW) is None


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    def row(ready: str, reason: str) -> dict[str, Any]:
        return {"phase": "Exported", "conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": "m"}]}

    first = status_of_result(stored(SERVICE), result_of(SERVICE, row("True", "Exported")), NOW)
    same = status_of_result(stored(SERVICE, first), result_of(SERVICE, row("True", "Other")), LATER)
    other = status_of_result(stored(SERVICE, same), result_of(SERVICE, row("False", "Other")), LATER)
    assert same is not None and other is not None
    assert [status["conditions"][0]["lastTransitionTime"] for status in (same, other)] == [T0, "2026-09-01T12:01:00Z"]


def test_a_status_is_about_the_spec_that_was_carried_out_and_not_the_newest() -> None:
    found = status_of_result(stored(SERVICE, generation=9), result_of(SERVICE, {"phase": "Exported", "observedGeneration": 8}), NOW)
    assert found is not None and found["observedGeneration"] == 8


# What stopped a run


def test_a_finding_that_stops_the_mesh_is_reported_and_is_an_error_of_a_new_one() -> None:
    result = result_of(BINDING, None, findings=[blocking(), blocking("CM-ID-05", severity="advisory"), blocking("CM-ID-06", accepted=True)])
    found = known(status_of_result(stored(BINDING), result, NOW))
    fits(BINDING, found)
    assert (found["phase"], conditions(found)["Ready"]) == ("Error", ("False", "PrerequisiteNotMet"))
    assert message(found) == "CM-CIDR-01 ffm: pod networks overlap"


def test_a_mesh_that_was_connected_is_degraded_and_keeps_what_is_known_of_it() -> None:
    before = next(made.status for made in MADE if made.about == "connected")
    found = known(status_of_result(stored(BINDING, before), result_of(BINDING, None, findings=[blocking()]), LATER))
    fits(BINDING, found | {"links": []})
    assert (found["phase"], found["links"], found["lastSyncTime"]) == ("Degraded", before["links"], before["lastSyncTime"])
    assert conditions(found)["Degraded"] == ("True", "PrerequisiteNotMet")
    assert conditions(found)["MeshConnected"] == ("Unknown", "PrerequisiteNotMet")  # no reader was asked


def test_an_item_waits_while_its_mesh_is_not_carried_out() -> None:
    found = known(status_of_result(stored(SERVICE), result_of(SERVICE, None, findings=[blocking()]), NOW))
    assert (found["phase"], conditions(found)["Ready"][1]) == ("Pending", "MeshNotConnected")
    assert message(found) == "Nothing is written for the mesh: CM-CIDR-01 ffm: pod networks overlap"


def test_a_finding_about_one_item_says_nothing_of_the_others() -> None:
    result = result_of(INTENT, None, findings=[blocking(item="connectivityIntents/other")])
    assert status_of_result(stored(INTENT), result, NOW) is None and status_of_result(stored(BINDING), result, NOW) is None


def test_a_run_that_asked_no_cluster_failed() -> None:
    found = status_of_result(stored(BINDING), result_of(BINDING, None, findings=[blocking("CM-ERR-00")]), NOW)
    assert conditions(found)["Ready"] == ("False", "RunnerFailed")


# What is held


def test_a_mesh_that_waits_for_its_clusters_is_pending_and_so_are_its_items() -> None:
    mesh, item = status_of_waiting(stored(BINDING), NOT_READY, NOW), status_of_waiting(stored(EXPOSURE), NOT_READY, NOW)
    fits(BINDING, mesh)
    fits(EXPOSURE, item)
    assert (mesh["phase"], mesh["observedGeneration"], message(mesh)) == ("Pending", 3, "ffm: not ready.")
    assert conditions(mesh) == {"Ready": ("False", "ClusterNotReady"), "Degraded": ("False", "ClusterNotReady")}
    assert (item["phase"], conditions(item)["Accepted"]) == ("Pending", ("Unknown", "MeshNotConnected"))
    assert message(item) == "The mesh is not connected: ffm: not ready."


def test_an_item_without_a_mesh_is_not_accepted_and_nothing_of_it_stands() -> None:
    before = next(made.status for made in MADE if made.kind == SERVICE and made.status["phase"] == "Exported")
    found = status_of_waiting(stored(SERVICE, before), NOT_FOUND, NOW)
    fits(SERVICE, found)
    assert (found["phase"], conditions(found)["Accepted"]) == ("Error", ("False", "MeshNotFound"))
    assert "exportedClusters" not in found and "Exported" not in conditions(found)


def test_a_mesh_that_stands_and_of_which_no_cluster_can_be_reached_is_degraded() -> None:
    gone = Wait(phase="Error", reason="ClusterNotFound", message="m", standing=True)
    assert status_of_waiting(stored(BINDING, {"phase": "Connected"}), gone, NOW)["phase"] == "Degraded"
    item = status_of_waiting(stored(SERVICE, {"phase": "Exported", "exportedClusters": ["ffm"]}), gone, NOW)
    assert (item["phase"], item["exportedClusters"], conditions(item)["Ready"][1]) == ("Degraded", ["ffm"], "MeshNotConnected")
    assert status_of_waiting(stored(BINDING, {"phase": "Pending"}), gone, NOW)["phase"] == "Error"


def test_a_spec_that_was_accepted_stays_so_until_it_changes() -> None:
    before = {"observedGeneration": 3, "conditions": [{"type": "Accepted", "status": "True", "reason": "SpecValid", "message": ""}]}
    held = Wait(phase="Pending", reason="ClusterNotReady", message="m", standing=True)
    assert conditions(status_of_waiting(stored(SERVICE, before), held, NOW))["Accepted"] == ("True", "SpecValid")
    assert conditions(status_of_waiting(stored(SERVICE, before, generation=4), held, NOW))["Accepted"][0] == "Unknown"


# Runs without a result


@one_test(
    "before after",
    (None, "Error"),
    ({"phase": "Pending"}, "Pending"),
    ({"phase": "Error"}, "Error"),
    ({"phase": "Connecting"}, "Connecting"),
    ({"phase": "Connected"}, "Degraded"),
    ({"phase": "Degraded"}, "Degraded"),
)
def test_a_failed_run_degrades_what_was_good_and_leaves_other_phases(before: dict[str, Any] | None, after: str) -> None:
    found = status_of_failed_run(stored(BINDING, before), RUN, NOW)
    fits(BINDING, found)
    assert (found["phase"], conditions(found)["Ready"]) == (after, ("False", "RunnerFailed"))
    assert message(found) == "The run ended without a result, in task 'Connect the clusters'. It is tried again."


def test_a_run_that_took_too_long_says_so() -> None:
    ended = RunResult(state=RunState.TIMEOUT, rc=254, mesh_result=None, last_task="", seconds=900.0)
    found = status_of_failed_run(stored(SERVICE), ended, NOW)
    assert conditions(found)["Ready"] == ("False", "Timeout")
    assert message(found) == "The run ended without a result, before its first task. It is tried again."


# Fabrics


def test_a_fabric_is_as_bad_as_the_worst_of_its_bindings() -> None:
    connected = next(made.status for made in MADE if made.about == "connected")
    refs = [{"name": "c1"}, {"name": "c2"}]
    good = stored(BINDING, connected, name="good", clusterRefs=refs)
    fabric = stored(FABRIC, name="europe")
    found = status_of_fabric(fabric, [row_of_binding(*one) for one in {"good": good}.items()], NOW)
    fits(FABRIC, found)
    assert (found["phase"], found["counts"]["clusters"], found["observedGeneration"]) == ("Connected", {"total": 2, "connected": 2}, 3)
    new = stored(BINDING, None, name="new", clusterRefs=refs)
    assert status_of_fabric(fabric, [row_of_binding(*one) for one in {"good": good, "new": new}.items()], NOW)["phase"] == "Pending"
    lost = status_of_fabric(fabric, [row_of_binding(*one) for one in {"good": good, "lost": None}.items()], NOW)
    fits(FABRIC, lost)
    assert (lost["phase"], lost["bindings"][1]["message"]) == ("Error", "ClusterMeshBinding lost does not exist in this namespace")


# When it is written


def every_status(before: Stored, made: Made) -> list[Mapping[str, Any] | None]:
    """All that could be said of one resource."""
    stopped = result_of(made.kind, None, findings=[blocking()])
    return [
        status_of_result(before, result_of(made.kind, made.status), LATER),
        status_of_result(before, stopped, LATER),
        status_of_waiting(before, NOT_READY, LATER),
        status_of_waiting(before, NOT_FOUND, LATER),
        status_of_failed_run(before, RUN, LATER),
    ]


@given(st.sampled_from(MADE), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_the_same_said_twice_is_written_once(made: Made, history: list[int]) -> None:
    resource = stored(made.kind)
    for place in history:
        said = known(every_status(resource, made)[place])
        kept = patched(resource.obj.get("status") or {}, patch_of(resource.obj.get("status") or {}, said))
        assert kept == said
        resource = stored(made.kind, kept)
        again = every_status(resource, made)[place]
        assert again is not None and not worth_writing(kept, again, LATER) and again == said


def test_what_is_only_seen_once_more_is_reported_every_quarter_of_an_hour() -> None:
    connected = next(made.status for made in MADE if made.about == "connected")
    proof = {"time": "2026-09-01T12:05:00Z", "by": "kvstoremesh", "heartbeatAgeSeconds": 40}
    links = [{**link, "lastProof": {**proof, "by": (link["lastProof"] or proof)["by"]}} for link in connected["links"]]
    before = {**connected, "links": [{**link, "lastProof": link["lastProof"] or {"by": "kvstoremesh"}} for link in connected["links"]]}
    again = {**connected, "links": links, "lastSyncTime": "2026-09-01T12:05:00Z"}
    assert not worth_writing(before, again, NOW + timedelta(seconds=SYNC_SECONDS - 1))
    assert worth_writing(before, again, NOW + timedelta(seconds=SYNC_SECONDS))
    assert not worth_writing(before, before, NOW + timedelta(days=1))  # nothing was measured since
    assert worth_writing(before, {**again, "links": [{**link, "proof": "refuted"} for link in links]}, NOW)
    assert worth_writing(None, again, NOW)


def test_a_fabric_is_not_written_for_the_times_of_its_bindings() -> None:
    connected = next(made.status for made in MADE if made.about == "connected")
    fabric = stored(FABRIC, name="europe")
    first = status_of_fabric(fabric, [row_of_binding("a", stored(BINDING, connected, name="a"))], NOW)
    proven = [
        {**link, "lastProof": link["lastProof"] and {**link["lastProof"], "time": "2026-09-01T12:05:00Z"}} for link in connected["links"]
    ]
    fresh = {**connected, "links": proven, "lastSyncTime": "2026-09-01T12:05:00Z"}
    again = status_of_fabric(stored(FABRIC, first, name="europe"), [row_of_binding("a", stored(BINDING, fresh, name="a"))], LATER)
    assert again != first and not worth_writing(first, again, LATER)


def test_a_patch_takes_away_what_is_gone_within_mappings_too() -> None:
    before = {"phase": "Applied", "probeStatus": {"result": "proven", "success": True}, "appliedClusters": ["a", "b"]}
    after = {"phase": "Applied", "probeStatus": {"result": "unknown"}}
    patch = patch_of(before, after)
    assert patch == {"phase": "Applied", "probeStatus": {"result": "unknown", "success": None}, "appliedClusters": None}
    assert patched(before, patch) == after


def patched(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396, as an API server applies it."""
    found = dict(before)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = (
                patched(inner if isinstance(inner := before.get(key), Mapping) else {}, value) if isinstance(value, Mapping) else value
            )
    return found


# Hostile text


def hostile(value: Any, text: str) -> Any:
    """``value`` with every text in it replaced."""
    if isinstance(value, Mapping):
        return {
            key: inner if key in ("name", "type", "status", "phase", "lastSyncTime") else hostile(inner, text)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [hostile(inner, text) for inner in value]
    return text if isinstance(value, str) else value


TEXTS = [
    "\x1b[2J\n\u202e" + "x" * 70000,
    "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----",
    "Bearer abc.def",
    "",
    "9bad reason!",
]


@in_one_test
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("made", [made for made in MADE if made.about == "connected" or made.about.startswith("run: ")])
def test_what_clusters_say_reaches_a_status_short_printable_and_without_secrets(made: Made, text: str) -> None:
    found = known(status_of_result(stored(made.kind), result_of(made.kind, hostile(made.status, text)), NOW))
    for entry in found["conditions"]:
        assert REASON.fullmatch(entry["reason"]) and len(entry["message"]) <= 1024
    shown = repr(found)
    assert not any(bad in shown for bad in ("\\x1b", "\\n", "\\u202e", "MII", "abc.def"))
    assert len(shown) < 60_000


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_reported_of_a_failure_is_short_and_printable(text: str) -> None:
    run = RunResult(state=RunState.FAILED, rc=2, mesh_result=None, last_task=text, seconds=1.0)
    fits(SERVICE, status_of_failed_run(stored(SERVICE), run, NOW))
    fits(BINDING, status_of_waiting(stored(BINDING), Wait(phase="Error", reason=text, message=text), NOW))
    fits(BINDING, known(status_of_result(stored(BINDING), result_of(BINDING, None, findings=[blocking(text, summary=text)] * 500), NOW)))


@pytest.mark.parametrize("status", [None, "x", [], {"binding": "x"}, {"globalServices": ["x", {"name": ["nginx"]}, None]}])
def test_a_result_of_another_shape_says_nothing(status: Any) -> None:
    for kind in (BINDING, SERVICE):
        assert status_of_result(stored(kind), {"status": status, "findings": "x"}, NOW) is None


UNFINISHED = {"code": "CM-LEASE-15", "severity": "blocking", "cluster": "c3", "summary": "an assignment is not finished"}


@pytest.mark.parametrize("others", [(), ({"code": "CM-LEASE-14", "severity": "advisory"},), ({**UNFINISHED, "cluster": "c4"},)])
def test_a_mesh_whose_names_and_ids_are_being_assigned_is_on_its_way(others: tuple[dict[str, str], ...]) -> None:
    found = while_assigning({"status": {"binding": None, "globalServices": []}, "findings": [UNFINISHED, *others]})
    status = status_of_result(stored(BINDING), found, NOW)
    assert status is not None and status["phase"] == "Connecting"
    ready = next(row for row in status["conditions"] if row["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "AssigningIdentities") and "c3" in ready["message"]


@pytest.mark.parametrize("other", [{}, {"code": "CM-ENC-01", "severity": "blocking"}])
def test_a_mesh_that_something_else_blocks_is_not_on_its_way(other: dict[str, str]) -> None:
    result = {"status": {"binding": None}, "findings": [UNFINISHED, other] if other else []}
    assert while_assigning(result) == result
