# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever a tenant writes, hostile or random: no policy without the labels of its workspace, and nothing outside its namespace.

Karmada checks none of this itself (docs/karmada-hazards.md). Each variable goes through several runs on a model of Karmada that holds
clusters of another tenant as well, with the same labels, and every write of every run is judged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import annotations_of, labels_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import KINDS, WORKLOAD_KINDS, TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetRequest
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import (
    NAME_LABEL,
    NAMESPACE_LABEL,
    WORKSPACE_LABEL,
    Tenant,
    karmada_namespace,
    member_name,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Step
from tests.testing.fleet_examples import BASES, fleet_examples
from tests.testing.karmada_model import KarmadaModel
from tests.testing.properties import examples

SHOP: Final = Tenant("shop", "default")
BANK: Final = Tenant("bank", "default")
NAMES: Final = ("a", "b.c")
FLEETS: Final = ("all", "europe")
POLICIES: Final = ("spread", "movable")
POLICY_KINDS: Final = {"PropagationPolicy": "propagationpolicies", "ClusterPropagationPolicy": "clusterpropagationpolicies"}
OF_THE_NODE: Final = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostPath",
    "privileged",
    "hostPort",
    "nodeName",
    "serviceAccountToken",
    "procMount",
)
SKIP: Final = "namespace.karmada.io/skip-auto-propagation"

TRICKS: Final[Sequence[Mapping[str, Any]]] = (
    {"work.karmada.io/conflict-resolution": "overwrite"},
    {"resourcetemplate.karmada.io/deletion-protected": "Always"},
    {"propagationpolicy.karmada.io/permanent-id": "x"},
    {"namespace.karmada.io/skip-auto-propagation": "false"},
    {"Karmada.IO/a": "b"},
    {WORKSPACE_LABEL: BANK.workspace},
    {NAMESPACE_LABEL: "other"},
    {NAME_LABEL: "another"},
    {"platform.edge-portal.eu/rollout": "{}"},
    {"platform.edge-portal.eu/content": "0" * 16},
)
"""Labels and annotations by which Karmada takes over, keeps or protects objects, or an object would count as another tenant's."""

