# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan of all items of a run: which are carried out, their writes, and the findings. Pure.

Every write of every item is decided before the first one is made, on one scene. An item that is refused, or that waits, loses its
steps and does not affect the others: docs/decisions/0019 has the reasons. While there is one, nothing of its kind is pruned: it may be what
replaces a removed item (docs/decisions/0037).

The fingerprints cover only objects that the plan touches, and findings about items: a Service or a pod that no item is about changes
nothing. Of findings the codes count and not the texts, which contain numbers of pods and endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..base.errors import clause
from ..base.gc_pause import collector_paused
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import finding
from ..items.desired import Desired, Refused
from ..items.keeping import former_rules_finding, is_unsettled, kept_findings, left_findings
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import CONNECTED_PHASES, Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts, TrafficFacts
from ..mesh.versions.minors import cilium_version
from ..plan.steps import ApiWrite, Plan, Step, digest_of
from ..services.record import Values, patched
from .kinds import ROWS, KindRow

RELIED_SEVERITIES = (Severity.BLOCKING, Severity.OUTAGE, Severity.REMEDIABLE)


@dataclass(frozen=True, kw_only=True)
class ItemsPlan:
    """Decisions on all items of a run."""

    items: tuple[ItemPlan, ...]  # every item of the file, in its order; those that are not carried out have no steps
    findings: tuple[Finding, ...]  # about items, and about what could not be taken away
    plan: Plan  # never blocked: what blocks an item has cost it its steps

    def of(self, verdict: ItemVerdict) -> tuple[ItemPlan, ...]:
        """Return the items with the verdict."""
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
    """Return the plan of ``desired`` in ``scene``.

    :param former: clusters that are no members any more: all objects of items there are removed, unless an item of the kind is refused.
    :param waits: whether items wait, because the binding is not connected; None: as the phase of the scene says.
    :param options: choices of the user; they are part of the plan, and so of its hash.
    :param rows: functions of each kind; None: the table.
    """
    table = rows or ROWS
    held = waits_for_mesh(scene) if waits is None else waits
    plans: dict[ItemRef, ItemPlan] = {entry.ref: _refused(entry) for entry in desired.refused}  # also of kinds that are not planned
    steps: list[Step] = []
    said: list[Finding] = []
    expected = scene
    for kind in (kind for kind in ItemKind if kind in desired.kinds):
        if former:
            gone, about = _pruned_where_left(kind, desired, former, table)
            steps += gone
            said += about
        decided = _decided_kind(kind, desired, (scene, expected), held, table)
        plans.update({plan.ref: plan for plan in decided.plans})
        steps += decided.prunes
        said += decided.findings
        if kind is ItemKind.GLOBAL_SERVICE:
            expected = scene_after_steps(scene, [*steps, *(step for plan in plans.values() for step in plan.steps)])
    items = tuple(plans[ref] for ref in (desired.order or plans))
    steps += [_named(step, plan.ref) for plan in items for step in plan.steps]
    steps = _without_taken_over(steps)
    steps.sort(key=lambda step: step.wave)
    findings = ordered((*said, *(finding for plan in items for finding in plan.findings)))
    relied_on = items_fingerprint(scene, items, steps, findings)
    if former:
        relied_on |= items_fingerprint(former, (), steps, ())
    plan = Plan(
        manager=desired.mesh.binding.manager,
        steps=tuple(steps),
        options=dict(options or {}),
        relied_on=relied_on,
        not_carried_out=tuple(sorted(str(plan.ref) for plan in items if plan.verdict is not ItemVerdict.ACCEPTED)),
    )
    return ItemsPlan(items=items, findings=findings, plan=plan)


def _pruned_where_left(
    kind: ItemKind, desired: Desired, former: Scene, table: Mapping[ItemKind, KindRow]
) -> tuple[list[Step], list[Finding]]:
    """Return the prunes of one kind in clusters that left, and findings.

    A valid item asks for nothing there. A refused one may: it names such a cluster, or nothing is known of what it means.
    """
    gone, about = table[kind].prune(Desired(mesh=former.mesh, kinds=desired.kinds), former)
    refused = [_refused(entry) for entry in desired.refused if entry.ref.kind is kind]
    if not gone or not refused:
        return gone, about
    kept = {step.item for step in gone}
    return [], [*(entry for entry in about if entry.item not in kept), *left_findings(kind, gone, refused)]


