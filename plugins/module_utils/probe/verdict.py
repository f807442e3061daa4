# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Verdict of flows on an intent between one source cluster and one destination cluster. Pure.

The newest flow of each pair of pods and port decides for that pair: pods start and policies take effect at different times. Then one
pair that contradicts the intent refutes it; without any, one that confirms it proves it.

Why a flow counts: a trace at TO_ENDPOINT and a FORWARDED policy verdict of direction INGRESS are written after the ingress policy let
the packet through (cilium: bpf/bpf_lxc.c, tail_ipv4_policy and ipv4_policy); a drop names its reason. A packet that went to the proxy
(REDIRECTED) passed the policy of layers 3 and 4 only. AUDIT means that policy would have dropped it and audit mode let it pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from ..items.labels import selects
from ..items.models import ConnectivityIntent, PortRule
from ..mesh.facts.flows import Flow
from .flows import POLICY_DROPS
from .outcome import PROVEN, REFUTES, UNDECIDED


class FlowOutcome(StrEnum):
    """Outcome of a packet, as far as it matters for policy."""

    DELIVERED = "delivered"
    PROXIED = "proxied"
    AUDITED = "audited"
    DENIED = "denied by policy"
    DENIED_AT_SOURCE = "denied by an egress policy at the source"
    LOST = "dropped for another reason"


PASSED: Final = (FlowOutcome.DELIVERED, FlowOutcome.PROXIED, FlowOutcome.AUDITED)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Judgement on one pair of clusters: ``result`` of outcome.py, and a clause that says why."""

    result: str = UNDECIDED
    why: str = ""
    flows: tuple[Flow, ...] = ()  # those that bear it out


def flows_of_intent(
    flows: Iterable[Flow], intent: ConnectivityIntent, *, source: str, destination: str, since: datetime, until: datetime
) -> list[Flow]:
    """Return the flows that are about the intent. Agents filter too; this filter decides.

    :param source: cluster-name; "" for Isolate: from pods of any cluster.
    :param destination: cluster-name.
    """
    return [
        flow
        for flow in flows
        if since <= flow.time <= until
        and flow.reply is not True
        and not flow.answers
        and flow.destination.cluster == destination
        and selects(intent.destination, flow.destination.namespace, flow.destination.labels)
        and _from(flow, intent, source)
        and any_port(intent.ports, flow.protocol, flow.port)
    ]


def any_port(rules: Sequence[PortRule], protocol: str, port: int) -> bool:
    """Return whether it is one of the intent's ports. No rules mean all ports."""
    return not rules or any(_covers(rule, protocol, port) for rule in rules)


def judge(intent: ConnectivityIntent, flows: Iterable[Flow], *, alone: bool = False) -> Judgement:
    """Return the judgement of the flows on the intent.

    :param flows: from ``flows_of_intent``.
    :param alone: no other policy of the destination cluster could allow traffic (for Isolate).
    """
    groups: dict[tuple[str, str, str, int], list[tuple[FlowOutcome, Flow]]] = {}
    for flow in sorted(flows, key=lambda f: f.time):
        kind = flow_outcome(flow)
        if kind is not None:
            groups.setdefault((flow.source.shown, flow.destination.shown, flow.protocol, flow.port), []).append((kind, flow))
    newest = [_newest(group) for group in groups.values()]
    by_kind = {kind: tuple(flow for found, flow in newest if found is kind) for kind in FlowOutcome}
    if intent.action == "Allow":
        return _allow(by_kind)
    return _isolate(by_kind, alone) if intent.action == "Isolate" else _deny(by_kind)


def flow_outcome(flow: Flow) -> FlowOutcome | None:
    """Return the outcome of a packet; None if the flow says nothing of it, such as a packet that is still on its path."""
    if flow.verdict == "DROPPED":
        if flow.reason not in POLICY_DROPS:
            return FlowOutcome.LOST
        return FlowOutcome.DENIED_AT_SOURCE if flow.direction == "EGRESS" else FlowOutcome.DENIED
    if flow.verdict == "ERROR":
        return FlowOutcome.LOST
    if flow.direction == "EGRESS":
        return None
    if flow.verdict in ("REDIRECTED", "AUDIT"):
        return FlowOutcome.PROXIED if flow.verdict == "REDIRECTED" else FlowOutcome.AUDITED
    return FlowOutcome.DELIVERED if flow.delivered else None


