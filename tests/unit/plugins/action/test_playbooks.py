# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The playbooks by ``ansible-playbook``, as far as they get without a cluster: bad input ends in a clear failure."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import NEEDS_HOSTS
from tests.collection_path import CHECKOUT
from tests.testing.gate import left_to_the_deep_run
from tests.testing.playbooks import PlaybookRun, run_playbook, run_warm
from tests.testing.screens import LINES_OF_A_FAILURE, failure_of, screen_of

PLAYBOOKS = ("verify", "connect", "disconnect", "status", "plan", "apply", "mesh", "services")
VARIABLES = {"cilium_mesh_plan_hash": "0" * 12}  # that only apply wants
GATE = ("mesh",)  # of the playbooks that take the same way; the deep run goes it with all
BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}, "globalServices": []}
CANARY = "canary-9c1e"


@pytest.fixture(scope="module")
def closed_port() -> int:
    """A port of loopback on which no process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def kubeconfig(tmp_path: Path, closed_port: int) -> str:
    """A well-formed kubeconfig of a cluster that does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: a
clusters: [{{name: a, cluster: {{server: "https://127.0.0.1:{closed_port}"}}}}]
users: [{{name: a, user: {{token: {CANARY}}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
""",
        encoding="utf-8",
    )
    return str(path)


def inventory(kubeconfig: str, **hosts: Mapping[str, Any]) -> dict[str, Any]:
    """c1 and c2 with the kubeconfig; ``hosts`` replaces the variables of some."""
    rows = {name: {"cilium_mesh_kubeconfig": kubeconfig} for name in ("c1", "c2")}
    return {"all": {"vars": {"ansible_connection": "local"}, "hosts": {**rows, **hosts}}}


def failed(run: PlaybookRun, code: str, *says: str) -> None:
    """A run that ended as a user may expect: not with success, with the reason, with a result, and without a traceback or a secret."""
    assert run.rc not in (0, None), run.output
    assert "Traceback" not in run.output
    assert CANARY not in run.output + "".join(run.events)
    assert run.mesh_result is not None, run.output
    assert run.mesh_result["schema"] == 1
    assert run.mesh_result["changed"] is False
    assert code in run.finding_codes(), run.output
    shown = " ".join(run.output.split())
    for text in says:
        assert text in shown, run.output


@pytest.mark.slow
def test_every_playbook_parses(tmp_path: Path) -> None:
    names = [path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")]
    assert set(PLAYBOOKS) <= set(names)
    playbook = tmp_path / "all.yml"
    playbook.write_text(json.dumps([{"import_playbook": f"edge_portal.cilium_mesh.{name}"} for name in names]), encoding="utf-8")
    run = run_warm(str(playbook), inventory=inventory("nowhere"), arguments=["--syntax-check"])
    assert run.rc == 0, run.output


def test_an_unknown_key_of_cilium_mesh_is_named_with_what_was_meant(kubeconfig: str) -> None:
    mesh = {"binding": {"name": "edge-mesh-eu", "clusterrefs": [{"name": "c1"}, {"name": "c2"}]}}
    run = run_warm("verify", inventory=inventory(kubeconfig), variables={"cilium_mesh": mesh})
    failed(run, "CM-INPUT-01", "binding.clusterrefs: unknown key; did you mean clusterRefs?")


def test_a_mesh_may_be_a_text_of_yaml_as_a_survey_gives_it(kubeconfig: str) -> None:
    """With its lists of items: a playbook decides by them what it does, and the mesh by its own name what is published."""
    run = run_warm("mesh", inventory=inventory(kubeconfig), variables={"cilium_mesh": yaml.safe_dump(BOTH)}, arguments=["--check"])
    failed(run, "CM-API-01", "c1", "c2")
    same = run_warm("mesh", inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH}, arguments=["--check"])
    assert run.finding_codes() == same.finding_codes()


@pytest.mark.slow
def test_a_text_that_is_no_yaml_is_refused_with_its_place(kubeconfig: str) -> None:
    run = run_warm("mesh", inventory=inventory(kubeconfig), variables={"cilium_mesh": f"binding:\n  name: [{CANARY}\n"})
    failed(run, "CM-INPUT-01", "cilium_mesh is a text that cannot be read as YAML, line 3, column 1")


@pytest.mark.slow
def test_a_host_without_kubeconfig_is_named(kubeconfig: str) -> None:
    run = run_warm("connect", inventory=inventory(kubeconfig, c2={}), variables={"cilium_mesh": BOTH})
    failed(run, "CM-INPUT-01", "c2: the host has no cilium_mesh_kubeconfig")


@pytest.mark.slow
def test_one_cluster_is_no_mesh(kubeconfig: str) -> None:
    mesh = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}]}}
    run = run_warm("connect", inventory=inventory(kubeconfig), variables={"cilium_mesh": mesh})
    failed(run, "CM-INPUT-01", "a mesh needs at least two clusters")


@pytest.mark.slow
def test_a_kubeconfig_that_does_not_parse_is_named_and_not_quoted(kubeconfig: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text(f"users: [{{token: {CANARY}\n", encoding="utf-8")
    hosts = inventory(kubeconfig, c2={"cilium_mesh_kubeconfig": str(broken)})
    run = run_playbook("connect", inventory=hosts, variables={"cilium_mesh": BOTH}, arguments=["-vvvv"])
    failed(run, "CM-API-02", str(broken), "c2")


@pytest.mark.parametrize("playbook", left_to_the_deep_run(PLAYBOOKS, but=GATE))
def test_a_member_that_a_limit_leaves_out_is_not_asked_for_anything(playbook: str, kubeconfig: str) -> None:
    """Not even for its variables: the credentials of a site that is lost may be lost with it."""
    hosts = inventory(kubeconfig, c2={})
    run = run_warm(playbook, inventory=hosts, variables={**VARIABLES, "cilium_mesh": BOTH}, arguments=["--limit", "c1"])
    failed(run, "CM-API-01", "c1")
    assert "cilium_mesh_kubeconfig" not in run.output


@pytest.mark.slow
def test_a_limit_with_all_as_members_is_refused(kubeconfig: str) -> None:
    mesh = {"binding": {"name": "edge-mesh-eu", "clusterRefs": "all"}}
    run = run_warm("disconnect", inventory=inventory(kubeconfig), variables={"cilium_mesh": mesh}, arguments=["--limit", "!c2"])
    failed(run, "CM-INPUT-01", "clusterRefs does not name them")


@pytest.mark.slow
def test_a_limit_that_leaves_out_others_than_those_that_leave_is_refused(kubeconfig: str) -> None:
    three = {"binding": {"name": "edge-mesh-eu", "clusterRefs": ["c1", "c2", "c3"]}}
    hosts = inventory(kubeconfig, c3={"cilium_mesh_kubeconfig": kubeconfig})
    variables = {"cilium_mesh": three, "mesh_connect_clusters": ["c2"]}
    run = run_warm("disconnect", inventory=hosts, variables=variables, arguments=["--limit", "!c3"])
    failed(run, "CM-INPUT-01", "leaves out c3, which would keep links to the clusters that leave")


@pytest.mark.parametrize("playbook", left_to_the_deep_run(["connect", "disconnect", "status"], but=["status"]))
def test_an_unreachable_cluster_is_named_and_no_credential_is_shown(playbook: str, kubeconfig: str, closed_port: int) -> None:
    start = run_playbook if playbook == "connect" else run_warm  # the events of ansible-runner hold everything, for one of them
    run = start(playbook, inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH}, arguments=["-vvvv"])
    failed(run, "CM-API-01", "c1", "c2", str(closed_port))


def test_a_cluster_that_the_inventory_knows_to_be_away_is_named_with_the_reason_as_it_is_written(kubeconfig: str, tmp_path: Path) -> None:
    reason = f"Its {{{{ lookup('pipe', 'touch {tmp_path}/made') }}}} is gone."
    away = {"cilium_mesh_unavailable": {"__ansible_unsafe": reason}}
    run = run_warm("mesh", inventory=inventory(kubeconfig, c1=away), variables={"cilium_mesh": BOTH})
    failed(run, "CM-API-01", "c1", "c2")
    assert [f["summary"] for f in run.result["findings"] if f["cluster"] == "c1"] == [reason]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("playbook", left_to_the_deep_run(PLAYBOOKS, but=GATE))
def test_an_empty_inventory_does_not_end_in_success(playbook: str) -> None:
    run = run_warm(playbook, inventory={"all": {"hosts": {}}}, variables={**VARIABLES, "cilium_mesh": BOTH})
    failed(run, "CM-INPUT-01", "No host of the inventory takes part in this play.")


@pytest.mark.slow
def test_a_pattern_that_matches_no_host_does_not_end_in_success(kubeconfig: str) -> None:
    run = run_warm("connect", inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH, "cilium_mesh_hosts": "nobody"})
    failed(run, "CM-INPUT-01", "No host of the inventory takes part in this play.")


@pytest.mark.slow
def test_such_a_pattern_does_not_fall_back_to_a_localhost_of_the_inventory(kubeconfig: str) -> None:
    hosts = inventory(kubeconfig, localhost={})
    run = run_warm("connect", inventory=hosts, variables={"cilium_mesh": BOTH, "cilium_mesh_hosts": "nobody"})
    failed(run, "CM-INPUT-01", "the hosts pattern of the play leaves out every member of the mesh")


def test_every_play_that_falls_back_to_localhost_says_that_it_needs_hosts() -> None:
    plays = [play for path in sorted((CHECKOUT / "playbooks").glob("*.yml")) for play in yaml.safe_load(path.read_text(encoding="utf-8"))]
    falling = [play for play in plays if "else 'localhost'" in play.get("hosts", "")]
    assert len(falling) > 20 and all(play["vars"][NEEDS_HOSTS] is True for play in falling)
    assert {play["hosts"] for play in plays if play not in falling and "hosts" in play} == {"localhost"}, "label_clusters and kcp_setup"


@pytest.mark.parametrize("bystander", [{}, {"localhost": {}}], ids=["implicit", "in the inventory"])
def test_a_play_on_localhost_is_about_the_clusters_that_the_binding_names(
    bystander: dict[str, Any], kubeconfig: str, tmp_path: Path, closed_port: int
) -> None:
    playbook = tmp_path / "play.yml"
    task = {"edge_portal.cilium_mesh.mesh_connect": {"mesh": {"binding": {"name": "edge", "clusterRefs": ["c1", "c2"]}}}}
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]), encoding="utf-8")
    templated = {"cilium_mesh_kubeconfig": "{{ folder }}/kube{{ 'config' }}", "folder": str(tmp_path)}
    run = run_warm(str(playbook), inventory=inventory(kubeconfig, c2=templated, c3={}, **bystander))
    assert run.rc != 0 and run.output.count(str(closed_port)) >= 2 and "Traceback" not in run.output
    limited = run_warm(str(playbook), inventory=inventory(kubeconfig, **bystander), arguments=["--limit", "c1,localhost"])
    assert limited.rc != 0 and '--limit "c1,localhost" chooses among the hosts of a play' in " ".join(limited.output.split())


def test_a_pattern_chooses_the_clusters(kubeconfig: str) -> None:
    run = run_warm("connect", inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH, "cilium_mesh_hosts": "c1"})
    failed(run, "CM-API-01", "c1")
    assert "c2" not in [finding["cluster"] for finding in run.result["findings"] if finding["code"] == "CM-API-01"]


@pytest.mark.slow
def test_a_wrong_variable_of_a_role_still_leaves_a_result(kubeconfig: str) -> None:
    run = run_warm("connect", inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH, "mesh_connect_trust": "blind"})
    failed(run, "CM-INPUT-01", "trust must be one of", "docs/variables.md for the variables")
    assert "argument_spec" not in run.output and len(failure_of(screen_of(run))) <= LINES_OF_A_FAILURE


def test_a_folder_with_a_broken_kubeconfig_names_the_file_and_not_its_text(tmp_path: Path) -> None:
    folder = tmp_path / "kubeconfigs"
    folder.mkdir()
    (folder / "c1.yaml").write_text(f"users: [{{token: {CANARY}\n", encoding="utf-8")
    source = tmp_path / "clusters.yml"
    source.write_text("plugin: edge_portal.cilium_mesh.clusters\nkubeconfigs: kubeconfigs\n", encoding="utf-8")
    run = run_warm("connect", inventory=str(source), variables={"cilium_mesh": BOTH}, arguments=["-vvvv"])
    failed(run, "CM-INPUT-01", str(folder / "c1.yaml"), "is not YAML, line 2")


def test_templates_in_a_kubeconfig_are_never_evaluated(tmp_path: Path, closed_port: int) -> None:
    """A context's name is a tenant's text: it reaches host variables, messages and the result as it is."""
    hostile = "{{ lookup('ansible.builtin.pipe', 'touch evaluated') }}"
    folder = tmp_path / "kubeconfigs"
    folder.mkdir()
    for name in ("c1", "c2"):
        (folder / f"{name}.yaml").write_text(
            f"""
current-context: "{hostile}"
clusters: [{{name: a, cluster: {{server: "https://127.0.0.1:{closed_port}"}}}}]
users: [{{name: a, user: {{}}}}]
contexts: [{{name: "{hostile}", context: {{cluster: missing, user: a}}}}]
""",
            encoding="utf-8",
        )
    source = tmp_path / "clusters.yml"
    source.write_text(f"plugin: edge_portal.cilium_mesh.clusters\nkubeconfigs: {folder}\n", encoding="utf-8")
    run = run_warm("connect", inventory=str(source), variables={"cilium_mesh": BOTH})
    failed(run, "CM-API-02", "lookup(")
    assert not list(tmp_path.rglob("evaluated"))
    assert "{{ lookup" in str(run.mesh_result), "the name was evaluated, or is not shown"


@pytest.mark.parametrize("playbook", left_to_the_deep_run(sorted(set(PLAYBOOKS) - {"verify"}), but=GATE))
def test_without_a_binding_nothing_is_planned_and_the_lines_to_write_are_shown(playbook: str, kubeconfig: str) -> None:
    variables = {name: value for name, value in VARIABLES.items() if name != "cilium_mesh"}
    run = run_warm(playbook, inventory=inventory(kubeconfig), variables=variables, arguments=["--check"])
    failed(run, "CM-INPUT-01", "cilium_mesh.binding.name and cilium_mesh.binding.clusterRefs are not set", "clusterRefs: [c1, c2]")


@pytest.mark.parametrize("playbook", left_to_the_deep_run(["connect", "mesh", "status"], but=["mesh"]))
def test_a_misspelled_variable_of_a_host_or_of_the_run_is_refused(playbook: str, kubeconfig: str) -> None:
    hosts = inventory(kubeconfig, c2={"cilium_mesh_kubeconfig": kubeconfig, "cilium_mesh_contxt": "a"})
    run = run_warm(playbook, inventory=hosts, variables={"cilium_mesh": BOTH, "cilium_mesh_stat": "absent", "mesh_conect_wait": False})
    failed(run, "CM-INPUT-01", "did you mean cilium_mesh_state", "did you mean mesh_connect_wait", "cilium_mesh_contxt of host c2")


@pytest.mark.slow
def test_a_number_outside_its_range_is_refused_with_its_variable(kubeconfig: str) -> None:
    run = run_warm("connect", inventory=inventory(kubeconfig), variables={"cilium_mesh": BOTH, "mesh_connect_wait_timeout": -5})
    failed(run, "CM-INPUT-01", "wait_timeout (mesh_connect_wait_timeout) is -5; use 0 to 86400")
