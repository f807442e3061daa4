# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reach: for every destination, its sources divided by the ports on which they reach it, as the policies of both clusters say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ..policies.evaluate.rules import Direction
from ..policies.evaluate.verdict import Decision, PolicyOutcome
from ..services.mesh_view import MeshView
from .judgement import PolicyJudgement, Profile
from .port_set import ALL, NONE, PortSet
from .workload_set import SetKind, WorkloadSet, WorkloadSets

GROUPS: Final = 10
"""Groups of sources of one cell that differ in their egress policies; hundreds of sources may each have a policy of their own."""


@dataclass(frozen=True)
class PortVerdicts:
    """Every port, divided into those that are allowed, denied, and unknown."""

    allowed: PortSet
    denied: PortSet
    unknown: PortSet

    @classmethod
    def of(cls, profile: Profile) -> PortVerdicts:
        """Return the ports of a profile without the reasons."""
        found = dict.fromkeys(PolicyOutcome, NONE)
        for ports, decision in profile:
            found[decision.outcome] = found[decision.outcome] | ports
        return cls(found[PolicyOutcome.ALLOWED], found[PolicyOutcome.DENIED], found[PolicyOutcome.UNKNOWN])

    def after(self, other: PortVerdicts) -> PortVerdicts:
        """Return the ports of a flow that has to pass both: denied where one denies, allowed where both allow."""
        denied = self.denied | other.denied
        allowed = self.allowed & other.allowed
        return PortVerdicts(allowed, denied, ALL - denied - allowed)

    def each(self) -> Iterator[tuple[PolicyOutcome, PortSet]]:
        """Yield the outcomes that any port has."""
        for outcome, ports in (
            (PolicyOutcome.ALLOWED, self.allowed),
            (PolicyOutcome.UNKNOWN, self.unknown),
            (PolicyOutcome.DENIED, self.denied),
        ):
            if ports:
                yield outcome, ports


UNKNOWN: Final = PortVerdicts(NONE, NONE, ALL)


@dataclass(frozen=True)
class Cell:
    """Sources, as bits of their sets, that reach one destination on the same ports, by the same decision of its cluster.

    ``hidden`` says why nothing is known in spite of the policies; "" where they decide.
    """

    sources: int
    ports: PortVerdicts
    ingress: Profile = ()
    hidden: str = ""


@dataclass(frozen=True)
class Explained:
    """Sources, as bits of their sets, and what decides about their flows.

    ``policies`` are such as ``CiliumNetworkPolicy shop/web in c1``; ``reasons`` are the words of the evaluator.
    """

    sources: int
    policies: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass
class _Work:
    """Ports by a number each: they are compared millions of times, and few of them differ."""

    ports: list[PortVerdicts] = field(default_factory=list)
    _numbers: dict[PortVerdicts, int] = field(default_factory=dict)
    _joined: dict[tuple[int, int], int] = field(default_factory=dict)

    def number(self, ports: PortVerdicts) -> int:
        """Return the number of the ports."""
        found = self._numbers.get(ports)
        if found is None:
            found = self._numbers[ports] = len(self.ports)
            self.ports.append(ports)
        return found

    def joined(self, let_out: int, let_in: int) -> int:
        """Return the number of the ports of flows that have to pass both."""
        found = self._joined.get((let_out, let_in))
        if found is None:
            found = self._joined[let_out, let_in] = self.number(self.ports[let_out].after(self.ports[let_in]))
        return found


