# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_result as the playbooks make it of one action's result, of two, and of none. One run of ``ansible-playbook`` makes all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from tests.testing.playbooks import run_warm


def finding(code: str, severity: str) -> dict[str, str]:
    return {"code": code, "severity": severity, "summary": f"of {code}"}


LINKS = {
    "changed": False,
    "findings": [finding("CM-ID-01", "blocking"), finding("CM-TOPO-02", "advisory"), finding("CM-API-01", "remediable")],
    "plan": {"hash": "a" * 64, "steps": [{"wave": 1}, {"wave": 2}], "options": {"purpose": "connect"}, "reliedOn": {"c1": {}}},
    "status": {"phase": "Connected"},
    "requeue_seconds": 300,
}
ITEMS: dict[str, Any] = {
    "changed": True,
    "findings": [finding("CM-ITEM-01", "blocking"), finding("CM-API-01", "remediable")],
    "plan": {"hash": "b" * 64, "steps": [{"wave": 13, "item": "globalServices/nginx"}], "options": {"purpose": "items"}, "reliedOn": {}},
    "status": {**{kind.value: [] for kind in ItemKind}, "globalServices": [{"name": "nginx"}]},
    "requeue_seconds": 30,
}
TEMPLATE = "{{ lookup('env', 'HOME') }}"
WHOLE: dict[str, Any] = {**LINKS, "status": {"binding": {"phase": "Connected"}, **ITEMS["status"]}}
FABRIC = {**LINKS, "status": {"name": "europe", "phase": "Connected"}}

CASES: dict[str, dict[str, Any]] = {
    "of_nothing": {"links": ["not_registered"]},
    "of_links": {"links": ["links"]},
    "of_items": {"items": ["items"]},
    "of_both": {"links": ["links"], "items": ["items"]},
    "of_a_whole_mesh": {"links": ["whole"], "whole": True},
    "of_the_first_that_ran": {"links": ["not_registered", "skipped", "links"], "items": ["skipped"]},
    "of_fabric": {"links": ["fabric"], "fabric": True},
    "of_explanation": {"links": ["explained"], "keys": ["explanation", "roll"]},
    "of_braces": {"links": ["braces"]},
    "of_further": {"links": ["links"], "items": ["items"], "more": ["skipped", "deleted", "not_registered"]},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("play")
    results = {
        "links": LINKS,
        "items": ITEMS,
        "fabric": FABRIC,
        "whole": WHOLE,
        "deleted": {
            "changed": True,
            "findings": [finding("CM-INT-34", "blocking")],
            "plan": {"hash": "c" * 64, "steps": [{"wave": 1, "verb": "delete"}]},
            "requeue_seconds": 5,
        },
        "skipped": {"skipped": True, "changed": False},
        "explained": {**LINKS, "explanation": {"verdict": "ok"}},
    }
    braces = {**LINKS, "findings": [finding("CM-API-01", "remediable") | {"evidence": TEMPLATE}]}
    (folder / "vars.json").write_text(json.dumps(results), encoding="utf-8")
    tasks: list[dict[str, Any]] = [
        {"name": "What a cluster said", "ansible.builtin.set_fact": {"braces": "{{ lookup('file', 'braces.json') | from_json }}"}},
        *({"name": name, "edge_portal.cilium_mesh.mesh_publish": options, "register": name} for name, options in CASES.items()),
    ]
    (folder / "braces.json").write_text(json.dumps(braces), encoding="utf-8")
    # Each task publishes over the one before, so what each published is read from its own result.
    kept = {name: f"{{{{ {name}.ansible_stats.data.mesh_result }}}}" for name in CASES}
    tasks.append({"name": "Keep all", "ansible.builtin.set_stats": {"data": {"each": kept}, "aggregate": False}})
    play = [{"hosts": "localhost", "gather_facts": False, "vars_files": ["vars.json"], "tasks": tasks}]
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps(play), encoding="utf-8")
    run = run_warm(str(playbook), inventory="localhost,", made_up=True)
    assert run.rc == 0, run.output
    data = run.stats["artifact_data"]
    assert data["mesh_result"] == data["each"][list(CASES)[-1]], "the statistic is what the last task made"
    return dict(data["each"])


def test_a_run_that_ended_before_its_action_says_so(made: dict[str, Any]) -> None:
    result = made["of_nothing"]
    assert [f["code"] for f in result["findings"]] == ["CM-ERR-00"]
    assert (result["changed"], result["plan"]["hash"], result["plan"]["steps"], result["requeueSeconds"]) == (False, "", [], 60)
    assert result["status"] == {"binding": None, **{kind.value: [] for kind in ItemKind}}


def test_the_result_of_one_action_is_taken_over(made: dict[str, Any]) -> None:
    links, items = made["of_links"], made["of_items"]
    assert (links["plan"], links["status"]["binding"], links["requeueSeconds"]) == (LINKS["plan"], {"phase": "Connected"}, 300)
    assert [f["code"] for f in links["findings"]] == ["CM-ID-01", "CM-TOPO-02", "CM-API-01"]
    assert (items["plan"], items["status"]) == (ITEMS["plan"], {"binding": None, **ITEMS["status"]})


