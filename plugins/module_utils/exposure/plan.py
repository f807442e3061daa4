# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan of ExposedServices: items into steps."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.finding import Finding
from ..items.desired import Desired
from ..items.models import ExposedService
from ..items.owned import DesiredObject, object_changes, owning_item, prune_steps
from ..items.planned import PRUNE_WAVES, WAVES, ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts
from ..plan.steps import Step
from .competing_services import CompetingServices
from .findings import exposure_findings
from .hostnames import HostnameRequests
from .issues import ExposureIssue
from .objects import Place, objects_of
from .placement import PlacementDecision, decide_placement

Inventory = dict[str, dict[str, list[ObjectFacts]]]
"""Item as text -> inventory name -> the objects of that item there."""


def plan_exposures(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """Return the plan of each ExposedService. See ``KindRow`` (reconcile/kinds.py)."""
    if not desired.each(ExposedService):
        return []
    claims, inventory = HostnameRequests.of(desired, scene), _inventory(scene)
    siblings = CompetingServices.of(desired)
    return [_plan(item, siblings, scene, claims, inventory) for item in desired.each(ExposedService)]


def prune_exposures(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """Return the steps that prune exposed services. See ``KindRow`` (reconcile/kinds.py)."""
    kind = ItemKind.EXPOSURE
    if kind not in desired.kinds:
        return [], []
    observed = {host: scene.traffic[host].owned for host in scene.hosts}
    return prune_steps(scene.binding, kind, desired.kept(kind), observed, wave=PRUNE_WAVES[kind]), []


def _plan(item: ExposedService, siblings: CompetingServices, scene: Scene, claims: HostnameRequests, inventory: Inventory) -> ItemPlan:
    ref = item.ref
    if not claims.has(item):
        taken = _taken(item)
        return _refused(ref, taken, (taken.about(ref),))
    decision = decide_placement(item, siblings, scene)
    nowhere = _possible_nowhere(decision)
    found = tuple(exposure_findings(decision, scene, blocking=nowhere is not None))
    if nowhere is not None:
        return _refused(ref, nowhere, found)
    steps, foreign = _steps(decision, scene, inventory)
    if foreign:
        return ItemPlan(
            ref=ref, verdict=ItemVerdict.REFUSED, reason="ForeignObject", message=foreign[0].summary, findings=(*foreign, *found)
        )
    unplaced = not decision.wanted and any(assessment.enforcement is not None for assessment in decision.assessments.values())
    return ItemPlan(ref=ref, steps=tuple(steps), findings=found, unplaced=unplaced, detail=siblings)


def _steps(decision: PlacementDecision, scene: Scene, inventory: Inventory) -> tuple[list[Step], list[Finding]]:
    item = decision.item
    ref = item.ref
    wanted = [entry for host in decision.order if host in decision.wanted for entry in _wanted(decision, host, scene)]
    own = inventory.get(str(ref), {})
    observed = {host: list(own.get(host, ())) for host in scene.hosts if host not in decision.left_alone}
    for entry in wanted:
        found = scene.traffic[entry.cluster].by_path.get(entry.path)
        if found is not None and found not in observed[entry.cluster]:
            observed[entry.cluster].append(found)  # of another owner
    return object_changes(scene.binding, ref, wanted, observed, wave=WAVES[ItemKind.EXPOSURE], prune_wave=PRUNE_WAVES[ItemKind.EXPOSURE])


def _wanted(decision: PlacementDecision, host: str, scene: Scene) -> list[DesiredObject]:
    assessment = decision.assessments[host]
    if assessment.target is None or assessment.enforcement is None:
        return []
    place = Place(
        binding=scene.binding,
        item=decision.item,
        host=host,
        target=assessment.target,
        enforcement=assessment.enforcement,
        serving=host in decision.serving,
    )
    return objects_of(place)


def _inventory(scene: Scene) -> Inventory:
    found: Inventory = {}
    for host in scene.hosts:
        for entry in scene.traffic[host].owned:
            ref = owning_item(scene.binding, entry)
            if ref is not None and ref.kind is ItemKind.EXPOSURE:
                found.setdefault(str(ref), {}).setdefault(host, []).append(entry)
    return found


def _possible_nowhere(decision: PlacementDecision) -> ExposureIssue | None:
    """Return the first issue, if no cluster of the item that answers can expose it. Silence alone is no issue."""
    if not decision.item.source_ranges or any(assessment.enforcement is not None for assessment in decision.assessments.values()):
        return None
    return next(_troubles(decision), None)


def _troubles(decision: PlacementDecision) -> Iterator[ExposureIssue]:
    for host in decision.order:
        trouble = decision.assessments[host].trouble
        if trouble is not None:
            yield trouble


def _refused(ref: ItemRef, why: ExposureIssue, findings: tuple[Finding, ...]) -> ItemPlan:
    return ItemPlan(ref=ref, verdict=ItemVerdict.REFUSED, reason=why.reason, message=f"{why.summary}.", findings=findings)


def _taken(item: ExposedService) -> ExposureIssue:
    return ExposureIssue(
        code="CM-EXPO-06",
        reason="HostnameConflict",
        summary=f"The hostname {item.hostname} is taken: another item claimed it before",
        evidence="the oldest claim to a name wins; its owner is not shown",
        fix="Choose another hostname. The objects that this item made before stay as they are.",
    )
