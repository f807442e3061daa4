# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items as users write them, on scenes; what a whole run makes of them, and what is left to do after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.plan import plan_services, prune_services
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.status import service_status
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, scene, service, slice_facts, traffic

GLOBAL = "service.cilium.io/global"
SHARED = "service.cilium.io/shared"
AFFINITY = "service.cilium.io/affinity"
SYNC = "service.cilium.io/global-sync-endpoint-slices"
OLD_GLOBAL = "io.cilium/global-service"
OLD_AFFINITY = "io.cilium/service-affinity"
KEY = (NAMESPACE, "nginx")


def spec(name: str = "nginx", *, selector: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """An item of the list globalServices; Service nginx by default."""
    return {"name": name, "selector": dict(selector or {"namespace": NAMESPACE, "name": "nginx"}), **fields}


def wanting(world: Scene, *specs: Mapping[str, Any]) -> Desired:
    """What the variable cilium_mesh with these globalServices asks for."""
    return desired_of({"globalServices": list(specs)}, world.mesh, kinds=(ItemKind.GLOBAL_SERVICE,))


def cluster(host: str, *, ready: int = 2, annotations: Mapping[str, str] | None = None, **fields: Any) -> TrafficFacts:
    """A cluster with Service nginx and that many ready endpoints."""
    return traffic(host, services=[service(annotations=annotations, **fields)], slices=(slice_facts(ready=ready),))


def two(**more: Any) -> Scene:
    """Two linked clusters that both have the Service."""
    return scene(cluster("c1"), cluster("c2"), **more)


def steps_of(world: Scene, *specs: Mapping[str, Any]) -> list[Step]:
    """Everything that a run writes. Items that are refused write nothing, as the runner has it."""
    wanted = wanting(world, *specs)
    steps, _about = prune_services(wanted, world)
    return [*steps, *(step for plan in plan_services(wanted, world) if not _blocked(plan) for step in plan.steps)]


def run(world: Scene, *specs: Mapping[str, Any]) -> Scene:
    """The scene after a run, after which there is nothing more to do."""
    after = applied(world, steps_of(world, *specs), world.binding)
    left = [f"{step.cluster}: {step.verb} {step.object} ({step.why}) {step.action}" for step in steps_of(after, *specs)]
    assert not left, left
    return after


def plan_of(world: Scene, *specs: Mapping[str, Any], name: str = "nginx") -> ItemPlan:
    return next(plan for plan in plan_services(wanting(world, *specs), world) if plan.ref.name == name)


def findings_of(world: Scene, *specs: Mapping[str, Any]) -> list[Finding]:
    """All that is said, of all items and of pruning."""
    wanted = wanting(world, *specs)
    return [*prune_services(wanted, world)[1], *(found for plan in plan_services(wanted, world) for found in plan.findings)]


def codes(world: Scene, *specs: Mapping[str, Any]) -> list[str]:
    return sorted(found.code for found in findings_of(world, *specs))


def one(findings: Sequence[Finding], code: str) -> Finding:
    found = [entry for entry in findings if entry.code == code]
    assert len(found) == 1, (code, findings)
    return found[0]


def annotations_of(world: Scene, host: str, name: str = "nginx") -> dict[str, str]:
    """Of the Service, without the record."""
    annotations = world.traffic[host].services[(NAMESPACE, name)].annotations
    return {key: value for key, value in annotations.items() if not key.startswith("global-service.")}


def status_of(world: Scene, *specs: Mapping[str, Any], failed: Mapping[str, str] | None = None, name: str = "nginx") -> dict[str, Any]:
    """After a run on ``world``."""
    wanted = wanting(world, *specs)
    plan = next(plan for plan in plan_services(wanted, world) if plan.ref.name == name)
    item = next(item for item in wanted.of(ItemKind.GLOBAL_SERVICE) if item.name == name)
    steps = [step for step in steps_of(world, *specs) if step.cluster not in (failed or {})]
    return service_status(item, plan, applied(world, steps, world.binding), failed or {})


def conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Type -> (status, reason)."""
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}


def stub_at(world: Scene, host: str, name: str = "nginx") -> ObjectFacts:
    return world.traffic[host].services[(NAMESPACE, name)]


def _blocked(plan: ItemPlan) -> bool:
    return any(finding.blocks for finding in plan.findings)
