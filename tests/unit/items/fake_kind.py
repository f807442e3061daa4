# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kind of item that is as simple as one can be: each item makes one policy per cluster. For tests of what carries items out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.item import Item
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.owned import (
    DesiredObject,
    object_changes,
    object_name,
    owned_object,
    owning_item,
    prune_steps,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.kinds import ROWS, KindRow

KIND = ItemKind.INTENT
POLICIES = "/apis/cilium.io/v2/namespaces/production/ciliumnetworkpolicies"


def intent(name: str, *, action: str = "Allow", **fields: Any) -> ConnectivityIntent:
    return ConnectivityIntent(name=name, action=action, destination=PodSelection(namespace="production"), **fields)


def desired(*intents: ConnectivityIntent, mesh: Mesh | None = None, **fields: Any) -> Desired:
    known = mesh or Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2")))
    order = tuple(ItemRef(KIND, item.name) for item in intents)
    return replace(Desired(mesh=known, items={KIND: intents}, kinds=frozenset({KIND}), order=order), **fields)


def parse(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> ConnectivityIntent | None:
    """``{action: Allow}``; anything else is refused."""
    known = problems.mapping("", spec, ("action",), optional=True)
    if known.get("action", "Allow") not in ("Allow", "Deny", "Forbidden"):
        problems.add("action", "is not known")
    return intent(name, action=str(known.get("action", "Allow")))


def plan(wanted: Desired, scene: Scene) -> list[ItemPlan]:
    """An item whose action is Forbidden is one that planning refuses."""
    observed = {host: scene.traffic[host].policies for host in scene.hosts}
    found = []
    for item in wanted.each(ConnectivityIntent):
        ref = ItemRef(KIND, item.name)
        objects = [_object(scene, ref, host, item.action) for host in scene.hosts]
        steps, findings = object_changes(scene.binding, ref, objects, observed)
        if item.action == "Forbidden":
            said = Finding(code="CM-INT-01", severity=Severity.BLOCKING, item=str(ref), cluster="c1", summary="this cannot be")
            findings = [*findings, said]
        found.append(ItemPlan(ref=ref, steps=tuple(steps), findings=tuple(findings)))
    return found


def prune(wanted: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    observed = {host: scene.traffic[host].policies for host in scene.hosts}
    return prune_steps(scene.binding, KIND, wanted.kept(KIND), observed), []


def clusters_with(planned: ItemPlan, scene: Scene) -> list[str]:
    return [host for host in scene.hosts if any(owning_item(scene.binding, p) == planned.ref for p in scene.traffic[host].policies)]


def lacking(item: Item, planned: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> frozenset[str]:
    return frozenset(scene.mesh.clusters) - frozenset(clusters_with(planned, scene))


def status(item: Item, planned: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> dict[str, Any]:
    applied = clusters_with(planned, scene)
    phase = "Applied" if len(applied) == len(scene.mesh.clusters) else "Degraded" if applied else "Applying"
    whole = phase == "Applied"
    conditions = [condition("Accepted", True, "SpecValid"), condition("Ready", whole, "Applied" if whole else "NotApplied")]
    return {"phase": phase, "appliedClusters": applied, "conditions": conditions}


ROW = KindRow(parse=parse, plan=plan, prune=prune, status=status, lacking=lacking, brief=lambda _status: "")
FAKE_ROWS = {**ROWS, KIND: ROW}


def _object(scene: Scene, ref: ItemRef, host: str, action: str) -> DesiredObject:
    name = object_name(scene.binding, ref)
    body = {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": name, "namespace": "production"},
        "spec": {"endpointSelector": {}, "ingress": [{"fromEntities": [action.lower()]}]},
    }
    return owned_object(scene.binding, ref, host, POLICIES, body, why="the intent asks for it")
