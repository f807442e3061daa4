# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_plan and mesh_apply: a plan is shown, approved by its hash, and carried out as it is or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from tests.testing.facts_builders import cluster_facts
from tests.unit.plugins.action.conftest import World, mesh

BOTH = mesh("c1", "c2")


def move_load_balancer(world: World, host: str, address: str) -> None:
    def moved(facts: ClusterFacts) -> ClusterFacts:
        assert facts.service is not None
        return replace(facts, service=replace(facts.service, ingress_ips=(address,)))

    world.clusters.change(host, moved)


def test_a_plan_writes_nothing_and_says_what_connect_would_do(make_world: Any) -> None:
    world: World = make_world()
    before = world.clusters.facts()
    planned = world.run("mesh_plan", mesh=BOTH)
    assert "failed" not in planned, planned
    assert (planned["changed"], planned["status"], planned["files"]) == (False, None, [])
    assert (world.writes, world.clusters.facts()) == (0, before)
    promised = world.run("mesh_connect", mesh=BOTH, check=True)
    assert planned["plan"] == promised["plan"]
    assert len(planned["plan"]["hash"]) == 64
    assert all(step["why"] for step in planned["plan"]["steps"])


def test_plan_and_check_mode_of_connect_print_the_same(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_plan", mesh=BOTH)
    planned = list(world.output)
    world.run("mesh_connect", mesh=BOTH, check=True)
    assert world.output == [*planned, *planned[:-1]]
    assert any(line.startswith("  sum: ") for line in planned)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "cilium_mesh_plan_hash=HASH"),
        ({"plan_json": "{folder}/plan.json"}, "cilium_mesh_plan={folder}/plan.json"),
        ({"plan_json": "{folder}/plan.json", "check": True}, "cilium_mesh_plan_hash=HASH"),
        ({"plan_json": "{folder}/a plan.json"}, """'{{"cilium_mesh_plan": "{folder}/a plan.json"}}'"""),
    ],
)
def test_a_plan_ends_with_the_command_that_applies_it(options: dict[str, Any], said: str, make_world: Any, tmp_path: Path) -> None:
    world: World = make_world()
    given: dict[str, Any] = {key: value.format(folder=tmp_path) if isinstance(value, str) else value for key, value in options.items()}
    planned = world.run("mesh_plan", mesh=BOTH, **given)
    expected = said.replace("HASH", planned["plan"]["hash"][:12]).format(folder=tmp_path)
    assert world.output[-1] == f"  next: ansible-playbook ... edge_portal.cilium_mesh.apply -e {expected}"


