# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Protection that goes with policies: what they isolate or keep out, and no policy that stays does. Over the pods that exist. Pure.

A policy that goes opens something in three ways, and in no other: it isolated pods that nothing else isolates; it denied, or restricted to
layer 7 or to authenticated peers, what is not denied then; or it demanded labels of the peers of other policies (``fromRequires``). All
else that goes with it is what it allowed. Where the evaluator cannot decide, that counts as a loss: unknown is never no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..findings.wording import listed
from ..policies.evaluate.endpoints import TRANSPORT
from ..policies.evaluate.ports import PortMatch
from ..policies.evaluate.rules import Direction, Entry, Rule
from ..policies.evaluate.verdict import PolicyOutcome, isolating
from .port_set import ALL, LIMITS, PROTOCOLS, PortSet
from .reach import PortVerdicts, Reach
from .workload_set import SetKind, WorkloadSet, bits_of, numbers_of


@dataclass(frozen=True, kw_only=True)
class Example:
    """Flow that opens, or perhaps does. Source and destination are numbers of sets."""

    source: int
    destination: int
    ports: PortSet
    outcome: PolicyOutcome  # then: allowed or unknown


@dataclass(frozen=True, kw_only=True)
class LostProtection:
    """Protection that goes with policies of one cluster, or of which it is not known whether it does.

    ``what`` completes the sentence "CiliumNetworkPolicy shop/web in c1 ...". ``isolation``: pods are no longer isolated.
    """

    host: str  # inventory name
    policies: tuple[str, ...]  # as ``ObjectFacts.shown``
    what: str
    isolation: bool = False
    example: Example | None = None  # None: no flow between existing endpoints opens, or nothing is known of flows


def losses(before: Reach, after: Reach, gone: Mapping[str, Collection[str]]) -> Iterator[LostProtection]:
    """Yield what is lost when policies go; nothing if nothing that is denied or isolated opens.

    :param before: reach with these policies; ``after``: the same sets without them.
    :param gone: inventory name -> the policies, as ``ObjectFacts.shown``.
    """
    for host, names in gone.items():
        yield from _not_evaluated(before, host, names)
    for subject in before.sets:
        if subject.kind is SetKind.WORKLOADS and gone.get(subject.host):
            for direction in Direction:
                yield from _lost(before, after, subject, direction, gone[subject.host])


def _not_evaluated(before: Reach, host: str, names: Collection[str]) -> Iterator[LostProtection]:
    """Yield why the policies of a cluster cannot be judged."""
    every = tuple(sorted(names))
    view = before.judgement.world.clusters.get(host)
    if view is None or any(entry.kind is SetKind.UNREAD and entry.host == host for entry in before.sets):
        yield LostProtection(host=host, policies=every, what="may protect pods, and nothing is known of the pods of that cluster")
    elif view.settings.doubts:
        yield LostProtection(host=host, policies=every, what=f"cannot be judged: {view.settings.doubts[0]}")
    for rule in view.rules if view is not None else ():
        if rule.policy in names and (why := _doubt(rule)):
            yield LostProtection(host=host, policies=(rule.policy,), what=f"cannot be judged: {why}")


def _doubt(rule: Rule) -> str:
    """Return why it is not known what goes with the rule; "" where it is."""
    sections = rule.sections.values()
    if any(section.requires or section.requires_deny for section in sections):
        return "it demands labels of the peers of other policies (fromRequires or toRequires)"
    matches = (match for section in sections for entry in section.entries if _restricts(entry) for match in entry.ports or ())
    strange = next((match.protocol for match in matches if not _protocols(match)), "")
    return rule.problem or (f"it restricts {strange}, which is not evaluated" if strange else "")


