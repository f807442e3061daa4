# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_result as the playbooks make it of one action's result, of two, and of none. One run of ``ansible-playbook`` makes all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.playbooks import run_playbook


def finding(code: str, severity: str) -> dict[str, str]:
    return {"code": code, "severity": severity, "summary": f"of {code}"}


LINKS = {
    "changed": False,
    "findings": [finding("CM-ID-01", "blocking"), finding("CM-TOPO-02", "advisory"), finding("CM-API-01", "remediable")],
    "plan": {"hash": "a" * 64, "steps": [{"wave": 1}, {"wave": 2}], "options": {"purpose": "connect"}, "reliedOn": {"c1": {}}},
    "status": {"phase": "Connected"},
    "requeue_seconds": 300,
}
ITEMS = {
    "changed": True,
    "findings": [finding("CM-ITEM-01", "blocking"), finding("CM-API-01", "remediable")],
    "plan": {"hash": "b" * 64, "steps": [{"wave": 13, "item": "globalServices/nginx"}], "options": {"purpose": "items"}, "reliedOn": {}},
    "status": {"globalServices": [{"name": "nginx"}], "connectivityIntents": [], "exposedServices": []},
    "requeue_seconds": 30,
}
FABRIC = {**LINKS, "status": {"name": "europe", "phase": "Connected"}}

CASES: dict[str, dict[str, Any]] = {
    "of_nothing": {},
    "of_links": {"mesh_run": LINKS},
    "of_items": {"mesh_items_run": ITEMS},
    "of_both": {"mesh_run": LINKS, "mesh_items_run": ITEMS, "mesh_both": True},
    "of_taken_away": {"mesh_run": LINKS, "mesh_items_run": ITEMS, "mesh_both": True, "mesh_items_first": True},
    "of_links_alone_of_both": {"mesh_run": LINKS, "mesh_both": True},
    "of_fabric": {"mesh_run": FABRIC},
    "of_disconnect": {
        "mesh_run": LINKS,
        "cilium_mesh": {"binding": {}, "globalServices": [], "connectivityIntents": [{"name": "web"}]},
        "mesh_more_findings": "{{ [mesh_finding_of_items] }}",
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("play")
    tasks = [
        {
            "name": name,
            "ansible.builtin.set_stats": {
                "data": {name: "{{ mesh_result_of_fabric }}" if name == "of_fabric" else "{{ mesh_result_of_run }}"},
                "aggregate": False,
            },
            "vars": given,
        }
        for name, given in CASES.items()
    ]
    variables = str(CHECKOUT / "playbooks" / "vars" / "mesh_result.yml")
    play = [{"hosts": "localhost", "gather_facts": False, "vars_files": [variables], "tasks": tasks}]
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps(play), encoding="utf-8")
    run = run_playbook(str(playbook), inventory="localhost,")
    assert run.rc == 0, run.output
    return dict(run.stats["artifact_data"])


def test_a_run_that_ended_before_its_action_says_so(made: dict[str, Any]) -> None:
    result = made["of_nothing"]
    assert [f["code"] for f in result["findings"]] == ["CM-ERR-00"]
    assert (result["changed"], result["plan"]["hash"], result["plan"]["steps"], result["requeueSeconds"]) == (False, "", [], 60)
    assert result["status"] == {"binding": None, "globalServices": [], "connectivityIntents": [], "exposedServices": []}


def test_the_result_of_one_action_is_taken_over(made: dict[str, Any]) -> None:
    links, items = made["of_links"], made["of_items"]
    assert (links["plan"], links["status"]["binding"], links["requeueSeconds"]) == (LINKS["plan"], {"phase": "Connected"}, 300)
    assert [f["code"] for f in links["findings"]] == ["CM-ID-01", "CM-TOPO-02", "CM-API-01"]
    assert (items["plan"], items["status"]) == (ITEMS["plan"], {"binding": None, **ITEMS["status"]})  # type: ignore[dict-item]


def test_of_two_actions_everything_is_there_once_and_what_blocks_comes_first(made: dict[str, Any]) -> None:
    both = made["of_both"]
    assert [f["code"] for f in both["findings"]] == ["CM-ID-01", "CM-ITEM-01", "CM-TOPO-02", "CM-API-01"]
    assert both["plan"]["hash"] == "a" * 64 + "." + "b" * 64
    assert [step["wave"] for step in both["plan"]["steps"]] == [1, 2, 13]
    assert (both["changed"], both["requeueSeconds"]) == (True, 30)
    assert both["status"]["binding"]["phase"] == "Connected" and both["status"]["globalServices"] == [{"name": "nginx"}]


def test_what_is_taken_away_first_comes_first_and_the_hash_stays_in_its_order(made: dict[str, Any]) -> None:
    assert [step["wave"] for step in made["of_taken_away"]["plan"]["steps"]] == [13, 1, 2]
    assert made["of_taken_away"]["plan"]["hash"] == made["of_both"]["plan"]["hash"]


def test_half_a_plan_has_no_hash_that_could_be_approved(made: dict[str, Any]) -> None:
    assert made["of_links_alone_of_both"]["plan"]["hash"] == ""


def test_a_fabric_has_no_status_of_one_binding(made: dict[str, Any]) -> None:
    status = made["of_fabric"]["status"]
    assert (status["binding"], status["fabric"]) == (None, {"name": "europe", "phase": "Connected"})


def test_disconnect_names_the_items_that_it_leaves(made: dict[str, Any]) -> None:
    last = made["of_disconnect"]["findings"][-1]
    assert (last["code"], last["severity"]) == ("CM-ITEM-20", "advisory")
    assert last["evidence"] == "connectivityIntents of cilium_mesh are not empty"
