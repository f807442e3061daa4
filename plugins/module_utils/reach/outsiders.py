# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an outsider reaches: flows from addresses outside of the clusters, and the Services by which their destinations are published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..mesh.facts.traffic import ObjectFacts
from ..policies.evaluate.verdict import PolicyOutcome
from .flows import FlowRow, flow_rows
from .reach import Reach
from .scope import ReachScope
from .workload_set import SetKind, WorkloadSet, bits_of, numbers_of

PUBLISHING: Final = ("NodePort", "LoadBalancer")


@dataclass(frozen=True, kw_only=True)
class OutsiderRow:
    """Flows of outsiders to one destination that are allowed or unknown. ``published`` are Services that lead to it from outside."""

    flow: FlowRow
    published: tuple[str, ...]  # "LoadBalancer web"

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {**self.flow.to_dict(), "published": list(self.published)}


def outsider_rows(reach: Reach, scope: ReachScope) -> Iterator[OutsiderRow]:
    """Yield what is not denied to outsiders, whatever the sources of the scope are."""
    outside = bits_of(entry.number for entry in reach.sets if entry.kind is SetKind.WORLD)
    everyone = ReachScope(destination=scope.destination)
    for number in numbers_of(everyone.destinations(reach.sets) & reach.sets.workloads):
        published = published_by(reach, reach.sets[number])
        for flow in flow_rows(reach, everyone, sources=outside, destinations=1 << number):
            if flow.verdict is not PolicyOutcome.DENIED:
                yield OutsiderRow(flow=flow, published=published)


def published_by(reach: Reach, entry: WorkloadSet) -> tuple[str, ...]:
    """Return the Services that lead to pods of the set from outside: node ports, load balancers, and those with external addresses."""
    services = _publishing(reach.sets.index.scene.traffic[entry.host].services.values(), entry.namespace)
    pods = [pod.labels for number in entry.groups for pod in reach.sets.index.groups[number].pods]
    return tuple(f"{_kind(service)} {service.name}" for service in services if any(_selects(service, labels) for labels in pods))


def _publishing(services: Iterable[ObjectFacts], namespace: str) -> list[ObjectFacts]:
    service_names = (service for service in services if service.namespace == namespace)
    return [s for s in service_names if s.spec.get("type") in PUBLISHING or s.spec.get("externalIPs")]


def _kind(service: ObjectFacts) -> str:
    kind = str(service.spec.get("type") or "")
    return kind if kind in PUBLISHING else "externalIPs"


def _selects(service: ObjectFacts, labels: Mapping[str, str]) -> bool:
    selector = service.spec.get("selector")
    return isinstance(selector, Mapping) and bool(selector) and all(labels.get(str(key)) == str(value) for key, value in selector.items())
