# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the policies of one intent change in one destination cluster: who is isolated that was not, who loses access, who is still kept out.

Traffic itself is not seen. What is told is who could reach whom by the policies, before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .evaluate.endpoints import Endpoint, Kind, Party, identity_of
from .evaluate.label_filters import LabelFilters
from .evaluate.ports import PortMatch
from .evaluate.rules import Direction, Entry, Rule
from .evaluate.ternary import Ternary, all_of, any_of
from .evaluate.verdict import Outcome, decide, isolating
from .landscape import Group, Landscape, Matched, Planned, Selecting

PAIRS: Final = 400
"""Pairs of groups looked at one by one, per intent and cluster: those with egress policies, and those that a port decides about."""

PORTS: Final = 8
"""Ports of a rule that are tried for a pair."""

INGRESS: Final = Direction.INGRESS


@dataclass
class Effect:
    """In one cluster. Numbers are those of groups of the landscape."""

    host: str
    isolated: list[Group] = field(default_factory=list)
    perhaps_isolated: list[Group] = field(default_factory=list)
    closed: list[Group] = field(default_factory=list)  # to which somebody loses access by a deny rule
    lost: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    limited: set[int] = field(default_factory=set)  # keep the ports that policies name, and no others
    world: Ternary = True  # can addresses outside of the clusters still reach what is newly isolated?
    nodes: Ternary = True  # and other nodes
    allowing: set[str] = field(default_factory=set)  # other policies that let somebody in to what is newly isolated
    refused: dict[str, set[int]] = field(default_factory=dict)  # why sources that are allowed are still kept out
    pairs: int = PAIRS  # that may still be looked at

    @property
    def capped(self) -> bool:
        return self.pairs < 0

    def may_look(self) -> bool:
        self.pairs -= 1
        return self.pairs >= 0


@dataclass(frozen=True)
class _Reach:
    """Who reaches a group, by the rules of its ingress. ``free``: on every port."""

    reaching: Matched
    free: frozenset[int]


def _other(kind: Kind) -> Party:
    endpoint = Endpoint(kind=kind)
    return Party(endpoint, identity_of(endpoint, "", LabelFilters(())))


_WORLD: Final = _other(Kind.WORLD)
_NODE: Final = _other(Kind.REMOTE_NODE)


def effect_of(landscape: Landscape, planned: Planned, host: str, own: Sequence[Rule], *, allows: bool) -> Effect:
    """Of the rules ``own``, which are among those that are ``planned``. ``allows``: their purpose is to let somebody in."""
    found = Effect(host)
    subjects = {group.number: group for rule in own if INGRESS in rule.sections for group in landscape.selected(host, rule)}
    for group in subjects.values():
        mine = [rule for rule in own if INGRESS in rule.sections and rule.subject.matches(group.party.identity)]
        before = _ingress(landscape.selecting(group))
        after = _ingress(planned.selecting(group))
        _isolation(landscape, found, group, mine, before, after)
        for rule in mine:
            for entry in rule.sections[INGRESS].entries:
                if entry.deny:
                    _denied(landscape, found, group, entry, before)
                elif allows:
                    _still_denied(landscape, planned, found, group, entry, after)
    return found


def _isolation(landscape: Landscape, found: Effect, group: Group, mine: Sequence[Rule], before: Selecting, after: Selecting) -> None:
    """Is the group isolated now, and who does not reach it any more?"""
    if not any(rule.sections[INGRESS].default_deny for rule in mine):
        return
    view = landscape.view(group.host)
    was = any_of([view.settings.mode == "always", *(sure for _rule, sure in isolating(before, INGRESS))])
    was = None if was is False and not view.complete else was
    if was:
        return
    (found.isolated if was is False else found.perhaps_isolated).append(group)
    earlier, later = _reach(landscape, before, isolated=False), _reach(landscape, after, isolated=True)
    gone = earlier.reaching.sure - later.reaching.sure
    lost = gone - later.reaching.perhaps
    found.lost |= lost - landscape.ruled_egress
    for number in lost & landscape.ruled_egress:
        _add_lost(landscape, found, number, group)
    found.unsure |= gone & later.reaching.perhaps
    found.limited |= (later.reaching.sure & earlier.free) - later.free
    found.world = all_of((found.world, _lets_in(after, _WORLD)))
    found.nodes = all_of((found.nodes, _lets_in(after, _NODE)))
    own = {rule.policy for rule in mine}
    others = (rule for rule, sure in after if sure is not False and rule.policy not in own)
    found.allowing |= {rule.policy for rule in others if any(not entry.deny for entry in rule.sections[INGRESS].entries)}


