# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a new user that are found before a cluster is contacted: what is said, kept as text in docs/screens/mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.release import __version__ as ansible_core

from tests.testing.missing_packages import environment_without
from tests.testing.playbooks import PlaybookRun, run_warm
from tests.testing.screens import LINES_OF_A_FAILURE, MISTAKES, failure_of, folder_of_one_length, problems_of, screen_of
from tests.testing.terminal import playbook_in_terminal

from .conftest import mesh

NAMES = ("cluster-ffm-1", "cluster-ber-2")
MESH = mesh(*NAMES)
BOTH: dict[str, Any] = {"cilium_mesh": MESH}
HOSTS = {name: {"cilium_mesh_kubeconfig": f"/nowhere/{name}.yaml"} for name in NAMES}
PLUGIN = {"command": "aws-iam-authenticator", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
OF_ANSIBLE = pytest.mark.skipif(not ansible_core.startswith("2.19."), reason="most of the kept text is that of ansible-core 2.19")


def kubeconfig(server: str, user: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ffm",
        "clusters": [{"name": "ffm", "cluster": {"server": server}}],
        "users": [{"name": "ffm", "user": user}],
        "contexts": [{"name": "ffm", "context": {"cluster": "ffm", "user": "ffm"}}],
    }


WITH_PLUGIN = kubeconfig("https://192.0.2.1:6443", {"exec": PLUGIN})
WITHOUT_ADDRESS = kubeconfig("https://api.ffm.invalid:6443", {"token": "x"})  # a name that never has an address, RFC 6761


def inventory(**hosts: Mapping[str, Any]) -> dict[str, Any]:
    return {"all": {"vars": {"ansible_connection": "local"}, "hosts": hosts or HOSTS}}


def binding(**changes: Any) -> dict[str, Any]:
    return {"cilium_mesh": {"binding": {**MESH["binding"], **changes}}}


SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "01-a-kubeconfig-that-is-not-there": ("verify", BOTH),
    "07-a-misspelled-key": ("verify", {"cilium_mesh": {"binding": {"name": "m", "clusterRef": []}, "globalService": []}}),
    "09-a-cluster-named-twice": ("verify", binding(clusterRefs=[{"name": NAMES[0]}, {"name": NAMES[0]}, {"name": NAMES[1]}])),
    "14-a-topology-that-there-is-not": ("verify", binding(topology={"mode": "Ring"})),
    "15-a-negative-timeout": ("connect", {**BOTH, "mesh_connect_wait_timeout": -5}),
    "16-no-cluster-at-a-time": ("connect", {**BOTH, "mesh_connect_parallel": 0}),
    "17-a-timeout-that-is-no-number-and-a-wrong-state": (
        "connect",
        {**BOTH, "mesh_connect_wait_timeout": "abc", "mesh_connect_state": "here"},
    ),
    "18-a-misspelled-variable": ("connect", {**BOTH, "mesh_conect_wait": False}),
    "19-a-cluster-that-the-inventory-lacks": ("verify", binding(clusterRefs=[{"name": "cluster-ffm-2"}, {"name": NAMES[1]}])),
    "22-a-name-that-cannot-be-one": ("verify", binding(name="Bad Name!")),
    "22-no-name": ("verify", {"cilium_mesh": {"binding": {"clusterRefs": [{"name": name} for name in NAMES]}}}),
    "29-a-hash-that-is-too-short": ("apply", {**BOTH, "cilium_mesh_plan_hash": "abc"}),
    "30-a-plan-that-is-not-there": ("apply", {**BOTH, "cilium_mesh_plan": "/nowhere/plan.json"}),
    "35-a-plan-file-that-is-a-device": ("plan", {**BOTH, "cilium_mesh_plan_json": "/dev/full"}),
    "36-a-folder-that-is-not-there": ("plan", {**BOTH, "cilium_mesh_plan_json": "/nowhere/plan.json"}),
}


def refused(
    name: str, playbook: str, given: Any, variables: Mapping[str, Any] | None, *arguments: str, rc: int = 2, of_ansible: bool = False
) -> PlaybookRun:
    """Run a playbook that fails, and compare what is said.

    A module in a play of the user's own has its result behind it, which is wide; a playbook of the collection has not.

    :param of_ansible: Ansible itself has said something, whose lines it does not break.
    """
    run = run_warm(playbook, inventory=given, variables=variables, arguments=arguments, environment={"COLUMNS": "80"})
    assert run.rc == rc, run.output
    compare(name, run, wide=of_ansible or playbook.endswith(".yml"))
    return run


def compare(name: str, run: PlaybookRun, *, wide: bool = False) -> None:
    assert len(failure_of(screen_of(run))) <= LINES_OF_A_FAILURE
    found = problems_of(name, 80, run, MISTAKES)
    assert [row for row in found if not (wide and row.startswith(f"{name}: ") and " columns: " in row)] == []


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_of_one_length() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_mistake_is_answered_as_it_is_kept(name: str) -> None:
    playbook, variables = SITUATIONS[name]
    refused(name, playbook, inventory(), variables)


@pytest.mark.slow
def test_an_exec_plugin_that_is_missing_is_named() -> None:
    hosts = {name: {"cilium_mesh_kubeconfig": WITH_PLUGIN} for name in NAMES}
    refused("05-an-exec-plugin-that-is-not-installed", "verify", inventory(**hosts), BOTH)


