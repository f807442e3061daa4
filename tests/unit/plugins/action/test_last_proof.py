# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options about proof and about returning clusters, as playbooks use them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.heartbeat import ControllerProof, ProofVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import links
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
    monkeypatch.setattr(links, "missing_library", lambda: "the Python package grpcio is not installed on the controller.")
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
    world = make_world()
    refused = ControllerProof(cluster="c1", peer="c2", verdict=ProofVerdict.REFUTED, note="permission denied")
    monkeypatch.setattr(world, "controller_proofs", lambda *_args, **_more: {("c1", "c2"): refused})
    result = world.run("mesh_connect", mesh=mesh("c1", "c2"), wait_timeout=1)
    assert result["failed"] and "permission denied" in result["msg"], result


def test_connect_asks_again_where_a_new_etcd_has_not_granted_its_users_yet(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    proofs = world.controller_proofs
    refused = ControllerProof(cluster="c1", peer="c2", verdict=ProofVerdict.REFUTED, note="permission denied")
    answers = iter([{("c1", "c2"): refused}, {("c1", "c2"): refused}])
    monkeypatch.setattr(world, "controller_proofs", lambda *given, **more: next(answers, None) or proofs(*given, **more))
    assert not world.run("mesh_connect", mesh=mesh("c1", "c2"), wait_timeout=60).get("failed")
    asked: list[bool] = []

    def refusing(*_given: Any, written: bool) -> dict[Any, Any]:
        asked.append(written)
        return {("c1", "c2"): refused}

    monkeypatch.setattr(world, "controller_proofs", refusing)
    result = world.run("mesh_connect", mesh=mesh("c1", "c2"), wait_timeout=60)
    assert result["failed"] and "permission denied" in result["msg"]
    assert asked == [False], "nothing was written, so no grant is on its way"


def status_of(world: Any, action: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = world.run(action, mesh=mesh("c1", "c2"), proof="readers", **more)["status"]
    return found


@pytest.mark.parametrize("action", ["mesh_status", "mesh_connect"])
def test_a_status_continues_the_one_before(make_world: Any, action: str) -> None:
    before = status_of(make_world(), "mesh_status")
    for row in before["conditions"]:
        row["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    again = status_of(make_world(), action, previous_status={"binding": before, "globalServices": []})
    assert {row["lastTransitionTime"] for row in again["conditions"]} == {"2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(("given", "phase"), [(True, "Degraded"), (False, "Connecting")])
def test_a_mesh_that_was_connected_and_broke_is_degraded_and_keeps_its_last_proofs(make_world: Any, given: bool, phase: str) -> None:
    before = status_of(make_world(), "mesh_status")
    world = make_world()
    world.ready = False
    more = {"previous_status": {"binding": before}} if given else {}
    found = world.run("mesh_status", mesh=mesh("c1", "c2"), proof="none", **more)["status"]
    assert found["phase"] == phase
    assert [link["lastProof"] for link in found["links"]] == [link["lastProof"] if given else None for link in before["links"]]


@pytest.mark.parametrize(
    "nonsense", [{}, {"binding": None}, {"binding": ["x"]}, {"binding": {"links": "x", "conditions": [1, {"type": []}]}}]
)
def test_what_has_not_the_shape_of_a_status_counts_as_none(make_world: Any, nonsense: dict[str, Any]) -> None:
    assert status_of(make_world(), "mesh_status", previous_status=nonsense)["phase"] == "Connected"


def test_an_apply_continues_the_status_too(make_world: Any) -> None:
    world = make_world()
    approved = world.run("mesh_plan", mesh=mesh("c1", "c2"))["plan"]["hash"]
    old = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    done = world.run("mesh_apply", mesh=mesh("c1", "c2"), hash=approved, proof="none", previous_status={"binding": old})
    times = {row["type"]: row["lastTransitionTime"] for row in done["status"]["conditions"]}
    assert times["Ready"] == "2026-01-01T00:00:00Z" and times["Degraded"] != times["Ready"]


def test_the_generation_of_the_binding_is_observed(make_world: Any) -> None:
    given = mesh("c1", "c2")
    found = make_world().run("mesh_status", mesh={**given, "binding": {**given["binding"], "generation": 7}})["status"]
    assert found["observedGeneration"] == 7
