# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A pod's status as a kubelet reports it."""

from __future__ import annotations

from typing import Any

from tests.lab.podstatus import ContainerState, pod_status

POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "t0"}]},
}


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def test_a_pod_whose_volumes_are_missing_waits_and_has_no_address() -> None:
    status = pod_status(POD, [], [ContainerState("a", "i")], host_ip="127.20.1.10", pod_ip="10.1.0.11", network=False)
    assert status["phase"] == "Pending"
    assert status["podIP"] is None
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert conditions(status) == {
        "PodScheduled": "True",
        "PodReadyToStartContainers": "False",
        "Initialized": "False",
        "ContainersReady": "False",
        "Ready": "False",
    }


def test_a_pod_is_ready_when_all_its_containers_are() -> None:
    init, one, two = ContainerState("init", "i"), ContainerState("a", "i"), ContainerState("b", "i")
    init.started()
    init.ended_with(0)
    for state in (one, two):
        state.started()
    one.ready = True
    half = pod_status(POD, [init], [one, two], host_ip="h", pod_ip="10.1.0.11", network=True)
    assert (half["phase"], conditions(half)["Initialized"], conditions(half)["Ready"]) == ("Running", "True", "False")
    two.ready = True
    assert conditions(pod_status(POD, [init], [one, two], host_ip="h", pod_ip="10.1.0.11", network=True))["Ready"] == "True"


def test_a_killed_container_shows_how_it_ended_also_after_its_restart() -> None:
    state = ContainerState("etcd", "i")
    state.started()
    state.ended_with(-9)
    assert state.to_status()["state"]["terminated"]["exitCode"] == 137
    state.waits("CrashLoopBackOff", "back-off 1s")
    assert state.to_status()["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1s"}}
    state.started()
    assert state.to_status()["lastState"]["terminated"]["exitCode"] == 137
    assert not state.to_status()["ready"]


def test_the_time_of_a_condition_is_that_of_its_last_change() -> None:
    state = ContainerState("a", "i")
    state.started()
    state.ready = True
    old = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "t1"},
        {"type": "Initialized", "status": "False", "lastTransitionTime": "t1"},
    ]
    status = pod_status({"metadata": {}, "status": {"conditions": old}}, [], [state], host_ip="h", pod_ip="p", network=True)
    times = {condition["type"]: condition["lastTransitionTime"] for condition in status["conditions"]}
    assert times["Ready"] == "t1"
    assert times["Initialized"] != "t1"
