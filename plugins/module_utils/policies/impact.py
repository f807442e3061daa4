# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Impact of one intent's policies in one destination cluster: pods that they isolate, sources that lose access or are still denied.

The result is which pods could reach which by the policies, before and after; cut_flows.py adds the traffic that was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .cut_flows import party_of_kind
from .evaluate.endpoints import EndpointKind, Party
from .evaluate.ports import PortMatch
from .evaluate.rules import Direction, Entry, Rule
from .evaluate.ternary import Ternary, all_of, any_of
from .evaluate.verdict import PolicyOutcome, decide, isolating
from .workload_index import Group, Matched, Planned, Selecting, WorkloadIndex

PAIRS: Final = 400
"""Pairs of groups that are evaluated one by one, per intent and cluster: those with egress policies, or that a port decides about."""

PORTS: Final = 8
"""Ports of a rule that are tried for a pair."""

INGRESS: Final = Direction.INGRESS


@dataclass
class Impact:
    """Impact in one cluster. Numbers are those of groups of the workload index."""

    host: str
    isolated: list[Group] = field(default_factory=list)
    perhaps_isolated: list[Group] = field(default_factory=list)
    closed: list[Group] = field(default_factory=list)  # to which a source loses access by a deny rule
    perhaps_closed: list[Group] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    limited: set[int] = field(default_factory=set)  # keep the ports that policies name, and no others
    world: Ternary = True  # can addresses outside of the clusters still reach what is newly isolated?
    nodes: Ternary = True  # and other nodes
    allowing: set[str] = field(default_factory=set)  # other policies that let a source in to newly isolated groups
    refused: dict[str, set[int]] = field(default_factory=dict)  # why sources that are allowed are still kept out
    pairs: int = PAIRS  # that may still be evaluated

    @property
    def targets(self) -> dict[int, Group]:
        """Groups that sources lose access to, by number."""
        return {group.number: group for group in (*self.isolated, *self.perhaps_isolated, *self.closed)}

    @property
    def watched(self) -> dict[int, Group]:
        """Groups that sources lose access to, or may lose it to, by number."""
        return self.targets | {group.number: group for group in self.perhaps_closed}

    @property
    def limit_reached(self) -> bool:
        """Whether pairs were left out because ``PAIRS`` was reached."""
        return self.pairs < 0

    def take_pair(self) -> bool:
        """Count one pair of groups; return False when the limit is exceeded."""
        self.pairs -= 1
        return self.pairs >= 0


@dataclass(frozen=True)
class _Reach:
    """Groups that reach a group, by the rules of its ingress. ``free``: on every port."""

    reaching: Matched
    free: frozenset[int]


_WORLD: Final = party_of_kind(EndpointKind.WORLD)
_NODE: Final = party_of_kind(EndpointKind.REMOTE_NODE)


def impact_of(index: WorkloadIndex, planned: Planned, host: str, own: Sequence[Rule], *, allows: bool) -> Impact:
    """Return the impact of the rules ``own``, which are among those that are ``planned``.

    ``allows`` says whether their purpose is to let sources in.
    """
    found = Impact(host)
    subjects = {group.number: group for rule in own if INGRESS in rule.sections for group in index.selected(host, rule)}
    for group in subjects.values():
        judged = [(rule, rule.subject.matches(group.party.identity)) for rule in own if INGRESS in rule.sections]
        mine = [(rule, sure) for rule, sure in judged if sure is not False]
        before = _ingress_rules(index.selecting(group))
        after = _ingress_rules(planned.selecting(group))
        _assess_isolation(index, found, group, mine, before, after)
        for rule, sure in mine:
            for entry in rule.sections[INGRESS].entries:
                if entry.deny:
                    _assess_deny_entry(index, found, group, entry, before, sure=bool(sure))
                elif allows:
                    _assess_refused_sources(index, planned, found, group, entry, after)
    return found


def _assess_isolation(index: WorkloadIndex, found: Impact, group: Group, mine: Selecting, before: Selecting, after: Selecting) -> None:
    """Record in ``found`` whether the group is isolated now, and which groups lose access to it."""
    now = [sure for rule, sure in mine if rule.sections[INGRESS].default_deny]
    if not now:
        return
    view = index.view(group.host)
    was = any_of([view.settings.mode == "always", *(sure for _rule, sure in isolating(before, INGRESS))])
    was = None if was is False and not view.complete else was
    if was:
        return
    (found.isolated if was is False and any(now) else found.perhaps_isolated).append(group)
    earlier, later = _reach(index, before, isolated=False), _reach(index, after, isolated=True)
    gone = earlier.reaching.sure - later.reaching.sure
    lost = gone - later.reaching.perhaps
    found.lost |= lost - index.with_egress_policy
    for number in lost & index.with_egress_policy:
        _add_lost(index, found, number, group)
    found.unsure |= gone & later.reaching.perhaps
    found.limited |= (later.reaching.sure & earlier.free) - later.free
    found.world = all_of((found.world, _lets_in(after, _WORLD)))
    found.nodes = all_of((found.nodes, _lets_in(after, _NODE)))
    own = {rule.policy for rule, _sure in mine}
    others = (rule for rule, sure in after if sure is not False and rule.policy not in own)
    found.allowing |= {rule.policy for rule in others if any(not entry.deny for entry in rule.sections[INGRESS].entries)}