def _denied(landscape: Landscape, found: Effect, group: Group, entry: Entry, before: Selecting) -> None:
    """Who reached the group on what ``entry`` denies."""
    view = landscape.view(group.host)
    isolated = view.settings.mode == "always" or any(sure for _rule, sure in isolating(before, INGRESS))
    earlier = _reach(landscape, before, isolated=isolated).reaching
    concerned = landscape.peers(entry.peers)
    for number in (concerned.sure | concerned.perhaps) & (earlier.sure | earlier.perhaps):
        if entry.ports is not None and not (found.may_look() and _reached(landscape, group, landscape.groups[number], entry.ports, before)):
            continue
        if number in concerned.sure and _add_lost(landscape, found, number, group):
            found.closed.append(group)
        elif number in concerned.perhaps:
            found.unsure.add(number)


def _still_denied(landscape: Landscape, planned: Planned, found: Effect, group: Group, entry: Entry, after: Selecting) -> None:
    """Sources that ``entry`` lets in and that something else keeps out: a deny rule here, or policies about their egress there."""
    denies = any(each.deny for rule, _sure in after for each in rule.sections[INGRESS].entries)
    sources = landscape.peers(entry.peers).sure
    for number in sources if denies else sources & landscape.ruled_egress:
        if not found.may_look():
            return
        source = landscape.groups[number]
        protocol, port = _first(entry.ports)
        ingress = decide(landscape.view(group.host), INGRESS, group.party, source.party, protocol, port, after)
        egress = decide(landscape.view(source.host), Direction.EGRESS, source.party, group.party, protocol, port, planned.selecting(source))
        for decision, where in ((ingress, f"ingress in {group.host}"), (egress, f"egress in {source.host}")):
            if decision.outcome is Outcome.DENIED:
                found.refused.setdefault(f"{where}: {decision.shown}", set()).add(number)


def _add_lost(landscape: Landscape, found: Effect, number: int, group: Group) -> bool:
    """False for a source whose own egress never let it out to the group."""
    source = landscape.groups[number]
    if number in landscape.ruled_egress and found.may_look() and not landscape.may_send(source, group):
        return False
    found.lost.add(number)
    return True


def _reach(landscape: Landscape, rules: Selecting, *, isolated: bool) -> _Reach:
    sections = [(rule, sure, rule.sections[INGRESS]) for rule, sure in rules]
    requires = [demand for _rule, sure, section in sections if sure for demand in section.requires]
    reaching, free, denied = Matched(), frozenset[int](), frozenset[int]()
    for rule, sure, section in sections:
        if rule.problem:
            reaching |= Matched(frozenset(), landscape.everybody)
        for entry in section.entries:
            found = landscape.peers(entry.peers, () if entry.deny else requires)
            if entry.deny:
                denied |= found.sure if sure and entry.ports is None else frozenset()
            elif entry.ports != ():
                reaching |= found if sure else Matched(frozenset(), found.sure | found.perhaps)
                free |= found.sure if sure and entry.ports is None else frozenset()
    if not isolated:
        reaching, free = Matched(landscape.everybody), landscape.everybody
    return _Reach(Matched(reaching.sure - denied, reaching.perhaps - denied), free - denied)


def _lets_in(rules: Selecting, peer: Party) -> Ternary:
    """By any rule, on any port."""
    entries = [(entry, sure) for rule, sure in rules for entry in rule.sections[INGRESS].entries if not entry.deny and entry.ports != ()]
    doubts = [None for rule, _sure in rules if rule.problem]
    return any_of([*(all_of((sure, entry.peers.match(peer))) for entry, sure in entries), *doubts])


def _reached(landscape: Landscape, group: Group, source: Group, ports: Iterable[PortMatch], before: Selecting) -> bool:
    """On any of the ports, unless it is certain that not."""
    view = landscape.view(group.host)
    flows = [_first((match,)) for match in ports][:PORTS]
    return any(decide(view, INGRESS, group.party, source.party, *flow, before).outcome is not Outcome.DENIED for flow in flows)


def _first(ports: Sequence[PortMatch] | None) -> tuple[str, int]:
    """A flow that stands for those that the ports mean."""
    if not ports:
        return "TCP", 1
    return "TCP" if ports[0].protocol == "ANY" else ports[0].protocol, ports[0].first or 1


def _ingress(rules: Selecting) -> list[tuple[Rule, Ternary]]:
    return [(rule, sure) for rule, sure in rules if INGRESS in rule.sections]
