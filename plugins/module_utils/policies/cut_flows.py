# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Recorded traffic that the policies of a run cut: packets that entered a pod, and that its ingress denies after them, or may deny."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final, TypeAlias

from ..mesh.facts.flows import Flow, FlowSide
from .evaluate.endpoints import EndpointKind, Party, PolicyEndpoint, identity_of
from .evaluate.label_filters import LabelFilters
from .evaluate.rules import Direction
from .evaluate.ternary import Ternary
from .evaluate.verdict import PolicyOutcome, decide
from .workload_index import Group, Planned, WorkloadIndex

WORLD: Final = "addresses outside of the clusters"
NODES: Final = "other nodes"

Source: TypeAlias = "int | str"
"""Number of a group of the workload index, ``WORLD`` or ``NODES``."""


@dataclass(frozen=True)
class Cut:
    """Packets of one source that the policies deny after the writes."""

    last: datetime
    packets: int
    ports: frozenset[str]  # "TCP 80"

    @classmethod
    def sum(cls, cuts: Iterable[Cut]) -> Cut:
        """Return all of the packets together; there is at least one."""
        every = list(cuts)
        return cls(max(c.last for c in every), sum(c.packets for c in every), frozenset().union(*(c.ports for c in every)))


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Recorded traffic of one cluster that the policies cut for certain, and that they cut perhaps, by its source."""

    sure: Mapping[Source, Cut]
    perhaps: Mapping[Source, Cut]


def party_of_kind(kind: EndpointKind) -> Party:
    """Return any endpoint of a kind that is no pod."""
    endpoint = PolicyEndpoint(kind=kind)
    return Party(endpoint, identity_of(endpoint, "", LabelFilters(())))


_OUTSIDE: Final = {
    "world": (WORLD, party_of_kind(EndpointKind.WORLD)),
    "world-ipv4": (WORLD, party_of_kind(EndpointKind.WORLD)),
    "world-ipv6": (WORLD, party_of_kind(EndpointKind.WORLD)),
    "remote-node": (NODES, party_of_kind(EndpointKind.REMOTE_NODE)),
}


def cut_flows(index: WorkloadIndex, planned: Planned, host: str, targets: Collection[int], flows: Iterable[Flow]) -> Cuts:
    """Return the traffic to ``targets`` that is cut. What is denied already is not.

    :param host: cluster of the destination, in which the flows were recorded.
    :param targets: numbers of groups there.
    """

    @cache
    def is_cut(target: int, source: Source, protocol: str, port: int) -> Ternary:
        group = index.groups[target]
        peer = index.groups[source].party if isinstance(source, int) else next(p for name, p in _OUTSIDE.values() if name == source)
        before, after = (
            decide(index.view(host), Direction.INGRESS, group.party, peer, protocol.upper(), port, rules).outcome
            for rules in (index.selecting(group), planned.selecting(group))
        )
        if before is PolicyOutcome.DENIED or after is PolicyOutcome.ALLOWED:
            return False
        return True if after is PolicyOutcome.DENIED else None

    found: dict[Ternary, dict[Source, list[Cut]]] = {True: {}, None: {}}
    for flow in flows:
        target, source = _group(index, flow.destination), _source(index, flow.source)
        if target is None or source is None or target.host != host or target.number not in targets:
            continue
        cut = is_cut(target.number, source, flow.protocol, flow.port)
        if cut is not False:
            what = f"{flow.protocol} type {flow.port}" if flow.protocol.startswith("ICMP") else f"{flow.protocol} {flow.port}"
            found[cut].setdefault(source, []).append(Cut(flow.time, 1, frozenset({what})))
    sure, perhaps = ({source: Cut.sum(cuts) for source, cuts in found[certain].items()} for certain in (True, None))
    return Cuts(sure=sure, perhaps=perhaps)


def _source(index: WorkloadIndex, side: FlowSide) -> Source | None:
    if side.namespace:
        group = _group(index, side)
        return None if group is None else group.number
    return _OUTSIDE[side.reserved][0] if side.reserved in _OUTSIDE else None


def _group(index: WorkloadIndex, side: FlowSide) -> Group | None:
    return index.group_of(side.cluster, side.namespace, side.name, side.labels)
