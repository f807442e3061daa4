# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Verdict on a flow: the policies of the source's cluster for its egress, those of the destination's for its ingress.

A rule of a direction isolates the pods that it selects in that direction, unless all such rules say otherwise
(``enableDefaultDeny``). An isolated pod communicates only with peers that some rule allows. A deny of any rule wins. Source:
computePolicyEnforcementAndRules in pkg/policy/repository.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ...mesh.versions.minors import bug_note, holds
from .endpoints import ICMP, TRANSPORT, EndpointKind, FirstPacket, Party, PolicyEndpoint
from .rules import Direction, Entry, Rule
from .selectors import Selector
from .ternary import Ternary, all_of, any_of
from .world import ClusterView, PolicyWorld

_ISOLATED: Final = "isolated, and nothing allows it"


class PolicyOutcome(StrEnum):
    """Outcome of a flow."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Decision:
    """Decision on one direction.

    ``policies`` are the objects that decide, as "KIND NAMESPACE/NAME"; () where none does.
    """

    outcome: PolicyOutcome
    reason: str
    policies: tuple[str, ...] = ()
    refused: bool = False  # unknown because Cilium refuses a policy

    @property
    def shown(self) -> str:
        """Reason and policies as text."""
        return f"{self.reason}{': ' + ', '.join(self.policies) if self.policies else ''}"


@dataclass(frozen=True)
class FlowVerdict:
    """Decisions on both directions. A flow that is denied in one is denied."""

    egress: Decision  # of the source
    ingress: Decision  # of the destination

    @property
    def outcome(self) -> PolicyOutcome:
        """Outcome of both directions together."""
        both = (self.egress.outcome, self.ingress.outcome)
        return next((outcome for outcome in (PolicyOutcome.DENIED, PolicyOutcome.UNKNOWN) if outcome in both), PolicyOutcome.ALLOWED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each direction."""
        return f"egress: {self.egress.shown}", f"ingress: {self.ingress.shown}"


@dataclass(frozen=True)
class _Hit:
    """An entry that covers the flow, of a rule that selects the subject. ``sure`` None: perhaps."""

    rule: Rule
    entry: Entry
    sure: Ternary
    plain: bool  # only addresses and ports are inspected


def verdict(world: PolicyWorld, flow: FirstPacket) -> FlowVerdict:
    """Return whether ``flow`` gets through. A pod always reaches itself; such a flow is not valid here.

    :raises ValueError: the protocol is not one that a flow can have.
    """
    protocol = flow.protocol.upper()
    if protocol not in (*TRANSPORT, *ICMP):
        raise ValueError(f"a flow has no protocol {flow.protocol!r}")
    return FlowVerdict(
        egress=_decide_direction(world, Direction.EGRESS, flow.source, flow.destination, protocol, flow.port),
        ingress=_decide_direction(world, Direction.INGRESS, flow.destination, flow.source, protocol, flow.port),
    )


def _decide_direction(
    world: PolicyWorld, direction: Direction, subject: PolicyEndpoint, peer: PolicyEndpoint, protocol: str, port: int
) -> Decision:
    if subject.kind is EndpointKind.WORLD:
        return Decision(PolicyOutcome.ALLOWED, "this cluster's Cilium enforces no policy for addresses outside of the clusters")
    view, subject_party, peer_party = world.clusters.get(subject.cluster), world.party(subject), world.party(peer)
    if view is None or subject_party is None:
        return Decision(PolicyOutcome.UNKNOWN, f"the policies of {subject.cluster or 'its cluster'} are not known")
    if peer_party is None:
        return Decision(PolicyOutcome.UNKNOWN, f"the cluster name of {peer.cluster} is not known")
    return decide(view, direction, subject_party, peer_party, protocol, port)


def decide(
    view: ClusterView,
    direction: Direction,
    subject: Party,
    peer: Party,
    protocol: str,
    port: int,
    rules: Sequence[tuple[Rule, Ternary]] | None = None,
) -> Decision:
    """Return the decision on one direction of ``subject``, which is in the cluster of ``view``. ``protocol`` is in capitals.

    :param rules: rules that select the subject, where they are known or differ from those of ``view``.
    """
    settings = view.settings
    if settings.mode == "never":
        return Decision(PolicyOutcome.ALLOWED, "no policy is enforced there (enable-policy: never)")
    if settings.audit:
        return Decision(PolicyOutcome.ALLOWED, "policies only log what they would deny there (policy-audit-mode)")
    if subject.endpoint.kind is not EndpointKind.POD:
        outcome = PolicyOutcome.UNKNOWN if settings.host_firewall else PolicyOutcome.ALLOWED
        return Decision(
            outcome, "rules of the host firewall are not evaluated" if settings.host_firewall else "the host firewall is off there"
        )
    if settings.doubts:
        return Decision(PolicyOutcome.UNKNOWN, settings.doubts[0])
    selecting = [(rule, sure) for rule, sure in (view.selecting(subject) if rules is None else rules) if direction in rule.sections]
    return _decide_by_rules(view, direction, selecting, _hits(view, direction, selecting, subject, peer, protocol, port), peer)


def isolating(selecting: Iterable[tuple[Rule, Ternary]], direction: Direction) -> tuple[tuple[Rule, Ternary], ...]:
    """Return those of the rules that select a pod which isolate it, or perhaps do."""
    found = []
    for rule, sure in selecting:
        section = rule.sections.get(direction)
        if section is not None and section.default_deny:
            found.append((rule, sure))
    return tuple(found)


