# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Events in a tenant's workspace: one for each object and reason, counted up; where they are refused, the operator does not retry soon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    Forbidden,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from mesh_operator.base.keys import ObjectKey
from mesh_operator.source.events import PAUSE, EventRecorder
from mesh_operator.source.stored import Stored

URL = "https://kcp.example/services/apiexport/root/networking"


class Workspace:
    """Events of all workspaces behind one URL."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.refuses: Exception | None = None
        self.calls = 0

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self._called()
        if (body.get("apiVersion"), body.get("kind")) != ("v1", "Event"):  # as the virtual workspaces of kcp 0.32
            raise ServerRefused("the object provided is unrecognized", status=400)
        where = f"{path}/{body['metadata']['name']}"
        if where in self.events:
            raise WriteConflict("it exists already")
        self.events[where] = dict(body)
        return self.events[where]

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self._called()
        if path not in self.events:
            raise ServerRefused("404", status=404)
        self.events[path] |= body
        return self.events[path]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the claim allows create and patch, not {name}")

    def _called(self) -> None:
        self.calls += 1
        if self.refuses is not None:
            raise self.refuses


@pytest.fixture
def workspace() -> Workspace:
    return Workspace()


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(workspace: Workspace, clock: Clock) -> EventRecorder:
    def api_for(url: str) -> Any:
        assert url == URL
        return workspace

    return EventRecorder(api_for, clock)


def stored(name: str = "eu", uid: str = "uid-1", workspace: str = "2xk1") -> Stored:
    return Stored(ObjectKey("ClusterMeshBinding", workspace, "team", name), {"metadata": {"name": name, "uid": uid}}, URL)


def test_an_event_lies_beside_its_object(recorder: EventRecorder, workspace: Workspace) -> None:
    recorder.record(stored(), "Warning", "RunnerFailed", "the run ended in task\nconnect")
    ((path, event),) = workspace.events.items()
    assert path.startswith("/clusters/2xk1/api/v1/namespaces/team/events/eu.")
    assert event["involvedObject"] == {
        "apiVersion": "networking.edge-portal.eu/v1alpha1",
        "kind": "ClusterMeshBinding",
        "namespace": "team",
        "name": "eu",
        "uid": "uid-1",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "RunnerFailed", 1)
    assert event["message"] == "the run ended in task connect"
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert event["metadata"]["namespace"] == "team"


def test_the_same_again_is_counted_and_another_reason_or_object_is_another_event(recorder: EventRecorder, workspace: Workspace) -> None:
    for message in ("one", "two", "three"):
        recorder.record(stored(), "Normal", "Connected", message)
    ((_, event),) = workspace.events.items()
    assert (event["count"], event["message"]) == (3, "three")
    recorder.record(stored(), "Normal", "Degraded", "x")
    recorder.record(stored(uid="uid-2"), "Normal", "Connected", "x")
    assert len(workspace.events) == 3


def test_an_operator_that_starts_anew_goes_on_with_the_event_that_is_there(recorder: EventRecorder, workspace: Workspace) -> None:
    recorder.record(stored(), "Normal", "Connected", "before")
    EventRecorder(lambda _url: workspace).record(stored(), "Normal", "Connected", "after")
    assert [event["message"] for event in workspace.events.values()] == ["after"]


def test_an_event_that_expired_is_made_anew(recorder: EventRecorder, workspace: Workspace) -> None:
    recorder.record(stored(), "Normal", "Connected", "x")
    workspace.events.clear()
    recorder.record(stored(), "Normal", "Connected", "x")
    assert [event["count"] for event in workspace.events.values()] == [2]


@pytest.mark.parametrize("refusal", [Forbidden("403"), ServerRefused("404", status=404)])
def test_a_workspace_without_the_claim_is_left_alone_for_a_while(
    refusal: Exception, recorder: EventRecorder, workspace: Workspace, clock: Clock
) -> None:
    workspace.refuses = refusal
    for _ in range(3):
        recorder.record(stored(), "Normal", "Connected", "x")
    assert workspace.calls == 1
    recorder.record(stored(workspace="other"), "Normal", "Connected", "x")
    assert workspace.calls == 2
    workspace.refuses = None
    clock.now += PAUSE
    recorder.record(stored(), "Normal", "Connected", "x")
    assert len(workspace.events) == 1


@pytest.mark.parametrize("refusal", [Unreachable("cut"), ServerRefused("500", status=500), KeyError("defect")])
def test_nothing_that_goes_wrong_disturbs_or_stops_for_long(refusal: Exception, recorder: EventRecorder, workspace: Workspace) -> None:
    workspace.refuses = refusal
    recorder.record(stored(), "Normal", "Connected", "x")
    workspace.refuses = None
    recorder.record(stored(), "Normal", "Connected", "x")
    assert len(workspace.events) == 1


def test_names_are_valid_however_long_the_objects_is(recorder: EventRecorder, workspace: Workspace) -> None:
    recorder.record(stored(name="a" * 199 + "." + "b" * 53), "Normal", "Connected", "token: abc")
    ((_, event),) = workspace.events.items()
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert ".." not in name
    assert "abc" not in event["message"]
