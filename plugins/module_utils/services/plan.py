# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan of GlobalServices: items into steps."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

from ..findings.finding import Finding
from ..items.desired import Desired
from ..items.models import GlobalService
from ..items.owned import DesiredObject, delete_step, object_changes, owned_object, owning_item
from ..items.planned import PRUNE_WAVES, WAVES, ItemPlan
from ..items.scene import CONNECTED_PHASES, Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts
from ..plan.steps import ApiWrite, Step
from .annotations import affinity_of, is_shared
from .assignment import Place
from .decisions import Decisions, decisions_of
from .failover_findings import failover_findings
from .findings import changed_findings, left_findings, stub_findings, system_findings, unreadable_findings
from .index import RecordedService
from .mcs import export_body, export_obstacle, exports_path, mcs_findings
from .record import Values, reconcile_annotations
from .status import ServiceDetail
from .viability_findings import viability_findings

WAVE = WAVES[ItemKind.GLOBAL_SERVICE]
PRUNE_WAVE = PRUNE_WAVES[ItemKind.GLOBAL_SERVICE]

_Entry = TypeVar("_Entry")


def plan_services(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """Return the plan of each GlobalService. See ``KindRow`` (reconcile/kinds.py)."""
    decided = decisions_of(desired, scene)
    return [_plan(item, decided) for item in desired.each(GlobalService)]


def prune_services(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """Return the steps that prune global services. See ``KindRow`` (reconcile/kinds.py).

    A Service that another item takes over is left to that item: its plan keeps the earlier values, and a Service is written once a run.
    """
    if ItemKind.GLOBAL_SERVICE not in desired.kinds:
        return [], []
    decided = decisions_of(desired, scene)
    connected = scene.phase == "" or scene.phase in CONNECTED_PHASES
    annotated = decided.changes if connected else {}
    kept = desired.kept(ItemKind.GLOBAL_SERVICE)
    steps: list[Step] = []
    findings: list[Finding] = []
    for ref, held in _of_others(decided.index.held, kept):
        more, about = _released(ref, held, decided, annotated, _no_more(ref), needs=(ref.kind.value,))
        steps += more
        findings += about
    for places, made in (
        (decided.stubs, decided.index.stubs),
        (_exporting(desired, decided), decided.index.exports),
    ):
        for ref, entries in _of_others(made, kept):
            gone = [entry for entry in entries if not (connected and (entry.host, entry.object.key) in places)]
            why, needs = _no_more(ref), (ref.kind.value,)
            steps += [delete_step(ref, entry.host, entry.object, wave=PRUNE_WAVE, why=why, needs=needs) for entry in gone]
    unclaimed = [entry for entry in decided.index.unreadable if (entry.host, entry.object.key) not in annotated]
    return steps, [*findings, *unreadable_findings(unclaimed, scene)]


def _no_more(ref: ItemRef) -> str:
    return f"{ref.kind.crd} {ref.name} is no longer wanted"


def _exporting(desired: Desired, decided: Decisions) -> frozenset[Place]:
    items = [item for item in desired.each(GlobalService) if item.backend == "MCS" and decided.ours(item)]
    return frozenset((host, key) for item in items for key, hosts in decided.assignment.won[item.name].items() for host in hosts)


def _of_others(entries: Mapping[str, tuple[_Entry, ...]], kept: frozenset[str]) -> Iterable[tuple[ItemRef, tuple[_Entry, ...]]]:
    """Yield the objects of items that do not exist any more."""
    for name, found in entries.items():
        ref = ItemRef.parse(name)
        if ref is not None and ref.kind is ItemKind.GLOBAL_SERVICE and ref.name not in kept:
            yield ref, found


def _plan(item: GlobalService, decided: Decisions) -> ItemPlan:
    ref = item.ref
    lost = decided.assignment.lost.get(item.name, ())
    if lost:
        return ItemPlan(ref=ref, findings=lost)
    of_the_system = system_findings(item, decided)
    if of_the_system:
        return ItemPlan(ref=ref, findings=tuple(of_the_system))
    steps, findings = _releases(item, decided)
    annotated, about = _annotations(item, decided)
    made, foreign = _objects(item, decided)
    findings += [*about, *foreign]
    findings += mcs_findings(item, decided) if item.backend == "MCS" else viability_findings(item, decided)
    findings += stub_findings(item, decided)
    findings += failover_findings(item, decided.scene)
    answering = any(host in item.targets for host in decided.scene.hosts)
    unplaced = answering and not any(decided.assignment.won[item.name].values())
    return ItemPlan(ref=ref, steps=(*steps, *annotated, *made), findings=tuple(findings), unplaced=unplaced, detail=_detail(item, decided))


def _detail(item: GlobalService, decided: Decisions) -> ServiceDetail:
    won = decided.assignment.won[item.name]
    places = [(host, key) for key, hosts in won.items() for host in hosts if (host, key) in decided.changes]
    return ServiceDetail(services=won, wanted={place: decided.wanted[place] for place in places})


def _annotations(item: GlobalService, decided: Decisions) -> tuple[list[Step], list[Finding]]:
    steps: list[Step] = []
    findings: list[Finding] = []
    for key, hosts in decided.assignment.won[item.name].items():
        for host in hosts:
            service, change = decided.index.named(host, key), decided.changes.get((host, key))
            if service is None or change is None:
                continue
            if change.patch:
                steps.append(_patch(item.ref, host, service, change.patch, wave=WAVE, why=_purpose(decided, (host, key))))
            findings += changed_findings(item, host, service, change)
    return steps, findings


def _purpose(decided: Decisions, place: Place) -> str:
    """Return text such as ``global, shared, affinity Local``: the values that will be in force."""
    annotations = decided.view.annotations_of(*place)
    return f"global, {'shared' if is_shared(annotations) else 'not shared'}, affinity {affinity_of(annotations)}"


def _releases(item: GlobalService, decided: Decisions) -> tuple[list[Step], list[Finding]]:
    """Return the steps that restore Services which the item marked and no longer owns."""
    name = str(item.ref)
    spoken = decided.assignment.won[item.name] if item.backend == "Annotations" else {}
    mine = {(host, key) for key, hosts in spoken.items() for host in hosts}
    held = tuple(entry for entry in decided.index.held.get(name, ()) if (entry.host, entry.service.key) not in mine)
    return _released(item.ref, held, decided, decided.changes, "the item no longer asks for it", needs=(name,))


def _released(
    ref: ItemRef, held: Iterable[RecordedService], decided: Decisions, claimed: Container[Place], why: str, *, needs: tuple[str, ...]
) -> tuple[list[Step], list[Finding]]:
    """Return the steps that restore Services. ``claimed``: Services that another item marks in this run; ``needs``: see ``Step.needs``."""
    steps: list[Step] = []
    findings: list[Finding] = []
    for host, service, _record in held:
        if (host, service.key) in claimed:
            continue
        scene = decided.scene
        permitted = scene.facts[host].allowed_annotations
        change = reconcile_annotations(service.annotations, {}, binding=scene.binding, item=str(ref), permitted=permitted)
        restored = f"{why}: earlier values are restored"
        steps.append(_patch(ref, host, service, change.patch, wave=PRUNE_WAVE, why=restored, needs=needs))
        findings += left_findings(ref, host, service, change)
    return steps, findings


def _patch(ref: ItemRef, host: str, service: ObjectFacts, patch: Values, *, wave: int, why: str, needs: tuple[str, ...] = ()) -> Step:
    """Return the step that patches a Service. The API server refuses it when the Service is not the one that was read.

    :param needs: of a patch that restores earlier values: see ``Step.needs``.
    """
    metadata = {"uid": service.uid, "resourceVersion": service.resource_version, "annotations": dict(patch)}
    return Step(
        wave=wave,
        cluster=host,
        verb="patch",
        object=f"Service {service.namespace}/{service.name}",
        why=why,
        undo=f"{'put' if needs else 'remove'} {ref.kind.crd} {ref.name}{' back' if needs else ''}",
        item=str(ref),
        needs=needs,
        action=ApiWrite(method="merge", path=service.path, body={"metadata": metadata}),
    )


def _objects(item: GlobalService, decided: Decisions) -> tuple[list[Step], list[Finding]]:
    """Return the steps for stubs and ServiceExports: created, changed, or deleted where they are no longer wanted."""
    ref, scene = item.ref, decided.scene
    stays = {place for place, stub in decided.stubs.items() if stub.body is None or stub.item != item.name}
    unexportable = _cannot_export(item, decided)
    observed: dict[str, dict[str, ObjectFacts]] = {host: {} for host in scene.hosts}
    for entries, left in ((decided.index.stubs, stays), (decided.index.exports, unexportable)):
        for host, entry in entries.get(str(ref), ()):
            if (host, entry.key) not in left:
                observed[host][entry.path] = entry
    wanted = [*_wanted_stubs(item, decided), *_wanted_exports(item, decided)]
    for made in wanted:
        found = scene.traffic[made.cluster].by_path.get(made.path)
        if found is not None:
            observed[made.cluster][made.path] = found
    places = {host: tuple(entries.values()) for host, entries in observed.items()}
    return object_changes(scene.binding, ref, wanted, places, wave=WAVE, prune_wave=PRUNE_WAVE)


def _wanted_stubs(item: GlobalService, decided: Decisions) -> Iterable[DesiredObject]:
    for (host, key), stub in decided.stubs.items():
        if stub.item != item.name or stub.body is None:
            continue
        path = f"/api/v1/namespaces/{key[0]}/services"
        yield owned_object(decided.scene.binding, item.ref, host, path, stub.body, why="clients here need a Service of this name")


def _wanted_exports(item: GlobalService, decided: Decisions) -> Iterable[DesiredObject]:
    scene = decided.scene
    if item.backend != "MCS":
        return
    blocked = _cannot_export(item, decided)
    for key, hosts in decided.assignment.won[item.name].items():
        for host in hosts:
            traffic = scene.traffic[host]
            observed = traffic.exports.get(key)
            if (host, key) in blocked or (observed is not None and owning_item(scene.binding, observed) is None):
                continue  # the Service is exported already, by another writer
            body = export_body(item, key, traffic)
            yield owned_object(scene.binding, item.ref, host, exports_path(traffic, key[0]), body, why="exported by MCS-API")


def _cannot_export(item: GlobalService, decided: Decisions) -> frozenset[Place]:
    """Return the places where no ServiceExport can be made now. An existing one stays as it is."""
    if item.backend != "MCS":
        return frozenset()
    found = set()
    for key, hosts in decided.assignment.won[item.name].items():
        for host in hosts:
            service = decided.index.named(host, key)
            external = service is not None and service.spec.get("type") == "ExternalName"
            if external or export_obstacle(decided.scene.facts[host], decided.scene.traffic[host]):
                found.add((host, key))
    return frozenset(found)
