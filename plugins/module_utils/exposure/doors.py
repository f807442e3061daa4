# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ways into a cluster from outside, beside that of one item: Services of others, and what other items ask for.

Of the mesh's own items it counts what they ask for and not what is there: an object may be gone with this very plan, or made by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..items.desired import Desired
from ..items.facts import ObjectFacts
from ..items.kinds import ItemKind
from ..items.models import ExposedService
from ..items.owned import item_of
from ..items.scene import Scene
from .names import order_of, ref_of
from .target import Target, find_target, protocol_of, target_port_of


@dataclass(frozen=True, kw_only=True)
class Door:
    """``name`` as findings show it; ``item``: the exposed service that asks for it, "" when it is a Service that is there."""

    name: str
    item: str = ""
    selector: Mapping[str, str]
    ports: Sequence[Mapping[str, Any]]  # as in ``Service.spec.ports``

    def may_lead_to(self, target: Target) -> bool:
        """To a pod and port that ``target`` may lead to. Selectors with one key in common and equal there may select the same pods."""
        one, other = self.selector, target.selector
        pods = bool(one) and all(one[key] == other[key] for key in one.keys() & other.keys())
        return pods and any(_same_port(port, target) for port in self.ports)


Doors = Mapping[tuple[str, str], Sequence[Door]]
"""(inventory name, namespace) -> the doors there."""


@dataclass(frozen=True, kw_only=True)
class Siblings:
    """All exposed services of the run. ``refused``: names of those whose spec is wrong; what they made before is still there."""

    items: tuple[ExposedService, ...] = ()
    refused: frozenset[str] = frozenset()
    _known: list[tuple[Scene, Doors]] = field(default_factory=list, compare=False, repr=False)  # of the scene that was asked for last

    @classmethod
    def of(cls, desired: Desired) -> Siblings:
        refused = frozenset(entry.ref.name for entry in desired.refused if entry.ref.kind is ItemKind.EXPOSURE)
        return cls(items=desired.exposures, refused=refused)

    def doors(self, item: ExposedService, host: str, scene: Scene) -> Iterator[Door]:
        """The other doors of the item's namespace in ``host``. Found once for a scene, whatever the number of items."""
        if not self._known or self._known[0][0] is not scene:
            self._known[:] = [(scene, _doors(self, scene))]
        return (door for door in self._known[0][1].get((host, item.namespace), ()) if door.item != item.name)


def _doors(siblings: Siblings, scene: Scene) -> Doors:
    found: dict[tuple[str, str], list[Door]] = {}
    for host in scene.hosts:
        for service in scene.traffic[host].services.values():
            if _is_door(service) and not _made_for_sibling(service, siblings, scene):
                door = Door(name=f"Service {service.name}", selector=_selector(service), ports=_ports(service))
                found.setdefault((host, service.namespace), []).append(door)
    here = frozenset(scene.hosts)
    for item in siblings.items:
        if item.exposure == "Gateway" or not item.source_ranges:
            continue
        for host in order_of(item):
            target = find_target(item, scene.traffic[host]) if host in here else None
            if isinstance(target, Target):
                door = Door(name=str(ref_of(item)), item=item.name, selector=target.selector, ports=(target.port,))
                found.setdefault((host, item.namespace), []).append(door)
    return found


def _made_for_sibling(service: ObjectFacts, siblings: Siblings, scene: Scene) -> bool:
    ref = item_of(scene.binding, service)
    return ref is not None and ref.kind is ItemKind.EXPOSURE and ref.name not in siblings.refused


def _is_door(service: ObjectFacts) -> bool:
    return service.spec.get("type") in ("LoadBalancer", "NodePort") or bool(service.spec.get("externalIPs"))


def _selector(service: ObjectFacts) -> Mapping[str, str]:
    return dict(service.spec.get("selector") or {})


def _ports(service: ObjectFacts) -> tuple[Mapping[str, Any], ...]:
    return tuple(port for port in service.spec.get("ports") or () if isinstance(port, Mapping))


def _same_port(port: Mapping[str, Any], target: Target) -> bool:
    """A name and a number may be the same port."""
    leads_to = target_port_of(port)
    different_kinds = isinstance(leads_to, str) != isinstance(target.target_port, str)
    return protocol_of(port) == target.protocol and (different_kinds or leads_to == target.target_port)
