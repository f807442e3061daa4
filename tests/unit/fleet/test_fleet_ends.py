# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A run of the fleet that waits ends well only if all that is wanted is there, and all that is not wanted is gone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetWorkload, Operation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import GRACE
from tests.testing.karmada_api import SHOP, ModelFleet, ModelRun

NAMESPACE: Final = karmada_namespace(SHOP)
DEPLOYMENT: Final = TenantObject("Deployment", "web").path(NAMESPACE)
POLICY: Final = f"/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/propagationpolicies/web"
REVISION: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions/web-r1"


def workload(name: str = "web") -> FleetWorkload:
    return FleetWorkload(name=name, fleet="all", template={"spec": {"containers": [{"name": "web", "image": "web:1"}]}})


def lines_of(run: ModelRun) -> list[str]:
    return [f"{entry.code} {entry.item} {entry.summary} {entry.evidence} {entry.fix}" for entry in run.outcome.findings]


@pytest.fixture
def fleet() -> ModelFleet:
    fleet = ModelFleet()
    assert fleet.run([workload(), workload("other")]).outcome.unmet == ""
    return fleet


@pytest.mark.parametrize("path", [DEPLOYMENT, POLICY, REVISION])
@pytest.mark.parametrize("rest", [0, 1])
def test_a_workload_that_is_still_there_when_time_is_over_is_named_with_what_holds_it(fleet: ModelFleet, path: str, rest: int) -> None:
    fleet.model.holds = {path: "karmada.io/binding-controller"}
    wanted = [workload("other")][:rest]
    run = fleet.run(wanted)
    assert run.outcome.unmet == "What is not wanted any more is still there; the findings say what holds it."
    (said,) = lines_of(run)
    assert said.startswith("CM-FLEET-13 fleetWorkloads/web FleetWorkload web is not wanted any more, and was not gone within 600 s")
    assert 'finalizers "karmada.io/binding-controller"' in said and path.rpartition("/")[2] in said
    del fleet.model.objects[path]
    assert (fleet.run(wanted).outcome.unmet, lines_of(fleet.run(wanted))) == ("", [])


def test_a_cluster_that_is_not_ready_is_named(fleet: ModelFleet) -> None:
    fleet.model.holds = {DEPLOYMENT: "karmada.io/binding-controller"}
    fleet.model.kill(member_name(SHOP, "c2"))
    (said,) = [line for line in lines_of(fleet.run([workload("other")])) if line.startswith("CM-FLEET-13")]
    assert "clusters that are not Ready: c2" in said and "Bring c2 back" in said


def test_what_a_dead_cluster_still_has_is_awaited_and_named_by_every_run(fleet: ModelFleet) -> None:
    """Templates go at once; the ResourceBinding stays until Karmada reaches the cluster."""
    fleet.model.waits_for_dead = True
    fleet.model.kill(member_name(SHOP, "c2"))
    for _ in range(2):
        run = fleet.run([workload("other")])
        (said,) = [line for line in lines_of(run) if line.startswith("CM-FLEET-13")]
        assert sum(run.pauses) < 2 * GRACE, "time alone brings nothing back from a cluster that is not Ready"
        assert "ResourceBinding web-deployment" in said and "clusters that are not Ready: c2" in said and run.outcome.unmet
    fleet.model.revive(member_name(SHOP, "c2"))
    run = fleet.run([workload("other")])
    assert (run.outcome.unmet, lines_of(run)) == ("", [])


def test_an_object_beside_a_workload_that_does_not_go_is_named() -> None:
    fleet, config = ModelFleet(), {"kind": "ConfigMap", "name": "conf", "data": {"A": "1"}}
    assert fleet.run([replace(workload(), resources=(config,))]).outcome.unmet == ""
    path = TenantObject("ConfigMap", "conf").path(NAMESPACE)
    fleet.model.holds = {path: "example.com/backup"}
    run = fleet.run([workload()])
    (said,) = lines_of(run)
    assert run.outcome.unmet and "ConfigMap conf" in said and 'finalizers "example.com/backup"' in said
    del fleet.model.objects[path]
    assert (fleet.run([workload()]).outcome.unmet, fleet.run([workload()]).outcome.findings) == ("", ())


