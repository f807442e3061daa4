# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies of a replaced provider: only those that are named, replaced and the provider's alone are deleted, and one in doubt keeps all."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.provider_policies import FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.provider_policies import Removal, removal_of
from tests.testing.rows import in_one_test

PROVIDER = "kcp-cilium-mesh-provider"
OLD = {"name": "old", "namespace": "shop", "intent": "front"}
APPLIED = {"name": "front", "phase": "Applied", "conditions": [{"type": "Accepted", "status": "True"}]}


def policy(name: str = "old", *managers: str, namespace: str = "shop", **labels: str) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [{"manager": manager} for manager in managers or (PROVIDER,)]
    fields.append({"manager": "cilium-agent", "subresource": "status"})
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": labels, "managedFields": fields}
    kind = "CiliumNetworkPolicy" if namespace else "CiliumClusterwideNetworkPolicy"
    return {"kind": kind, "metadata": metadata | ({"namespace": namespace} if namespace else {})}


def removed(entries: Any, *found: dict[str, Any], row: dict[str, Any] = APPLIED, foreseen: bool = False) -> Removal:
    return removal_of(entries, {"c1": list(found), "c2": []}, [row], [PROVIDER], foreseen=foreseen)


def test_only_named_policies_of_the_provider_that_are_replaced_go() -> None:
    others = (policy("other"), policy("old", namespace="elsewhere"), policy("old", namespace=""))
    found = removed([OLD], policy(), *others)
    (gone,) = found.deletions
    assert found.problems == () and (gone["cluster"], gone["namespace"], gone["name"]) == ("c1", "shop", "old")
    assert (gone["kind"], gone["uid"], gone["resourceVersion"]) == ("CiliumNetworkPolicy", "uid-old", "7")
    assert [entry["kind"] for entry in removed([{"name": "old", "intent": "front"}], *others).deletions] == [
        "CiliumClusterwideNetworkPolicy"
    ]
    assert removed([OLD]) == removed([{**OLD, "clusters": ["c2"]}], policy()) == removed([], policy()) == Removal(deletions=(), problems=())


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (policy("old", PROVIDER, "kubectl-edit"), "was written by kubectl-edit"),
        (policy("old", **{OWNER_LABEL: "x"}), "is a policy of this project"),
        ({**policy(), "metadata": {**policy()["metadata"], "managedFields": []}}, "does not say who wrote it"),
    ],
)
def test_one_policy_in_doubt_keeps_all(obj: dict[str, Any], why: str) -> None:
    found = removed([OLD, {**OLD, "name": "sound"}], obj, policy("sound"))
    assert found.deletions == () and len(found.problems) == 1 and why in found.problems[0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**APPLIED, "phase": "Degraded"}, "is Degraded and not Applied in every cluster"),
        ({**APPLIED, "phase": "Pending"}, "is Pending"),
        ({**APPLIED, "name": "another"}, "names the intent front, which is not in connectivityIntents"),
    ],
)
def test_a_policy_that_nothing_replaces_stays(row: dict[str, Any], why: str) -> None:
    found = removed([OLD], policy(), row=row)
    assert found.deletions == () and why in found.problems[0]


def test_check_mode_takes_an_accepted_intent_for_an_applied_one() -> None:
    pending = {**APPLIED, "phase": "Pending"}
    assert removed([OLD], policy(), row=pending, foreseen=True).deletions
    refused = {**APPLIED, "phase": "Error", "conditions": [{"type": "Accepted", "status": "False"}]}
    assert removed([OLD], policy(), row=refused, foreseen=True).problems


@in_one_test
@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ("old", "policies: must be a list"),
        ([{"name": "old"}], "policies[0].intent: must be"),
        ([{**OLD, "name": "*"}], "policies[0].name: must be the name of a policy"),
        ([{**OLD, "label": "x"}], "policies[0]"),
        ([{**OLD, "clusters": ["c9"]}], "c9 is none"),
        ([OLD, OLD], "is there twice"),
    ],
)
def test_what_is_no_list_of_policies_is_reported_by_its_place(entries: Any, why: str) -> None:
    found = removed(entries, policy())
    assert found.deletions == () and why in " ".join(found.problems)


def test_the_filter_reads_the_results_of_a_loop() -> None:
    judge = FilterModule().filters()["provider_policies"]
    results = [
        {"item": ["c1", "CiliumNetworkPolicy"], "resources": [policy()]},
        {"item": ["c1", "CiliumClusterwideNetworkPolicy"], "resources": []},
    ]
    assert len(judge([OLD], results, [APPLIED], [PROVIDER])["deletions"]) == 1
    with pytest.raises(AnsibleFilterError, match="k8s_info"):
        judge([OLD], [{"resources": []}], [APPLIED], [PROVIDER])
