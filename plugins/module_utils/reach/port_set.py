# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Set of ports of all protocols that a policy can name: ports of TCP, UDP and SCTP, and types of ICMP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ..policies.evaluate.endpoints import ICMP, TRANSPORT
from ..policies.evaluate.ports import LAST

PROTOCOLS: Final = (*TRANSPORT, *ICMP)

LIMITS: Final[Mapping[str, tuple[int, int]]] = {**dict.fromkeys(TRANSPORT, (1, LAST)), **dict.fromkeys(ICMP, (1, 255))}
"""First and last port, or type, of each protocol. ICMP type 0 is the answer to an echo request, which begins no connection; in a policy
it means every type (pkg/policy/portrange.go)."""

SHOWN: Final = 6
"""Ranges that a text names; the rest is counted."""

Range = tuple[str, int, int]
"""Protocol, first and last port."""


@dataclass(frozen=True)
class PortSet:
    """Ranges of ports that do not touch each other, in the order of ``PROTOCOLS``."""

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> PortSet:
        """Return the union of the ranges."""
        found: list[Range] = []
        for protocol, first, last in sorted(ranges, key=_order):
            if found and found[-1][0] == protocol and first <= found[-1][2] + 1:
                found[-1] = (protocol, found[-1][1], max(found[-1][2], last))
            else:
                found.append((protocol, first, last))
        return cls(tuple(found))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: PortSet) -> PortSet:
        return PortSet.of((*self.ranges, *other.ranges))

    def __and__(self, other: PortSet) -> PortSet:
        if self is ALL or not other.ranges:
            return other
        if other is ALL or not self.ranges:
            return self
        return PortSet.of(
            (protocol, max(first, start), min(last, end))
            for protocol, first, last in self.ranges
            for start, end in other._by_protocol.get(protocol, ())
            if max(first, start) <= min(last, end)
        )

    def __sub__(self, other: PortSet) -> PortSet:
        found: list[Range] = []
        for protocol, start, last in self.ranges:
            first = start
            for begin, end in other._by_protocol.get(protocol, ()):
                if end < first or begin > last:
                    continue
                if begin > first:
                    found.append((protocol, first, begin - 1))
                first = end + 1
            if first <= last:
                found.append((protocol, first, last))
        return PortSet(tuple(found))

    def covers(self, protocol: str, port: int) -> bool:
        """Return whether the port is in the set. ``protocol`` is in capitals."""
        return any(first <= port <= last for first, last in self._by_protocol.get(protocol, ()))

    @cached_property
    def _by_protocol(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for protocol, first, last in self.ranges:
            found.setdefault(protocol, []).append((first, last))
        return {protocol: tuple(ranges) for protocol, ranges in found.items()}

    def __str__(self) -> str:
        """Return a text such as ``TCP 80, TCP 8080-8089, UDP all``; ``all ports`` and ``no port`` for the ends."""
        if self == ALL:
            return "all ports"
        texts = [_text(entry) for entry in self.ranges]
        more = len(texts) - SHOWN
        return ", ".join(texts[:SHOWN]) + (f" and {more} more ranges" if more > 0 else "") if texts else "no port"

    def to_list(self) -> list[dict[str, Any]]:
        """Return the ranges as results have them."""
        return [{"protocol": protocol, "first": first, "last": last} for protocol, first, last in self.ranges]


def _order(entry: Range) -> tuple[int, int, int]:
    return PROTOCOLS.index(entry[0]), entry[1], entry[2]


def _text(entry: Range) -> str:
    protocol, first, last = entry
    kind = " type" if protocol in ICMP else ""
    if (first, last) == LIMITS[protocol]:
        return f"{protocol} all"
    return f"{protocol}{kind} {first}" if first == last else f"{protocol}{kind} {first}-{last}"


NONE: Final = PortSet()
ALL: Final = PortSet(tuple((protocol, *LIMITS[protocol]) for protocol in PROTOCOLS))
