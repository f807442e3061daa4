# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A run that is forked from a warm process shows, returns and publishes what a run of its own process does."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from mesh_operator.runs import runner as runs
from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.statuses.heads import head_of_mesh
from mesh_operator.statuses.item_statuses import statuses_of_items
from tests.testing.playbooks import PlaybookRun, run_playbook, run_warm

MESH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}


def inventory(missing: Path) -> dict[str, Any]:
    """Two hosts whose kubeconfigs are not there: the run fails with a finding and needs no server."""
    hosts = {name: {"cilium_mesh_kubeconfig": str(missing / name)} for name in ("c1", "c2")}
    return {"all": {"vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}, "hosts": hosts}}


def essence(run: PlaybookRun) -> dict[str, object]:
    counts = {key: value for key, value in run.stats.items() if key in ("changed", "dark", "failures", "ok", "processed", "skipped")}
    results = [
        {key: value for key, value in event["event_data"]["res"].items() if not key.startswith("_")}
        for event in map(json.loads, run.events)
        if event["event"] in ("runner_on_ok", "runner_on_failed")
    ]
    return {"rc": run.rc, "status": run.status, "results": results, "mesh_result": run.mesh_result, "counts": counts}


def head_of(result: dict[str, Any] | None) -> object:
    """What the operator gets of a result without items."""
    assert result is not None
    try:
        next(statuses_of_items(result, (), datetime.now(UTC), head_of_mesh))
    except StopIteration as ended:
        return ended.value
    pytest.fail("it has items")


@pytest.mark.slow
def test_a_forked_run_is_like_one_of_its_own_process(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "inventory": inventory(tmp_path),
        "variables": {"cilium_mesh": MESH},
        "arguments": ["--check", "--limit", "'!c2'"],
    }
    for playbook in ("connect", "mesh", "verify"):
        forked, real = run_warm(playbook, **given), run_playbook(playbook, **given)
        assert forked.rc != 0 and "CM-API-02" in forked.finding_codes(), forked.output
        assert essence(forked) == essence(real)
        assert forked.output.rstrip().splitlines() == real.output.rstrip().splitlines()


@pytest.mark.slow
def test_forked_runs_know_nothing_of_each_other(tmp_path: Path) -> None:
    def run(number: int) -> PlaybookRun:
        return run_warm("connect", inventory=inventory(tmp_path / str(number)), variables={"cilium_mesh": MESH})

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(run, range(8)))
    for number, found in enumerate(ended):
        places = {finding["summary"] for finding in found.result["findings"]}
        assert places == {f"Kubeconfig {tmp_path / str(number) / name} does not exist." for name in ("c1", "c2")}


@pytest.mark.slow
def test_a_run_that_cannot_begin_says_why(tmp_path: Path) -> None:
    run = run_warm("no_such_playbook", inventory=inventory(tmp_path))
    assert run.rc != 0 and "no_such_playbook" in run.output and run.mesh_result is None


@pytest.mark.slow
def test_a_run_of_the_operator_is_like_one_of_its_own_process(tmp_path: Path) -> None:
    hosts = inventory(tmp_path)["all"]["hosts"]
    request = runs.RunRequest(playbook="mesh", hosts=hosts, variables={"cilium_mesh": MESH}, name="edge")
    tasks: list[str] = []
    with closing(ConfinedProcesses("", runs.HANDLER, runs.settings_of_runs)) as processes:
        forked = runs.Runner(processes, tmp_path / "runs").run(request, Event(), tasks.append)
    real = run_playbook("mesh", inventory=inventory(tmp_path), variables={"cilium_mesh": MESH})
    assert forked.mesh_result == head_of(real.mesh_result)
    assert (forked.rc, forked.state.value) == (real.rc, real.status)
    events = [event for event in map(json.loads, real.events) if event["event"] == "playbook_on_task_start"]
    assert tasks == [event["event_data"]["task"] for event in events] and forked.last_task == tasks[-1]
