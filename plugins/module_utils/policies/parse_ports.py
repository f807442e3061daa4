# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``ports`` of a ConnectivityIntent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..items.models import PortRule
from ..problems import Problems, is_empty, items_of, kind_of, shown, suggest

TRANSPORTS: Final = ("TCP", "UDP", "SCTP", "ANY")
ICMP: Final = ("ICMP", "ICMPv6")
PROTOCOLS: Final = (*TRANSPORTS, *ICMP)

MAX_PORT: Final = 65_535
MAX_ICMP_TYPE: Final = 255
_SHOWN: Final = 10**9  # Python refuses to write numbers of thousands of digits


def parse_ports(problems: Problems, path: str, value: Any) -> tuple[PortRule, ...]:
    """Entries in the order they are written; () when nothing is said, which means all."""
    if value is not None and is_empty(value):
        problems.add(path, "is empty; name ports, or leave it out to mean all of them")
    first: dict[PortRule, str] = {}
    for where, item in items_of(problems, path, value, "{protocol, port}"):
        entry = _port(problems, where, item)
        if entry in first:
            problems.add(where, f"is there already; the first is {first[entry]}")
        elif entry is not None:
            first[entry] = where
    return tuple(first)


def number_of(problems: Problems, path: str, value: Any, least: int, most: int) -> int:
    """A whole number, also as digits in a text, as templates make them; 0 with a problem told."""
    digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(most))
    if isinstance(value, bool) or not (isinstance(value, int) or digits):
        problems.add(path, f"must be a number from {least} to {most}, not {shown(value) if isinstance(value, str) else kind_of(value)}")
        return 0
    number = int(value)
    if not least <= number <= most:
        problems.add(path, f"must be {least} to {most}, not {number if abs(number) < _SHOWN else 'a larger number'}")
        return 0
    return number


def _port(problems: Problems, path: str, item: Any) -> PortRule | None:
    """None with a problem told."""
    before = len(problems.found)
    given = problems.mapping(path, item, ("protocol", "port", "endPort", "type"), optional=False)
    protocol = given.get("protocol", "TCP")
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        wrong = shown(protocol) if isinstance(protocol, str) else kind_of(protocol)
        problems.add(
            f"{path}.protocol", f"{wrong} is not known; {suggest(protocol if isinstance(protocol, str) else '', PROTOCOLS, 'use one of')}"
        )
    elif protocol in ICMP:
        entry = _icmp(problems, path, protocol, given)
    else:
        entry = _transport(problems, path, protocol, given)
    return entry if len(problems.found) == before else None


def _icmp(problems: Problems, path: str, protocol: str, given: Mapping[str, Any]) -> PortRule:
    for key in ("port", "endPort"):
        if given.get(key) is not None:
            problems.add(f"{path}.{key}", f"{protocol} has types, not ports; use type")
    if given.get("type") is None:
        echo = {"ICMP": 8, "ICMPv6": 128}[protocol]
        problems.add(f"{path}.type", f"is missing; a policy names each type of {protocol}, such as {echo} for echo requests")
        return PortRule(protocol=protocol)
    # Type 0 would be read as every type (see compile.py); replies to what was let in need no rule.
    return PortRule(protocol=protocol, icmp_type=number_of(problems, f"{path}.type", given["type"], 1, MAX_ICMP_TYPE))


def _transport(problems: Problems, path: str, protocol: str, given: Mapping[str, Any]) -> PortRule:
    if given.get("type") is not None:
        problems.add(f"{path}.type", f"belongs to ICMP and ICMPv6, and the protocol is {protocol}")
    port, end = given.get("port"), given.get("endPort")
    first = number_of(problems, f"{path}.port", port, 1, MAX_PORT) if port is not None else 0
    last = number_of(problems, f"{path}.endPort", end, 1, MAX_PORT) if end is not None else 0
    if end is not None and port is None:
        problems.add(f"{path}.port", "is missing; endPort is the end of a range that begins there")
    elif first and last and last < first:
        problems.add(f"{path}.endPort", f"{last} is less than port {first}")
    return PortRule(protocol=protocol, port=first, end_port=last if last != first else 0)