class _KindPlan(NamedTuple):
    """Decisions on the items of one kind: their plans, the prunes of removed items, and findings about those."""

    plans: list[ItemPlan]
    prunes: list[Step]
    findings: list[Finding]


def _decided_kind(
    kind: ItemKind, desired: Desired, scenes: tuple[Scene, Scene], held: bool, table: Mapping[ItemKind, KindRow]
) -> _KindPlan:
    """Return the decisions on one kind. While one of its items is unsettled, nothing of the kind is pruned, and no rule ceases.

    :param scenes: the scene, and the one that is expected after the writes of the kinds before this one.
    """
    scene, expected = scenes
    plans = _plans_of(kind, desired, expected, held, table)
    unsettled = [plan for plan in plans if is_unsettled(plan)]
    gone, about = table[kind].prune(desired, scene)
    if not unsettled:
        return _KindPlan(plans, gone, about)
    if gone:
        keeping = replace(desired, keeping=desired.keeping | {kind})
        plans = _plans_of(kind, keeping, expected, held, table)
    kept = {step.item for step in gone}
    findings = [*(entry for entry in about if entry.item not in kept), *kept_findings(kind, gone, unsettled)]
    return _KindPlan([_without_ceasing(plan, unsettled) for plan in plans], [], findings)


def _without_ceasing(plan: ItemPlan, unsettled: Sequence[ItemPlan]) -> ItemPlan:
    """Return the plan of an item without the steps by which a rule of its policies ceases: it may restrict an object that is kept."""
    ceasing = [step for step in plan.steps if plan.ref.kind.value in step.needs]
    if not ceasing:
        return plan
    others = [entry for entry in unsettled if entry.ref != plan.ref] or unsettled
    said = former_rules_finding(plan.ref, [_named(step, plan.ref) for step in ceasing], others)
    return replace(plan, steps=tuple(step for step in plan.steps if step not in ceasing), findings=(*plan.findings, said))


def _plans_of(kind: ItemKind, desired: Desired, scene: Scene, held: bool, table: Mapping[ItemKind, KindRow]) -> list[ItemPlan]:
    refused = [_refused(entry) for entry in desired.refused if entry.ref.kind is kind]
    planned = table[kind].plan(desired, scene) if desired.of(kind) else []
    return [*refused, *(_decided(plan, scene, held) for plan in planned)]


def _without_taken_over(steps: list[Step]) -> list[Step]:
    """Return the steps without deletions of objects that another item of the run takes over."""
    writers = {(step.cluster, step.action.path): step.item for step in steps if isinstance(step.action, ApiWrite) and not step.needs}
    return [
        step
        for step in steps
        if not (step.needs and isinstance(step.action, ApiWrite) and writers.get((step.cluster, step.action.path), step.item) != step.item)
    ]


def waits_for_mesh(scene: Scene) -> bool:
    """Return whether the binding is known not to be connected.

    "The referenced ClusterMeshBinding must be in Connected or Degraded phase."
    """
    return scene.phase != "" and scene.phase not in CONNECTED_PHASES


def _refused(entry: Refused) -> ItemPlan:
    problems = "; ".join(entry.problems)
    problem = finding(
        "CM-ITEM-01",
        item=str(entry.ref),
        summary=f"the spec of {entry.ref.kind.crd} {entry.ref.name} is not valid",
        evidence=entry.problems,
        fix="Correct the spec. Until then nothing is written for this item, and the objects of an earlier spec stay.",
    )
    return ItemPlan(ref=entry.ref, verdict=ItemVerdict.REFUSED, reason="SpecInvalid", message=problems, findings=(problem,))


def _decided(plan: ItemPlan, scene: Scene, held: bool) -> ItemPlan:
    """Return the plan of an item with its verdict; an item that is refused or waits has no steps."""
    blocking = [finding for finding in plan.findings if finding.blocks]
    if plan.verdict is ItemVerdict.REFUSED or blocking:
        reason = plan.reason if plan.verdict is ItemVerdict.REFUSED and plan.reason != "SpecValid" else "PrerequisiteNotMet"
        message = plan.message or "; ".join(dict.fromkeys(_sentence(finding) for finding in blocking))
        return replace(plan, verdict=ItemVerdict.REFUSED, reason=reason, message=message, steps=())
    if plan.verdict is ItemVerdict.WAITING or held:
        return replace(plan, verdict=ItemVerdict.WAITING, steps=(), findings=(*plan.findings, _waits(plan.ref, scene)))
    return plan