def _newest(group: Sequence[tuple[FlowOutcome, Flow]]) -> tuple[FlowOutcome, Flow]:
    """Return the flow that decides. A delivery that follows an audited packet proves nothing about policy."""
    kind, flow = group[-1]
    audited = [entry for entry in group if entry[0] is FlowOutcome.AUDITED]
    return audited[-1] if kind is FlowOutcome.DELIVERED and audited else (kind, flow)


def _allow(by_kind: dict[FlowOutcome, tuple[Flow, ...]]) -> Judgement:
    for kind in (FlowOutcome.DENIED, FlowOutcome.DENIED_AT_SOURCE):
        if by_kind[kind]:
            return Judgement(result=REFUTES, why=f"packets were {kind.value}", flows=by_kind[kind])
    if by_kind[FlowOutcome.DELIVERED]:
        return Judgement(result=PROVEN, why="packets were delivered", flows=by_kind[FlowOutcome.DELIVERED])
    return _undecided(by_kind)


def _deny(by_kind: dict[FlowOutcome, tuple[Flow, ...]]) -> Judgement:
    passed = tuple(flow for kind in PASSED for flow in by_kind[kind])
    if passed:
        why = (
            "packets were let through by audit mode"
            if not (by_kind[FlowOutcome.DELIVERED] or by_kind[FlowOutcome.PROXIED])
            else "packets were let in"
        )
        return Judgement(result=REFUTES, why=why, flows=passed)
    if by_kind[FlowOutcome.DENIED]:
        return Judgement(result=PROVEN, why="packets were denied by policy", flows=by_kind[FlowOutcome.DENIED])
    return _undecided(by_kind)


def _isolate(by_kind: dict[FlowOutcome, tuple[Flow, ...]], alone: bool) -> Judgement:
    """Return the judgement for Isolate. Another policy may allow the traffic, which is what isolation is for."""
    passed = tuple(flow for kind in PASSED for flow in by_kind[kind])
    if passed and alone:
        return Judgement(result=REFUTES, why="packets were let in although no other policy allows any", flows=passed)
    if by_kind[FlowOutcome.DENIED]:
        return Judgement(result=PROVEN, why="packets were denied by policy", flows=by_kind[FlowOutcome.DENIED])
    if passed:
        return Judgement(why="packets were let in, and other policies there may allow them", flows=passed)
    return _undecided(by_kind)


def _undecided(by_kind: dict[FlowOutcome, tuple[Flow, ...]]) -> Judgement:
    words = {
        FlowOutcome.AUDITED: "policy would have dropped packets, and audit mode let them pass",
        FlowOutcome.PROXIED: "packets went to the proxy, whose own rules are not evaluated",
        FlowOutcome.DENIED_AT_SOURCE: "an egress policy at the source denied the packets, and they never reached the destination",
        FlowOutcome.LOST: "packets were dropped for a reason other than policy",
    }
    return next((Judgement(why=why, flows=by_kind[kind]) for kind, why in words.items() if by_kind[kind]), Judgement())


def _from(flow: Flow, intent: ConnectivityIntent, source: str) -> bool:
    if intent.source is None:
        return bool(flow.source.namespace)  # a pod; hosts and the world are no peers that an isolation is about
    return flow.source.cluster == source and selects(intent.source, flow.source.namespace, flow.source.labels)


def _covers(rule: PortRule, protocol: str, port: int) -> bool:
    if rule.protocol in ("ICMP", "ICMPv6"):
        return protocol == rule.protocol and rule.icmp_type == port
    if protocol in ("ICMP", "ICMPv6") or rule.protocol not in ("ANY", protocol):
        return False
    return rule.port == 0 or rule.port <= port <= max(rule.end_port, rule.port)
