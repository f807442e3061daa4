# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The manifest of any functions, mesh and cluster: it is what is written, gives what is needed, and nothing twice or without a reason."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.circumstances import names_in, of_mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.manifest import (
    Account,
    Grant,
    default_name,
    granted,
    manifest_of,
    objects_of,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.plan import Present, path_of, rbac_steps
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.rule import Circumstance, Function, RoleRule, RuleScope
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rbac.rules import RULES

BINDING = Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2"))
ACCOUNT = Account(kind="ServiceAccount", name="cilium-mesh", namespace="kube-system")


def grant_of(*functions: Function, known: dict[Circumstance, bool] | None = None, **more: Any) -> Grant:
    return Grant(
        binding=BINDING,
        name=default_name(BINDING),
        subject=more.pop("subject", ACCOUNT),
        functions=frozenset(functions),
        namespace="kube-system",
        known=known or {},
        names=names_in(None),
        **more,
    )


GRANTS = st.builds(
    lambda functions, known, namespaces: grant_of(*functions, known=known, item_namespaces=tuple(sorted(namespaces))),
    st.sets(st.sampled_from(Function), min_size=1),
    st.dictionaries(st.sampled_from(Circumstance), st.booleans()),
    st.sets(st.sampled_from(["production", "staging"])),
)


def atoms(objects: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Every right once: role, group, resource, name ("": any), verb."""
    return [
        (role["kind"], role["metadata"]["name"], group, resource, name, verb)
        for role in objects
        for row in role.get("rules", ())
        for group in row["apiGroups"]
        for resource in row["resources"]
        for name in row.get("resourceNames", [""])
        for verb in row["verbs"]
    ]


@given(GRANTS)
def test_what_is_printed_is_what_is_written(grant: Grant) -> None:
    assert [body for body in yaml.safe_load_all(manifest_of(grant)) if body] == objects_of(grant)


@given(GRANTS)
def test_every_rule_that_may_be_needed_is_given_and_no_other(grant: Grant) -> None:
    given_rights = {(group, resource, verb) for _kind, _role, group, resource, _name, verb in atoms(objects_of(grant))}
    wanted = [rule for rule in RULES if rule.functions & grant.functions and rule.needed(grant.known) is not False]
    rights = {(rule.group, resource, verb) for rule in wanted for resource in rule.resources for verb in rule.verbs}
    of_no_namespace = {right for right in rights if right[1] == "ciliumclusterwidenetworkpolicies" and right[2] != "list"}
    assert given_rights == (rights - of_no_namespace if grant.item_namespaces else rights)
    assert {rule.why for kept, covered in granted(grant) for rule in (kept, *covered)} == {rule.why for rule in wanted}


@given(GRANTS)
def test_no_rule_is_covered_by_another(grant: Grant) -> None:
    kept = [rule for rule, _covered in granted(grant)]
    assert not [(a, b) for a in kept for b in kept if a is not b and a.covers(b)]


@given(GRANTS)
def test_each_rule_has_its_reason_above_it_and_an_open_circumstance_is_named(grant: Grant) -> None:
    text = manifest_of(grant)
    for rule in RULES:
        if rule.functions & grant.functions and rule.needed(grant.known) is not False:
            assert f"# {rule.why}\n" in text
            for circumstance in rule.only - grant.known.keys():
                assert circumstance.value in text
    assert "{" not in text.replace("[{", "")


@given(GRANTS)
def test_secrets_are_never_listed_and_only_the_roll_of_a_ca_may_make_one_of_any_name(grant: Grant) -> None:
    for _kind, _role, _group, resource, name, verb in atoms(objects_of(grant)):
        assert "*" not in (resource, name, verb) and verb not in ("escalate", "impersonate", "bind")
        if resource == "secrets" and not name:
            assert verb == "create" and Function.CA in grant.functions


@given(GRANTS)
def test_functions_that_only_read_get_no_right_to_write(grant: Grant) -> None:
    reading = {Function.VERIFY, Function.STATUS, Function.EXPLAIN}
    if grant.functions <= reading:
        assert {verb for *_rest, resource, _name, verb in atoms(objects_of(grant)) if not resource.startswith("pods/")} <= {"get", "list"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.resources[0]}-{rule.why[:40]}")
def test_a_rule_is_plain(rule: RoleRule) -> None:
    assert rule.why.endswith(".") and rule.functions and rule.resources and rule.verbs
    assert not (rule.names and set(rule.verbs) == {"create"}), "RBAC cannot limit a POST to a name"
    assert not (rule.names and len(rule.resources) > 1)
    assert rule.scope is RuleScope.ITEMS or rule.functions != {Function.ITEMS} or rule.verbs == ("list",)


def test_a_kind_without_an_entry_is_wanted_and_one_that_is_not_there_is_not() -> None:
    assert of_mesh({"globalServices": []})[Circumstance.GLOBAL_SERVICES] is True
    assert of_mesh({"globalServices": None})[Circumstance.GLOBAL_SERVICES] is False
    assert set(of_mesh({}).values()) == {False}


@pytest.mark.parametrize(
    "hostile", [{"globalServices": 7}, {"exposedServices": [None, "x", {"class": {}}]}, {"connectivityIntents": [{"probe": 1}]}]
)
def test_items_of_any_shape_are_read_without_an_error(hostile: dict[str, Any]) -> None:
    assert all(isinstance(value, bool) for value in of_mesh(hostile).values())


def present(objects: list[dict[str, Any]], *, own: dict[str, list[dict[str, Any]]] | None = None) -> Present:
    return Present(at={path_of(body): body for body in objects}, own=own or {})


@given(GRANTS)
def test_what_is_there_is_not_written_again_and_all_of_it_can_be_withdrawn(grant: Grant) -> None:
    objects = objects_of(grant)
    assert rbac_steps(grant, "c1", present(objects), wanted=True) == ([], [])
    plurals = {"ClusterRole": "clusterroles", "Role": "roles", "ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings"}
    own: dict[str, list[dict[str, Any]]] = {}
    for body in objects:
        if body["kind"] in plurals:
            own.setdefault(plurals[body["kind"]], []).append(body)
    steps, findings = rbac_steps(grant, "c1", present([], own=own), wanted=False)
    assert not findings and {step.verb for step in steps} == {"delete"} and len(steps) == len(objects) - 1
    kinds = [step.object.partition(" ")[0] for step in steps]
    assert kinds == sorted(kinds, key=lambda kind: "Binding" not in kind), "bindings go before their roles"


def test_objects_of_others_are_neither_changed_nor_withdrawn() -> None:
    grant = grant_of(Function.VERIFY)
    foreign = [{**body, "metadata": {**body["metadata"], "labels": {}}, "rules": []} for body in objects_of(grant)]
    steps, findings = rbac_steps(grant, "c1", present(foreign), wanted=True)
    assert steps == [] and [finding.code for finding in findings] == ["CM-RBAC-03"] * (len(foreign) - 1)
    named = {"clusterroles": [body for body in foreign if body["kind"] == "ClusterRole"]}
    assert rbac_steps(grant, "c1", present([], own=named), wanted=False) == ([], [])
    another = objects_of(grant_of(Function.VERIFY, subject=ACCOUNT))
    for body in another:
        body["metadata"]["name"] = "other"
    assert rbac_steps(grant, "c1", present([], own={"clusterroles": [b for b in another if b["kind"] == "ClusterRole"]}), wanted=False) == (
        [],
        [],
    )
