# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses at which the endpoint of a cluster may be dialled: none that means the dialling host itself, its link, or no host.

A cluster reports its own addresses, and the pods of all other clusters connect to them: a loopback or link-local address would lead to a
service of the node that dials, such as the metadata service of a cloud.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

MOST_ADDRESSES: Final = 16  # of each family, of one endpoint; load balancers have one for each zone

_SPECIAL: Final = {
    "unspecified": ("0.0.0.0/8", "::/128"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "reserved": ("240.0.0.0/4", "::/96"),
}
"""Kinds of addresses that are no endpoint of another cluster, by their ranges (IANA special-purpose address registries)."""
_NETWORKS: Final = tuple((kind, ip_network(text)) for kind, texts in _SPECIAL.items() for text in texts)
_TRANSLATED: Final = ip_network("64:ff9b::/96")  # RFC 6052: the last 32 bits are the IPv4 address that is reached


@lru_cache(maxsize=4096)  # in a mesh of 255 clusters it is called 200,000 times with some 1,000 addresses
def is_ip(text: str) -> bool:
    """Return whether ``text`` is an IP address that another cluster can use, so without a zone."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone means nothing in another cluster


@lru_cache(maxsize=4096)
def ip_version(text: str) -> int:
    """Return the IP version of an address literal, 4 or 6.

    :raises ValueError: when ``text`` is no address.
    """
    return ip_address(text).version


@lru_cache(maxsize=4096)
def canonical_ip(text: str) -> str:
    """Return the canonical spelling of an address, so that comparing text compares addresses.

    :raises ValueError: when ``text`` is no address.
    """
    return str(ip_address(text))


@lru_cache(maxsize=4096)
def refusal_of_address(text: str, allowed: tuple[str, ...] = ()) -> str:
    """Return the kind of an address that no other cluster may dial, such as "loopback"; "" if it may be dialled.

    :param allowed: ranges that the user allows (host variable ``cilium_mesh_endpoint_networks``).
    :raises ValueError: when ``text`` is no address.
    """
    written = ip_address(text)
    reached = _reached(written)
    if any(_is_in(address, network) for address in (written, reached) for network in allowed):
        return ""
    return next((kind for kind, network in _NETWORKS if reached in network), "")


def dialable(ips: Iterable[str], allowed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the addresses that other clusters may dial, in the given order.

    :raises ValueError: when one is no address.
    """
    return tuple(ip for ip in ips if not refusal_of_address(ip, allowed))


def sorted_ips(ips: Iterable[str]) -> tuple[str, ...]:
    """Return addresses without repetition, IPv4 first: load balancers report their addresses in no particular order."""
    unique = {ip_address(ip) for ip in ips if is_ip(ip)}
    return tuple(str(ip) for ip in sorted(unique, key=lambda ip: (ip.version, int(ip))))


def first_addresses(ips: Iterable[str]) -> tuple[str, ...]:
    """Return the first ``MOST_ADDRESSES`` addresses of each family: each one is written into the Secrets and pod templates of all peers."""
    found: dict[int, list[str]] = {4: [], 6: []}
    for ip in ips:
        found[ip_version(ip)].append(ip)
    return (*found[4][:MOST_ADDRESSES], *found[6][:MOST_ADDRESSES])


def _reached(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for; another address as it is."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_in(address: IPv4Address | IPv6Address, network: str) -> bool:
    return address in ip_network(network)