def test_a_plan_without_a_step_or_with_a_blocking_finding_names_no_next_command(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_connect", mesh=BOTH)
    world.output.clear()
    assert world.run("mesh_plan", mesh=BOTH)["plan"]["steps"] == []
    equal_ids: World = make_world(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"}))
    assert equal_ids.run("mesh_plan", mesh=BOTH)["failed"]
    assert world.output and equal_ids.output and not any("next:" in line for line in (*world.output, *equal_ids.output))


def test_apply_with_the_hash_does_exactly_the_plan_and_a_prefix_is_enough(make_world: Any) -> None:
    world: World = make_world()
    planned = world.run("mesh_plan", mesh=BOTH)
    done = world.run("mesh_apply", mesh=BOTH, hash=planned["plan"]["hash"][:12])
    assert "failed" not in done, done
    assert (done["changed"], done["status"]["phase"]) == (True, "Connected")
    assert done["plan"]["steps"] == planned["plan"]["steps"]
    assert world.writes == len(planned["plan"]["steps"])
    again = world.run("mesh_plan", mesh=BOTH)
    assert again["plan"]["steps"] == []
    assert again["plan"]["hash"] != planned["plan"]["hash"]
    nothing = world.run("mesh_apply", mesh=BOTH, hash=again["plan"]["hash"])
    assert ("failed" in nothing, nothing["changed"]) == (False, False)


def test_a_plan_cannot_be_applied_twice(make_world: Any) -> None:
    world: World = make_world()
    plan = world.run("mesh_plan", mesh=BOTH)["plan"]
    world.run("mesh_apply", mesh=BOTH, plan=plan)
    written = world.writes
    result = world.run("mesh_apply", mesh=BOTH, plan=plan)
    assert (result["failed"], result["changed"], world.writes) == (True, False, written)
    assert "step gone: c1, " in result["msg"]


def test_what_has_changed_since_is_named_and_nothing_is_written(make_world: Any) -> None:
    world: World = make_world()
    planned = world.run("mesh_plan", mesh=BOTH)
    move_load_balancer(world, "c2", "198.51.100.7")
    result = world.run("mesh_apply", mesh=BOTH, plan={"schema": 1, "plan": planned["plan"]})
    assert (result["failed"], result["changed"], world.writes) == (True, False, 0)
    assert result["msg"].startswith("CM-PLAN-01: ")
    assert "nothing was written anywhere" in result["msg"]
    finding = next(f for f in result["findings"] if f["code"] == "CM-PLAN-01")
    lines = finding["evidence"].splitlines()
    assert "c2: Service clustermesh-apiserver changed" in lines
    assert any(line.startswith("step differs: c1, apply Secret kube-system/cilium-kvstoremesh") for line in lines)
    assert not any("c1:" in line and "changed" in line for line in lines)
    assert result["plan"]["hash"][:12] in finding["summary"] and "--check" in finding["fix"]


def test_with_a_bare_hash_the_fresh_plan_is_shown(make_world: Any) -> None:
    world: World = make_world()
    result = world.run("mesh_apply", mesh=BOTH, hash="0123456789ab")
    assert (result["failed"], world.writes) == (True, 0)
    assert any(line.startswith("Plan: ") and result["plan"]["hash"][:12] in line for line in world.output)


def test_a_plan_brings_its_options_and_a_bare_hash_needs_the_same_variables(make_world: Any) -> None:
    world: World = make_world()
    planned = world.run("mesh_plan", mesh=BOTH, certificate_days=90)
    refused = world.run("mesh_apply", mesh=BOTH, hash=planned["plan"]["hash"])
    assert (refused["failed"], world.writes) == (True, 0)
    done = world.run("mesh_apply", mesh=BOTH, plan=planned["plan"], hash=planned["plan"]["hash"])
    assert "failed" not in done, done
    assert done["plan"]["options"]["certificateDays"] == 90


def test_a_plan_to_disconnect_is_applied_as_such(make_world: Any) -> None:
    world: World = make_world()
    world.run("mesh_connect", mesh=BOTH)
    planned = world.run("mesh_plan", mesh=BOTH, purpose="disconnect")
    assert planned["plan"]["steps"]
    done = world.run("mesh_apply", mesh=BOTH, plan=planned["plan"])
    assert ("failed" in done, done["changed"], done["status"]) == (False, True, None)
    assert world.clusters.facts()["c1"].kvstoremesh.keys == {}


def test_files_are_written_and_the_json_can_be_applied_in_check_mode(make_world: Any, tmp_path: Path) -> None:
    world: World = make_world()
    paths: dict[str, Any] = {form: str(tmp_path / f"plan.{form}") for form in ("plan_text", "plan_json", "plan_markdown")}
    planned = world.run("mesh_plan", mesh=BOTH, **paths)
    assert planned["files"] == list(paths.values())
    assert planned["changed"] is False
    assert json.loads(Path(paths["plan_json"]).read_text()) == planned["plan"]
    first = f"Plan: {len(planned['plan']['steps'])} steps, hash {planned['plan']['hash'][:12]}"
    assert Path(paths["plan_text"]).read_text().splitlines()[0] == first
    assert planned["plan"]["hash"] in Path(paths["plan_markdown"]).read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(Path(path).name for path in paths.values())
    checked = world.run("mesh_apply", mesh=BOTH, plan=paths["plan_json"], check=True)
    assert ("failed" in checked, checked["changed"], world.writes) == (False, True, 0)


def test_in_check_mode_a_plan_writes_no_file(make_world: Any, tmp_path: Path) -> None:
    result = make_world().run("mesh_plan", mesh=BOTH, plan_json=str(tmp_path / "plan.json"), check=True)
    assert "failed" not in result, result
    assert list(tmp_path.iterdir()) == []


def test_a_blocking_finding_makes_a_plan_fail(make_world: Any) -> None:
    world: World = make_world(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0", config={"cluster-id": "1"}))
    result = world.run("mesh_plan", mesh=BOTH)
    assert result["failed"] is True
    assert result["plan"]["hash"] == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "Neither hash nor plan"),
        ({"hash": "0123"}, "hash is not 12 to 64"),
        ({"plan": {"hash": "x"}}, "no hash of 64"),
        ({"plan": "/nowhere/plan.json"}, "/nowhere/plan.json cannot be read"),
        ({"hash": "f" * 12, "plan": {"hash": "0" * 64, "steps": []}}, "with which options"),
        ({"hash": "0" * 12, "purpose": "both"}, "purpose"),
    ],
)
def test_what_is_no_plan_is_refused_before_a_cluster_is_asked(make_world: Any, args: dict[str, Any], says: str) -> None:
    result = make_world().run("mesh_apply", mesh=BOTH, **args)
    assert result["failed"] is True
    assert result["msg"].startswith("CM-INPUT-01: ")
    assert says in result["msg"]
    assert result["requests"] == {}
