# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Flows of a reach as rows for people: sources of one namespace, a destination, ports, verdict, and what decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ..policies.evaluate.verdict import PolicyOutcome
from .difference import ChangeKind, ReachChange
from .port_set import PortSet
from .reach import Reach
from .scope import End, ReachScope
from .workload_set import SetKind, WorkloadSet, WorkloadSets, bits_of, numbers_of


@dataclass(frozen=True, kw_only=True)
class ReachPlace:
    """Workloads of one namespace, or what is no workload. ``whole``: they are all that the namespace has."""

    kind: SetKind
    cluster: str
    namespace: str
    workloads: tuple[str, ...]
    whole: bool = False
    shown: str = ""

    def __str__(self) -> str:
        """Text such as ``shop in c1 (web, db)``."""
        if self.kind is not SetKind.WORKLOADS:
            return self.shown
        return f"{self.namespace} in {self.cluster} ({'all' if self.whole else ', '.join(self.workloads)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the place as results have it."""
        return {
            "kind": self.kind.value,
            "cluster": self.cluster,
            "namespace": self.namespace,
            "workloads": list(self.workloads),
            "name": self.shown,
        }


@dataclass(frozen=True, kw_only=True)
class FlowRow:
    """Flows between two places that have one verdict on these ports."""

    source: ReachPlace
    destination: ReachPlace
    verdict: PolicyOutcome
    ports: PortSet
    policies: tuple[str, ...]
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {
            "source": self.source.to_dict(),
            "destination": self.destination.to_dict(),
            "verdict": self.verdict.value,
            "ports": str(self.ports),
            "ranges": self.ports.to_list(),
            "policies": list(self.policies),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, kw_only=True)
class ChangeRow:
    """Flows between two places that a plan changes."""

    kind: ChangeKind
    before: PolicyOutcome
    flow: FlowRow  # as it will be

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {"change": self.kind.value, "before": self.before.value, **self.flow.to_dict()}


class Places:
    """Sets as places, of which the sources of one namespace are joined."""

    def __init__(self, sets: WorkloadSets) -> None:
        self._sets = sets
        members: dict[tuple[str, str], list[int]] = {}
        for entry in sets:
            if entry.kind is SetKind.WORKLOADS:
                members.setdefault((entry.host, entry.namespace), []).append(entry.number)
        self._namespaces = {place: bits_of(numbers) for place, numbers in members.items()}
        self._others = {kind: bits_of(e.number for e in sets if e.kind is kind) for kind in SetKind if kind is not SetKind.WORKLOADS}

    def count(self, bits: int) -> int:
        """Return the number of places that ``of`` yields."""
        return sum(1 for mask in (*self._namespaces.values(), *self._others.values()) if bits & mask)

    def of(self, bits: int, end: End) -> Iterator[ReachPlace]:
        """Yield the places of the sets, with the workloads that belong to ``end``."""
        if bits & self._sets.workloads:
            for (host, namespace), mask in self._namespaces.items():
                if bits & mask:
                    found = {name for number in numbers_of(bits & mask) for name in end.workloads(self._sets[number])}
                    whole = bits & mask == mask and not end.workload
                    yield ReachPlace(kind=SetKind.WORKLOADS, cluster=host, namespace=namespace, workloads=tuple(sorted(found)), whole=whole)
        for kind, mask in self._others.items():
            if bits & mask:
                names = [self._sets[number].shown for number in numbers_of(bits & mask)]
                shown = _WHOLE[kind] if len(names) > 1 and bits & mask == mask and kind in _WHOLE else ", ".join(names)
                yield ReachPlace(kind=kind, cluster="", namespace="", workloads=(), shown=shown)


_WHOLE: Final = {SetKind.WORLD: "world", SetKind.NODES: "nodes of every cluster"}


def place_of(entry: WorkloadSet, end: End | None = None) -> ReachPlace:
    """Return one set as a place."""
    names = end.workloads(entry) if end else entry.workloads
    return ReachPlace(kind=entry.kind, cluster=entry.host, namespace=entry.namespace, workloads=names, shown=entry.shown)


def flow_rows(
    reach: Reach, scope: ReachScope, *, denied: bool = True, sources: int | None = None, destinations: int | None = None
) -> Iterator[FlowRow]:
    """Yield the rows of a reach within the scope: of each destination what is allowed, unknown and, if ``denied``, what is denied.

    ``sources`` and ``destinations`` are bits of sets, if not those of the scope.
    """
    places = Places(reach.sets)
    wanted = scope.sources(reach.sets) if sources is None else sources
    for number in numbers_of(scope.destinations(reach.sets) if destinations is None else destinations):
        destination = place_of(reach.sets[number], scope.destination)
        for cell in reach.cells[number]:
            bits = cell.sources & wanted
            for outcome, ports in cell.ports.each() if bits else ():
                if outcome is PolicyOutcome.DENIED and not denied:
                    continue
                for group in reach.explained(replace(cell, sources=bits), number, outcome):
                    for source in places.of(group.sources, scope.source):
                        yield FlowRow(
                            source=source,
                            destination=destination,
                            verdict=outcome,
                            ports=ports,
                            policies=group.policies,
                            reasons=group.reasons,
                        )


def change_rows(planned: Reach, changes: tuple[ReachChange, ...], scope: ReachScope) -> Iterator[ChangeRow]:
    """Yield the changes within the scope, those that open something first."""
    places = Places(planned.sets)
    wanted, destinations = scope.sources(planned.sets), scope.destinations(planned.sets)
    for kind in ChangeKind:
        for change in changes:
            bits = change.sources & wanted
            if change.kind is not kind or not bits or not destinations >> change.destination & 1:
                continue
            destination = place_of(planned.sets[change.destination], scope.destination)
            for group in planned.explained(replace(change.cell, sources=bits), change.destination, kind.outcome):
                for source in places.of(group.sources, scope.source):
                    flow = FlowRow(
                        source=source,
                        destination=destination,
                        verdict=kind.outcome,
                        ports=change.ports,
                        policies=group.policies,
                        reasons=group.reasons,
                    )
                    yield ChangeRow(kind=kind, before=change.before, flow=flow)
