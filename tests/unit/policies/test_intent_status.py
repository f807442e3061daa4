# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The status tells in which clusters the policy stands, and why it does not in the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.plan import plan_intents
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.status import intent_status
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, traffic

INTENT = ConnectivityIntent(
    name="frontend-to-backend",
    action="Allow",
    source=PodSelection(namespace=NAMESPACE, labels={"app": "frontend"}, clusters=("c1",)),
    destination=PodSelection(namespace=NAMESPACE, labels={"app": "backend"}, clusters=("c1", "c2")),
)


def status_of(before: Scene, after: Scene | None = None, **failed: str) -> dict[str, Any]:
    (plan,) = plan_intents(Desired(mesh=before.mesh, items={ItemKind.INTENT: (INTENT,)}, kinds=frozenset({ItemKind.INTENT})), before)
    steps = [step for step in plan.steps if step.cluster not in failed]
    return intent_status(INTENT, plan, after or applied(before, steps, before.binding), failed)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}


def test_the_status_of_the_seed() -> None:
    status = status_of(scene(traffic("c1"), traffic("c2")))
    assert (status["phase"], status["appliedClusters"]) == ("Applied", ["c1", "c2"])
    assert conditions(status) == {
        "Accepted": ("True", "SpecValid"),
        "Applied": ("True", "AllClustersApplied"),
        "Ready": ("True", "Applied"),
        "Degraded": ("False", "AllClustersApplied"),
    }
    assert [(row["clusterName"], row["kind"], row["namespace"]) for row in status["policies"]] == [
        ("c1", "CiliumNetworkPolicy", NAMESPACE),
        ("c2", "CiliumNetworkPolicy", NAMESPACE),
    ]


def test_before_the_writes_nothing_is_in_force() -> None:
    before = scene(traffic("c1"), traffic("c2"))
    status = status_of(before, before)
    assert (status["phase"], status["appliedClusters"], status["policies"]) == ("Applying", [], [])
    assert conditions(status)["Ready"] == ("False", "Applying")


def test_a_failed_write_in_one_cluster_is_a_degraded_intent() -> None:
    status = status_of(scene(traffic("c1"), traffic("c2")), c2="forbidden")
    assert (status["phase"], status["appliedClusters"]) == ("Degraded", ["c1"])
    assert conditions(status)["Applied"] == ("False", "ApplyFailed") and conditions(status)["Degraded"] == ("True", "PartiallyApplied")
    assert "c2: forbidden" in status["conditions"][1]["message"]


def test_a_failed_write_everywhere_is_an_error() -> None:
    status = status_of(scene(traffic("c1"), traffic("c2")), c1="forbidden", c2="forbidden")
    assert status["phase"] == "Error" and conditions(status)["Degraded"] == ("False", "NotApplied")


@pytest.mark.parametrize("others", [True, False])
def test_a_silent_cluster_is_named_with_its_reason(others: bool) -> None:
    failures = {host: ObserveFailure(host=host, code="CM-API-01", message="no route to host") for host in ("c1", "c2")}
    answering = (traffic("c1"),) if others else ()
    before = scene(*answering, members=("c2",) if others else ("c1", "c2"), failures=failures)
    status = status_of(before)
    assert status["phase"] == ("Degraded" if others else "Pending")
    assert conditions(status)["Ready"] == ("False", "ClusterUnreachable") and "c2: no route to host" in status["conditions"][2]["message"]


def test_a_missing_namespace_is_named() -> None:
    going = replace(namespace_facts(), status={"phase": "Terminating"})
    status = status_of(scene(traffic("c1"), traffic("c2", namespaces=[going])))
    assert (status["phase"], conditions(status)["Ready"]) == ("Degraded", ("False", "NamespaceMissing"))


def test_a_policy_that_cilium_refuses_is_not_in_force() -> None:
    before = scene(traffic("c1"), traffic("c2"))
    (plan,) = plan_intents(Desired(mesh=before.mesh, items={ItemKind.INTENT: (INTENT,)}, kinds=frozenset({ItemKind.INTENT})), before)
    after = applied(before, plan.steps, before.binding)
    refused = {"conditions": [{"type": "Valid", "status": "False", "message": "too many ports"}]}
    policies = tuple(replace(entry, status=refused) for entry in after.traffic["c2"].policies)
    after = replace(after, traffic={**after.traffic, "c2": replace(after.traffic["c2"], policies=policies)})
    status = intent_status(INTENT, plan, after, {})
    assert (status["phase"], status["appliedClusters"]) == ("Degraded", ["c1"])
    assert conditions(status)["Applied"] == ("False", "PolicyInvalid") and "too many ports" in status["conditions"][1]["message"]


def test_a_policy_that_stands_otherwise_than_it_was_written_is_not_in_force() -> None:
    """As where the API server dropped a field, or another writer was quicker."""
    before = scene(traffic("c1"), traffic("c2"))
    (plan,) = plan_intents(Desired(mesh=before.mesh, items={ItemKind.INTENT: (INTENT,)}, kinds=frozenset({ItemKind.INTENT})), before)
    after = applied(before, plan.steps, before.binding)
    policies = tuple(replace(entry, spec={"endpointSelector": {}}) for entry in after.traffic["c2"].policies)
    after = replace(after, traffic={**after.traffic, "c2": replace(after.traffic["c2"], policies=policies)})
    assert intent_status(INTENT, plan, after, {})["appliedClusters"] == ["c1"]