def _decide_by_rules(
    view: ClusterView, direction: Direction, selecting: list[tuple[Rule, Ternary]], hits: list[_Hit], peer: Party
) -> Decision:
    denying = [hit for hit in hits if hit.entry.deny]
    if any(hit.sure for hit in denying):
        return Decision(PolicyOutcome.DENIED, "denied by", _names(hit.rule for hit in denying if hit.sure))
    if not view.complete:
        return Decision(PolicyOutcome.UNKNOWN, "the NetworkPolicies of the cluster could not be read")
    if problems := [f"{rule.policy} ({rule.problem})" for rule, _sure in selecting if rule.problem]:
        refused = any(rule.refusal for rule, _sure in selecting)
        return Decision(PolicyOutcome.UNKNOWN, "not understood", tuple(dict.fromkeys(problems)), refused)
    walls = isolating(selecting, direction)
    isolated = True if view.settings.mode == "always" else any_of(sure for _rule, sure in walls)
    own_node = _own_node_allowed(view, direction, selecting, peer)
    allowing = [hit for hit in hits if not hit.entry.deny]
    if isolated and not allowing and own_node is False:
        bug = direction is Direction.INGRESS and peer.endpoint.kind is EndpointKind.HOST and view.settings.own_node_allowed
        reason = f"isolated, and nothing allows it, not even its own node ({bug_note('own_node_needs_ingress_rule')})" if bug else _ISOLATED
        return Decision(PolicyOutcome.DENIED, reason, _names(rule for rule, _sure in walls))
    if denying:
        return Decision(PolicyOutcome.UNKNOWN, f"perhaps denied by{_looseness(denying)}", _names(hit.rule for hit in denying))
    return _decide_without_deny(direction, allowing, isolated, walls, own_node=own_node)


def _own_node_allowed(view: ClusterView, direction: Direction, selecting: Iterable[tuple[Rule, Ternary]], peer: Party) -> Ternary:
    """Return whether the flow comes from the pod's own node, and that always reaches it."""
    settings = view.settings
    if direction is Direction.EGRESS or peer.endpoint.kind is not EndpointKind.HOST or not settings.own_node_allowed:
        return False
    if settings.mode != "always" or not holds("own_node_needs_ingress_rule", settings.version):
        return True
    return any_of(sure for _rule, sure in selecting)


def _looseness(hits: Iterable[_Hit]) -> str:
    loose = any(selector.loose for hit in hits if hit.sure is None for selector in hit.entry.peers.selectors)
    return f" ({bug_note('negative_selectors_match_pods')})" if loose else ""


def _decide_without_deny(
    direction: Direction, allowing: list[_Hit], isolated: Ternary, walls: Sequence[tuple[Rule, Ternary]], *, own_node: Ternary
) -> Decision:
    authenticated = any(hit.entry.authenticated for hit in allowing)
    certain = [hit for hit in allowing if hit.sure and hit.plain]
    if certain and not authenticated:
        return Decision(PolicyOutcome.ALLOWED, "allowed by", _names(hit.rule for hit in certain))
    if authenticated or not all(hit.plain for hit in allowing):
        # Also where nothing isolates: a rule of layer 7 stops what it does not list (Documentation/security/policy/intro.rst).
        return Decision(PolicyOutcome.UNKNOWN, "depends on more than addresses and ports", _names(hit.rule for hit in allowing))
    if isolated is False:
        return Decision(PolicyOutcome.ALLOWED, f"no policy isolates it ({direction.value})")
    if own_node:
        return Decision(PolicyOutcome.ALLOWED, "its own node always reaches it (allow-localhost)")
    return Decision(
        PolicyOutcome.UNKNOWN,
        f"perhaps allowed by{_looseness(allowing)}",
        _names([*(hit.rule for hit in allowing), *(rule for rule, _sure in walls)]),
    )


def _hits(
    view: ClusterView,
    direction: Direction,
    selecting: list[tuple[Rule, Ternary]],
    subject: Party,
    peer: Party,
    protocol: str,
    port: int,
) -> list[_Hit]:
    sections = [(rule, sure, rule.sections[direction]) for rule, sure in selecting if not rule.problem]
    requires = _requires((sure, section.requires) for _rule, sure, section in sections)
    requires_deny = _requires((sure, section.requires_deny) for _rule, sure, section in sections)
    named = _named_ports(view, direction, subject, peer)
    found = []
    for rule, sure, section in sections:
        for entry in section.entries:
            demanded = requires_deny if entry.deny else requires
            peers = entry.peers.match(peer, demanded, cidr_kinds=view.settings.cidr_kinds)
            if peers is False:
                continue
            if entry.ports is None:
                found.append(_Hit(rule, entry, all_of((sure, peers)), True))
                continue
            for match in entry.ports:
                covered = match.covers(protocol, port, named)
                if covered is not False:
                    found.append(_Hit(rule, entry, all_of((sure, peers, covered)), match.plain))
    return found


def _named_ports(view: ClusterView, direction: Direction, subject: Party, peer: Party) -> Mapping[str, tuple[str, int]] | None:
    """Return the ports by which a rule can name ports of the destination; None where they are not known."""
    if direction is Direction.INGRESS:
        return subject.endpoint.named_ports
    of_pod = peer.endpoint.kind is EndpointKind.POD or not holds("named_egress_ports_are_of_pods", view.settings.version)
    return None if of_pod else {}


def _requires(sections: Iterable[tuple[Ternary, tuple[Selector, ...]]]) -> tuple[Selector, ...]:
    """Return the requirements of every rule that selects the subject; those of a rule that perhaps does are unsure."""
    found: list[Selector] = []
    for sure, selectors in sections:
        found += selectors if sure else [_unsure(selector) for selector in selectors]
    return tuple(found)


def _unsure(selector: Selector) -> Selector:
    return replace(selector, requirements=tuple(replace(entry, sure=False) for entry in selector.requirements))


def _names(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(sorted({rule.policy for rule in rules}))
