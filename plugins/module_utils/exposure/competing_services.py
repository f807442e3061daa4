# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Services that publish pods to the outside of a cluster beside the one of an item: of other owners, or of other items.

For the mesh's own items it counts their specs and not their objects: this very plan may delete or create an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..items.desired import Desired
from ..items.models import ExposedService
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.facts.traffic import ObjectFacts
from .names import order_of
from .target import ExposureTarget, find_target, protocol_of, target_port_of


@dataclass(frozen=True, kw_only=True)
class CompetingService:
    """A Service that publishes pods to the outside.

    ``name`` is for findings; ``item`` is the exposed service that asks for it, "" for a Service that exists.
    """

    name: str
    item: str = ""
    selector: Mapping[str, str]
    ports: Sequence[Mapping[str, Any]]  # as in ``Service.spec.ports``

    def may_lead_to(self, target: ExposureTarget) -> bool:
        """Return whether it may lead to a pod and port of ``target``.

        Selectors whose common keys have equal values may select the same pods.
        """
        one, other = self.selector, target.selector
        pods = bool(one) and all(one[key] == other[key] for key in one.keys() & other.keys())
        return pods and any(_same_port(port, target) for port in self.ports)


Competitors = Mapping[tuple[str, str], Sequence[CompetingService]]
"""(inventory name, namespace) -> the competing Services there."""


@dataclass(frozen=True, kw_only=True)
class CompetingServices:
    """All exposed services of the run.

    ``refused`` are names of items whose spec is not valid; their former objects still exist.
    """

    items: tuple[ExposedService, ...] = ()
    refused: frozenset[str] = frozenset()
    _known: list[tuple[Scene, Competitors]] = field(default_factory=list, compare=False, repr=False)  # of the last scene

    @classmethod
    def of(cls, desired: Desired) -> CompetingServices:
        """Return the exposed services of ``desired``."""
        refused = frozenset(entry.ref.name for entry in desired.refused if entry.ref.kind is ItemKind.EXPOSURE)
        return cls(items=desired.each(ExposedService), refused=refused)

    def competitors(self, item: ExposedService, host: str, scene: Scene) -> Iterator[CompetingService]:
        """Return the other Services of the item's namespace in ``host`` that publish pods; found once per scene."""
        if not self._known or self._known[0][0] is not scene:
            self._known[:] = [(scene, _competitors(self, scene))]
        return (door for door in self._known[0][1].get((host, item.namespace), ()) if door.item != item.name)


def _competitors(siblings: CompetingServices, scene: Scene) -> Competitors:
    found: dict[tuple[str, str], list[CompetingService]] = {}
    for host in scene.hosts:
        for service in scene.traffic[host].services.values():
            if _is_door(service) and not _made_for_sibling(service, siblings, scene):
                door = CompetingService(name=f"Service {service.name}", selector=_selector(service), ports=_ports(service))
                found.setdefault((host, service.namespace), []).append(door)
    here = frozenset(scene.hosts)
    for item in siblings.items:
        if item.exposure == "Gateway" or not item.source_ranges:
            continue
        for host in order_of(item):
            target = find_target(item, scene.traffic[host]) if host in here else None
            if isinstance(target, ExposureTarget):
                door = CompetingService(name=str(item.ref), item=item.name, selector=target.selector, ports=(target.port,))
                found.setdefault((host, item.namespace), []).append(door)
    return found


def _made_for_sibling(service: ObjectFacts, siblings: CompetingServices, scene: Scene) -> bool:
    ref = owning_item(scene.binding, service)
    return ref is not None and ref.kind is ItemKind.EXPOSURE and ref.name not in siblings.refused


def _is_door(service: ObjectFacts) -> bool:
    return service.spec.get("type") in ("LoadBalancer", "NodePort") or bool(service.spec.get("externalIPs"))


def _selector(service: ObjectFacts) -> Mapping[str, str]:
    return dict(service.spec.get("selector") or {})


def _ports(service: ObjectFacts) -> tuple[Mapping[str, Any], ...]:
    return tuple(port for port in service.spec.get("ports") or () if isinstance(port, Mapping))


def _same_port(port: Mapping[str, Any], target: ExposureTarget) -> bool:
    """Return whether both may be the same port. A name and a number may be."""
    leads_to = target_port_of(port)
    different_kinds = isinstance(leads_to, str) != isinstance(target.target_port, str)
    return protocol_of(port) == target.protocol and (different_kinds or leads_to == target.target_port)