def test_a_namespace_that_stays_is_named(fleet: ModelFleet) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}"
    fleet.model.holds = {path: "kubernetes"}
    run = fleet.run([])
    assert run.outcome.unmet and "has no workload any more" in lines_of(run)[0]
    del fleet.model.objects[path]
    assert fleet.run([]).outcome.unmet == ""


def test_the_policy_of_a_namespace_that_stays_is_named(fleet: ModelFleet) -> None:
    path = f"/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/{NAMESPACE}"
    fleet.model.holds = {path: "example.com/backup"}
    run = fleet.run([])
    assert f"/api/v1/namespaces/{NAMESPACE}" not in fleet.model.objects
    (said,) = lines_of(run)
    assert run.outcome.unmet and f"ClusterPropagationPolicy {NAMESPACE}" in said and 'finalizers "example.com/backup"' in said
    del fleet.model.objects[path]
    assert (fleet.run([]).outcome.unmet, fleet.run([]).writes) == ("", 0)


@pytest.mark.parametrize("wait", [True, False])
def test_an_operation_that_cannot_be_carried_out_fails_the_run_that_asks_for_it(fleet: ModelFleet, wait: bool) -> None:
    asked = replace(workload(), operation=Operation("Rollback", "back", 7))
    run = fleet.run([asked, workload("other")], wait=wait)
    assert run.outcome.unmet == "The operation on web is not carried out: There is no revision 7; there are 1."
    assert fleet.run([workload(), workload("other")], wait=wait).outcome.unmet == ""


def test_an_eviction_that_the_rules_do_not_permit_fails_a_run_that_waits(fleet: ModelFleet) -> None:
    """A cluster must not be taken for empty before its maintenance because a run ended well."""
    fleet.model.kill(member_name(SHOP, "c2"))
    wanted = [replace(workload(), operation=Operation("Evict", "op-1", cluster="c1")), workload("other")]
    run = fleet.run(wanted)
    assert "Evict c1 of web is not carried out yet; the findings say what is in the way." in run.outcome.unmet
    assert [line for line in lines_of(run) if line.startswith("CM-FLEET-06") and "c1 is kept in spite of Requested" in line]
    fleet.model.revive(member_name(SHOP, "c2"))
    run = fleet.run(wanted)
    assert run.outcome.unmet == "" and sum(run.pauses) > 300, "c2 has to be Ready for so long"


def test_a_run_that_ends_well_leaves_nothing_to_write_whenever_its_time_is_over(fleet: ModelFleet) -> None:
    """The last write of a change deletes the oldest revision, when the new one is Available already."""
    changed = replace(workload(), template={"spec": {"containers": [{"name": "web", "image": "web:2"}]}}, history_limit=1)
    third = replace(changed, template={"spec": {"containers": [{"name": "web", "image": "web:3"}]}})
    assert fleet.run([changed, workload("other")]).outcome.unmet == ""
    ends = set()
    for hundredths in range(0, 40, 4):  # seconds that each read takes
        late = copy.deepcopy(fleet)
        late.read_seconds = hundredths / 100
        end = late.run([third, workload("other")], timeout=5).outcome.unmet
        left = late.run([third, workload("other")]).writes
        assert end or not left, late.read_seconds
        ends.add(end)
    assert {"", "Time was over before the last 2 writes. Run again."} < ends, ends


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda fleet: fleet.run([], wait=False), id="without waiting"),
        pytest.param(lambda fleet: fleet.run([], check_mode=True), id="a check"),
    ],
)
def test_where_a_run_does_not_wait_nothing_is_late(fleet: ModelFleet, run: Callable[[ModelFleet], ModelRun]) -> None:
    fleet.model.holds = {DEPLOYMENT: "karmada.io/binding-controller"}
    ended = run(fleet)
    assert (ended.outcome.unmet, lines_of(ended)) == ("", [])


def test_a_run_that_says_nothing_of_workloads_waits_for_nothing(fleet: ModelFleet) -> None:
    run = fleet.run(None)
    assert (run.outcome.unmet, run.pauses, run.writes) == ("", (), 0)
