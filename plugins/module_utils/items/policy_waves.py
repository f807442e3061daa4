# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Waves in which rules of policies begin and cease to apply, so that no flow is open meanwhile that is closed before and after. Pure.

A policy is one object, and objects are written one after the other. Let D, I and A be what the policies deny, isolate and allow, 0 before a
run and 1 after it. A flow is open if D does not deny it, and I does not isolate its destination or A allows it.

1. Denials begin first. Until D is D0 and D1, nothing new is allowed, and I has at least I0: what is open was open.
2. Then what allows begins, which isolates as well, then what only isolates. D is D0 and D1, I is I0 and I1 in the end. An open flow
   is not isolated by I0, or allowed by A0, and was open; or A1 allows it, and it stays open, because D1 does not deny it.
3. What isolates and what allows ceases, in this order, while D still has D0: an open flow is not isolated by I1 or allowed by A1, and stays
   open; or A0 allows it, and it was open.
4. Denials cease last. I is I1 and A is A1: what is open stays open.

Isolation begins after and ceases before what allows, so that a flow which is open before and after is not interrupted by it. A rule that
changes is one that begins and one that ceases: its object holds both in between (``owned.py``), except where the new one can
replace the old one at once (``replaces_at_once``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Rule: TypeAlias = Mapping[str, Any]
"""``spec`` of a CiliumNetworkPolicy, or one entry of its ``specs``."""


class Span(NamedTuple):
    """Waves in which a rule begins and ceases to apply."""

    begin: int
    cease: int


DENY: Final = Span(12, 22)
ALLOW: Final = Span(14, 20)
ISOLATE: Final = Span(15, 19)


def span_of(rule: Rule) -> Span:
    """Return the waves of a rule, by what it does: deny, only isolate (no peer in its ingress), or allow."""
    if "ingressDeny" in rule:
        return DENY
    return ALLOW if any(rule.get("ingress") or ()) else ISOLATE


def cease_wave(rules: Iterable[Rule]) -> int:
    """Return the wave in which the last of the rules may cease to apply."""
    return max((span_of(rule).cease for rule in rules), default=ISOLATE.cease)


def replaces_at_once(new: Rule, old: Rule) -> bool:
    """Return whether one write may replace ``old`` by ``new``: both isolate the same pods, and none denies."""
    return DENY not in (span_of(new), span_of(old)) and new.get("endpointSelector") == old.get("endpointSelector")