@dataclass
class Reach:
    """Reach of all sets in one state of the policies."""

    sets: WorkloadSets
    judgement: PolicyJudgement

    @classmethod
    def of(cls, sets: WorkloadSets) -> Reach:
        """Return the reach by the policies of the state in which the sets are seen."""
        return cls(sets, PolicyJudgement(sets.index.world, sets))

    @cached_property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """Cells of each destination, by its number. Together, the cells of a destination hold every source once."""
        work = _Work()
        egress = self._egress_by_destination(work)
        return tuple(self._cells_of(destination, egress[destination.number], work) for destination in self.sets)

    @cached_property
    def _senders(self) -> tuple[tuple[WorkloadSet, int], ...]:
        """Sources with the same rules of egress: one of them, and the bits of all."""
        found: dict[tuple[object, ...], tuple[WorkloadSet, int]] = {}
        for entry in self.sets:
            key = self.judgement.key(entry, Direction.EGRESS)
            subject, bits = found.get(key, (entry, 0))
            found[key] = subject, bits | 1 << entry.number
        return tuple(found.values())

    def _egress_by_destination(self, work: _Work) -> list[dict[int, int]]:
        """Return for each destination the sources, divided by what their own egress lets out to it, as numbers of ``work``."""
        found: list[dict[int, int]] = [{} for _set in self.sets]
        for subject, bits in self._senders:
            for block in self.judgement.blocks(subject, Direction.EGRESS):
                ports = work.number(PortVerdicts.of(block.profile))
                for place, digit in enumerate(reversed(f"{block.peers:b}")):
                    if digit == "1":
                        by_ports = found[place]
                        by_ports[ports] = by_ports.get(ports, 0) | bits
        return found

    def _cells_of(self, destination: WorkloadSet, egress: dict[int, int], work: _Work) -> tuple[Cell, ...]:
        found: list[Cell] = []
        known = self.sets.everything
        for why, bits in self._hidden_from(destination):
            if bits & known:
                found.append(Cell(bits & known, UNKNOWN, (), why))
                known &= ~bits
        for block in self.judgement.blocks(destination, Direction.INGRESS):
            if not block.peers & known:
                continue
            let_in = work.number(PortVerdicts.of(block.profile))
            joined: dict[int, int] = {}
            for let_out, sources in egress.items():
                bits = block.peers & sources & known
                if bits:
                    ports = work.joined(let_out, let_in)
                    joined[ports] = joined.get(ports, 0) | bits
            found += [Cell(bits, work.ports[ports], block.profile) for ports, bits in joined.items()]
        return tuple(found)

    def _hidden_from(self, destination: WorkloadSet) -> Iterator[tuple[str, int]]:
        """Yield why nothing is known of flows from some sources to the destination, and these sources."""
        if destination.kind is SetKind.UNREAD:
            yield f"nothing is known of {destination.host}", self.sets.everything
            return
        yield from self._unread
        if destination.kind is not SetKind.WORKLOADS:
            return
        for host, bits in self._workloads_of.items():
            if host == destination.host:
                continue
            if not self.sets.index.scene.mesh.linked(host, destination.host):
                yield f"{host} and {destination.host} are not linked, so neither knows the identities of the other", bits
            elif not self._global >> destination.number & 1:
                yield f"namespace {destination.namespace} of {destination.host} is not global, so other clusters do not know its pods", bits
            else:
                yield f"the namespace is not global in {host}, so other clusters do not know its pods", bits & ~self._global

    @cached_property
    def _unread(self) -> list[tuple[str, int]]:
        return [(f"nothing is known of {entry.host}", 1 << entry.number) for entry in self.sets if entry.kind is SetKind.UNREAD]

    @cached_property
    def _workloads_of(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for entry in self.sets:
            if entry.kind is SetKind.WORKLOADS:
                found[entry.host] = found.get(entry.host, 0) | 1 << entry.number
        return found

    @cached_property
    def _global(self) -> int:
        """Bits of the sets of workloads in namespaces that are exported (from Cilium 1.19 one can turn that off)."""
        view = MeshView(scene=self.sets.index.scene)
        answers: dict[tuple[str, str], bool] = {}
        found = 0
        for entry in self.sets:
            if entry.kind is SetKind.WORKLOADS:
                place = (entry.host, entry.namespace)
                if place not in answers:
                    answers[place] = view.namespace_known(*place)
                found |= answers[place] << entry.number
        return found

    def explained(self, cell: Cell, destination: int, outcome: PolicyOutcome) -> list[Explained]:
        """Return the sources of the cell, divided by what gives its ports this outcome.

        After ``GROUPS`` groups of sources with egress policies of their own, the rest is one group that names no policy of theirs.
        """
        if cell.hidden:
            return [Explained(cell.sources, (), (cell.hidden,))]
        wanted = dict(cell.ports.each()).get(outcome, NONE)
        ingress = [decision for ports, decision in cell.ingress if decision.outcome is outcome and ports & wanted]
        rest = wanted
        for ports, decision in cell.ingress if outcome is PolicyOutcome.DENIED else ():
            rest = rest - ports if decision.outcome is outcome else rest
        groups: dict[tuple[Decision, ...], int] = {}
        left = cell.sources
        for source, bits in self._senders if rest else ():  # what the destination denies is denied, whatever the sources do
            if bits & left:
                profile = self.judgement.profile(source, Direction.EGRESS, destination)
                egress = tuple(decision for ports, decision in profile if decision.outcome is outcome and ports & rest)
                if egress in groups or len(groups) < GROUPS:
                    groups[egress] = groups.get(egress, 0) | bits & left
                    left &= ~bits
        groups |= {(): groups.get((), 0) | left} if left else {}
        return [self._explained(bits, ingress, egress, destination) for egress, bits in groups.items()]

    def _explained(self, bits: int, ingress: list[Decision], egress: tuple[Decision, ...], destination: int) -> Explained:
        by_ports = self.sets[destination].host
        policies = dict.fromkeys(f"{policy} in {by_ports}" for decision in ingress for policy in decision.policies)
        for decision in egress:
            for policy in decision.policies:
                policies.update(dict.fromkeys(f"{policy} in {host}" for host in self._hosts(bits) if self._has(host, policy)))
        reasons = [f"ingress: {decision.shown}" for decision in ingress] + [f"egress: {decision.shown}" for decision in egress]
        return Explained(bits, tuple(policies), tuple(reasons))

    def _hosts(self, bits: int) -> list[str]:
        return [host for host, by_ports in self._workloads_of.items() if by_ports & bits]

    def _has(self, host: str, policy: str) -> bool:
        return policy in self._policies_by_host.get(host, frozenset())

    @cached_property
    def _policies_by_host(self) -> dict[str, frozenset[str]]:
        return {host: frozenset(rule.policy for rule in view.rules) for host, view in self.judgement.world.clusters.items()}
