# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a run of the fleet asks of Karmada's API: lists whose number no workload changes, and a fixed number of writes for each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import KINDS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetWorkload, RolloutRules
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import LONGEST, PAUSES
from tests.testing.karmada_api import ModelFleet, ModelRun

LISTS: Final = len(KINDS) + 4  # policies, ResourceBindings, revisions, and the tenant's Clusters
GETS: Final = 2  # the tenant's namespace and its policy
FEW, MANY = 2, 9
WAVES: Final = RolloutRules(batch_size=1)


def workloads(count: int, tag: str = "1", **more: Any) -> list[FleetWorkload]:
    template = {"spec": {"containers": [{"name": "web", "image": f"registry.example/web:{tag}"}]}}
    service = {"ports": [{"port": 80}]}
    plain = FleetWorkload(name="", fleet="all", template=template, service=service, **more)
    return [replace(plain, name=f"web-{number}") for number in range(count)]


def created(count: int) -> ModelFleet:
    fleet = ModelFleet()
    assert fleet.run(workloads(count)).outcome.unmet == ""
    return fleet


def of_resources(run: ModelRun, *verbs: str) -> dict[str, int]:
    return {what.partition(" ")[2]: count for what, count in run.requests.items() if what.partition(" ")[0] in verbs}


@pytest.mark.parametrize("count", [0, 1, FEW, MANY])
def test_a_check_lists_each_kind_once_and_reads_no_workload_alone(count: int) -> None:
    check = created(count).run(workloads(count), check_mode=True)
    assert (check.writes, check.outcome.changed) == (0, False)
    assert set(of_resources(check, "list").values()) == {1}
    assert (sum(of_resources(check, "list").values()), of_resources(check, "get")) == (
        LISTS,
        {"namespaces": 1, "clusterpropagationpolicies": 1},
    )


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_a_workload_comes_with_its_objects_its_revision_and_two_writes_of_its_policy(count: int) -> None:
    run = ModelFleet().run(workloads(count))
    written = {
        "controllerrevisions": count,
        "propagationpolicies": 2 * count,  # with the rollout, and at its end
        "deployments": count,
        "services": count,
        "namespaces": 1,
        "clusterpropagationpolicies": 1,
    }
    assert run.outcome.unmet == "" and of_resources(run, "patch", "create", "delete") == written
    assert run.reads % (LISTS + GETS) == 0


Act = Callable[[ModelFleet, int], ModelRun]
ACTS: Final[dict[str, tuple[Act, int]]] = {
    "nothing to do": (lambda fleet, count: fleet.run(workloads(count)), 0),
    "without waiting": (lambda fleet, count: fleet.run(workloads(count, tag="2"), wait=False), 3),  # revision, policy, Deployment
    "a change": (lambda fleet, count: fleet.run(workloads(count, tag="2")), 4),
    # The suspension, each of the two waves, and the end are a write of the policy each.
    "a change in waves": (lambda fleet, count: fleet.run(workloads(count, tag="2", rollout=WAVES)), 6),
    "more replicas": (lambda fleet, count: fleet.run(workloads(count, replicas=5)), 1),
    "removal": (lambda fleet, count: fleet.run([]), 4),  # Deployment, Service, policy, revision
}


@pytest.mark.parametrize("act", ACTS)
def test_writes_grow_with_the_workloads_alone_and_reads_not_at_all(act: str) -> None:
    carry_out, each = ACTS[act]
    few, many = (carry_out(created(count), count) for count in (FEW, MANY))
    assert few.outcome.unmet == many.outcome.unmet == ""
    assert many.writes - few.writes == each * (MANY - FEW)
    assert many.reads == few.reads


@pytest.mark.parametrize("seconds", [0, 0.01, 0.1, 10])
def test_a_run_waits_twice_as_long_as_an_observation_takes_and_never_long(seconds: float) -> None:
    """An observation costs Karmada's API server what Karmada itself needs. A run that observes quickly waits for less than a second."""
    fleet = ModelFleet(read_seconds=seconds)
    run = fleet.run(workloads(FEW))
    took = seconds * (LISTS + GETS)
    assert run.outcome.unmet == "" and run.pauses
    assert all(min(LONGEST, 1.99 * took) <= pause <= LONGEST for pause in run.pauses)  # floats of large times are not exact
    assert seconds or run.pauses[0] == PAUSES[0]


def calls(count: int, revisions: int) -> int:
    """How many functions are called to decide and to report one round."""
    fleet = created(count)
    for number in range(revisions - 1):
        fleet.run(workloads(count, tag=str(number + 2)))
    request, facts, found = fleet.request(workloads(count, tag=str(revisions))), fleet.model.facts(), 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(note)
    try:
        planned = plan_fleet(request, facts, "karmada")
        for decision in planned.decisions.values():
            workload_status(request, facts, decision)
        removed = plan_fleet(replace(request, workloads={}), facts, "karmada")
    finally:
        sys.setprofile(None)
    assert planned.plan.empty and len(removed.leaving) == count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("revisions", [1, 2])
def test_no_workload_reads_what_others_have(revisions: int) -> None:
    """Twice the workloads are twice the work: a workload that read all objects would make it four times."""
    half, whole = calls(20, revisions), calls(40, revisions)
    assert whole < 2.1 * half
