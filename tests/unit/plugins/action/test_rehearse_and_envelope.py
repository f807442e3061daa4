# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What rehearse, envelope and upgrade_check say where there is nothing to say: input that is not valid, and members that do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure

BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}


@pytest.mark.parametrize(
    ("action", "options", "said"),
    [
        ("mesh_rehearse", {"each": []}, "There is nothing to rehearse"),
        ("mesh_rehearse", {"each": ["cables"]}, "value of each must be one or more of"),
        ("mesh_rehearse", {"fail_on": ["outage"]}, "the harms are service-without-backend"),
        ("mesh_rehearse", {"losses": [{"members": ["c9"]}]}, '"c9" is no member of the mesh'),
        ("mesh_rehearse", {"losses": [{"members": ["c1", "c2"]}]}, "are all members of the mesh"),
        ("mesh_envelope", {"one_more": {"nodes": -1}}, "nodes: must be a whole number from 0"),
        ("mesh_envelope", {"one_more": {"pods": 1}}, "pods"),
        ("mesh_envelope", {"fail_at": 101}, "fail_at is 101; use 1 to 100"),
    ],
)
def test_input_that_is_not_valid_is_refused_before_a_cluster_is_contacted(
    make_world: Any, action: str, options: dict[str, Any], said: str
) -> None:
    world = make_world()
    result = world.run(action, mesh=BOTH, **options)
    assert result["failed"] is True and said in result["msg"], result["msg"]
    assert world.contacted == set()


@pytest.mark.parametrize(
    ("action", "gate", "said"),
    [
        ("mesh_rehearse", {"fail_on": ["dead-backends"]}, "edge-mesh-eu: 3 losses rehearsed: 3 unknown"),
        ("mesh_envelope", {"fail_at": 90}, "edge-mesh-eu: nothing is known, since no member answered"),
    ],
)
def test_of_a_mesh_that_does_not_answer_nothing_is_said_to_be_harmless_or_empty(
    make_world: Any, action: str, gate: dict[str, Any], said: str
) -> None:
    world = make_world()
    for host in ("c1", "c2"):
        world.failures[host] = ObserveFailure(host=host, code="CM-API-01", message="The API server does not answer.", remedy="Start it.")
    result = world.run(action, mesh=BOTH)
    assert not result.get("failed"), "without a gate the question is answered as far as that is possible"
    assert world.output[-1] == said, world.output
    assert not [line for line in world.output if "none" in line or "empty" in line or " is touched" in line]
    assert {entry["code"] for entry in result["findings"]} == {"CM-API-01"}
    result = world.run(action, mesh=BOTH, **gate)
    assert result["failed"] is True and "cannot be answered" in result["msg"]


def test_an_upgrade_of_a_mesh_that_does_not_answer_names_the_reasons_once_and_what_to_do_in_the_findings(make_world: Any) -> None:
    world = make_world()
    for host in ("c1", "c2"):
        world.failures[host] = ObserveFailure(host=host, code="CM-API-01", message=f"{host} does not answer.", remedy="Start it.")
    result = world.run("mesh_upgrade_check", mesh=BOTH)
    assert result["failed"] is True
    assert result["msg"] == "No member has a version of Cilium that is known: c1: c1 does not answer; c2: c2 does not answer."
    assert [(entry["code"], entry["cluster"], entry["fix"]) for entry in result["findings"]] == [
        ("CM-API-01", "c1", "Start it."),
        ("CM-API-01", "c2", "Start it."),
    ], "no input was wrong"