def test_of_two_actions_everything_is_there_once_and_what_blocks_comes_first(made: dict[str, Any]) -> None:
    both = made["of_both"]
    assert [f["code"] for f in both["findings"]] == ["CM-ID-01", "CM-ITEM-01", "CM-TOPO-02", "CM-API-01"]
    assert both["plan"]["hash"] == "", "what has two plans cannot be approved by one hash"
    assert [step["wave"] for step in both["plan"]["steps"]] == [1, 2, 13]
    assert (both["changed"], both["requeueSeconds"]) == (True, 30)
    assert both["status"]["binding"]["phase"] == "Connected" and both["status"]["globalServices"] == [{"name": "nginx"}]


def test_a_further_action_adds_its_steps_and_findings_and_is_no_part_of_the_hash(made: dict[str, Any]) -> None:
    both, more = made["of_both"], made["of_further"]
    assert more["plan"]["steps"] == [*both["plan"]["steps"], {"wave": 1, "verb": "delete"}]
    assert (more["plan"]["hash"], more["requeueSeconds"], more["changed"]) == ("", both["requeueSeconds"], True)
    assert sorted(entry["code"] for entry in more["findings"]) == sorted(["CM-INT-34", *(entry["code"] for entry in both["findings"])])


def test_the_result_of_a_whole_mesh_is_taken_over_with_the_status_of_links_and_items(made: dict[str, Any]) -> None:
    whole = made["of_a_whole_mesh"]
    assert (whole["plan"], whole["status"], whole["requeueSeconds"]) == (LINKS["plan"], WHOLE["status"], 300)


def test_a_fabric_has_no_status_of_one_binding(made: dict[str, Any]) -> None:
    status = made["of_fabric"]["status"]
    assert (status["binding"], status["fabric"]) == (None, {"name": "europe", "phase": "Connected"})


def test_the_result_of_the_first_action_that_ran_counts(made: dict[str, Any]) -> None:
    assert made["of_the_first_that_ran"] == made["of_links"]


def test_further_keys_are_published_where_they_are_asked_for(made: dict[str, Any]) -> None:
    assert (made["of_explanation"]["explanation"], made["of_explanation"]["roll"]) == ({"verdict": "ok"}, None)
    assert "explanation" not in made["of_links"]


def test_what_a_cluster_said_is_never_a_template(made: dict[str, Any]) -> None:
    assert made["of_braces"]["findings"][0]["evidence"] == TEMPLATE


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    playbook = tmp_path / "play.yml"
    task = {"name": "Publish", "edge_portal.cilium_mesh.mesh_publish": {"link": ["links"]}}
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]), encoding="utf-8")
    run = run_warm(str(playbook), inventory="localhost,", made_up=True)
    assert run.rc != 0 and "link" in run.output and "mesh_result" not in run.stats.get("artifact_data", {}), run.output


def test_a_run_writes_its_metrics_and_replaces_no_foreign_file(tmp_path: Path) -> None:
    def published(status: dict[str, Any], file: Path, **more: Any) -> Any:
        variables = {"links": {**LINKS, "status": status, "findings": [], **more}}
        options = {"links": ["links"], "metrics_file": str(file), "metrics_run": "status", "metrics_mesh": "eu"}
        task = {"name": "Publish", "edge_portal.cilium_mesh.mesh_publish": options}
        playbook = tmp_path / "play.yml"
        playbook.write_text(
            json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}]), encoding="utf-8"
        )
        return run_warm(str(playbook), inventory="localhost,", made_up=True)

    def status(stage: str) -> dict[str, Any]:
        links = [{"cluster": a, "peer": b, "stage": stage, "ready": stage == "ready"} for a, b in ("xy", "yx")]
        return {"phase": "Connecting", "meshStatus": [{"clusterName": "x"}, {"clusterName": "y"}], "links": links}

    file = tmp_path / "eu.prom"
    for stage, state in (("dialling", "never_joined"), ("ready", "joined"), ("dialling", "down")):
        run = published(status(stage), file, failed=stage != "ready")
        assert run.rc == 0, run.output
        text = file.read_text(encoding="utf-8")
        assert f'cilium_mesh_member_state{{mesh="eu",run="status",cluster="x",state="{state}"}} 1\n' in text
        assert f'cilium_mesh_run_success{{mesh="eu",run="status"}} {int(stage == "ready")}\n' in text
        assert sorted(path.name for path in tmp_path.iterdir()) == ["eu.prom", "play.yml"]
    foreign = tmp_path / "node.prom"
    foreign.write_text("node_load1 0.5\n", encoding="utf-8")
    run = published(status("ready"), foreign)
    assert run.rc == 2 and "holds something else than metrics of this collection" in run.output
    assert foreign.read_text(encoding="utf-8") == "node_load1 0.5\n"
