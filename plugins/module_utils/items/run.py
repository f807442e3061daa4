# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All items of a run: which are carried out, what is written for them, and what has to be said. Pure.

Every write of every item is decided before the first one is made, on one scene. An item that is refused, or that waits, loses its steps and
takes nobody with it. docs/decisions/0019 has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..collector import collector_paused
from ..findings import Finding, Severity, ordered
from ..steps import Plan, Step
from .codes import SPEC_INVALID, WAITS
from .desired import Desired, Refused
from .foresee import foreseen
from .kinds import ItemKind, ItemRef
from .planned import ItemPlan, Verdict
from .relied import relied_on_items
from .scene import CONNECTED_PHASES, Scene
from .table import ROWS, KindRow


@dataclass(frozen=True, kw_only=True)
class ItemsPlan:
    """Everything that was decided."""

    items: tuple[ItemPlan, ...]  # every item of the file, in its order; those that are not carried out have no steps
    findings: tuple[Finding, ...]  # about items, and about what could not be taken away
    plan: Plan  # never blocked: what blocks an item has cost it its steps

    def of(self, verdict: Verdict) -> tuple[ItemPlan, ...]:
        return tuple(item for item in self.items if item.verdict is verdict)


@collector_paused()
def plan_items(
    desired: Desired,
    scene: Scene,
    *,
    former: Scene | None = None,
    waits: bool | None = None,
    options: Mapping[str, Any] | None = None,
    rows: Mapping[ItemKind, KindRow] | None = None,
) -> ItemsPlan:
    """What ``desired`` comes to in ``scene``.

    :param former: clusters that are no members any more: whatever items made there is taken away.
    :param waits: do items wait, because the binding is not connected? None: as the phase of the scene says.
    :param options: choices of the user; they are part of the plan, and so of its hash.
    :param rows: what each kind can do; None: the table.
    """
    table = rows or ROWS
    held = waits_for_mesh(scene) if waits is None else waits
    plans: dict[ItemRef, ItemPlan] = {entry.ref: _refused(entry) for entry in desired.refused}
    steps: list[Step] = []
    said: list[Finding] = []
    expected = scene
    for kind in (kind for kind in ItemKind if kind in desired.kinds):
        for place, wanted in ((scene, desired), *(((former, Desired(mesh=former.mesh, kinds=desired.kinds)),) if former else ())):
            gone, about = table[kind].prune(wanted, place)
            steps += gone
            said += about
        if desired.of(kind):
            plans.update({plan.ref: _decided(plan, scene, held) for plan in table[kind].plan(desired, expected)})
        if kind is ItemKind.GLOBAL_SERVICE:
            expected = foreseen(scene, [*steps, *(step for plan in plans.values() for step in plan.steps)])
    items = tuple(plans[ref] for ref in (desired.order or plans))
    steps += [_named(step, plan.ref) for plan in items for step in plan.steps]
    steps.sort(key=lambda step: step.wave)
    findings = ordered((*said, *(finding for plan in items for finding in plan.findings)))
    relied_on = relied_on_items(scene, items, steps, findings)
    if former:
        relied_on |= relied_on_items(former, (), steps, ())
    plan = Plan(manager=desired.mesh.binding.manager, steps=tuple(steps), options=dict(options or {}), relied_on=relied_on)
    return ItemsPlan(items=items, findings=findings, plan=plan)


def waits_for_mesh(scene: Scene) -> bool:
    """Is the binding known not to be connected? ("The referenced ClusterMeshBinding must be in Connected or Degraded phase.")"""
    return scene.phase != "" and scene.phase not in CONNECTED_PHASES


def _refused(entry: Refused) -> ItemPlan:
    problems = "; ".join(entry.problems)
    finding = Finding(
        code=SPEC_INVALID,
        severity=Severity.BLOCKING,
        item=str(entry.ref),
        summary=f"the spec of {entry.ref.kind.crd} {entry.ref.name} cannot be meant",
        evidence="\n".join(entry.problems),
        fix="Correct the spec. Nothing is written for this item meanwhile; what an earlier spec of that name made stays.",
    )
    return ItemPlan(ref=entry.ref, verdict=Verdict.REFUSED, reason="SpecInvalid", message=problems, findings=(finding,))


def _decided(plan: ItemPlan, scene: Scene, held: bool) -> ItemPlan:
    """The planner's word, and what follows from it: who is refused or waits writes nothing."""
    blocking = [finding for finding in plan.findings if finding.blocks]
    if plan.verdict is Verdict.REFUSED or blocking:
        reason = plan.reason if plan.verdict is Verdict.REFUSED and plan.reason != "SpecValid" else "PrerequisiteNotMet"
        message = plan.message or "; ".join(dict.fromkeys(_sentence(finding) for finding in blocking))
        return replace(plan, verdict=Verdict.REFUSED, reason=reason, message=message, steps=())
    if plan.verdict is Verdict.WAITING or held:
        return replace(plan, verdict=Verdict.WAITING, steps=(), findings=(*plan.findings, _waits(plan.ref, scene)))
    return plan


def _sentence(finding: Finding) -> str:
    return f"{finding.cluster}: {finding.summary}" if finding.cluster else finding.summary


def _waits(ref: ItemRef, scene: Scene) -> Finding:
    phase = scene.phase or "not known"
    return Finding(
        code=WAITS,
        severity=Severity.REMEDIABLE,
        item=str(ref),
        summary=f"{ref.kind.crd} {ref.name} waits: {scene.binding.name} is not connected (phase {phase})",
        evidence="Nothing is written for it; what was written before stays.",
        fix="Connect the mesh (playbook connect), then run again.",
    )


def _named(step: Step, ref: ItemRef) -> Step:
    """A step without an item would stand for the mesh, and its failure for the cluster."""
    return step if step.item else replace(step, item=str(ref))
