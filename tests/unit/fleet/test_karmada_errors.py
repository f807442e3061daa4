# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever Karmada answers in place of an object, at whichever request: nothing is lost, and the result says what was not done.

At a request that reads, nothing is deleted, and the status says that Karmada is not there. At one that writes, the run goes on with what it
can, and the next one completes what is left, whether the write was carried out or not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    Forbidden,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import FleetRun, run_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import FleetOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Interrupted, Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import mesh_result
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import WORKLOAD
from mesh_operator.fleets.request import KARMADA
from mesh_operator.fleets.status import fleet_statuses
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.source.stored import Stored
from mesh_operator.statuses.heads import head_of_fleet
from mesh_operator.statuses.item_statuses import statuses_of_items
from tests.testing.answer_in_parts import in_parts
from tests.testing.connecting import connecting
from tests.testing.gate import left_to_the_deep_run
from tests.testing.karmada_client import FleetWorld, KarmadaClient
from tests.testing.karmada_model import KarmadaModel, Refused
from tests.unit.fleet.test_what_a_workload_names import TEMPLATE, TENANT, karmada

ADDRESS: Final = "10.1.2.3:6443"
NOW: Final = datetime(2026, 11, 25, tzinfo=UTC)
ANSWERS: Final[dict[str, Callable[[], ClusterError]]] = {
    "silence": lambda: Unreachable(f"{ADDRESS} does not answer.", cluster=KARMADA),
    "403": lambda: Forbidden("It refuses to list.", cluster=KARMADA),
    **{
        str(status): lambda status=status: ServerRefused(f"{ADDRESS} answered {status}.", cluster=KARMADA, status=status)  # type: ignore[misc]  # a default binds the value of this turn
        for status in (409, 410, 429, 500, 503)
    },
}
WISH: Final = {
    "workspace": TENANT.workspace,
    "karmada": KARMADA,
    "clusters": [{"name": name} for name in "abc"],
    "fleets": [{"name": "all", "clusterRefs": [{"name": name} for name in "abc"]}],
    "workloads": [{"name": "web", "fleetRef": {"name": "all"}, "template": TEMPLATE}],
}


@dataclass
class Failing:
    """A Karmada that answers one of the requests of a run with an error."""

    model: KarmadaModel
    answer: Callable[[], ClusterError]
    at: int
    asked: int = 0

    def connect(self, _access: Any) -> Any:
        client = KarmadaClient(self.model)
        client.host = KARMADA
        for name in ("get", "list_if_served"):
            setattr(client, name, self._failing(getattr(client, name)))
        return client

    def _failing(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **more: Any) -> Any:
            self.asked += 1
            if self.asked == self.at:
                raise self.answer()
            return ask(*args, **more)

        return asked


def run(failing: Failing) -> dict[str, Any]:
    """The ``mesh_result`` of a run that asks for nothing more, and so would remove what is there."""
    world = FleetWorld(failing.model, hosts=(KARMADA,))
    request = parse_fleet({**WISH, "workloads": []}, (KARMADA,)).request
    options = FleetOptions(wait=False)
    ports = replace(world._ports(), connect=connecting(failing.connect))
    try:
        outcome = run_fleet(FleetRun(request=request, karmada=KARMADA, options=options, who=world, ports=ports, now=failing.model.now))
    except Interrupted as stopped:
        assert isinstance(stopped.error, ClusterError)
        found = {"code": stopped.error.code, "severity": "blocking", "cluster": stopped.error.cluster, "summary": stopped.error.message}
        return {**mesh_result(stopped.outcome.to_result(), {}), "findings": [found]}
    return {**mesh_result(outcome.to_result(), {}), "workloads": outcome.extra["workloads"]}


def requests_of_a_run() -> int:
    counting = Failing(karmada(), ANSWERS["503"], at=0)
    run(counting)
    return counting.asked


