# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Difference between the reach now and the reach after a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..policies.evaluate.verdict import PolicyOutcome
from .port_set import PortSet
from .reach import Cell, PortVerdicts, Reach


class ChangeKind(StrEnum):
    """What becomes of ports."""

    GAINED = "gained"  # denied or unknown now, allowed then
    LOST = "lost"  # allowed or unknown now, denied then
    UNSURE = "unsure"  # allowed or denied now, unknown then

    @property
    def outcome(self) -> PolicyOutcome:
        """Outcome after the plan."""
        return {ChangeKind.GAINED: PolicyOutcome.ALLOWED, ChangeKind.LOST: PolicyOutcome.DENIED, ChangeKind.UNSURE: PolicyOutcome.UNKNOWN}[
            self
        ]


@dataclass(frozen=True)
class ReachChange:
    """Ports of one destination that change for the sources, which are bits of their sets. ``cell`` is that of the planned state."""

    kind: ChangeKind
    destination: int
    sources: int
    ports: PortSet
    before: PolicyOutcome
    cell: Cell


def changes_between(now: Reach, planned: Reach) -> tuple[ReachChange, ...]:
    """Return every change. Both have the same sets."""
    found: dict[tuple[object, ...], ReachChange] = {}
    for destination, (before, after) in enumerate(zip(now.cells, planned.cells, strict=True)):
        for old in before:
            for new in after:
                sources = old.sources & new.sources
                if not sources or old.ports == new.ports:
                    continue
                for kind, outcome, ports in _changed_ports(old.ports, new.ports):
                    key = (destination, kind, outcome, ports, new.ingress, new.hidden)
                    change = found.get(key)
                    bits = sources | (change.sources if change else 0)
                    found[key] = ReachChange(kind, destination, bits, ports, outcome, new)
    return tuple(found.values())


def _changed_ports(old: PortVerdicts, new: PortVerdicts) -> Iterator[tuple[ChangeKind, PolicyOutcome, PortSet]]:
    for kind in ChangeKind:
        then = dict(new.each()).get(kind.outcome)
        for outcome, ports in old.each():
            if then and outcome is not kind.outcome and (changed := ports & then):
                yield kind, outcome, changed
