# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses outside of the clusters, by the networks that policies name: each region is treated alike by every CIDR of every policy."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ..policies.evaluate.rules import Rule

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

REGIONS: Final = 256
"""Regions that are evaluated one by one. With more networks in policies the outside is one region, and their CIDRs are not decided."""

EVERYWHERE: Final[Mapping[int, Network]] = {4: ipaddress.IPv4Network((0, 0)), 6: ipaddress.IPv6Network((0, 0))}
"""All addresses of an IP family."""


@dataclass(frozen=True)
class Region:
    """Addresses of ``network`` that are in none of the smaller networks that policies name. ``address`` is one of them.

    Without a network it is every address, and ``address`` is "": whether a CIDR covers it is not known.
    """

    network: Network | None
    address: str
    smaller: bool = False  # whether policies name networks within it

    @property
    def shown(self) -> str:
        """Name of the region, such as ``world 203.0.113.0/24``."""
        if self.network is None:
            return "world"
        if self.network in EVERYWHERE.values():
            family = f"IPv{self.network.version}"
            return f"world {family}, other addresses" if self.smaller else f"world {family}"
        return f"world {self.network}" + (", other addresses" if self.smaller else "")


def regions_of(rules: Iterable[Rule], families: Collection[int]) -> tuple[Region, ...]:
    """Return the regions into which the CIDRs of the rules divide the addresses outside of the clusters, the widest first.

    ``families``: 4, 6 or both; of another family there is nothing.
    """
    named = {EVERYWHERE[version] for version in families}
    for rule in rules:
        for section in rule.sections.values():
            for entry in section.entries:
                for cidr in entry.peers.cidrs:
                    named.update(network for network in (cidr.network, *cidr.excepted) if network and network.version in families)
    if len(named) > REGIONS:
        return (Region(None, ""),)
    ordered = sorted(named, key=lambda network: (network.version, network.prefixlen, int(network.network_address)))
    found = []
    for network in ordered:
        inner = [other for other in ordered if other != network and _within(other, network)]
        address = _free_address(network, inner)
        if address:
            found.append(Region(network, address, bool(inner)))
    return tuple(found)


def _within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _free_address(network: Network, inner: Iterable[Network]) -> str:
    """Return an address of the network that is in none of ``inner``; "" where they fill it.

    The first free address is the network's own, or the one behind the end of a smaller network.
    """
    smaller = list(inner)
    last = int(network.broadcast_address)
    kind = type(network.network_address)
    candidates = sorted({int(network.network_address), *(int(other.broadcast_address) + 1 for other in smaller)})
    for number in candidates:
        if number <= last and not any(int(other.network_address) <= number <= int(other.broadcast_address) for other in smaller):
            return str(kind(number))
    return ""
