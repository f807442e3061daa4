# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses to which a tenant may direct the operator: not this machine, its own cluster, or a cloud's metadata service."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

# Names of this machine and of Services, and names that inet_aton(3) reads as addresses, such as 127.1 and 0x7f.1.
_NAMES: Final = re.compile(r"(?:.*\.)?(?:localhost|svc|cluster\.local|[0-9]+|0x[0-9a-f]*)|kubernetes(?:\.default)?|.*:.*|")
_NETWORKS: Final = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("100.100.100.200", "168.63.129.16", "fd00:ec2::254"),  # metadata of Alibaba, of Azure, and of AWS by IPv6
    *("2002::/16", "2001::/32"),  # 6to4 and Teredo, out of use: any IPv4 address
)
_HOLDING_IPV4: Final = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))  # IPv4-mapped; NAT64 (RFC 6052)


def may_be_contacted(host: str, allowed: Sequence[str], resolve: Callable[[str], Sequence[str]] | None = None) -> bool:
    """Return whether a tenant's host may be contacted.

    :param host: of a URL: a name, an IPv4 address, or an IPv6 address in brackets.
    :param allowed: CIDRs that would be refused otherwise.
    :param resolve: a name -> its addresses and canonical name. OSError means that there is none, which connecting will report.
    """
    found = [host.strip("[]")]
    if _address(found[0]) is None:
        with suppress(OSError, UnicodeError):
            found += (resolve or _resolve)(found[0])
    addresses = [address for text in found if (address := _address(text))]
    outside = [address for address in addresses if not any(address in ip_network(cidr, strict=False) for cidr in allowed)]
    if addresses and not outside:
        return True
    own = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    names = [text.rstrip(".").lower() for text in found if _address(text) is None]
    refused = any(address == _address(own) or any(address in ip_network(cidr) for cidr in _NETWORKS) for address in outside)
    return not (refused or any(name == own.lower() or _NAMES.fullmatch(name) for name in names))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])  # without the zone of a link-local address
    except ValueError:
        return None
    return IPv4Address(int(address) & 0xFFFFFFFF) if any(address in network for network in _HOLDING_IPV4) else address


def _resolve(name: str) -> list[str]:
    """Return addresses and the canonical name, which for a Service of our own cluster ends in cluster.local, also with a search domain."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    return [text for *_other, canonical, where in found for text in (canonical, str(where[0])) if text]
