# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A workload names clusters and, for its global Service, a GlobalService. Its status says, once, when one is not there or is another's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.group_status import fleet_statuses
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import (
    ClusterRequirement,
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    PlacementPolicy,
    RolloutRules,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import (
    OPERATOR_ANNOTATION,
    Tenant,
    karmada_namespace,
    member_name,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import FleetPlan, plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import global_services
from tests.testing.karmada_model import KarmadaModel
from tests.testing.properties import examples

TENANT: Final = Tenant("shop", "default")
NAMES: Final = ("a", "b", "c")
TEMPLATE: Final = {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}
PORTS: Final = {"ports": [{"port": 80}]}
GLOBAL: Final = {**PORTS, "global": True, "meshRef": {"name": "edge"}}


def karmada() -> KarmadaModel:
    return KarmadaModel(tenant=TENANT, members={member_name(TENANT, name): TENANT.labels for name in NAMES})


def request(existing: tuple[str, ...] = NAMES, **more: Any) -> FleetRequest:
    """The request of a tenant whose Fleet, weights and waves name all clusters, of which some exist."""
    clusters = {name: FleetCluster(name=name, member=member_name(TENANT, name)) for name in existing}
    policy = PlacementPolicy(name="where", strategy="Weighted", weights=dict.fromkeys(NAMES, 1))
    waves = RolloutRules(waves=tuple((name,) for name in NAMES))
    web = FleetWorkload(name="web", fleet="all", placement="where", replicas=6, template=TEMPLATE, rollout=waves)
    usual: dict[str, Any] = {"fleets": {"all": Fleet(name="all", clusters=NAMES)}, "policies": {"where": policy}, "workloads": {"web": web}}
    return FleetRequest(tenant=TENANT, clusters=clusters, **{**usual, **more})


def rounds(model: KarmadaModel, wanted: FleetRequest, count: int = 8) -> FleetPlan:
    for _ in range(count):
        model.write(plan_fleet(wanted, model.facts(), "karmada").plan.steps)
        model.settle()
    return plan_fleet(wanted, model.facts(), "karmada")


def status(model: KarmadaModel, wanted: FleetRequest, planned: FleetPlan) -> tuple[Mapping[str, Any], list[str]]:
    """Status of the workload, and the codes of all findings of the round."""
    found = workload_status(wanted, model.facts(), planned.decisions["web"])
    return found.status, [entry.code for entry in (*planned.plan.problems, *found.findings)]


def condition(found: Mapping[str, Any], kind: str) -> tuple[str, str, str]:
    return next(((row["status"], row["reason"], row["message"]) for row in found["conditions"] if row["type"] == kind), ("", "", ""))


@examples(30)
@given(st.sets(st.sampled_from(NAMES)))
def test_clusters_that_are_deleted_are_named_and_all_heals_when_they_are_back(deleted: set[str]) -> None:
    model, existing = karmada(), tuple(name for name in NAMES if name not in deleted)
    rounds(model, request())
    wanted = request(existing)
    planned = rounds(model, wanted)
    found, codes = status(model, wanted, planned)
    holds, reason, message = condition(found, "ClustersFound")
    assert (holds, reason) == (("False", "ClustersMissing") if deleted else ("True", "ClustersFound"))
    for place in ("Fleet all", "PlacementPolicy where", "its own rollout.waves"):
        said = message.partition(f"{place} names ")[2].partition(";")[0].rstrip(".")
        assert set(said.replace(" and ", ", ").split(", ")) - {""} == deleted, message
    assert codes.count("CM-FLEET-11") == (1 if deleted and existing else 0), codes
    fleet = fleet_statuses(wanted, model.facts())[0]
    assert (condition(fleet, "Ready")[1] == "ClustersMissing") == bool(deleted)
    if existing:
        assert {row["clusterName"] for row in found["placements"]} == set(existing)
        assert found["phase"] == "Available", "it goes where it may, and says what it misses"
    else:
        assert codes == ["CM-FLEET-02"], "the same cause makes one finding"
    healed, codes = status(model, request(), rounds(model, request()))
    assert (condition(healed, "ClustersFound")[0], healed["phase"], codes) == ("True", "Available", [])


FOREIGN: Final = {"metadata": {"name": karmada_namespace(TENANT), "labels": {}}}
NOWHERE: Final = PlacementPolicy(name="where", strategy="FixedReplicas", requirements=(ClusterRequirement("region", "In", ("us",)),))


@pytest.mark.parametrize(
    ("existing", "more", "namespace", "code"),
    [
        (NAMES, {}, FOREIGN, "CM-FLEET-04"),
        (NAMES, {"fleets": {}}, None, "CM-FLEET-02"),
        (NAMES, {"policies": {}}, None, "CM-FLEET-02"),
        (NAMES, {"policies": {"where": NOWHERE}}, None, "CM-FLEET-02"),
        ((), {}, None, "CM-FLEET-02"),
        (("a",), {}, None, "CM-FLEET-11"),
    ],
    ids=["foreign-namespace", "no-fleet", "no-policy", "no-cluster-fits", "all-clusters-deleted", "two-clusters-deleted"],
)
def test_one_cause_makes_one_finding(
    existing: tuple[str, ...], more: dict[str, Any], namespace: Mapping[str, Any] | None, code: str
) -> None:
    model, wanted = karmada(), request(existing, **more)
    facts = replace(model.facts(), namespace=namespace) if namespace else model.facts()
    planned = plan_fleet(wanted, facts, "karmada")
    found = workload_status(wanted, facts, planned.decisions["web"])
    assert [entry.code for entry in (*planned.plan.problems, *found.findings)] == [code]
    assert condition(found.status, "Ready")[2] or code == "CM-FLEET-11", "the status itself has the reason too"


@pytest.mark.parametrize("taken", [frozenset(), frozenset({"fleet-web"}), frozenset({"web", "fleet-other"})])
@pytest.mark.parametrize("service", [None, PORTS, GLOBAL], ids=["none", "local", "global"])
def test_a_global_service_of_the_tenants_own_is_named_and_none_is_asked_for_in_its_place(
    taken: frozenset[str], service: Mapping[str, Any] | None
) -> None:
    wanted = request(taken_services=taken)
    wanted = replace(wanted, workloads={"web": replace((wanted.workloads or {})["web"], service=service)})
    model = karmada()
    found, codes = status(model, wanted, rounds(model, wanted))
    clash, asks = service is GLOBAL and "fleet-web" in taken, service is GLOBAL and "fleet-web" not in taken
    assert [row["name"] for row in global_services(wanted)] == (["fleet-web"] if asks else [])
    assert condition(found, "ServiceGlobal")[:2] == (("False", "NameTaken") if clash else ("True", "Asked") if asks else ("", ""))
    assert codes == (["CM-FLEET-12"] if clash else [])
    assert found["phase"] == "Available", "the workload itself runs as it should"


def test_the_namespace_of_a_tenant_has_the_mark_of_the_operator_and_takes_that_of_the_last_one_that_wrote() -> None:
    model = karmada()
    marks = []
    for operator in ("one", "two", ""):
        wanted = request(operator=operator)
        assert rounds(model, wanted).plan.empty
        marks.append(((model.facts().namespace or {})["metadata"].get("annotations") or {}).get(OPERATOR_ANNOTATION))
    assert marks[:2] == ["one", "two"]
