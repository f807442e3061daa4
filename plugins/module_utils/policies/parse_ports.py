# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of ``ports`` of a ConnectivityIntent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.input_problems import Problems
from ..items.models import PortRule

ICMP: Final = ("ICMP", "ICMPv6")


def parse_ports(problems: Problems, path: str, given: Sequence[Mapping[str, Any]]) -> tuple[PortRule, ...]:
    """Return the entries in the order they are written; () if there are none, which means all ports."""
    first: dict[PortRule, str] = {}
    for place, item in enumerate(given):
        where, before = f"{path}[{place}]", len(problems.found)
        entry = (_icmp if item["protocol"] in ICMP else _transport)(problems, where, item)
        if entry in first:
            problems.add(where, f"is there already; the first is {first[entry]}")
        elif len(problems.found) == before:
            first[entry] = where
    return tuple(first)


def _icmp(problems: Problems, path: str, given: Mapping[str, Any]) -> PortRule:
    protocol = given["protocol"]
    for key in ("port", "endPort"):
        if key in given:
            problems.add(f"{path}.{key}", f"{protocol} has types, not ports; use type")
    if "type" not in given:
        echo = {"ICMP": 8, "ICMPv6": 128}[protocol]
        problems.add(f"{path}.type", f"is missing; a policy names each type of {protocol}, such as {echo} for echo requests")
    # Type 0 is refused by the schema: it would be read as every type (see compile.py), and replies to what was let in need no rule.
    return PortRule(protocol=protocol, icmp_type=given.get("type", 0))


def _transport(problems: Problems, path: str, given: Mapping[str, Any]) -> PortRule:
    protocol, first, last = given["protocol"], given.get("port", 0), given.get("endPort", 0)
    if "type" in given:
        problems.add(f"{path}.type", f"belongs to ICMP and ICMPv6, and the protocol is {protocol}")
    if last and not first:
        problems.add(f"{path}.port", "is missing; endPort is the end of a range that begins there")
    elif last and last < first:
        problems.add(f"{path}.endPort", f"{last} is less than port {first}")
    return PortRule(protocol=protocol, port=first, end_port=last if last != first else 0)
