# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The file of cilium_mesh_result_file: every playbook leaves its result there, whole, as its schema says, and nothing is printed beside a
callback whose output may be read by a program."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.edge_portal.cilium_mesh.plugins.action import mesh_publish
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import changes_sentence
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import mesh_result
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.result_document import ERROR_LIMIT, RunEnd, document, error_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.stdout import prints_for_people
from tests.collection_path import CHECKOUT, link
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.result_schema import FILE, problems_of, result_schema
from tests.testing.rows import alike, one_test
from tests.testing.status_schemas import text_of

from .conftest import mesh

CANARY = "canary-9c1e"
MESH = {"cilium_mesh": mesh("c1", "c2")}
PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig of a cluster that does not answer, with a credential that must not be shown."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    path = tmp_path / "kubeconfig"
    cluster = {"name": "a", "cluster": {"server": f"https://127.0.0.1:{port}"}}
    user = {"name": "a", "user": {"token": CANARY}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [cluster], "users": [user], "contexts": [context]}
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def run(playbook: str, kubeconfig: str, place: Path, *arguments: str, **variables: Any) -> PlaybookRun:
    hosts = {name: {"cilium_mesh_kubeconfig": kubeconfig} for name in ("c1", "c2")}
    inventory = {"all": {"vars": {"ansible_connection": "local"}, "hosts": hosts}}
    return run_warm(
        playbook, inventory=inventory, variables={**MESH, "cilium_mesh_result_file": str(place), **variables}, arguments=arguments
    )


