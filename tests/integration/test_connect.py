# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Two real clusters become one mesh with one playbook, and two clusters again with another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.mesh_lab import MeshLab
from tests.lab.options import PROFILES
from tests.lab.tools import ToolUnavailable, clustermesh_binary

# Every profile with own CAs behind load balancers, every profile with a shared CA behind NodePorts, and the other two combinations once on
# each side of the border where addresses move from pod templates into the configuration (1.20).
COMBINATIONS = [
    *((version, "own", "LoadBalancer") for version in PROFILES),
    *((version, "shared", "NodePort") for version in PROFILES),
    ("1.18", "shared", "LoadBalancer"),
    ("1.20", "own", "NodePort"),
]


def links_of(result: dict[str, object] | None) -> dict[tuple[str, str], str]:
    assert result is not None
    return {(row["cluster"], row["peer"]): row["stage"] for row in result["status"]["binding"]["links"]}  # type: ignore[index]


@pytest.mark.parametrize(("version", "ca", "service"), COMBINATIONS)
def test_two_clusters_become_one_mesh_and_two_again(start_lab: Callable[..., MeshLab], version: str, ca: str, service: str) -> None:
    lab = start_lab(cilium=version, ca=ca, service=service)
    before = lab.snapshot()

    predicted = lab.play("connect", arguments=["--check", "--diff"])
    assert predicted.rc == 0, predicted.output
    assert predicted.changed > 0
    assert lab.snapshot() == before, "check mode wrote something"

    first = lab.play("connect")
    assert first.rc == 0, first.output
    assert first.changed > 0
    assert first.result["status"]["binding"]["phase"] == "Connected"
    assert links_of(first.mesh_result) == {("c1", "c2"): "ready", ("c2", "c1"): "ready"}
    assert first.result["plan"]["hash"] == predicted.result["plan"]["hash"]
    for local, peer in (("c1", "c2"), ("c2", "c1")):
        assert lab.kvstoremesh_status(local)[peer]["ready"], f"the real kvstoremesh of {local} does not say that {peer} is ready"

    second = lab.play("connect", arguments=["--diff"])
    assert second.rc == 0, second.output
    assert second.changed == 0, second.output
    assert second.result["plan"]["steps"] == []

    gone = lab.play("disconnect")
    assert gone.rc == 0, gone.output
    assert gone.changed > 0
    assert lab.snapshot() == before, "disconnect left something behind"
    assert lab.play("disconnect").changed == 0


@pytest.mark.parametrize(("version", "ca"), [("1.18", "own"), ("1.20", "shared")])
def test_agents_dial_the_peer_themselves_when_kvstoremesh_is_off(start_lab: Callable[..., MeshLab], version: str, ca: str) -> None:
    lab = start_lab(cilium=version, ca=ca, kvstoremesh=False)
    before = lab.snapshot()
    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert links_of(run.mesh_result) == {("c1", "c2"): "ready", ("c2", "c1"): "ready"}
    assert lab.secret("c1", "cilium-kvstoremesh") == {}
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
    assert lab.snapshot() == before


def test_auth_mode_cluster_connects_and_leaves_no_user_behind(start_lab: Callable[..., MeshLab]) -> None:
    """The other two modes are defaults, legacy up to 1.18 and migration from 1.19."""
    lab = start_lab(cilium="1.19", auth_mode="cluster")
    users = {name: lab.users(name) for name in lab.names}
    assert lab.play("connect").rc == 0
    assert [user["name"] for user in lab.users("c2") if user not in users["c2"]] == ["remote-c1"]
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
    assert {name: lab.users(name) for name in lab.names} == users


def test_three_clusters_of_neighbouring_minors_in_one_run(start_lab: Callable[..., MeshLab]) -> None:
    lab = start_lab(clusters=3, cilium=("1.19", "1.20", "1.20"))
    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert set(links_of(run.mesh_result).values()) == {"ready"}
    assert len(links_of(run.mesh_result)) == 6
    assert lab.play("connect").changed == 0


@pytest.mark.parametrize("binary", ["1.18", "1.20"])
def test_a_newer_clustermesh_apiserver_connects_the_same(start_lab: Callable[..., MeshLab], binary: str) -> None:
    """What the lab plays for the older binary that it can build is done by the real one here."""
    try:
        clustermesh_binary(binary, progress=print)
    except ToolUnavailable as error:
        pytest.skip(str(error))
    lab = start_lab(cilium=binary, binary_version=binary)
    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert lab.kvstoremesh_status("c1")["c2"]["ready"]
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
