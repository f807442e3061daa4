# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``toPorts`` and ``icmps`` with the names of ICMP types (pkg/policy/api/l4.go, icmp.go; pkg/policy/l4.go, portrange.go)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...base.json_fields import number
from ...findings.wording import show
from .endpoints import TRANSPORT
from .selectors import NotUnderstood, RefusedByCilium, given_list, given_mapping
from .ternary import Ternary

ICMP_TYPES: Final[Mapping[str, Mapping[str, int]]] = {
    "IPv4": {
        "EchoReply": 0,
        "DestinationUnreachable": 3,
        "Redirect": 5,
        "Echo": 8,
        "EchoRequest": 8,
        "RouterAdvertisement": 9,
        "RouterSelection": 10,
        "TimeExceeded": 11,
        "ParameterProblem": 12,
        "Timestamp": 13,
        "TimestampReply": 14,
        "Photuris": 40,
        "ExtendedEchoRequest": 42,
        "ExtendedEchoReply": 43,
    },
    "IPv6": {
        "DestinationUnreachable": 1,
        "PacketTooBig": 2,
        "TimeExceeded": 3,
        "ParameterProblem": 4,
        "EchoRequest": 128,
        "EchoReply": 129,
        "MulticastListenerQuery": 130,
        "MulticastListenerReport": 131,
        "MulticastListenerDone": 132,
        "RouterSolicitation": 133,
        "RouterAdvertisement": 134,
        "NeighborSolicitation": 135,
        "NeighborAdvertisement": 136,
        "RedirectMessage": 137,
        "RouterRenumbering": 138,
        "ICMPNodeInformationQuery": 139,
        "ICMPNodeInformationResponse": 140,
        "InverseNeighborDiscoverySolicitation": 141,
        "InverseNeighborDiscoveryAdvertisement": 142,
        "HomeAgentAddressDiscoveryRequest": 144,
        "HomeAgentAddressDiscoveryReply": 145,
        "MobilePrefixSolicitation": 146,
        "MobilePrefixAdvertisement": 147,
        "DuplicateAddressRequestCodeSuffix": 157,
        "DuplicateAddressConfirmationCodeSuffix": 158,
        "ExtendedEchoRequest": 160,
        "ExtendedEchoReply": 161,
    },
}
"""Family -> name -> type."""

_WITHOUT_PORTS: Final = ("VRRP", "IGMP")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,4}")
"""A leading zero would make the number octal (strconv.ParseUint with base 0)."""
_NAME: Final = re.compile(r"(?=[A-Za-z0-9-]{1,15}$)(?=.*[A-Za-z])[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")

LAST: Final = 65535


@dataclass(frozen=True)
class PortMatch:
    """Ports ``first`` to ``last`` of a protocol, or the port with a ``name``. For ICMP the numbers are types.

    ``plain`` is False if more than the port is inspected (layer 7, TLS, a listener), so that a match allows perhaps.
    """

    protocol: str  # TCP, UDP, SCTP, ICMP, ICMPV6, ANY (the first three) or one without ports
    first: int = 0
    last: int = LAST
    name: str = ""
    plain: bool = True

    def covers(self, protocol: str, port: int, named: Mapping[str, tuple[str, int]] | None) -> Ternary:
        """Return whether the port is covered.

        ``named``: the container ports of the pod that the policy selects, where they are known.
        """
        if self.protocol != protocol and not (self.protocol == "ANY" and protocol in TRANSPORT):
            return False
        if not self.name:
            return self.first <= port <= self.last
        if named is None:
            return None
        known = named.get(self.name)
        return known is not None and known == (protocol, port)


def parse_ports(rule: Mapping[str, Any], *, icmp_rules: bool = True) -> tuple[PortMatch, ...] | None:
    """Return the ports of one ingress or egress rule; None means every protocol and port.

    An entry without ports lets nothing through.

    :raises RefusedByCilium: Cilium refuses it.
    :raises NotUnderstood: its meaning is not known.
    """
    to_ports, icmps = rule.get("toPorts") or [], rule.get("icmps") or []
    if to_ports and icmps:
        raise RefusedByCilium("toPorts and icmps stand in one rule")
    if icmps and not icmp_rules:
        raise RefusedByCilium("icmps needs enable-icmp-rules, which is off")
    if not to_ports and not icmps:
        return None
    found = [_port(port, plain=_plain(entry)) for entry in _mappings(to_ports) for port in _mappings(entry.get("ports") or [])]
    return (*found, *(_icmp(field) for entry in _mappings(icmps) for field in _mappings(entry.get("fields") or [])))


