# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_fabric: what it measures, what it takes as known, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.facts_builders import cluster_facts, failure
from tests.unit.plugins.action.conftest import World

THREE = tuple(cluster_facts(host, version="1.20.0") for host in ("c1", "c2", "c3"))


def binding(name: str, *hosts: str) -> dict[str, Any]:
    return {"name": name, "clusterRefs": [{"name": host} for host in hosts]} if hosts else {"name": name}


def fabric(*bindings: Any) -> dict[str, Any]:
    return {"name": "europe", "bindings": list(bindings)}


CHAIN = fabric(binding("one", "c1", "c2"), binding("two", "c2", "c3"))
KNOWN = {"phase": "Degraded", "meshStatus": [{"clusterName": "x1", "connected": False}], "links": [], "conditions": []}


def test_bindings_are_measured_over_one_observation_and_nothing_is_written(make_world: Any) -> None:
    world: World = make_world(*THREE)
    result = world.run("mesh_fabric", fabric=CHAIN, expected="Connected")
    assert "failed" not in result, result
    assert (result["status"]["phase"], result["changed"], world.writes) == ("Connected", False, 0)
    assert result["requests"] == {"c1": 8, "c2": 8, "c3": 8}  # c2 was observed once
    assert [row["links"] for row in result["status"]["bindings"]] == [{"total": 2, "ready": 2}] * 2
    assert set(result["bindings"]) == {"one", "two"} and result["mesh"] == ["c1", "c2", "c3"]
    assert world.output[-1] == "europe: Connected (2/2 bindings, 3/3 clusters, 4/4 links ready)"
    assert result["requeue_seconds"] == 300


def test_a_fabric_that_is_not_as_expected_fails_and_names_the_binding(make_world: Any) -> None:
    world: World = make_world(*THREE)
    world.failures = {"c3": failure("c3")}
    result = world.run("mesh_fabric", fabric=CHAIN, expected="Connected")
    assert result["failed"] is True and "two is" in result["msg"] and "one is" not in result["msg"]
    assert [(f["code"], f["cluster"]) for f in result["findings"]] == [("CM-API-01", "c3")]
    assert "failed" not in world.run("mesh_fabric", fabric=CHAIN)


def test_a_status_that_is_given_is_not_measured_again(make_world: Any) -> None:
    world: World = make_world(*THREE)
    result = world.run(
        "mesh_fabric", fabric=fabric(binding("one", "c1", "c2"), binding("far")), statuses={"far": {"status": {"binding": KNOWN}}}
    )
    assert world.contacted == {"c1", "c2"}
    assert [row["phase"] for row in result["status"]["bindings"]] == ["Connected", "Degraded"]
    assert [(f["code"]) for f in result["findings"]] == ["CM-FAB-02"]  # it does not say when it was measured


def test_statuses_alone_need_no_cluster(make_world: Any) -> None:
    world: World = make_world(*THREE)
    result = world.run("mesh_fabric", hosts=["localhost"], fabric=fabric(binding("far")), statuses={"far": KNOWN})
    assert (result["status"]["phase"], world.contacted, result["mesh"]) == ("Degraded", set(), ["x1"])


@pytest.mark.parametrize(
    ("given", "statuses", "why"),
    [
        ({"bindings": []}, {}, "fabric.name: is missing"),
        ({"name": "europe", "bindings": {}}, {}, "fabric.bindings: must be a list"),
        (fabric({}), {}, "fabric.bindings[0].name: is missing"),
        (fabric(binding("one", "c1", "c2"), binding("one", "c2", "c3")), {}, "more than once"),
        (fabric(binding("one", "c1", "c8")), {}, 'fabric.bindings[0]: cilium_mesh has 1 problem: binding.clusterRefs[1].name: "c8"'),
        (fabric(binding("one", "c1", "c2")), {"two": KNOWN}, "statuses.two: is no binding of the fabric"),
        (fabric(binding("one", "c1", "c2")), {"one": {"ready": True}}, "it has no phase"),
        (fabric("one"), {}, "fabric.bindings[0].name: is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_cluster_is_asked(make_world: Any, given: Any, statuses: Any, why: str) -> None:
    world: World = make_world(*THREE)
    result = world.run("mesh_fabric", fabric=given, statuses=statuses)
    assert result["failed"] is True and why in result["msg"], result["msg"]
    assert [f["code"] for f in result["findings"]] == ["CM-INPUT-01"] and not world.contacted
