# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Assignment of Services to items: one item owns a Service at a time, the one that holds it already, else the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..findings.finding import Finding
from ..findings.wording import command, finding, item_finding, listed, printable, show
from ..items.desired import Desired
from ..items.labels import matches
from ..items.models import GlobalService
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import Key
from .index import Index
from .record import RECORD_PREFIX, records_by_binding

Place = tuple[str, Key]  # (inventory name, (namespace, name))


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Services that each item owns, and findings about those that it does not get; by name of the item."""

    won: Mapping[str, Mapping[Key, tuple[str, ...]]]  # Service -> targets that have it, in the order of the members
    lost: Mapping[str, tuple[Finding, ...]]


@dataclass
class _Loss:
    winner: str
    places: list[Place] = field(default_factory=list)


def assign_services(desired: Desired, scene: Scene, index: Index) -> Assignment:
    """Return the assignment of every item's Services.

    If another item owns any selected Service, the whole item is refused: it is never carried out in part.
    """
    wanted = {service.name: selected_services(service, scene, index) for service in desired.each(GlobalService)}
    claimants: dict[Place, list[str]] = {}
    for name, keys in wanted.items():
        for key, hosts in keys.items():
            for host in hosts:
                claimants.setdefault((host, key), []).append(name)
    holding = _holding(desired, index)
    losses: dict[str, dict[str, _Loss]] = {name: {} for name in wanted}
    for place, names in claimants.items():
        winner = _winner(place, names, holding.get(place, ""), desired, scene, index)
        for name in names:
            if name != winner:
                losses[name].setdefault(winner, _Loss(winner)).places.append(place)
    items = {service.name: service for service in desired.each(GlobalService)}
    lost = {name: [_claimed(items[name], loss) for loss in entries.values()] for name, entries in losses.items() if entries}
    for name, item in items.items():
        if missing := _without_permission(item, scene):
            lost.setdefault(name, []).append(_not_permitted(item, missing))
    return Assignment(won=wanted, lost={name: tuple(found) for name, found in lost.items()})


def selected_services(service: GlobalService, scene: Scene, index: Index) -> dict[Key, tuple[str, ...]]:
    """Return the Services that the selector matches, with the targets where it does.

    A selector by name has its key in the result even where no target has the Service.
    """
    selector = service.selector
    hosts = [host for host in scene.hosts if host in service.targets]
    if selector.name:
        key = (selector.namespace, selector.name)
        services = {host: index.named(host, key) for host in hosts}
        return {key: tuple(host for host, entry in services.items() if entry is not None and matches(selector.labels, entry.labels))}
    found: dict[Key, list[str]] = {}
    for host in hosts:
        for entry in index.candidates.get((host, selector.namespace), ()):
            if selector.labels and matches(selector.labels, entry.labels):
                found.setdefault(entry.key, []).append(host)
    return {key: tuple(found[key]) for key in sorted(found)}


def _holding(desired: Desired, index: Index) -> dict[Place, str]:
    """Return the item that holds each Service by its record or by its export, if that item still exists."""
    kept = desired.kept(ItemKind.GLOBAL_SERVICE)
    found: dict[Place, str] = {}
    marked = [(item, (entry.host, entry.service.key)) for item, entries in index.held.items() for entry in entries]
    marked += [(item, (entry.host, entry.object.key)) for item, entries in index.exports.items() for entry in entries]
    for item, place in marked:
        ref = ItemRef.parse(item)
        if ref is not None and ref.kind is ItemKind.GLOBAL_SERVICE and ref.name in kept:
            found[place] = ref.name
    return found


def _winner(place: Place, names: Sequence[str], holder: str, desired: Desired, scene: Scene, index: Index) -> str:
    """Return the name of the item that owns the place, or ``binding OWNER``."""
    host, key = place
    service = index.named(host, key)
    others = [owner for owner in records_by_binding(service.annotations) if owner != scene.binding.owner] if service else []
    if others:
        return f"{RECORD_PREFIX}{others[0]}"
    refused = {entry.ref.name for entry in desired.refused if entry.ref.kind is ItemKind.GLOBAL_SERVICE}
    if holder in names or holder in refused:  # what a refused item asks for is unknown, so its objects stay
        return holder
    return names[0]


def _without_permission(item: GlobalService, scene: Scene) -> dict[str, tuple[str, ...]]:
    """Return the targets that do not permit all annotations of the item, each with those that it does not permit."""
    found = {}
    for host in scene.hosts:
        refused = tuple(sorted(set(item.further).difference(scene.facts[host].allowed_annotations)))
        if refused and host in item.targets:
            found[host] = refused
    return found


def _not_permitted(item: GlobalService, missing: Mapping[str, tuple[str, ...]]) -> Finding:
    keys = sorted({key for refused in missing.values() for key in refused})
    return item_finding(
        item.ref,
        "CM-GS-23",
        list(missing),
        summary=f"{listed(missing)}: globalAnnotations of GlobalService {item.name} has {listed(keys)}, which the cluster does not permit; "
        "nothing is written for the item",
        evidence="Only annotations that Cilium reads of a global Service need no permission: any other one can change how, and for which "
        "clients, a Service is served.",
        fix="Remove the annotation from the item and set it on the Service itself. The owner of the clusters can permit it: host variable "
        "cilium_mesh_allowed_annotations, or flag --allow-annotation of the operator.",
    )


def _claimed(item: GlobalService, loss: _Loss) -> Finding:
    host, key = loss.places[0]
    hosts = list(dict.fromkeys(place[0] for place in loss.places))
    keys = list(dict.fromkeys(f"{place[1][0]}/{place[1][1]}" for place in loss.places))
    foreign = loss.winner.startswith(RECORD_PREFIX)
    who = f"another binding (annotation {show(loss.winner)})" if foreign else f"GlobalService {printable(loss.winner)}"
    remove = command("kubectl", "annotate", "--namespace", key[0], "service", key[1], f"{loss.winner}-")
    return finding(
        "CM-GS-03",
        cluster=host,
        item=str(item.ref),
        others=tuple(hosts[1:]),
        summary=f"Service {listed(keys)} belongs to {who} already; nothing is written for GlobalService {item.name}",
        evidence=f"In {listed(hosts)}. Two items that set the same annotations would overwrite each other's values.",
        fix=f"Remove the Service from that binding. If the binding is gone for good: {remove}"
        if foreign
        else "Let one of the two items select it.",
    )
