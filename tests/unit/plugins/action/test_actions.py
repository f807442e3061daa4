# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The actions: what they decide, say and return, over clusters that are played on facts."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.arguments import ARGUMENTS
from tests.testing.facts_builders import cluster_facts, failure
from tests.testing.rows import one_test
from tests.testing.terminal import shown
from tests.unit.plugins.action.conftest import World, mesh

BOTH = mesh("c1", "c2")


def test_connect_writes_waits_and_reports_the_status(make_world: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_connect", mesh=BOTH)
    assert "failed" not in result, result
    assert result["changed"] is True
    assert world.writes == len(result["plan"]["steps"]) > 0
    assert result["status"]["phase"] == "Connected"
    assert result["mesh"] == ["c1", "c2"]
    assert result["requests"] == {"c1": 8, "c2": 8}
    assert world.output[-1] == "edge-mesh-eu: Connected (2/2 clusters, 2/2 links ready)"


def test_a_second_connect_changes_nothing(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_connect", mesh=BOTH)
    written = world.writes
    again = world.run("mesh_connect", mesh=BOTH)
    assert (again["changed"], again["plan"]["steps"], world.writes) == (False, [], written)


def test_check_mode_promises_what_the_run_then_does_and_writes_nothing(make_world: Any) -> None:
    world: World = make_world()
    before = world.clusters.facts()
    promised = world.run("mesh_connect", mesh=BOTH, check=True, diff=True)
    assert promised["changed"] is True
    assert promised["status"] is None
    assert (world.writes, world.clusters.facts()) == (0, before)
    headers = {entry["after_header"] for entry in promised["diff"]}
    assert "c1/kube-system/Secret/cilium-kvstoremesh" in headers
    done = world.run("mesh_connect", mesh=BOTH)
    assert done["plan"]["steps"] == promised["plan"]["steps"]


@pytest.mark.parametrize(("action", "check"), [("mesh_connect", True), ("mesh_plan", False)])
def test_a_check_with_changes_fails_where_that_is_asked(make_world: Any, action: str, check: bool) -> None:
    world: World = make_world()
    asked = world.run(action, mesh=BOTH, check=check, fail_on_changes=True)
    steps = len(asked["plan"]["steps"])
    assert (asked["failed"], world.writes, asked["changed"]) == (True, 0, check)
    assert asked["msg"] == f"There are {steps} changes to make, and fail_on_changes is set. Nothing was written."
    assert "failed" not in world.run(action, mesh=BOTH, check=check)
    assert "failed" not in world.run("mesh_connect", mesh=BOTH, fail_on_changes=True)  # without check mode it writes
    assert "failed" not in world.run(action, mesh=BOTH, check=check, fail_on_changes=True)


def test_options_that_a_module_does_not_have_are_named_as_that(make_world: Any) -> None:
    result = make_world().run("mesh_connect", mesh=BOTH, kubeconfig="/x", api_key="x", paralel=3)
    named = "api_key, kubeconfig, paralel (did you mean parallel?)"
    assert result["msg"].startswith(f"CM-INPUT-01: The module has no options of these names: {named}. ")
    assert result["msg"].count("he options are") == 1, "they are listed once"
    assert "cilium_mesh_kubeconfig, or cilium_mesh_auth with these options (docs/inventory.md)" in result["msg"]


STRUCTURED = [
    (module, name, option["type"], option.get("elements", ""))
    for module, options in ARGUMENTS.items()
    if module not in ("mesh_end", "mesh_publish")  # which playbooks call with values of their own
    for name, option in options.items()
    if option.get("type") in ("dict", "list")
]


@one_test("module name kind elements", *STRUCTURED)
def test_every_mapping_and_list_may_be_a_text_of_yaml_and_what_is_none_is_refused_with_its_place(
    make_world: Any, module: str, name: str, kind: str, elements: str
) -> None:
    world: Any = make_world()
    result = world.run(module, **{name: "[\n  canary: {\n"})
    assert result["msg"].startswith(f"CM-INPUT-01: {name} is a text that cannot be read as YAML, line 3, column 1: it is not YAML. ")
    other = "- a" if kind == "dict" else "a: 1\nb: 2"
    says = "a list, and not a mapping" if kind == "dict" else "a mapping, and not a list"
    assert f"CM-INPUT-01: {name} is a text of YAML that says {says}. " in world.run(module, **{name: other})["msg"]
    assert not world.contacted


def test_a_mesh_as_a_text_is_the_mesh(make_world: Any) -> None:
    world: World = make_world()
    text = yaml.safe_dump(BOTH)
    assert world.run("mesh_plan", mesh=text)["plan"]["hash"] == world.run("mesh_plan", mesh=BOTH)["plan"]["hash"]
    assert "are not set" in world.run("mesh_plan", mesh="", accept=" ")["msg"], "an answer that is empty is none"


def test_a_first_verification_without_a_binding_says_so(make_world: Any) -> None:
    world: World = make_world()
    assert "failed" not in world.run("mesh_verify", probe=False)
    assert world.output[0].startswith("No binding says which clusters become a mesh: every host of the play is checked")
    assert "are not set" in world.run("mesh_verify", probe=False, purpose="disconnect")["msg"]


def test_a_folder_that_does_not_exist_is_refused_before_a_cluster_is_asked(make_world: Any, tmp_path: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_plan", mesh=BOTH, plan_json=str(tmp_path / "nowhere" / "plan.json"))
    assert "plan_json: there is no folder" in result["msg"] and not world.contacted


def test_an_unknown_variable_is_refused_before_a_cluster_is_asked(make_world: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_connect", mesh=BOTH, more={"cilium_mesh_stat": "absent"})
    assert "cilium_mesh_stat is not known; did you mean cilium_mesh_state? Correct" in result["msg"] and not world.contacted
    assert "failed" not in world.run("mesh_connect", mesh=BOTH, more={"cilium_mesh_mine": {"changed": True, "failed": False}})


def test_without_diff_there_is_none(make_world: Any) -> None:
    assert "diff" not in make_world().run("mesh_connect", mesh=BOTH, check=True)


def test_a_blocking_finding_anywhere_means_that_nothing_is_written_anywhere(make_world: Any) -> None:
    world: World = make_world(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"}))
    result = world.run("mesh_connect", mesh=BOTH)
    assert result["failed"] is True
    assert result["msg"].endswith("nothing was written anywhere.")
    assert world.writes == 0
    codes = {finding["code"] for finding in result["findings"] if finding["severity"] == "blocking"}
    assert codes and all(code in result["msg"] for code in codes)
    assert any(line.startswith("Findings:") for line in world.output)


def test_a_cluster_that_does_not_answer_stops_connect(make_world: Any) -> None:
    world: World = make_world()
    world.failures = {"c2": failure("c2")}
    result = world.run("mesh_connect", mesh=BOTH)
    assert result["failed"] is True
    assert [(f["code"], f["cluster"]) for f in result["findings"]] == [("CM-API-01", "c2")]
    assert world.writes == 0


def test_a_failing_write_is_reported_with_what_was_done(make_world: Any) -> None:
    world: World = make_world()
    world.refusing = {"c2": Forbidden("patch secrets is not allowed.", remedy="Extend the role.", cluster="c2")}
    result = world.run("mesh_connect", mesh=BOTH)
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["findings"][0]["code"] == "CM-API-03"
    assert "writing failed in c2" in result["msg"]
    world.refusing = {}
    assert world.run("mesh_connect", mesh=BOTH)["status"]["phase"] == "Connected"


def test_links_that_do_not_come_up_fail_with_their_stage(make_world: Any) -> None:
    world: World = make_world()
    world.ready = False
    result = world.run("mesh_connect", mesh=BOTH, wait_timeout=0)
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["msg"].startswith("CM-LINK-02: edge-mesh-eu: Connecting")
    assert "2 links are not ready, in stage dialling: c1 -> c2 and c2 -> c1" in result["msg"]
    assert [finding["code"] for finding in result["findings"]] == ["CM-LINK-02"]
    assert result["status"]["phase"] == "Connecting"


def test_a_wait_in_a_terminal_is_one_line_that_changes_and_goes(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = make_world()
    written: list[str] = []

    def display(text: str, color: str | None = None, newline: bool = True) -> None:
        written.append(text + "\n" * newline)

    monkeypatch.setattr(mesh_action, "Display", lambda: SimpleNamespace(verbosity=0, display=display))
    monkeypatch.setattr(mesh_action, "is_redrawn", lambda: True)
    monkeypatch.setattr(mesh_action, "width_of_terminal", lambda: 100)
    world.ready = False
    world.run("mesh_connect", mesh=BOTH, wait_timeout=0)
    seen = [shown("".join(written[: number + 1])) for number in range(len(written))]
    waits = [text for text in seen if " s of 0 s" in text]
    assert waits and all(text.count(" s of 0 s") == 1 for text in waits), "an earlier state, also a longer one, is written over"
    assert "0 of 2 links ready, c1 -> c2: dialling" in waits[-1]
    assert all(text.endswith("\n") for text in waits), "what Ansible prints of an interruption begins a line"
    last = max(number for number, text in enumerate(seen) if " s of 0 s" in text)
    assert seen[last + 1].splitlines() == [*seen[last].splitlines()[:-1], ""], "the line is empty before another one is printed"


def test_without_waiting_nothing_is_measured(make_world: Any) -> None:
    world: World = make_world()
    world.ready = False
    result = world.run("mesh_connect", mesh=BOTH, wait=False)
    assert (result["changed"], result["status"], "failed" in result) == (True, None, False)


def test_disconnect_takes_everything_away_again(make_world: Any) -> None:
    world: World = make_world()
    before = world.clusters.facts()
    world.run("mesh_connect", mesh=BOTH)
    result = world.run("mesh_connect", mesh=BOTH, state="absent")
    assert (result["changed"], result["status"]) == (True, None)
    after = world.clusters.facts()
    assert {h: (f.clustermesh.keys, f.kvstoremesh.keys, f.users.users) for h, f in after.items()} == {
        h: (f.clustermesh.keys, f.kvstoremesh.keys, f.users.users) for h, f in before.items()
    }
    assert world.run("mesh_connect", mesh=BOTH, state="absent")["changed"] is False
    assert world.output[-1] == "edge-mesh-eu: disconnected (2/2 clusters)"


@pytest.mark.parametrize("action", ["mesh_connect", "mesh_plan"])
def test_items_that_stay_after_a_disconnect_are_named_where_no_link_is_left(make_world: Any, action: str) -> None:
    world: World = make_world(*(cluster_facts(host, version="1.20.0") for host in ("c1", "c2", "c3")))
    lists = {"globalServices": [{"name": "web", "namespace": "shop"}], "connectivityIntents": [], "exposedServices": "x"}
    given = {"mesh_connect": {"state": "absent"}, "mesh_plan": {"purpose": "disconnect"}}[action]

    def named(**more: Any) -> list[str]:
        found = world.run(action, **{"mesh": {**mesh("c1", "c2", "c3"), **lists}, **given, **more}, check=True)["findings"]
        return [entry["evidence"] for entry in found if entry["code"] == "CM-ITEM-20"]

    assert named() == ["globalServices, exposedServices of cilium_mesh are not empty"]
    assert "CM-ITEM-20" in "".join(world.output)
    assert named(clusters=["c3"]) == named(hosts=["c3"]) == [], "c1 and c2 stay linked"
    assert named(clusters=["c2", "c3"]) == named(), "c1 alone is no mesh"
    assert named(mesh=mesh("c1", "c2", "c3")) == []


def test_a_dead_peer_does_not_hinder_the_others_from_leaving_it(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_connect", mesh=BOTH)
    world.failures = {"c2": failure("c2")}
    result = world.run("mesh_connect", mesh=BOTH, state="absent")
    assert (result["failed"], result["incomplete"], result["changed"]) == (True, True, True)
    assert result["msg"].startswith("No answer from 1 member (c2), and none may be silent")
    assert result["status"]["phase"] == "Degraded"
    assert [(f["cluster"], f["severity"]) for f in result["findings"]] == [("c2", "remediable")]
    assert world.clusters.facts()["c1"].kvstoremesh.keys == {}


def test_disconnect_fails_when_no_cluster_answers(make_world: Any) -> None:
    world: World = make_world()
    world.failures = {host: failure(host) for host in ("c1", "c2")}
    assert world.run("mesh_connect", mesh=BOTH, state="absent")["failed"] is True


def test_one_of_three_leaves_and_the_others_stay_connected(make_world: Any) -> None:
    world: World = make_world(*(cluster_facts(f"c{n}", version="1.20.0") for n in (1, 2, 3)))
    three = mesh("c1", "c2", "c3")
    world.run("mesh_connect", mesh=three)
    result = world.run("mesh_connect", mesh=three, state="absent", clusters=["c3"])
    assert result["status"]["phase"] == "Connected"
    assert [row["clusterName"] for row in result["status"]["meshStatus"]] == ["c1", "c2"]
    facts = world.clusters.facts()
    assert "c2" in facts["c1"].kvstoremesh.keys
    assert "c3" not in facts["c1"].kvstoremesh.keys
    assert facts["c3"].kvstoremesh.keys == {}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"state": "absent", "clusters": ["c9"]}, "c9"),
        ({"clusters": ["c1"]}, "state=absent"),
        ({"accept": ["CM-NONE-77"]}, "CM-NONE-77"),
        ({"accept": ["CM-INST-01"]}, "cannot be accepted"),
        ({"trust": "blind"}, "trust"),
        ({"wait_timeout": "soon"}, "wait_timeout"),
        ({"timeout": 3}, "timeout"),
        ({"async_val": 30}, "asynchronous"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_written(make_world: Any, args: dict[str, Any], says: str) -> None:
    world: World = make_world()
    result = world.run("mesh_connect", mesh=BOTH, **args)
    assert result["failed"] is True
    assert result["msg"].startswith("CM-INPUT-01: ")
    assert says in result["msg"]
    assert world.writes == 0


def test_a_defect_is_reported_without_its_text_and_without_hiding_the_change(make_world: Any) -> None:
    world: World = make_world()
    world.defect = RuntimeError("-----BEGIN PRIVATE KEY----- canary")
    result = world.run("mesh_connect", mesh=BOTH)
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["msg"].startswith("CM-ERR-99: Unexpected RuntimeError at conftest.py:")
    assert [finding["code"] for finding in result["findings"]] == ["CM-ERR-99"]
    assert "canary" not in json.dumps(result)
    assert "exception" not in result


def test_verify_finds_nothing_in_a_sound_mesh(make_world: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_verify", mesh=BOTH)
    assert "failed" not in result, result
    assert [f for f in result["findings"] if f["severity"] == "blocking"] == []
    assert result["changed"] is False


def test_verify_fails_on_a_blocking_finding_unless_an_option_forbids_it(make_world: Any) -> None:
    world: World = make_world(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"}))
    failed = world.run("mesh_verify", mesh=BOTH)
    assert failed["failed"] is True
    quiet = world.run("mesh_verify", mesh=BOTH, fail_on="never", report=False)
    assert "failed" not in quiet
    assert quiet["findings"] == failed["findings"]


def test_report_false_prints_nothing(make_world: Any) -> None:
    world: World = make_world()
    for action in ("mesh_verify", "mesh_connect", "mesh_status"):
        world.run(action, mesh=BOTH, report=False)
    assert world.output == []


def test_one_cluster_can_be_verified_by_itself(make_world: Any) -> None:
    world: World = make_world(cluster_facts("c1", version="1.20.0", config={"cluster-id": "0"}))
    assert "at least two" in world.run("mesh_verify")["msg"]
    result = world.run("mesh_verify", purpose="cluster")
    assert result["failed"] is True
    assert {f["cluster"] for f in result["findings"]} == {"c1"}
    assert all(f["code"].startswith("CM-ID-") for f in result["findings"] if f["severity"] == "blocking")


def test_what_would_stop_a_connect_may_not_stop_a_disconnect(make_world: Any) -> None:
    world: World = make_world(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"}))
    assert "failed" not in world.run("mesh_verify", mesh=BOTH, purpose="disconnect")


def test_status_fails_only_when_another_phase_is_expected(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_connect", mesh=BOTH)
    world.ready = False
    measured = world.run("mesh_status", mesh=BOTH)
    assert ("failed" in measured, measured["status"]["phase"]) == (False, "Connecting")
    expected = world.run("mesh_status", mesh=BOTH, expected="Connected")
    assert expected["failed"] is True
    assert "in stage dialling: c1 -> c2" in expected["msg"]
    assert [finding["code"] for finding in expected["findings"]] == ["CM-LINK-02"] and measured["findings"] == []
    world.ready = True
    assert "failed" not in world.run("mesh_status", mesh=BOTH, expected="Connected")


def test_status_names_a_cluster_that_does_not_answer(make_world: Any) -> None:
    world: World = make_world()
    world.failures = {"c2": failure("c2")}
    result = world.run("mesh_status", mesh=BOTH)
    assert result["status"]["phase"] != "Connected"
    assert [f["cluster"] for f in result["findings"]] == ["c2"]


def test_facts_are_plain_data_of_every_host_of_the_play(make_world: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_info")
    assert result["clusters"]["c1"]["name"] == "c1"
    assert result["clusters"]["c2"]["id"] == 2
    assert json.loads(json.dumps(result))["clusters"]["c1"]["server_cert"]["present"] is True


def test_facts_fail_when_a_cluster_is_silent_and_still_hold_the_others(make_world: Any) -> None:
    world: World = make_world()
    world.failures = {"c2": failure("c2")}
    result = world.run("mesh_info")
    assert (result["failed"], list(result["clusters"])) == (True, ["c1"])
    assert "c2" in result["msg"]


def test_findings_that_a_run_made_before_it_wrote_are_called_so(make_world: Any) -> None:
    facts = cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0")
    late = [replace(entry, apiserver=replace(entry.apiserver, ready=0)) for entry in facts if entry.apiserver]
    world: World = make_world(*late)
    world.run("mesh_connect", mesh=BOTH, fails_later=True)
    assert world.writes and "Findings from before the writes: 2 remediable" in world.output
    again: World = make_world(*late)
    again.run("mesh_connect", mesh=BOTH, fails_later=True, check=True)
    assert "Findings: 2 remediable" in again.output
