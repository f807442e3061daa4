# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a ResourceBinding of Karmada reports of a member: an object that its controller has not seen yet is neither healthy nor ill."""

from __future__ import annotations

from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.facts import binding_facts
from tests.testing.rows import one_test


@one_test(
    "kind health generations expected",
    ("Deployment", "Unhealthy", {"generation": 8, "observedGeneration": 7}, "Unknown"),
    ("DaemonSet", "Unhealthy", {"generation": 8, "observedGeneration": 7}, "Unknown"),
    ("Deployment", "Unhealthy", {"generation": 1}, "Unknown"),
    ("StatefulSet", "Unhealthy", {"generation": 8}, "Unhealthy"),  # Karmada passes on no observedGeneration of it
    ("Deployment", "Unhealthy", {"generation": 8, "observedGeneration": 8}, "Unhealthy"),
    ("Deployment", "Unhealthy", {}, "Unhealthy"),
    ("Deployment", "Unhealthy", {"generation": "8", "observedGeneration": True}, "Unhealthy"),
    ("Deployment", "Healthy", {"generation": 8, "observedGeneration": 7}, "Healthy"),
    ("Deployment", "Odd", {"generation": 8, "observedGeneration": 8}, "Unknown"),
)
def test_a_change_that_the_member_has_not_seen_makes_nothing_unhealthy(
    kind: str, health: str, generations: dict[str, Any], expected: str
) -> None:
    row = {"clusterName": "c1", "applied": True, "health": health, "status": {"replicas": 8, "readyReplicas": 8, **generations}}
    found = binding_facts(
        {"spec": {"resource": {"kind": kind}, "clusters": [{"name": "c1", "replicas": 2}]}, "status": {"aggregatedStatus": [row]}}
    )
    assert (found.placed["c1"].health, found.placed["c1"].ready) == (expected, 8)