@pytest.mark.parametrize("answer", left_to_the_deep_run(list(ANSWERS), but=("409", "503")))
def test_no_answer_of_karmada_makes_a_run_delete_anything_and_the_status_says_so(answer: str) -> None:
    model = karmada()
    FleetWorld(model).run({**WISH, "karmada": "karmada"}, wait_timeout=60)
    before = dict(model.objects)
    assert before
    stored = Stored(
        ObjectKey(WORKLOAD, "ws", "default", "web"), {"metadata": {"name": "web", "generation": 1}, "spec": {}, "status": {}}, ""
    )
    for number in range(1, requests_of_a_run() + 1):
        result = run(Failing(model, ANSWERS[answer], at=number))
        assert dict(model.objects) == before, f"request {number}"
        parts = ItemParts()
        head = in_parts(parts, statuses_of_items(result, [stored], NOW, head_of_fleet))
        [(_, found)] = fleet_statuses([stored], head, parts, NOW)
        status = found or {}
        ready = next(row for row in status["conditions"] if row["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "KarmadaUnavailable")
        assert ADDRESS not in str(status), "addresses of the platform are none of a tenant's business"


# --- writes ---

WRITE_ANSWERS: Final[dict[str, Callable[[], ClusterError]]] = {
    **ANSWERS,
    "409": lambda: WriteConflict(f"{ADDRESS} says that the object changed.", cluster=KARMADA),  # as the client calls it
}
OTHER_TEMPLATE: Final = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
CONF: Final = {"kind": "ConfigMap", "name": "conf", "data": {"A": "1"}}
PORTS: Final = {"ports": [{"port": 80}]}


def workload(name: str, template: Mapping[str, Any] = TEMPLATE, **more: Any) -> dict[str, Any]:
    return {"name": name, "fleetRef": {"name": "all"}, "template": template, "rollout": {"batchSize": 2}, **more}


BEFORE: Final = [workload("web", service=PORTS, resources=[CONF]), workload("api")]
COURSES: Final[dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]] = {
    "creation": ([], BEFORE),
    "change": (BEFORE, [workload("web", OTHER_TEMPLATE, service=PORTS), workload("api")]),
    "removal of one": (BEFORE, BEFORE[1:]),
    "removal of all": (BEFORE, []),
}
"""Course -> the workloads before, and those that the run with the error asks for."""


@dataclass
class FailingWrites:
    """A Karmada that answers one write of a run with an error. ``done``: it carries it out all the same."""

    model: KarmadaModel
    answer: Callable[[], ClusterError] = WRITE_ANSWERS["503"]
    at: int = 0
    done: bool = False
    asked: int = 0
    failed: list[str] = field(default_factory=list)  # paths

    def connect(self, _access: Any) -> Any:
        client: Any = KarmadaClient(self.model)
        client.host = KARMADA
        client.apply = lambda path, body, *, manager: self._write("apply", path, body)
        client.merge_patch = lambda path, body, *, manager: self._write("merge", path, body)
        client.create = lambda path, body, *, manager: self._write("create", path, body)
        client.delete = lambda path, *, uid="", resource_version="": self._write("delete", path, {"metadata": {"uid": uid} if uid else {}})
        return client

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        fails = self.asked == self.at
        if fails:
            self.failed.append(path)
        if not fails or self.done:
            try:
                self.model.write_one(method, path, copy.deepcopy(dict(body)))
            except Refused as refused:
                raise WriteConflict(str(refused), cluster=KARMADA) from None
        if fails:
            raise self.answer()
        return {}

    def run(self, workloads: list[dict[str, Any]], *, wait: bool = True) -> Outcome:
        """Bring these workloads there, with one write at a time."""
        world = FleetWorld(self.model, hosts=(KARMADA,))
        return run_fleet(
            FleetRun(
                request=parse_fleet({**WISH, "workloads": workloads}, (KARMADA,)).request,
                karmada=KARMADA,
                options=FleetOptions(wait=wait, wait_timeout=90, parallel=1),
                who=world,
                ports=replace(world._ports(), connect=connecting(self.connect), apply=apply_plan),
                now=self.model.now,
            )
        )


def state_of(model: KarmadaModel) -> tuple[set[str], dict[str, dict[str, str]]]:
    """Every object in Karmada, and what each member runs with which image."""
    return set(model.objects), {
        member: {f"{key.kind} {key.name}": model.image_in(member, key) if key.kind == "Deployment" else "" for key in sorted(copies)}
        for member, copies in model.running.items()
    }


def prepared(course: str) -> KarmadaModel:
    model = karmada()
    assert not FailingWrites(model).run(COURSES[course][0]).unmet
    return model


@pytest.mark.parametrize("wait", [True, False], ids=["waits", "once"])
@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("answer", left_to_the_deep_run(list(WRITE_ANSWERS), but=("409", "503")))
def test_whatever_karmada_answers_to_a_write_the_result_says_so_nothing_is_lost_and_the_next_run_completes(
    answer: str, course: str, wait: bool
) -> None:
    before, after = COURSES[course]
    start = prepared(course)
    straight = FailingWrites(copy.deepcopy(start))
    assert not straight.run(after, wait=True).unmet
    goal = state_of(straight.model)
    if not wait:
        straight = FailingWrites(copy.deepcopy(start))
        straight.run(after, wait=False)
    assert straight.asked > 1
    kept = {entry["name"] for entry in before} & {entry["name"] for entry in after}
    for done in (False, True):
        for number in range(1, straight.asked + 1):
            where = f"write {number}, {'carried out' if done else 'not carried out'}"
            failing = FailingWrites(copy.deepcopy(start), WRITE_ANSWERS[answer], at=number, done=done)
            try:
                outcome = failing.run(after, wait=wait)
            except Interrupted as stopped:
                assert isinstance(stopped.error, ClusterError) and stopped.error.cluster == KARMADA, where
                # Nothing may be said of a write that may have been made: an answer of 4xx alone says that it was not.
                assert stopped.outcome.changed or number == 1, where
            else:
                assert outcome.findings or (wait and state_of(failing.model) == goal), f"{where}: the result says nothing of it"
            assert failing.failed, where
            for name in kept:
                key = TenantObject("Deployment", name)
                assert all(failing.model.image_in(member_name(TENANT, cluster), key) for cluster in "abc"), f"{where}: {name} is lost"
            again = FailingWrites(failing.model)
            assert (again.run(after).unmet, state_of(failing.model)) == ("", goal), where
            calm = FailingWrites(failing.model)
            assert not calm.run(after).changed and not calm.asked, where