ESCAPES: Final[Sequence[Mapping[str, Any]]] = (
    {"hostNetwork": True},
    {"hostPID": True},
    {"nodeName": "n"},
    {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    {"containers": [{"name": "web", "image": "x", "securityContext": {"privileged": True}}]},
    {"containers": [{"name": "web", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"serviceAccountName": "default", "volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
)
"""Fields of pods that reach the node, or a token."""

KINDS_OF_OTHERS: Final = (
    {"kind": "ClusterRoleBinding", "name": "x", "spec": {}},
    {"kind": "RoleBinding", "name": "x", "spec": {}},
    {"kind": "Secret", "name": "x", "data": {"a": "b"}},
    {"kind": "Namespace", "name": "kube-system", "spec": {}},
    {"kind": "OverridePolicy", "name": "x", "spec": {"overrideRules": []}},
    {"kind": "ClusterPropagationPolicy", "name": "x", "spec": {}},
    {"kind": "ConfigMap", "name": "../../kube-system/configmaps/x", "data": {}},
    {"kind": "ConfigMap", "name": "x", "namespace": "kube-system", "data": {}},
    {"kind": "PersistentVolumeClaim", "name": "x", "spec": {"volumeName": "of-the-bank"}},
)


def hostile_workloads() -> Iterator[dict[str, Any]]:
    """Yield workloads that each try one thing."""
    base: dict[str, Any] = {**copy.deepcopy(BASES["FleetWorkload"]), "fleetRef": {"name": "all"}}
    pod = base["template"]["spec"]
    for trick in TRICKS:
        for place in ("labels", "annotations"):
            yield {**base, "template": {place: dict(trick), "spec": pod}}
            yield {**base, "resources": [{"kind": "ConfigMap", "name": "x", "data": {}, place: dict(trick)}]}
        yield {**base, "service": {"ports": [{"port": 80}], "annotations": dict(trick)}}
    for escape in ESCAPES:
        yield {**base, "template": {"spec": {**pod, **escape}}}
    for body in KINDS_OF_OTHERS:
        yield {**base, "resources": [body]}
    for field in ("namespace", "metadata", "overrides", "apiVersion"):
        yield {**base, field: {"namespace": "kube-system"}}


HOSTILE_SELECTORS: Final = (
    {"matchLabels": {WORKSPACE_LABEL: BANK.workspace}},
    {"matchExpressions": [{"key": WORKSPACE_LABEL, "operator": "Exists"}]},
    {"matchExpressions": [{"key": WORKSPACE_LABEL, "operator": "NotIn", "values": [SHOP.workspace]}]},
    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
    {"matchLabels": {"tier": "edge"}},
)
STRANGERS: Final = st.sampled_from([*NAMES, member_name(BANK, "a"), member_name(BANK, "b.c"), "unknown"])


def specs(kind: str, hostile: Sequence[Mapping[str, Any]], names: Sequence[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Objects of a kind: right examples, their fields mixed, those of right and wrong ones mixed, or a hostile spec."""
    known = [example for example in fleet_examples() if example.kind == kind]
    right = [example.spec for example in known if not example.says]
    whole, mixed = st.sampled_from(right), fields(right, BASES[kind])
    wrong = st.one_of(fields([example.spec for example in known], BASES[kind]), *([st.sampled_from(hostile)] if hostile else []))
    entry = st.one_of(whole, whole, mixed, wrong)
    return st.lists(entry, min_size=len(names), max_size=len(names)).map(
        lambda found: [{**copy.deepcopy(dict(spec)), "name": name} for spec, name in zip(found, names, strict=True)]
    )


def fields(known: Sequence[Mapping[str, Any]], least: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Each field as one of the specs has it, and at random left out where it may be."""
    values = {name: st.sampled_from([spec[name] for spec in known if name in spec]) for spec in known for name in spec}
    return st.fixed_dictionaries({name: values.pop(name) for name in least}, optional=values)


FLEET_SPECS: Final = specs("Fleet", [{"selector": selector} for selector in HOSTILE_SELECTORS], FLEETS)
POLICY_SPECS: Final = specs("PlacementPolicy", (), POLICIES)
WORKLOAD_SPECS: Final = specs("FleetWorkload", [*hostile_workloads()], ("web", "shop"))


@st.composite
def fleets(draw: st.DrawFn, tenant: Tenant = SHOP) -> dict[str, Any]:
    """The variable ``fleet`` of a tenant. References lead to an object that is there in most cases."""
    found: dict[str, Any] = {
        "workspace": tenant.workspace,
        "namespace": tenant.namespace,
        "karmada": "karmada",
        "clusters": [{"name": name, "region": draw(st.sampled_from(["", "eu"])), "labels": {"tier": "edge"}} for name in NAMES],
        "fleets": draw(FLEET_SPECS),
        "placementPolicies": draw(POLICY_SPECS),
        "workloads": draw(WORKLOAD_SPECS),
    }
    for entry in found["fleets"]:
        refs = draw(st.one_of(st.just(NAMES), st.just(None), st.lists(STRANGERS, unique=True, max_size=3)))
        if refs is not None:
            entry["clusterRefs"] = [{"name": name} for name in refs]
    for entry in found["workloads"]:
        entry["fleetRef"] = {"name": draw(st.sampled_from(FLEETS))}
        placement = draw(st.sampled_from(["", *POLICIES]))
        entry.pop("placementRef", None)
        if placement:
            entry["placementRef"] = {"name": placement}
    return found


def model_of(tenant: Tenant) -> KarmadaModel:
    """A Karmada with the clusters of the tenant and those of another one, which have the same names and labels of their own."""
    members = {member_name(owner, name): {"tier": "edge", **owner.labels_of(name)} for owner in (tenant, BANK) for name in NAMES}
    return KarmadaModel(tenant=tenant, members=members)


def runs(given_fleet: Mapping[str, Any], karmada: KarmadaModel, *, end: bool = False) -> Iterator[tuple[FleetRequest, Sequence[Step]]]:
    """Yield the request and the steps of several runs, and of those that remove everything."""
    request = parse_fleet(given_fleet, ["karmada"]).request
    nothing = parse_fleet({**given_fleet, "workloads": []}, ["karmada"]).request
    for wanted in (request, request, request, *((nothing, nothing, nothing) if end else ())):
        found = plan_fleet(wanted, karmada.facts(), "karmada")
        yield wanted, found.plan.steps
        karmada.write(found.plan.steps)
        karmada.settle()
        for decision in found.decisions.values():
            assert workload_status(wanted, karmada.facts(), decision).phase


def writes(steps: Sequence[Step]) -> list[ApiWrite]:
    found = [step.action for step in steps]
    return [action for action in found if isinstance(action, ApiWrite)]


def bodies(steps: Sequence[Step]) -> list[Mapping[str, Any]]:
    return [action.body for action in writes(steps) if action.method != "delete"]


@given(fleets())
def test_no_policy_is_written_without_the_labels_of_its_workspace(given_fleet: dict[str, Any]) -> None:
    for _, steps in runs(given_fleet, model_of(SHOP)):
        for body in bodies(steps):
            assert body["kind"] in {*KINDS, *POLICY_KINDS, "Namespace", "ControllerRevision"}
            assert SHOP.labels.items() <= body["metadata"]["labels"].items()
            if body["kind"] not in POLICY_KINDS:
                continue
            placement = body["spec"]["placement"]
            assert set(placement) <= {"clusterAffinity", "replicaScheduling", "spreadConstraints"}
            affinity = placement["clusterAffinity"]
            assert affinity["labelSelector"]["matchLabels"] == SHOP.labels
            named = affinity.get("clusterNames")
            assert named is None or (named and set(named) <= {member_name(SHOP, name) for name in NAMES})
            if body["kind"] == "PropagationPolicy":
                assert body["spec"]["conflictResolution"] == "Abort" and "preserveResourcesOnDeletion" not in body["spec"]


@given(fleets())
def test_no_object_is_written_outside_the_namespace_of_its_workspace(given_fleet: dict[str, Any]) -> None:
    karmada, home = model_of(SHOP), karmada_namespace(SHOP)
    for _, steps in runs(given_fleet, karmada, end=True):
        for action in writes(steps):
            assert ".." not in action.path and "//" not in action.path
            if action.method == "delete":
                continue
            body, kind = action.body, action.body["kind"]
            path = action.path if action.method != "create" else f"{action.path}/{body['metadata']['name']}"
            if kind == "Namespace":
                assert path == f"/api/v1/namespaces/{home}" and body["metadata"]["labels"][SKIP] == "true"
            elif kind == "ClusterPropagationPolicy":
                assert path.rpartition("/")[2] == home
                assert [(row["kind"], row["name"]) for row in body["spec"]["resourceSelectors"]] == [("Namespace", home)]
            else:
                assert f"/namespaces/{home}/" in path and body["metadata"]["namespace"] == home
            if kind == "PropagationPolicy":
                for row in body["spec"]["resourceSelectors"]:
                    assert row["namespace"] == home and row["name"] and KINDS[row["kind"]].api_version == row["apiVersion"]
    for path in karmada.paths:
        assert f"/namespaces/{home}/" in path or path.endswith(f"/{home}")


@given(fleets())
def test_no_object_has_a_key_of_karmada_or_a_field_that_reaches_a_node(given_fleet: dict[str, Any]) -> None:
    for _, steps in runs(given_fleet, model_of(SHOP)):
        for body in bodies(steps):
            keys = {*labels_of(body), *annotations_of(body)}
            if body["kind"] in WORKLOAD_KINDS:
                template = body["spec"]["template"]
                keys |= {*labels_of(template), *annotations_of(template)}
                assert [name for name in fields_of(template["spec"]) if name in OF_THE_NODE] == []
            if body["kind"] == "PersistentVolumeClaim":
                assert not {"volumeName", "selector", "dataSource", "dataSourceRef"} & set(body["spec"])
            assert [key for key in keys if "karmada.io" in key.lower() and key != SKIP] == []


def fields_of(value: Any) -> Iterator[str]:
    """Yield the names of all fields at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from fields_of(inner)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from fields_of(entry)


@given(fleets())
def test_no_cluster_of_another_tenant_gets_anything(given_fleet: dict[str, Any]) -> None:
    karmada = model_of(SHOP)
    for _ in runs(given_fleet, karmada):
        placed = {row["name"] for binding in karmada.bindings.values() for row in binding["spec"]["clusters"]}
        assert placed <= {member_name(SHOP, name) for name in NAMES}


@given(fleets())
def test_what_is_removed_goes_template_first_and_leaves_nothing(given_fleet: dict[str, Any]) -> None:
    """Karmada leaves in the members what a policy brought whose template goes after it."""
    karmada = model_of(SHOP)
    for _, steps in runs(given_fleet, karmada, end=True):
        gone = [action.path for action in writes(steps) if action.method == "delete"]
        for policy in (path for path in gone if "/propagationpolicies/" in path):
            brought = {TenantObject(row["kind"], row["name"]) for row in karmada.objects[policy]["spec"]["resourceSelectors"]}
            for path in {key.path(karmada_namespace(SHOP)) for key in brought} & set(karmada.objects):
                assert path in gone and gone.index(path) < gone.index(policy)
    assert karmada.objects == {}


WORDS: Final = st.sampled_from(["a", "b", "a-b", "b-c", "c", "a.b", "default", "x" * 63])


@given(st.lists(st.builds(Tenant, WORDS, WORDS.map(lambda text: text.replace(".", "-"))), min_size=2, max_size=2, unique=True), WORDS)
def test_two_tenants_with_equal_names_share_no_namespace_and_no_member(tenants: list[Tenant], name: str) -> None:
    one, other = tenants
    assert karmada_namespace(one) != karmada_namespace(other)
    assert member_name(one, name) != member_name(other, name)
    assert len(member_name(one, name)) <= 48


@examples(30)
@given(fleets())
def test_the_same_variable_of_two_tenants_writes_no_common_object(given_fleet: dict[str, Any]) -> None:
    paths = []
    for tenant in (SHOP, BANK):
        karmada = model_of(tenant)
        for _ in runs({**given_fleet, "workspace": tenant.workspace}, karmada):
            pass
        paths.append(karmada.paths)
    assert not paths[0] & paths[1]


KEYS: Final = st.builds(
    TenantObject, st.sampled_from(sorted(KINDS)), st.sampled_from(["web", "web-deployment", "web-service", "web.service"])
)


@given(KEYS, KEYS)
def test_two_objects_never_have_one_resource_binding(one: TenantObject, other: TenantObject) -> None:
    """Karmada makes its name of the name and the kind alone, without the API group."""
    assert one == other or one.binding != other.binding


def one_workload(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many objects are refused, and how many writes a run makes, where a valid fleet and valid policies are there."""
    variable = {
        "workspace": "shop",
        "karmada": "karmada",
        "clusters": [{"name": name, "labels": {"tier": "edge"}} for name in NAMES],
        "fleets": [{"name": name, "clusterRefs": [{"name": cluster} for cluster in NAMES]} for name in FLEETS],
        "placementPolicies": [{"name": name, "strategy": "FixedReplicas"} for name in POLICIES],
        "workloads": [{**spec, "name": "web"}],
    }
    request = parse_fleet(variable, ["karmada"]).request
    return len(request.refused), len(plan_fleet(request, model_of(SHOP).facts(), "karmada").plan.steps)


def test_every_hostile_workload_is_refused_and_nothing_is_written_for_it() -> None:
    assert {one_workload(spec) for spec in hostile_workloads()} == {(1, 0)}


def test_every_right_example_is_written() -> None:
    """The properties above would hold for workloads of which none is ever carried out."""
    right = [example for example in fleet_examples() if example.kind == "FleetWorkload" and not example.says]
    assert [example.about for example in right if one_workload(example.spec)[0] or not one_workload(example.spec)[1]] == []