def refuse_layer_7(rule: Mapping[str, Any], *, ingress: bool, l7_proxy: bool) -> None:
    """Raise RefusedByCilium for a rule of layer 7, or a listener, that Cilium refuses (rule_validation.go, PortRule and L7Rules)."""
    for entry in _mappings(rule.get("toPorts") or []):
        layer_7 = _layer_7(entry)
        if entry.get("listener") is not None and ingress:
            raise RefusedByCilium("a listener stands under ingress")
        if any(name == "" for name in given_list(entry.get("serverNames"), "serverNames")):
            raise RefusedByCilium("serverNames has an empty name")
        if not layer_7:
            continue
        if not l7_proxy:
            raise RefusedByCilium("a rule of layer 7 needs enable-l7-proxy, which is off")
        if ingress and "dns" in layer_7:
            raise RefusedByCilium("a rule for DNS stands under ingress")
        if entry.get("listener") is not None:
            raise RefusedByCilium("a listener stands beside rules of layer 7")
        if entry.get("serverNames") and entry.get("terminatingTLS") is None:
            raise RefusedByCilium("serverNames stands beside rules of layer 7, without terminatingTLS")
        if len(layer_7) > 1:
            raise RefusedByCilium(f"{layer_7[0]} and {layer_7[1]} stand in one rule of layer 7")
        _refuse_ports_of_layer_7(layer_7[0], _mappings(entry.get("ports") or []))


def _refuse_ports_of_layer_7(kind: str, ports: Sequence[Mapping[str, Any]]) -> None:
    if kind == "dns" and not ports:
        raise RefusedByCilium("a rule for DNS names no port")
    for port in ports:
        text, protocol = str(port.get("port", "")), str(port.get("protocol") or "ANY")
        number = int(text) if _NUMBER.fullmatch(text) else -1
        if kind != "dns" and protocol != "TCP":
            raise RefusedByCilium(f"a rule for {kind} is for TCP alone, and a port of it has protocol {show(protocol)}")
        if number == 0:
            raise RefusedByCilium(f"a rule for {kind} has port 0")
        if kind == "dns" and number > 0 and _end(port) > number:
            raise RefusedByCilium("a rule for DNS has a range of ports")


def _layer_7(entry: Mapping[str, Any]) -> list[str]:
    """Return the kinds of rules of layer 7 that an entry of ``toPorts`` has, such as ``["http"]``."""
    rules = given_mapping(entry.get("rules"), "rules")
    proto = [str(rules["l7proto"])] if rules.get("l7proto") else []
    return [*(kind for kind in ("http", "kafka", "dns") if rules.get(kind)), *proto]


def _end(value: Mapping[str, Any]) -> int:
    return number(value, "endPort")


def _plain(entry: Mapping[str, Any]) -> bool:
    rules = entry.get("rules") or {}
    return not any(rules.values()) and not any(entry.get(key) for key in ("terminatingTLS", "originatingTLS", "serverNames", "listener"))


def _port(value: Mapping[str, Any], *, plain: bool) -> PortMatch:
    protocol = str(value.get("protocol") or "ANY").upper()
    text, end = str(value.get("port", "")), value.get("endPort") or 0
    if protocol in _WITHOUT_PORTS and text not in ("", "0") and not _NAME.fullmatch(text):
        raise RefusedByCilium(f"protocol {protocol} has no ports, and a rule names port {text}")
    if _NUMBER.fullmatch(text):
        first = int(text)
        if first == 0 and end in (0, LAST):
            return PortMatch(protocol, plain=plain)  # "0" is every port
        if first == 0 or first > LAST or isinstance(end, bool) or not isinstance(end, int) or end > LAST:
            raise NotUnderstood(f"port {text} to {end} is no range of ports")
        return PortMatch(protocol, first, max(first, end), plain=plain)
    if _NAME.fullmatch(text):
        return PortMatch(protocol, name=text.lower(), plain=plain)
    raise NotUnderstood(f"port {text!r} is neither a number nor a name")


def _icmp(value: Mapping[str, Any]) -> PortMatch:
    """Return the match of one ICMP type.

    Type 0 becomes port 0 of the policy map, and that is every type (pkg/policy/portrange.go, PortRangeToMaskedPorts).
    """
    family, kind = value.get("family") or "IPv4", value.get("type")
    if family not in ICMP_TYPES:
        raise NotUnderstood(f"ICMP family {family!r} is not known")
    number = ICMP_TYPES[family].get(str(kind), -1)
    if number < 0:
        if not _NUMBER.fullmatch(str(kind)) or int(str(kind)) > 255:
            raise NotUnderstood(f"ICMP type {kind!r} is not known")
        number = int(str(kind))
    protocol = "ICMPV6" if family == "IPv6" else "ICMP"
    return PortMatch(protocol, number, number) if number else PortMatch(protocol)


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in values):
        raise NotUnderstood("a list of ports has the wrong form")
    return list(values)
