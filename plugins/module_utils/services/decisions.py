# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Decisions on every Service that an item owns, releases or lacks, made once for planning and pruning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..items.desired import Desired
from ..items.models import GlobalService
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import Key, ObjectFacts
from .annotations import wanted_annotations
from .assignment import Assignment, Place, assign_services
from .failover import decide
from .index import Index, index_of
from .mesh_view import MeshView
from .record import ServiceWrites, patched, reconcile_annotations
from .stubs import stub_body


class Stub(NamedTuple):
    """A Service that is created or kept for clients in a cluster without it."""

    item: str  # name of the GlobalService whose it is
    body: Mapping[str, Any] | None  # None: nothing tells just now what it should be like; it stays as it is


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Decisions of a scene that concern several items."""

    scene: Scene
    index: Index
    assignment: Assignment
    wanted: Mapping[Place, Mapping[str, str]]  # annotations, of Services that items with backend Annotations speak for
    changes: Mapping[Place, ServiceWrites]  # what has to be written on them
    stubs: Mapping[Place, Stub]
    view: MeshView  # as it will be

    def ours(self, item: GlobalService) -> bool:
        """Return whether the item is carried out, as far as its Services are concerned."""
        return not self.assignment.lost.get(item.name)


def decisions_of(desired: Desired, scene: Scene) -> Decisions:
    """Return the decisions of a scene. Pure; the same for every caller."""
    index = index_of(scene)
    assignment = assign_services(desired, scene, index)
    changes: dict[Place, ServiceWrites] = {}
    asked: dict[Place, Mapping[str, str]] = {}
    annotations: dict[Place, Mapping[str, str]] = {}
    for item in desired.each(GlobalService):
        if item.backend != "Annotations" or assignment.lost.get(item.name):
            continue
        for key, hosts in assignment.won[item.name].items():
            choices = decide(item, key, scene)
            for host in hosts:
                service = index.named(host, key)
                if service is None or service.spec.get("type") == "ExternalName":
                    continue
                wanted = wanted_annotations(item, choices.get(host))
                permitted = scene.facts[host].allowed_annotations
                change = reconcile_annotations(service.annotations, wanted, binding=scene.binding, item=str(item.ref), permitted=permitted)
                changes[(host, key)], asked[(host, key)] = change, wanted
                annotations[(host, key)] = patched(service.annotations, change.patch)
    before = MeshView(scene=scene, annotations=annotations)
    stubs = _stubs(desired, before, index, assignment)
    made = {place: _as_facts(stub) for place, stub in stubs.items() if stub.body is not None}
    after = {place: found.annotations for place, found in made.items()}
    gone = _gone(desired, index, assignment) - stubs.keys()
    view = replace(before, stubs=made, annotations={**annotations, **after}, gone=gone)
    return Decisions(scene=scene, index=index, assignment=assignment, wanted=asked, changes=changes, stubs=stubs, view=view)


def _gone(desired: Desired, index: Index, assignment: Assignment) -> frozenset[Place]:
    """Return the stubs that their item may delete: it is carried out, or does not exist any more and its objects are not kept."""
    kept = desired.kept(ItemKind.GLOBAL_SERVICE)
    carried = {item.name for item in desired.each(GlobalService) if not assignment.lost.get(item.name)}
    found = set()
    for name, entries in index.stubs.items():
        ref = ItemRef.parse(name)
        pruned = ref is not None and ref.name not in kept and ItemKind.GLOBAL_SERVICE not in desired.keeping
        if ref is not None and (ref.name in carried or pruned):
            found |= {(entry.host, entry.object.key) for entry in entries}
    return frozenset(found)


def _stubs(desired: Desired, view: MeshView, index: Index, assignment: Assignment) -> dict[Place, Stub]:
    """Return the stub of each place, from the item that made it if it still wants it, else from the first that wants it."""
    items = {str(item.ref): item for item in desired.each(GlobalService)}
    wanted: dict[Place, list[Stub]] = {}
    for item in desired.each(GlobalService):
        if item.create_missing and not assignment.lost.get(item.name):
            for place, stub in _stubs_of(item, view, index, assignment.won[item.name]).items():
                wanted.setdefault(place, []).append(stub)
    makers = {(made.host, made.object.key): items[name].name for name, entries in index.stubs.items() if name in items for made in entries}
    return {place: next((stub for stub in stubs if stub.item == makers.get(place)), stubs[0]) for place, stubs in wanted.items()}


def _stubs_of(item: GlobalService, view: MeshView, index: Index, won: Mapping[Key, tuple[str, ...]]) -> dict[Place, Stub]:
    scene = view.scene
    own = {(made.host, made.object.key) for made in index.stubs.get(str(item.ref), ())}
    quiet = [host for host in item.targets if host in scene.silent]
    found: dict[Place, Stub] = {}
    for key, hosts in won.items():
        exporting = [host for host in hosts if view.exports(host, key)]
        original = next((index.named(host, key) for host in exporting), None)
        for host in scene.hosts:
            if index.named(host, key) is not None:
                continue
            if key[0] not in scene.traffic[host].namespaces and (host, key) not in own:  # where a stub stands there is a namespace
                continue
            if original is not None and any(scene.mesh.linked(host, peer) for peer in exporting):
                found[(host, key)] = Stub(item.name, stub_body(item, original))
            elif (host, key) in own and (original is None or any(scene.mesh.linked(host, peer) for peer in quiet)):
                found[(host, key)] = Stub(item.name, None)  # the exporting Service may be back soon, and clients use the name
    if quiet and item.selector.selects_many:  # which Services a silent cluster has is not known
        found |= {place: Stub(item.name, None) for place in own - found.keys() if place[1][0] == item.selector.namespace}
    return found


def _as_facts(stub: Stub) -> ObjectFacts:
    body = stub.body or {}
    metadata = body["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    path = f"/api/v1/namespaces/{namespace}/services/{name}"
    return ObjectFacts(kind="Service", path=path, namespace=namespace, name=name, annotations=metadata["annotations"], spec=body["spec"])