def _sentence(finding: Finding) -> str:
    named = not finding.cluster or finding.summary.startswith(tuple(f"{finding.cluster}{after}" for after in (": ", " ", ", ")))
    return ("" if named else f"{finding.cluster}: ") + clause(finding.summary)


def _waits(ref: ItemRef, scene: Scene) -> Finding:
    phase = scene.phase or "not known"
    return finding(
        "CM-ITEM-03",
        item=str(ref),
        summary=f"{ref.kind.crd} {ref.name} waits: {scene.binding.name} is not connected (phase {phase})",
        evidence="Nothing is written for it; the objects that were written before stay.",
        fix="Connect the mesh (playbook connect), then run again.",
    )


def _named(step: Step, ref: ItemRef) -> Step:
    """Return the step with its item. Without one it would count for the mesh, and its failure for the cluster."""
    return step if step.item else replace(step, item=str(ref))


def scene_after_steps(scene: Scene, steps: Iterable[Step]) -> Scene:
    """Return ``scene`` with the annotations of its Services as they are once ``steps`` have been carried out."""
    patches: dict[str, dict[str, Values]] = {}
    for step in steps:
        if step.cluster in scene.traffic and isinstance(step.action, ApiWrite) and step.action.method == "merge":
            written = (step.action.body.get("metadata") or {}).get("annotations") or {}
            patches.setdefault(step.cluster, {})[step.action.path] = written
    changed = {host: _annotated(scene.traffic[host], by_path) for host, by_path in patches.items()}
    return replace(scene, traffic={**scene.traffic, **changed}) if changed else scene


def _annotated(traffic: TrafficFacts, by_path: Mapping[str, Values]) -> TrafficFacts:
    services = {
        key: replace(entry, annotations=patched(entry.annotations, by_path[entry.path]))
        for key, entry in traffic.services.items()
        if entry.path in by_path
    }
    return replace(traffic, services={**traffic.services, **services})


def items_fingerprint(
    scene: Scene, items: Iterable[ItemPlan], steps: Iterable[Step], findings: Iterable[Finding]
) -> dict[str, dict[str, str]]:
    """Return inventory name -> section -> SHA-256 hex; an empty section has no row.

    Sections: ``identity``, ``cilium``, ``served`` (API groups), ``objects`` (before the writes), ``namespaces`` (of those objects),
    ``findings``, and on every cluster ``items`` (which ones are carried out).
    """
    touched: dict[str, list[Step]] = {}
    for step in steps:
        touched.setdefault(step.cluster, []).append(step)
    relied: dict[str, list[list[str]]] = {}
    for entry in findings:
        if entry.severity in RELIED_SEVERITIES:
            for host in (entry.cluster, *entry.others):
                relied.setdefault(host, []).append([entry.code, entry.item, entry.peer, entry.severity.value])
    verdicts = sorted([str(plan.ref), plan.verdict.value] for plan in items if plan.verdict is not ItemVerdict.ACCEPTED)
    found = {}
    for host in scene.hosts:
        sections = {**_cluster(scene, host), **_objects(scene.traffic[host], touched.get(host, ()))}
        sections |= {"findings": sorted(relied.get(host, ())), "items": verdicts}
        found[host] = {name: digest_of(value) for name, value in sections.items() if value}
    return found


def _cluster(scene: Scene, host: str) -> dict[str, Any]:
    facts = scene.facts[host]
    return {
        "identity": [host, facts.uid, facts.namespace, facts.name, facts.id],
        "cilium": [str(cilium_version(facts))],
        "served": sorted(scene.traffic[host].served),
    }


def _objects(traffic: TrafficFacts, steps: Iterable[Step]) -> dict[str, Any]:
    paths = {step.action.path for step in steps if isinstance(step.action, ApiWrite)}
    objects = {path: traffic.by_path[path] for path in paths if path in traffic.by_path}
    namespaces = {entry.namespace for entry in objects.values() if entry.namespace}
    return {
        "objects": {path: _content(entry) for path, entry in objects.items()},
        "namespaces": {name: _content(traffic.namespaces[name]) for name in namespaces if name in traffic.namespaces},
    }


def _content(entry: ObjectFacts) -> list[Any]:
    return [dict(entry.labels), dict(entry.annotations), _plain(entry.spec), [_plain(rule) for rule in entry.specs]]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
