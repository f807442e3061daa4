# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Two real clusters become one mesh with one playbook, and two clusters again with another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.labs import AGENTS, FIVE, NODE_PORT, NODES, OLDEST, OTHER_THREE_120, THREE_119, THREE_120, shared
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.tools import ToolUnavailable, clustermesh_binary
from tests.testing.combinations import COMBINATIONS

# What differs between versions are objects of charts. That connect and disconnect are right about those is proven on data, for every
# combination (tests/unit/links/test_every_profile.py). The lab shows the oldest version, and one on each side of the border where
# addresses move from pod templates into the configuration (1.19), both trust modes and both kinds of Service; all others are in the
# full matrix.
ALWAYS = {
    ("1.16", "own", "LoadBalancer"): pytest.mark.lab(OLDEST),
    ("1.18", "shared", "NodePort"): pytest.mark.lab(NODE_PORT),
    ("1.20", "own", "NodePort"): pytest.mark.lab(NODES),
    ("1.20", "own", "LoadBalancer"): pytest.mark.lab(THREE_120, use=2),
}


def in_full(name: str, **options: Any) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that only the full matrix runs, in a lab of its own."""
    return [pytest.mark.full, pytest.mark.lab(shared(f"full-{name}", **options))]


def marks_of(version: str, ca: str, service: str) -> list[pytest.MarkDecorator]:
    lab = ALWAYS.get((version, ca, service))
    return [lab] if lab else in_full(f"{version}-{ca}-{service}", cilium=version, ca=ca, service=service)


def links_of(result: dict[str, object] | None) -> dict[tuple[str, str], str]:
    assert result is not None
    return {(row["cluster"], row["peer"]): row["stage"] for row in result["status"]["binding"]["links"]}  # type: ignore[index]  # a result as it was read from JSON


@pytest.mark.parametrize("combination", [pytest.param(found, id="-".join(found), marks=marks_of(*found)) for found in COMBINATIONS])
def test_two_clusters_become_one_mesh_and_two_again(lab: MeshLab, combination: tuple[str, str, str]) -> None:
    before = lab.snapshot()

    predicted = lab.play("connect", arguments=["--check", "--diff"], own_process=True)
    assert predicted.rc == 0, predicted.output
    assert predicted.changed > 0
    assert lab.snapshot() == before, "check mode wrote something"

    first = lab.play("connect", own_process=True)
    assert first.rc == 0, first.output
    assert first.changed > 0
    assert first.result["status"]["binding"]["phase"] == "Connected"
    assert links_of(first.mesh_result) == {("c1", "c2"): "ready", ("c2", "c1"): "ready"}
    assert first.result["plan"]["hash"] == predicted.result["plan"]["hash"]
    # Not at this very moment: a reader that was connected to a pod that the rolling restart has taken away connects again.
    lab.wait_connected()

    second = lab.play("connect", arguments=["--diff"])
    assert second.rc == 0, second.output
    assert second.changed == 0, second.output
    assert second.result["plan"]["steps"] == []

    gone = lab.play("disconnect", own_process=True)
    assert gone.rc == 0, gone.output
    assert gone.changed > 0
    assert lab.snapshot() == before, "disconnect left something behind"
    assert lab.play("disconnect").changed == 0


WITHOUT_KVSTOREMESH = [
    pytest.param("1.18", marks=pytest.mark.lab(AGENTS)),
    pytest.param("1.20", marks=in_full("agents-1.20", cilium="1.20", ca="shared", kvstoremesh=False)),
]


@pytest.mark.parametrize("version", WITHOUT_KVSTOREMESH)
def test_agents_dial_the_peer_themselves_when_kvstoremesh_is_off(lab: MeshLab, version: str) -> None:
    before = lab.snapshot()
    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert links_of(run.mesh_result) == {("c1", "c2"): "ready", ("c2", "c1"): "ready"}
    assert lab.secret("c1", "cilium-kvstoremesh") == {}
    assert lab.play("connect").changed == 0
    for alone in ("c1", "c2"):  # a mesh is taken away member by member, as where the other one is gone
        gone = lab.play("disconnect", mesh=lab.mesh(alone), arguments=["--limit", alone])
        assert gone.rc == 0 and gone.changed > 0, gone.output
    assert lab.snapshot() == before


@pytest.mark.full
@pytest.mark.lab(shared("full-auth-mode-cluster", cilium="1.19", auth_mode="cluster"))
def test_auth_mode_cluster_connects_and_leaves_no_user_behind(lab: MeshLab) -> None:
    """The other two modes are defaults, legacy up to 1.18 and migration from 1.19."""
    users = {name: lab.users(name) for name in lab.names}
    assert lab.play("connect").rc == 0
    assert [user["name"] for user in lab.users("c2") if user not in users["c2"]] == ["remote-c1"]
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
    assert {name: lab.users(name) for name in lab.names} == users


@pytest.mark.full
@pytest.mark.parametrize(
    "version",
    [pytest.param("1.19", marks=pytest.mark.lab(THREE_119, use=2)), pytest.param("1.20", marks=pytest.mark.lab(OTHER_THREE_120, use=2))],
)
def test_two_clusters_as_the_recommended_values_leave_them_become_one_mesh(lab: MeshLab, version: str) -> None:
    """From 1.19 on no chart makes the ConfigMap with clustermesh.config.enabled=false, and the volume of the pod is not optional.

    Both pods wait for their users, and start when connect makes them.
    """
    for name in lab.names:
        api = lab.api(name)
        api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/clustermesh-remote-users")
        for pod in api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=clustermesh-apiserver"):
            api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
    missing = [entry for entry in lab.play("verify").result["findings"] if entry["code"] == "CM-USER-01"]
    assert {(entry["cluster"], entry["severity"]) for entry in missing} == {("c1", "remediable"), ("c2", "remediable")}

    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert run.result["status"]["binding"]["phase"] == "Connected"
    assert links_of(run.mesh_result) == {("c1", "c2"): "ready", ("c2", "c1"): "ready"}
    for name, peer in (("c1", "c2"), ("c2", "c1")):
        assert f"remote-{peer}" in [user["name"] for user in lab.users(name)], version
        made = lab.api(name).get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/clustermesh-remote-users")
        assert made is not None and made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", "Helm could not take it over"
        assert made["metadata"]["annotations"]["meta.helm.sh/release-name"] == "cilium"
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
    assert [lab.users(name) for name in lab.names] == [[], []]


@pytest.mark.lab(FIVE, use=3)
def test_three_clusters_of_neighbouring_minors_in_one_run(lab: MeshLab) -> None:
    run = lab.play("connect")
    assert run.rc == 0, run.output
    assert set(links_of(run.mesh_result).values()) == {"ready"}
    assert len(links_of(run.mesh_result)) == 6
    assert lab.play("connect").changed == 0


def marks_of_binary(version: str) -> list[pytest.MarkDecorator]:
    """A binary that cannot be had is no lab: the test is skipped with the reason."""
    return in_full(f"binary-{version}", cilium=version, binary_version=version)


@pytest.fixture
def binary(request: pytest.FixtureRequest) -> str:
    """The version of a newer clustermesh-apiserver, which is at hand."""
    try:
        clustermesh_binary(request.param, progress=print)
    except ToolUnavailable as error:
        pytest.skip(str(error))
    return str(request.param)


@pytest.mark.parametrize("binary", [pytest.param(found, marks=marks_of_binary(found)) for found in ("1.18", "1.20")], indirect=True)
def test_a_newer_clustermesh_apiserver_connects_the_same(binary: str, lab: MeshLab) -> None:
    """What the lab plays for the older binary that it can build is done by the real one here."""
    run = lab.play("connect")
    assert run.rc == 0, run.output
    lab.wait_connected()
    assert lab.play("connect").changed == 0
    assert lab.play("disconnect").rc == 0
