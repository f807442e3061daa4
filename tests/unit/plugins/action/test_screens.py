# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run that ends before it contacts a cluster: the screens of docs/screens that need no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.testing.playbooks import run_playbook, run_warm
from tests.testing.rows import in_one_test
from tests.testing.screens import FOLDER, LINES_OF_A_FAILURE, WIDTHS, failure_of, problems_of, screen_of, table

from .conftest import mesh

BOTH = {"cilium_mesh": mesh("cluster-ffm-1", "cluster-ber-2")}
HOSTS = {name: {"cilium_mesh_kubeconfig": f"/nowhere/{name}.yaml"} for name in ("cluster-ffm-1", "cluster-ber-2")}
INVENTORY = {"all": {"vars": {"ansible_connection": "local"}, "hosts": HOSTS}}

SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "verify-without-kubeconfigs-fails": ("verify", BOTH),
    "mesh-with-a-misspelled-variable-fails": ("mesh", {**BOTH, "cilium_mesh_stat": "absent"}),
    "connect-without-a-binding-fails": ("connect", {}),
}


@in_one_test
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_screen_is_as_it_is_kept(name: str, width: int) -> None:
    playbook, variables = SITUATIONS[name]
    run = run_warm(playbook, inventory=INVENTORY, variables=variables, environment={"COLUMNS": str(width)})
    assert run.rc == 2, run.output
    assert problems_of(name, width, run) == []


def test_the_table_of_screens_is_current_and_no_failure_is_longer_than_it_may_be() -> None:
    found = table()
    assert (FOLDER / "README.md").read_text(encoding="utf-8").endswith(found), "make screens"
    rows = [line.split("|") for line in found.splitlines()[2:]]
    failures = [int(row[5]) for row in rows if row[5].strip() != "-"]
    assert (len(rows), len(failures)) == (20, 11) and max(failures) <= LINES_OF_A_FAILURE
    assert {len(list((FOLDER / place).glob("*.txt"))) for place in ("before", *map(str, WIDTHS))} == {len(rows)}


@pytest.mark.slow
def test_a_failure_is_short_in_the_terminal_of_awx_and_as_yaml() -> None:
    """In the terminal of 80 columns that ansible-runner makes, as AWX does."""
    environment = {"COLUMNS": "", "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}
    run = run_playbook("connect", inventory=INVENTORY, variables=BOTH, environment=environment)
    failure = failure_of(screen_of(run))
    assert 5 < len(failure) <= LINES_OF_A_FAILURE and max(map(len, failure)) <= 80, run.output
    assert '"findings"' not in run.output and "findings:" not in run.output.replace("Findings:", "")


@pytest.mark.slow
def test_where_another_program_reads_standard_output_the_result_has_the_whole_message() -> None:
    run = run_playbook("connect", inventory=INVENTORY, variables=BOTH, environment={"ANSIBLE_STDOUT_CALLBACK": "minimal"})
    _, _, end = run.output.partition("FAILED! => ")
    said = json.loads(end.partition("\n}")[0] + "}")
    assert set(said) <= {"changed", "failed", "msg"}
    assert said["msg"].startswith("CM-API-02, ") and "page: docs/runbooks/CM-API-02.md" in said["msg"]
    assert [row["code"] for row in run.result["findings"]] == ["CM-API-02", "CM-API-02"], "and the artifact has the findings"


@pytest.mark.slow
def test_a_role_that_failed_can_be_rescued_and_its_result_says_why(tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    role = {"ansible.builtin.import_role": {"name": "edge_portal.cilium_mesh.mesh_connect"}}
    said = {"ansible.builtin.debug": {"msg": "rescued, since {{ mesh_connect_result.msg }}, by {{ ansible_failed_result.msg }}"}}
    tasks = [{"name": "Try", "block": [{"name": "Connect", **role}], "rescue": [{"name": "Say", "run_once": True, **said}]}]
    play.write_text(json.dumps([{"name": "Play", "hosts": "all", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    run = run_warm(str(play), inventory=INVENTORY, variables=BOTH)
    assert run.rc == 0 and "rescued, since 2 blocking findings (CM-API-02); nothing was written anywhere." in run.output
    assert "by CM-API-02, cluster-" in run.output