def _lost(before: Reach, after: Reach, subject: WorkloadSet, direction: Direction, names: Collection[str]) -> Iterator[LostProtection]:
    going = [(rule, sure) for rule, sure in before.judgement.selecting(subject, direction) if rule.policy in names]
    walls = isolating(going, direction)
    if walls and not _is_isolated(after, subject, direction):
        where = f"{subject.place} ({listed(subject.workloads)})"
        yield LostProtection(
            host=subject.host,
            policies=_names(rule for rule, _sure in walls),
            what=f"isolates pods of {where} for {direction.value}, and no policy that stays does so for certain",
            isolation=True,
            example=next(_opened(before, after, subject, direction, ALL, before.sets.everything), None),
        )
    for rule, _sure in going:
        for entry in rule.sections[direction].entries:
            if _restricts(entry):
                opened = _opened(before, after, subject, direction, _ports_of(entry), _peers_of(before, subject, entry))
                example = next(opened, None)
                if example is not None:
                    what = f"{'denies' if entry.deny else 'restricts'} what no policy that stays denies for certain"
                    yield LostProtection(host=subject.host, policies=(rule.policy,), what=what, example=example)


def _is_isolated(reach: Reach, subject: WorkloadSet, direction: Direction) -> bool:
    view = reach.judgement.world.clusters[subject.host]
    isolating_rules = isolating(reach.judgement.selecting(reach.sets[subject.number], direction), direction)
    return view.settings.mode == "always" or any(sure for _rule, sure in isolating_rules)


def _restricts(entry: Entry) -> bool:
    """Return whether the entry keeps something out: also one that allows requests of layer 7, as it stops the others."""
    return entry.deny or entry.authenticated or not all(match.plain for match in entry.ports or ())


def _peers_of(reach: Reach, subject: WorkloadSet, entry: Entry) -> int:
    """Return the bits of the sets that the entry means, or perhaps means."""
    kinds = reach.judgement.world.clusters[subject.host].settings.cidr_kinds
    return bits_of(peer.number for peer in reach.sets if peer.party is None or entry.peers.match(peer.party, cidr_kinds=kinds) is not False)


def _ports_of(entry: Entry) -> PortSet:
    """Return the ports that the entry covers; of a port with a name all that it may be."""
    if entry.ports is None:
        return ALL
    return PortSet.of((protocol, *_limits(match, protocol)) for match in entry.ports for protocol in _protocols(match))


def _protocols(match: PortMatch) -> tuple[str, ...]:
    return TRANSPORT if match.protocol == "ANY" else (match.protocol,) if match.protocol in PROTOCOLS else ()


def _limits(match: PortMatch, protocol: str) -> tuple[int, int]:
    least, most = LIMITS[protocol]
    return (least, most) if match.name else (max(match.first, least), min(match.last, most))


def _opened(before: Reach, after: Reach, subject: WorkloadSet, direction: Direction, ports: PortSet, peers: int) -> Iterator[Example]:
    """Yield flows of a subject that are not allowed for certain before and not denied for certain after, by the policies of both ends.

    Those between pods of the subject itself come last.

    :param peers: bits of the sets that count.
    """
    own = 1 << subject.number
    for some in (peers & ~own, peers & own):
        yield from _opened_for(before, after, subject, direction, ports, some)


def _opened_for(before: Reach, after: Reach, subject: WorkloadSet, direction: Direction, ports: PortSet, peers: int) -> Iterator[Example]:
    for old in before.judgement.blocks(subject, direction):
        for new in after.judgement.blocks(after.sets[subject.number], direction):
            changed = (ports - PortVerdicts.of(old.profile).allowed) - PortVerdicts.of(new.profile).denied
            for peer in numbers_of(old.peers & new.peers & peers) if changed else ():
                source, destination = (peer, subject.number) if direction is Direction.INGRESS else (subject.number, peer)
                for outcome, kept in _ports_between(after, source, destination).each():
                    if outcome is not PolicyOutcome.DENIED and (left := changed & kept):
                        yield Example(source=source, destination=destination, ports=left, outcome=outcome)


def _ports_between(reach: Reach, source: int, destination: int) -> PortVerdicts:
    return next(cell.ports for cell in reach.cells[destination] if cell.sources >> source & 1)


def _names(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(sorted({rule.policy for rule in rules}))