def read(place: Path) -> dict[str, Any]:
    """The file, after verifying what holds for every one."""
    raw = place.read_bytes()
    assert raw.isascii() and CANARY.encode() not in raw
    assert place.stat().st_mode & 0o777 == 0o600
    found: dict[str, Any] = json.loads(raw)
    assert problems_of(found) == []
    return found


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_a_run_that_fails_leaves_its_result_also_in_check_mode(kubeconfig: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    place = tmp_path / "result.json"
    place.write_text("of an earlier run", encoding="utf-8")
    ended = run("connect", kubeconfig, place, *arguments)
    found = read(place)
    assert ended.rc == 2 and {key: value for key, value in found.items() if key != "run"} == ended.result
    assert list(found)[:2] == ["schema", "run"]
    about = found["run"]
    assert (about["playbook"], about["mesh"], about["failed"], about["checkMode"]) == ("connect", "edge-mesh-eu", True, bool(arguments))
    assert "c1" in about["error"] and abs(datetime.now(UTC) - datetime.fromisoformat(about["time"])).total_seconds() < 600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubeconfig", "result.json"]


def test_a_junit_report_is_written_beside_it_and_its_place_is_looked_at_too(kubeconfig: str, tmp_path: Path) -> None:
    xml = tmp_path / "result.xml"
    ended = run("status", kubeconfig, tmp_path / "result.json", cilium_mesh_junit_file=str(xml))
    root = ET.parse(xml).getroot()
    assert ended.rc == 2 and xml.stat().st_mode & 0o777 == 0o600 and CANARY not in xml.read_text(encoding="utf-8")
    failed = {f"{suite.get('name')}/{case.get('name')}" for suite in root for case in suite if case.find("failure") is not None}
    assert {"run/status", "links/c1 -> c2", "links/c2 -> c1"} <= failed
    refused = run("status", kubeconfig, tmp_path / "result.json", cilium_mesh_junit_file=str(tmp_path / "result.json"))
    assert "name the same file" in " ".join(refused.output.split()) and "CM-API-01" not in refused.output


def test_each_change_is_a_failed_case_where_changes_fail_the_run(tmp_path: Path) -> None:
    step = {
        "wave": 1,
        "cluster": "c1",
        "verb": "patch",
        "object": "Secret x",
        "why": "it drifted",
        "disruption": "",
        "undo": "",
        "digest": "",
    }
    found = {**GOOD, "plan": {"hash": "", "steps": [step]}, "failed": True, "msg": changes_sentence(1)}
    xml = tmp_path / "result.xml"
    publish(tmp_path / "result.json", found, junit_file=str(xml), fail_on_changes=True)
    assert [case.get("name") for case in ET.parse(xml).getroot().iter("testcase")] == ["status", "patch Secret x in c1"]


def test_a_run_that_reaches_no_action_leaves_its_result(kubeconfig: str, tmp_path: Path) -> None:
    ended = run("connect", kubeconfig, tmp_path / "result.json", mesh_connect_trust="{{ nowhere }}")
    found = read(tmp_path / "result.json")
    assert ended.rc == 2 and found["run"]["failed"] and [entry["code"] for entry in found["findings"]] == ["CM-ERR-00"]


def test_a_playbook_whose_work_others_do_leaves_its_result(kubeconfig: str, tmp_path: Path) -> None:
    place = tmp_path / "result.json"
    ended = run("label_clusters", kubeconfig, place, label_clusters_resource="wrong")
    found = read(place)
    assert ended.rc == 2 and (found["run"]["playbook"], found["run"]["failed"]) == ("label_clusters", True)


@pytest.mark.parametrize("playbook", ["connect", "label_clusters"])
def test_a_place_that_cannot_be_written_ends_the_run_before_a_cluster_is_asked(playbook: str, kubeconfig: str, tmp_path: Path) -> None:
    ended = run(playbook, kubeconfig, tmp_path / "missing" / "result.json")
    assert ended.rc == 2 and "cilium_mesh_result_file: there is no folder" in " ".join(ended.output.split())
    assert "CM-API-01" not in ended.output and not (tmp_path / "missing").exists()
    assert ended.mesh_result is not None, "the statistic is published all the same"


def publish(place: Path, result: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The result of one task mesh_publish."""
    variables = {"found": result, **options.pop("variables", MESH)}
    args = {"links": ["found"], "playbook": "status", "result_file": str(place), **options}
    task = SimpleNamespace(args=args, check_mode=options.pop("check", False), action="mesh_publish")
    templar = Templar(loader=DataLoader(), variables=variables)
    action = mesh_publish.ActionModule(task, SimpleNamespace(_shell=None), None, None, templar, None)
    found: dict[str, Any] = action.run(None, variables)
    return found


GOOD: dict[str, Any] = {"changed": False, "findings": [], "plan": {"hash": "", "steps": []}, "status": None, "requeue_seconds": 300}


def trusted(value: Any) -> Any:
    """The value with each text of it as the text of a playbook: Ansible renders no other."""
    if isinstance(value, dict):
        return {key: trusted(item) for key, item in value.items()}
    return trust_as_template(value) if isinstance(value, str) else value


@one_test(
    "given name",
    *alike(
        "edge-mesh-eu",
        MESH["cilium_mesh"],
        yaml.safe_dump(MESH["cilium_mesh"]),
        "{{ elsewhere }}",
        {"binding": "{{ elsewhere.binding }}"},
        {"binding": {"name": "{{ elsewhere.binding.name }}"}, "globalServices": "{{ nowhere }}"},
    ),
    *alike("", "{{ nowhere }}", "a: [", ["binding"], {"binding": ["name"]}, None, {"binding": {"name": "{{ nowhere }}"}}),
)
def test_the_result_names_the_mesh_in_each_form_that_the_variable_may_have(tmp_path: Path, given: Any, name: str) -> None:
    variables = {"elsewhere": MESH["cilium_mesh"], "cilium_mesh": trusted(given)}
    publish(tmp_path / "result.json", GOOD, variables=variables)
    assert read(tmp_path / "result.json")["run"]["mesh"] == name


def test_a_run_that_succeeds_says_so(tmp_path: Path) -> None:
    assert "failed" not in publish(tmp_path / "result.json", GOOD)
    about = read(tmp_path / "result.json")["run"]
    assert (about["failed"], about["error"]) == (False, "")


@pytest.mark.parametrize(("before", "fails"), [({}, True), ({"failed": True, "msg": "CM-API-01: it is away"}, False)])
def test_a_file_that_cannot_be_written_at_the_end_fails_a_run_that_went_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], fails: bool
) -> None:
    def full(*_: object, **__: object) -> None:
        raise InvalidInput("cilium_mesh_result_file: there is no room.", remedy="Make room there.")

    monkeypatch.setattr(mesh_publish, "write_whole", full)
    found = publish(tmp_path / "result.json", {**GOOD, **before})
    assert bool(found.get("failed")) is fails
    assert "there is no room. Make room there." in (found["msg"] if fails else found["warnings"][0])
    assert "mesh_result" in found["ansible_stats"]["data"]


@pytest.mark.parametrize(
    ("runs", "options", "says"),
    [
        ([GOOD], {}, ""),
        ([GOOD], {"ended": False}, "A task of the playbook failed"),
        ([GOOD], {"judged": "There are 2 changes."}, "There are 2 changes."),
        ([{**GOOD, "failed": True, "msg": "one"}, {**GOOD, "failed": True, "msg": "one"}], {}, "one"),
        ([{**GOOD, "failed": True, "msg": "one"}], {"judged": "two", "ended": False}, "one"),
        ([{**GOOD, "msg": "tolerated"}], {}, ""),
        ([], {}, "A task of the playbook failed"),
        ([{**GOOD, "failed": True, "msg": "a\x1b[31m\n" + "b" * 9000}], {}, "a"),
    ],
)
def test_the_error_of_a_run_is_what_failed_it(runs: list[dict[str, Any]], options: dict[str, Any], says: str) -> None:
    text = error_of(runs, **options)
    assert text.startswith(says) and bool(text) is bool(says)
    assert len(text) <= ERROR_LIMIT and "\x1b" not in text


@one_test("name", *PLAYBOOKS)
def test_every_playbook_publishes_its_result_at_its_end_under_its_name(name: str) -> None:
    plays = yaml.safe_load((CHECKOUT / "playbooks" / f"{name}.yml").read_text(encoding="utf-8"))
    blocks = [block for play in plays for block in play["tasks"]]
    assert all("edge_portal.cilium_mesh.mesh_end" in task for task in blocks[1:]), "a task beside the block would not be in the result"
    tasks = [task["edge_portal.cilium_mesh.mesh_publish"] for task in blocks[0]["always"] if "edge_portal.cilium_mesh.mesh_publish" in task]
    assert len(tasks) == 1 and tasks[0]["playbook"] == name
    assert tasks[0]["junit_file"] == "{{ cilium_mesh_junit_file | default(omit) }}"
    assert tasks[0]["result_file"] == "{{ cilium_mesh_result_file | default(omit) }}"


def test_the_published_schema_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == text_of(result_schema()), "python -m tests.testing.result_schema --write"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of the schema that says its fields, with an example of none of them."""
    if isinstance(value, dict):
        if "properties" in value:
            yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def test_no_object_of_the_schema_takes_a_field_that_it_does_not_name() -> None:
    loose = [entry for entry in _objects(result_schema()) if entry.get("additionalProperties") is not False]
    assert loose == []


@pytest.mark.parametrize("where", ["", "run", "plan", "status"])
def test_a_field_that_the_schema_does_not_have_is_a_problem_and_so_is_one_that_is_missing(where: str) -> None:
    end = RunEnd(playbook="status", mesh="m", time=datetime(2026, 9, 1, tzinfo=UTC), check_mode=False, error="")
    found = json.loads(document(mesh_result(GOOD, {}), end))
    assert problems_of(found) == [] and found["run"]["time"] == "2026-09-01T00:00:00Z"
    place = found[where] if where else found
    place["more"] = 1
    assert len(problems_of(found)) == 1
    del place["more"]
    del place[next(key for key in place if key not in ("steps", "plan"))]
    assert len(problems_of(found)) == 1


@pytest.mark.parametrize(
    ("callback", "prints"),
    [("default", True), ("ansible.builtin.default", True), ("minimal", False), ("oneline", False), ("nobody", False)],
)
def test_lines_are_printed_beside_the_default_callback_alone(callback: str, prints: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_STDOUT_CALLBACK", callback)
    assert prints_for_people() is prints


CALLBACK = """
from ansible.plugins.callback import CallbackBase

class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "as_json"

    def v2_playbook_on_stats(self, stats):
        import json
        self._display.display(json.dumps(sorted(stats.failures)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("callback", "own"), [("as_json", True), ("minimal", False), ("default", False)])
def test_what_another_callback_prints_stays_alone_on_standard_output(callback: str, own: bool, kubeconfig: str, tmp_path: Path) -> None:
    (tmp_path / "as_json.py").write_text(CALLBACK, encoding="utf-8")
    hosts = {name: {"cilium_mesh_kubeconfig": kubeconfig, "ansible_connection": "local"} for name in ("c1", "c2")}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    (tmp_path / "mesh.json").write_text(json.dumps(MESH), encoding="utf-8")
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(link()),
        "ANSIBLE_STDOUT_CALLBACK": callback,
        "ANSIBLE_CALLBACK_PLUGINS": str(tmp_path),
        "ANSIBLE_NOCOLOR": "1",
        "HOME": str(tmp_path),
    }
    program = str(Path(sys.executable).parent / "ansible-playbook")
    command = [program, "-i", "hosts.json", "-e", "@mesh.json", "edge_portal.cilium_mesh.verify"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert ("\nFindings" in done.stdout) is (callback == "default")
    if own:
        assert json.loads(done.stdout) == ["c1"]
