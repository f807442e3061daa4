# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ExposedService -> steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..findings import Finding, Severity
from ..items.desired import Desired
from ..items.facts import ObjectFacts
from ..items.kinds import ItemKind, ItemRef
from ..items.models import ExposedService
from ..items.owned import Wanted, changes, item_of, leftovers
from ..items.planned import PRUNE_WAVES, WAVES, ItemPlan, Verdict
from ..items.scene import Scene
from ..steps import Step
from .codes import HOSTNAME_TAKEN
from .doors import Siblings
from .findings import exposure_findings
from .hostnames import Claims
from .names import ref_of
from .objects import Place, objects_of
from .remarks import Remark
from .serving import Decision, decide

WITHDRAWAL_WAVE: Final = max(WAVES.values()) + 1
"""What an item no longer has in a cluster goes after what takes its place in another one is written."""

Inventory = dict[str, dict[str, list[ObjectFacts]]]
"""Item as text -> inventory name -> the objects of that item there."""


def plan_exposures(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """See ``items.table.KindRow``."""
    if not desired.exposures:
        return []
    claims, inventory = Claims.of(desired, scene), _inventory(scene)
    siblings = Siblings.of(desired)
    return [_plan(item, siblings, scene, claims, inventory) for item in desired.exposures]


def prune_exposures(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """See ``items.table.KindRow``."""
    kind = ItemKind.EXPOSURE
    if kind not in desired.kinds:
        return [], []
    observed = {host: scene.traffic[host].owned for host in scene.hosts}
    return leftovers(scene.binding, kind, desired.kept(kind), observed, wave=PRUNE_WAVES[kind]), []


def _plan(item: ExposedService, siblings: Siblings, scene: Scene, claims: Claims, inventory: Inventory) -> ItemPlan:
    ref = ref_of(item)
    if not claims.has(item):
        taken = _taken(item)
        return _refused(ref, taken, (taken.finding(ref, Severity.BLOCKING),))
    decision = decide(item, siblings, scene)
    nowhere = _possible_nowhere(decision)
    told = tuple(exposure_findings(decision, scene, blocking=nowhere is not None))
    if nowhere is not None:
        return _refused(ref, nowhere, told)
    steps, foreign = _steps(decision, scene, inventory)
    if foreign:
        return ItemPlan(ref=ref, verdict=Verdict.REFUSED, reason="ForeignObject", message=foreign[0].summary, findings=(*foreign, *told))
    return ItemPlan(ref=ref, steps=tuple(steps), findings=told, detail=siblings)


def _steps(decision: Decision, scene: Scene, inventory: Inventory) -> tuple[list[Step], list[Finding]]:
    item = decision.item
    ref = ref_of(item)
    wanted = [entry for host in decision.order if host in decision.wanted for entry in _wanted(decision, host, scene)]
    own = inventory.get(str(ref), {})
    observed = {host: list(own.get(host, ())) for host in scene.hosts if host not in decision.left_alone}
    for entry in wanted:
        there = scene.traffic[entry.cluster].by_path.get(entry.path)
        if there is not None and there not in observed[entry.cluster]:
            observed[entry.cluster].append(there)  # somebody else's
    return changes(scene.binding, ref, wanted, observed, wave=WAVES[ItemKind.EXPOSURE], prune_wave=WITHDRAWAL_WAVE)


def _wanted(decision: Decision, host: str, scene: Scene) -> list[Wanted]:
    look = decision.looks[host]
    if look.target is None or look.enforcement is None:
        return []
    place = Place(
        binding=scene.binding,
        item=decision.item,
        host=host,
        target=look.target,
        enforcement=look.enforcement,
        serving=host in decision.serving,
    )
    return objects_of(place)


def _inventory(scene: Scene) -> Inventory:
    found: Inventory = {}
    for host in scene.hosts:
        for entry in scene.traffic[host].owned:
            ref = item_of(scene.binding, entry)
            if ref is not None and ref.kind is ItemKind.EXPOSURE:
                found.setdefault(str(ref), {}).setdefault(host, []).append(entry)
    return found


def _possible_nowhere(decision: Decision) -> Remark | None:
    """The first reason, when no cluster of the item that answers can have it. Silence is no reason."""
    if not decision.item.source_ranges or any(look.enforcement is not None for look in decision.looks.values()):
        return None
    return next(_troubles(decision), None)


def _troubles(decision: Decision) -> Iterator[Remark]:
    for host in decision.order:
        trouble = decision.looks[host].trouble
        if trouble is not None:
            yield trouble


def _refused(ref: ItemRef, why: Remark, findings: tuple[Finding, ...]) -> ItemPlan:
    return ItemPlan(ref=ref, verdict=Verdict.REFUSED, reason=why.reason, message=f"{why.summary}.", findings=findings)


def _taken(item: ExposedService) -> Remark:
    return Remark(
        code=HOSTNAME_TAKEN,
        reason="HostnameConflict",
        summary=f"The hostname {item.hostname} is taken: somebody had it before",
        evidence="the oldest claim to a name wins; whose it is is not said",
        fix="Choose another hostname. What this item made before is left as it is.",
    )
