# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Judgement of one direction of every set: which peers it may communicate with on which ports, and which policies decide that.

The evaluator decides (policies/evaluate/verdict.py); here it is asked as seldom as possible. Its answer depends on a peer only through the
selectors, CIDRs and kinds that the rules name, and on a port only through the ports that they name. So one peer and one port stand
for all that the rules of a subject treat alike; a property test compares that with the evaluator's answers to single flows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..policies.evaluate.endpoints import TRANSPORT, EndpointKind, FirstPacket, PolicyEndpoint
from ..policies.evaluate.ports import PortMatch
from ..policies.evaluate.rules import Direction, Rule
from ..policies.evaluate.ternary import Ternary
from ..policies.evaluate.verdict import Decision, PolicyOutcome, decide, verdict
from ..policies.evaluate.world import ClusterView, PolicyWorld
from .port_set import ALL, LIMITS, PROTOCOLS, PortSet, Range
from .workload_set import SetKind, WorkloadSet, WorkloadSets, first_of

EFFORT: Final = 2_000_000
"""Comparisons of a port with a port of a rule, for one subject and direction. Policies are foreign data: with thousands of ports and peers
the answer is unknown instead of late."""

TOO_MUCH: Final = Decision(PolicyOutcome.UNKNOWN, "its policies name too many ports and peers to evaluate them all")
NOT_KNOWN: Final = Decision(PolicyOutcome.UNKNOWN, "nothing is known of the cluster")

Profile = tuple[tuple[PortSet, Decision], ...]
"""Every port, divided by the decision on it."""

Selecting = Sequence[tuple[Rule, Ternary]]


@dataclass(frozen=True)
class Block:
    """Peers, as bits of their sets, that a subject treats alike."""

    peers: int
    profile: Profile