def _assess_deny_entry(index: WorkloadIndex, found: Impact, group: Group, entry: Entry, before: Selecting, *, sure: bool) -> None:
    """Record in ``found`` the groups that reached the group on ports that ``entry`` denies. ``sure``: its rule selects that for sure."""
    view = index.view(group.host)
    isolated = view.settings.mode == "always" or any(sure for _rule, sure in isolating(before, INGRESS))
    earlier = _reach(index, before, isolated=isolated).reaching
    concerned = index.peers(entry.peers)
    for number in (concerned.sure | concerned.perhaps) & (earlier.sure | earlier.perhaps):
        if entry.ports is not None and not (found.take_pair() and _is_reachable(index, group, index.groups[number], entry.ports, before)):
            continue
        if sure and number in concerned.sure and _add_lost(index, found, number, group):
            found.closed.append(group)
        elif not sure or number in concerned.perhaps:
            found.unsure.add(number)
            found.perhaps_closed.append(group)


def _assess_refused_sources(index: WorkloadIndex, planned: Planned, found: Impact, group: Group, entry: Entry, after: Selecting) -> None:
    """Record in ``found`` the sources that ``entry`` lets in and other rules keep out.

    Those are a deny rule here, or policies on the egress of the source.
    """
    denies = any(each.deny for rule, _sure in after for each in rule.sections[INGRESS].entries)
    sources = index.peers(entry.peers).sure
    for number in sources if denies else sources & index.with_egress_policy:
        if not found.take_pair():
            return
        source = index.groups[number]
        protocol, port = _sample_flow(entry.ports)
        ingress = decide(index.view(group.host), INGRESS, group.party, source.party, protocol, port, after)
        egress = decide(index.view(source.host), Direction.EGRESS, source.party, group.party, protocol, port, planned.selecting(source))
        for decision, where in ((ingress, f"ingress in {group.host}"), (egress, f"egress in {source.host}")):
            if decision.outcome is PolicyOutcome.DENIED:
                found.refused.setdefault(f"{where}: {decision.shown}", set()).add(number)


def _add_lost(index: WorkloadIndex, found: Impact, number: int, group: Group) -> bool:
    """Record that a source loses access; return False if its own egress never let it out to the group."""
    source = index.groups[number]
    if number in index.with_egress_policy and found.take_pair() and not index.may_send(source, group):
        return False
    found.lost.add(number)
    return True


def _reach(index: WorkloadIndex, rules: Selecting, *, isolated: bool) -> _Reach:
    sections = [(rule, sure, rule.sections[INGRESS]) for rule, sure in rules]
    requires = [demand for _rule, sure, section in sections if sure for demand in section.requires]
    reaching, free, denied = Matched(), frozenset[int](), frozenset[int]()
    for rule, sure, section in sections:
        if rule.problem:
            reaching |= Matched(frozenset(), index.all_numbers)
        for entry in section.entries:
            found = index.peers(entry.peers, () if entry.deny else requires)
            if entry.deny:
                denied |= found.sure if sure and entry.ports is None else frozenset()
            elif entry.ports != ():
                reaching |= found if sure else Matched(frozenset(), found.sure | found.perhaps)
                free |= found.sure if sure and entry.ports is None else frozenset()
    if not isolated:
        reaching, free = Matched(index.all_numbers), index.all_numbers
    return _Reach(Matched(reaching.sure - denied, reaching.perhaps - denied), free - denied)


def _lets_in(rules: Selecting, peer: Party) -> Ternary:
    """Return whether any rule lets the peer in, on any port."""
    entries = [(entry, sure) for rule, sure in rules for entry in rule.sections[INGRESS].entries if not entry.deny and entry.ports != ()]
    doubts = [None for rule, _sure in rules if rule.problem]
    return any_of([*(all_of((sure, entry.peers.match(peer))) for entry, sure in entries), *doubts])


def _is_reachable(index: WorkloadIndex, group: Group, source: Group, ports: Iterable[PortMatch], before: Selecting) -> bool:
    """Return whether the source reaches the group on any of the ports; False only if that is certain."""
    view = index.view(group.host)
    flows = [_sample_flow((match,)) for match in ports][:PORTS]
    return any(decide(view, INGRESS, group.party, source.party, *flow, before).outcome is not PolicyOutcome.DENIED for flow in flows)


def _sample_flow(ports: Sequence[PortMatch] | None) -> tuple[str, int]:
    """Return (protocol, port) of a flow that stands for all flows to the ports."""
    if not ports:
        return "TCP", 1
    return "TCP" if ports[0].protocol == "ANY" else ports[0].protocol, ports[0].first or 1


def _ingress_rules(rules: Selecting) -> list[tuple[Rule, Ternary]]:
    return [(rule, sure) for rule, sure in rules if INGRESS in rule.sections]
