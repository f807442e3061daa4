# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator's own memory while a run goes on does not depend on what a tenant writes or a cluster answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mesh_operator.runs import runner as runs
from mesh_operator.runs.run_events import LARGEST, MOST, EventRefused, Events
from tests.collection_path import CHECKOUT
from tests.testing.memory_cgroup import memory_cgroup

MIB = 1024 * 1024
CONTAINER = 1024 * MIB  # bytes of the cgroup: what a run takes with the operator and the fork server


def measured(folder: Path, data: str, kind: str = "", before: str = "") -> dict[str, Any]:
    """Make one run that publishes ``data``, in a memory cgroup if there can be one, and return what the process says (measured_run.py)."""
    publish = f"{{name: Publish, run_once: true, set_stats: {{per_host: false, aggregate: false, data: {{mesh_result: {data}}}}}}}"
    play = folder / "play.yml"
    tasks = f"[{before}{', ' if before else ''}{publish}]"
    play.write_text(f"- hosts: all\n  gather_facts: false\n  tasks: {tasks}\n", encoding="utf-8")
    path = os.pathsep.join((str(runs.COLLECTIONS_PATH), str(CHECKOUT / "operator"), str(CHECKOUT)))
    command = [sys.executable, "-m", "tests.testing.measured_run", str(folder / "runs"), str(play), kind]
    with (
        memory_cgroup(CONTAINER) as cgroup,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        ) as operator,
    ):
        if cgroup is not None:
            cgroup.take(operator.pid)
        said, _ = operator.communicate("go\n", timeout=300)
        assert operator.returncode == 0
        if cgroup is not None:
            print(f"all processes and files: {cgroup.peak() // MIB} MiB")
            assert cgroup.killed() == 0
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    print(f"the operator: {found['grown'] // MIB} MiB more; {found}")
    return found


@pytest.mark.slow
def test_two_thousand_intents_of_256_ports_cost_the_operator_no_memory(tmp_path: Path) -> None:
    found = measured(tmp_path, "{count: '{{ cilium_mesh.connectivityIntents | length }}'}", "intents")
    assert (found["state"], found["result"]) == ("successful", "{'count': 2000}")
    assert found["grown"] < 8 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{x: \"{{ 'x' * 20000000 }}\"}", "larger than 16 MiB"),
        ("{x: \"{{ 'x' * 40000000 }}\"}", "larger than 16 MiB"),  # more than a file of a run may have
        ("{x: '{{ range(1000000) | list }}'}", "too many values"),
    ],
)
def test_a_result_that_is_too_large_is_no_result_and_the_status_says_so(tmp_path: Path, data: str, why: str) -> None:
    found = measured(tmp_path, data)
    assert (found["state"], found["result"]) == ("failed", "None")
    assert found["sentence"].startswith("The run ended without a result, in task 'Publish': one of its events") and why in found["sentence"]
    assert found["grown"] < 3 * LARGEST


@pytest.fixture
def events(tmp_path: Path) -> Events:
    (tmp_path / "job_events").mkdir()
    return Events(tmp_path, lambda _: None)


def written(events: Events, uuid: str, result: Any) -> Path:
    file = events.folder / "job_events" / f"{uuid}-partial.json"
    file.write_text(json.dumps({"event": "playbook_on_stats", "event_data": {"artifact_data": {"mesh_result": result}}}), encoding="utf-8")
    return file


def test_an_event_is_read_once_and_kept_nowhere(events: Events) -> None:
    file = written(events, "a-1", {"x": 1})
    events.take("a-1")
    assert events.mesh_result == {"x": 1} and not file.exists()


def test_a_run_cannot_make_the_operator_read_another_file_or_wait(events: Events, tmp_path: Path) -> None:
    """As if a member's answer had taken over the process of a run."""
    secret = written(events, "secret", {"token": "x"})
    folder = secret.parent
    (folder / "link-partial.json").symlink_to(secret)
    os.mkfifo(folder / "pipe-partial.json")
    (folder / "folder-partial.json").mkdir()
    for uuid in ("link", "pipe", "folder", "absent", "../job_events/secret", "x" * 100, None, 3, ["secret"]):
        events.take(uuid)
    assert events.mesh_result is None and secret.exists()


@pytest.mark.parametrize("result", [3, [1], "x", None])
def test_a_result_of_another_shape_is_none(events: Events, result: Any) -> None:
    written(events, "a", result)
    events.take("a")
    assert events.mesh_result is None


def test_a_run_without_end_of_events_is_ended(events: Events) -> None:
    for _ in range(MOST):
        events.take(None)
    with pytest.raises(EventRefused, match="more than"):
        events.take(None)


@pytest.mark.slow
def test_the_largest_result_that_is_taken_costs_a_small_multiple_of_its_size(tmp_path: Path) -> None:
    found = measured(tmp_path, f"{{x: \"{{{{ 'x' * {LARGEST - MIB} }}}}\"}}")
    assert found["result"].startswith("{'x': 'xxxx")
    assert found["grown"] < 6 * LARGEST


@pytest.mark.slow
def test_what_a_play_prints_does_not_come_into_the_memory_of_the_operator(tmp_path: Path) -> None:
    """Ansible prints the message of a task that fails, and ansible-runner keeps all that it reads."""
    printing = "{name: Print, fail: {msg: \"{{ 'x' * 30000000 }}\"}, ignore_errors: true}"
    found = measured(tmp_path, "{x: 1}", before=printing)
    assert (found["state"], found["result"]) == ("successful", "{'x': 1}")
    assert found["grown"] < 8 * MIB
