# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options about proof and about returning clusters, as playbooks use them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.proof import ControllerProof, Verdict
from tests.unit.plugins.action.conftest import mesh


@pytest.mark.parametrize(("proof", "verdict", "dialled"), [("auto", "proven", 1), ("readers", "proven", 0), ("none", "unknown", 0)])
def test_the_option_says_who_proves(make_world: Any, proof: str, verdict: str, dialled: int) -> None:
    world = make_world()
    result = world.run("mesh_status", mesh=mesh("c1", "c2"), proof=proof)
    assert {link["proof"] for link in result["status"]["links"]} == {verdict}
    assert world.dialled == dialled
    assert "last proof" in "\n".join(world.output)


def test_connect_proves_what_it_made(make_world: Any) -> None:
    world = make_world()
    result = world.run("mesh_connect", mesh=mesh("c1", "c2"))
    assert not result.get("failed"), result
    assert {link["proof"] for link in result["status"]["links"]} == {"proven"}
    assert world.dialled == 1


def test_connect_can_leave_it_out(make_world: Any) -> None:
    world = make_world()
    result = world.run("mesh_connect", mesh=mesh("c1", "c2"), proof="none")
    assert {link["proof"] for link in result["status"]["links"]} == {"unknown"}
    assert world.dialled == 0


def test_a_missing_package_is_said_and_is_no_failure(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import proving

    monkeypatch.setattr(proving, "missing_library", lambda: "the Python package grpcio is not installed on the controller.")
    world = make_world()
    assert not world.run("mesh_status", mesh=mesh("c1", "c2"), expected="Connected").get("failed")
    assert any("grpcio is not installed" in line for line in world.output)
    quiet = make_world()
    quiet.run("mesh_status", mesh=mesh("c1", "c2"), proof="readers")
    assert not any("grpcio" in line for line in quiet.output)


def test_one_can_vouch_for_members_only(make_world: Any) -> None:
    result = make_world().run("mesh_connect", mesh=mesh("c1", "c2"), take_back=["c9"])
    assert result["failed"] and "take_back names c9" in result["msg"]


def test_connect_fails_where_a_peer_refuses_the_controller(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import execution

    world = make_world()
    refused = ControllerProof(cluster="c1", peer="c2", verdict=Verdict.REFUTED, note="permission denied")
    monkeypatch.setattr(execution, "controller_proofs", lambda *_args, **_more: {("c1", "c2"): refused})
    result = world.run("mesh_connect", mesh=mesh("c1", "c2"))
    assert result["failed"] and "permission denied" in result["msg"], result
