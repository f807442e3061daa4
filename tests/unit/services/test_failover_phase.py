# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Failover does not wait for a mesh to be connected when the mesh broke; a mesh that is new is waited for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import item_marks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.scene import phase_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import record_key
from tests.testing.facts_builders import mesh_of
from tests.testing.traffic_builders import NAMESPACE, object_facts, service, traffic

MESH = mesh_of("c1", "c2")
OTHER = Binding(name="another", cluster_refs=("c1", "c2"))
REF = ItemRef(ItemKind.INTENT, "allow")


def marked(binding: Binding) -> Mapping[str, str]:
    return {record_key(binding): "{}"}


@pytest.mark.parametrize(("annotations", "wanted"), [({}, "Connecting"), (marked(OTHER), "Connecting"), (marked(MESH.binding), "Degraded")])
def test_a_mesh_that_carried_items_out_is_degraded_when_no_link_works(annotations: Mapping[str, str], wanted: str) -> None:
    observed = {"c1": traffic("c1", services=[service(annotations=annotations)])}
    assert phase_of({"phase": "Connecting"}, MESH, observed) == wanted


@pytest.mark.parametrize(("binding", "wanted"), [(OTHER, "Connecting"), (MESH.binding, "Degraded")])
def test_objects_that_items_made_count_as_well(binding: Binding, wanted: str) -> None:
    own = item_marks(binding, REF)
    policy = object_facts(
        "CiliumNetworkPolicy", "ciliumnetworkpolicies", "allow-1", namespace=NAMESPACE, labels=own["labels"], annotations=own["annotations"]
    )
    assert phase_of({"phase": "Connecting"}, MESH, {"c1": traffic("c1", policies=(policy,))}) == wanted


@pytest.mark.parametrize("phase", ["", "Pending", "Connected", "Degraded", "Error"])
def test_every_other_phase_stays(phase: str) -> None:
    observed = {"c1": traffic("c1", services=[service(annotations=marked(MESH.binding))])}
    assert phase_of({"phase": phase} if phase else None, MESH, observed) == phase