@pytest.mark.slow
def test_a_name_that_dns_does_not_know_is_named() -> None:
    hosts = {name: {"cilium_mesh_kubeconfig": WITHOUT_ADDRESS} for name in NAMES}
    refused("04-a-name-that-dns-does-not-know", "verify", inventory(**hosts), BOTH)


@pytest.mark.slow
def test_packages_that_python_lacks_are_named_with_the_command_that_installs_them(folder: Path) -> None:
    (folder / "python").symlink_to(sys.prefix)
    lacking = environment_without(folder, "kubernetes", "websocket")
    python = str(folder / "python" / "bin" / "python")
    with playbook_in_terminal("verify", inventory=inventory(), variables=BOTH, columns=80, python=python, **lacking) as terminal:
        rc = terminal.wait()
    assert rc == 2, terminal.seen
    compare("12-python-packages-that-are-missing", PlaybookRun(rc=rc, status="failed", output=terminal.seen, mesh_result=None))


@pytest.mark.slow
def test_an_inventory_without_a_host_is_refused() -> None:
    refused("23-an-inventory-without-a-host", "verify", {"all": {}}, BOTH)


@pytest.mark.slow
def test_an_encrypted_kubeconfig_without_its_password_is_named(folder: Path) -> None:
    path = folder / "kubeconfig"
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n" + "3" * 80 + "\n", encoding="utf-8")
    hosts = {**HOSTS, NAMES[0]: {"cilium_mesh_kubeconfig": str(path)}}
    refused("25-an-encrypted-kubeconfig-without-its-password", "verify", inventory(**hosts), BOTH)


@pytest.mark.slow
def test_an_empty_variable_of_the_environment_is_a_host_without_a_kubeconfig() -> None:
    hosts = {**HOSTS, NAMES[0]: {"cilium_mesh_kubeconfig": "{{ lookup('ansible.builtin.env', 'NO_SUCH_VARIABLE') }}"}}
    refused("27-an-empty-variable-of-the-environment", "verify", inventory(**hosts), BOTH)


def play(path: Path, hosts: str, task: Mapping[str, Any]) -> str:
    path.write_text(json.dumps([{"name": "Own play", "hosts": hosts, "gather_facts": False, "tasks": [task]}]), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_options_of_kubernetes_core_on_a_module_are_answered_with_their_place(tmp_path: Path) -> None:
    task = {"name": "Verify", "edge_portal.cilium_mesh.mesh_verify": {"mesh": MESH, "kubeconfig": "x", "api_key": "y"}, "run_once": True}
    refused("38-options-of-kubernetes-core-on-a-module", play(tmp_path / "play.yml", "all", task), inventory(), {})


@pytest.mark.slow
def test_a_module_cannot_be_asynchronous(tmp_path: Path) -> None:
    task = {"name": "Connect", "edge_portal.cilium_mesh.mesh_connect": {"mesh": MESH}, "run_once": True, "async": 60, "poll": 0}
    refused("28-a-module-that-is-to-run-by-itself", play(tmp_path / "play.yml", "all", task), inventory(), {})


@pytest.mark.slow
def test_a_play_on_localhost_takes_the_hosts_of_the_mesh(tmp_path: Path) -> None:
    """It works, so what is wrong is only what is wrong with the clusters themselves."""
    task = {"name": "Verify", "edge_portal.cilium_mesh.mesh_verify": {"mesh": MESH}}
    refused("41-a-play-on-localhost", play(tmp_path / "play.yml", "localhost", task), inventory(), {})


@pytest.mark.slow
@OF_ANSIBLE
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("37-variables-that-are-not-utf-8", "cilium_mesh: {binding: {name: münchen}}\n".encode("latin-1")),
        ("37-variables-that-are-no-yaml", b"cilium_mesh:\n  binding:\n    name: edge-mesh-eu\n   clusterRefs: []\n"),
    ],
)
def test_what_ansible_says_of_a_file_of_variables_that_it_cannot_read(name: str, text: bytes, folder: Path) -> None:
    (folder / "mesh.yml").write_bytes(text)
    run = refused(name, "verify", inventory(), None, "-e", f"@{folder}/mesh.yml", rc=4, of_ansible=True)
    assert "FOLDER/mesh.yml" in screen_of(run), "the file is named"


@pytest.mark.slow
def test_a_context_that_is_misspelled_is_named_before_all_else(folder: Path) -> None:
    (folder / "kubeconfig").write_text(json.dumps(WITH_PLUGIN), encoding="utf-8")
    source = folder / "clusters.yml"
    wanted = {"plugin": "edge_portal.cilium_mesh.clusters", "kubeconfig": "kubeconfig", "contexts": ["fffm"]}
    source.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in wanted.items()), encoding="utf-8")
    run = run_warm("verify", inventory=str(source), variables=BOTH, environment={"COLUMNS": "80"})
    lines = screen_of(run).splitlines()
    assert run.rc == 2 and "has no context fffm; did you mean ffm?" in " ".join(lines[:3]), run.output
    if ansible_core.startswith("2.19."):  # whose words stand between ours
        compare("40-a-misspelled-context-in-the-inventory", run, wide=True)