@dataclass
class PolicyJudgement:
    """Judgements of all sets in one state of the policies, each made once for all subjects with the same rules."""

    world: PolicyWorld
    sets: WorkloadSets
    _blocks: dict[tuple[object, ...], tuple[Block, ...]] = field(default_factory=dict)
    _rules: dict[tuple[int, Direction], list[tuple[Rule, Ternary]]] = field(default_factory=dict)

    def key(self, subject: WorkloadSet, direction: Direction) -> tuple[object, ...]:
        """Return what the judgement of a subject depends on; subjects with one key are judged alike."""
        if subject.kind is not SetKind.WORKLOADS:
            return subject.kind, subject.host, direction
        rules = self.selecting(subject, direction)
        return subject.kind, subject.host, direction, tuple((id(rule), sure) for rule, sure in rules)

    def blocks(self, subject: WorkloadSet, direction: Direction) -> tuple[Block, ...]:
        """Return the judgement of a subject: all sets as its peers, divided by how it treats them."""
        key = self.key(subject, direction)
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = tuple(self._judged(subject, direction))
        return found

    def profile(self, subject: WorkloadSet, direction: Direction, peer: int) -> Profile:
        """Return how a subject treats one peer."""
        return next(block.profile for block in self.blocks(subject, direction) if block.peers >> peer & 1)

    def selecting(self, subject: WorkloadSet, direction: Direction) -> list[tuple[Rule, Ternary]]:
        """Return the rules of a direction that select the subject (True), or perhaps do (None)."""
        found = self._rules.get((subject.number, direction))
        if found is None:
            selecting = self.world.clusters[subject.host].selecting(subject.party) if subject.party else []
            found = self._rules[subject.number, direction] = [(rule, sure) for rule, sure in selecting if direction in rule.sections]
        return found

    def _judged(self, subject: WorkloadSet, direction: Direction) -> Iterable[Block]:
        everything = self.sets.everything
        if subject.kind is SetKind.UNREAD or subject.party is None:
            return [Block(everything, ((ALL, NOT_KNOWN),))]
        if subject.kind is not SetKind.WORKLOADS:
            return [Block(everything, ((ALL, self._of_no_pod(subject.party.endpoint, direction)),))]
        rules = self.selecting(subject, direction)
        return self._by_rules(self.world.clusters[subject.host], subject, direction, rules)

    def _of_no_pod(self, endpoint: PolicyEndpoint, direction: Direction) -> Decision:
        """Return the decision on the world or on nodes as the subject, which depends on no peer and no port."""
        other = PolicyEndpoint(kind=EndpointKind.WORLD)
        source, destination = (endpoint, other) if direction is Direction.EGRESS else (other, endpoint)
        found = verdict(self.world, FirstPacket(source=source, destination=destination, protocol="TCP", port=1))
        return found.egress if direction is Direction.EGRESS else found.ingress

    def _by_rules(self, view: ClusterView, subject: WorkloadSet, direction: Direction, rules: Selecting) -> list[Block]:
        peers = self._divided_peers(rules, direction)
        matches = _matches(rules, direction)
        if len(peers) * len(matches) ** 2 > EFFORT:
            return [Block(self.sets.everything, ((ALL, TOO_MUCH),))]
        atoms = _divided_ports(matches)
        found: dict[Profile, int] = {}
        for bits in peers:
            profile = self._profile(view, subject, direction, rules, self.sets[first_of(bits)], atoms)
            found[profile] = found.get(profile, 0) | bits
        return [Block(bits, profile) for profile, bits in found.items()]

    def _profile(
        self, view: ClusterView, subject: WorkloadSet, direction: Direction, rules: Selecting, peer: WorkloadSet, atoms: list[_Atom]
    ) -> Profile:
        if peer.party is None or subject.party is None:
            return ((ALL, NOT_KNOWN),)
        found: dict[Decision, list[Range]] = {}
        for atom in atoms:
            protocol, port, _last = atom.ranges[0]
            answer = decide(view, direction, subject.party, peer.party, protocol, port, rules)
            found.setdefault(answer, []).extend(atom.ranges)
        return tuple((PortSet.of(ranges), decision) for decision, ranges in found.items())

    def _divided_peers(self, rules: Selecting, direction: Direction) -> list[int]:
        """Return all sets, divided by what the rules match of them."""
        selectors = {
            selector
            for rule, _sure in rules
            for section in (rule.sections[direction],)
            for selector in (
                *section.requires,
                *section.requires_deny,
                *(each for entry in section.entries for each in (*entry.peers.selectors, *entry.peers.entities)),
            )
        }
        parts = [self.sets.workloads] if self.sets.workloads else []
        for selector in selectors:
            sure, perhaps = self.sets.matched(selector)
            parts = [piece for part in parts for piece in (part & sure, part & perhaps, part & ~(sure | perhaps)) if piece]
        cidrs = {cidr for rule, _sure in rules for entry in rule.sections[direction].entries for cidr in entry.peers.cidrs}
        others: dict[tuple[object, ...], int] = {}
        for entry in self.sets:
            if entry.kind is SetKind.WORKLOADS:
                continue
            covered = (
                tuple(cidr.covers(entry.party.endpoint.address) for cidr in cidrs) if entry.kind is SetKind.WORLD and entry.party else ()
            )
            others[entry.kind, covered] = others.get((entry.kind, covered), 0) | 1 << entry.number
        return [*parts, *others.values()]


@dataclass(frozen=True)
class _Atom:
    """Ports that the rules treat alike."""

    ranges: tuple[Range, ...]


def _matches(rules: Selecting, direction: Direction) -> list[PortMatch]:
    entries = (entry for rule, _sure in rules for entry in rule.sections[direction].entries)
    return list(dict.fromkeys(match for entry in entries for match in entry.ports or ()))


def _divided_ports(matches: Sequence[PortMatch]) -> list[_Atom]:
    """Return all ports, divided by which of the matches cover them."""
    found: dict[tuple[Ternary, ...], list[Range]] = {}
    for protocol in PROTOCOLS:
        limits = LIMITS[protocol]
        least, most = limits[0], limits[1]
        own = [match for match in matches if match.protocol == protocol or (match.protocol == "ANY" and protocol in TRANSPORT)]
        cuts = sorted({least, *(cut for match in own if not match.name for cut in (match.first, match.last + 1) if least < cut <= most)})
        for first, after in zip(cuts, [*cuts[1:], most + 1], strict=True):
            covered = tuple(match.covers(protocol, first, None) for match in matches)
            found.setdefault(covered, []).append((protocol, first, after - 1))
    return [_Atom(tuple(ranges)) for ranges in found.values()]
