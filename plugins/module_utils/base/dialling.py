# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses that a run dials for the owner of a cluster, where ranges are denied: it resolves a name once, and dials what it judged.

The owner of a cluster chooses the server of its kubeconfig and the endpoints in its Secrets. Where whoever runs the controller denies
ranges (host variable ``cilium_mesh_denied_networks``), no connection goes there, and the owner is told one sentence, whatever the reason,
so that nobody can scan ports and names that only the controller sees.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

MOST: Final = 16  # addresses of one name that are tried
SERVICE_NAMES: Final = re.compile(r"(?:.*\.)?(?:localhost|svc|cluster\.local|[0-9]+|0x[0-9a-f]*)|kubernetes(?:\.default)?|.*:.*|")
"""Names of this machine and of Services, and names that inet_aton(3) reads as addresses, such as 127.1 and 0x7f.1; in lower case."""

_HOLDING_IPV4: Final = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))  # IPv4-mapped; NAT64 (RFC 6052)

Answers = Sequence[str]
"""Addresses and canonical names of a name, as the resolver gives them."""


class NotDialled(OSError):
    """Address or name that is not dialled. The text is for the log of whoever denies ranges, and not for the owner of the cluster."""


def resolve(name: str) -> list[str]:
    """Return the addresses of a name and its canonical name; that of a Service, also with a search domain, ends in cluster.local.

    :raises OSError: when it has none.
    """
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    return list(dict.fromkeys(text for *_other, canonical, where in found for text in (str(where[0]), canonical) if text))


@dataclass(frozen=True, kw_only=True)
class DialRule:
    """Ranges at which nothing is dialled for the owner of a cluster, and ranges within them that may be dialled all the same."""

    denied: tuple[str, ...]
    allowed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.denied)

    def permits(self, address: str) -> bool:
        """Return whether an address may be dialled. One that stands for another one, such as an IPv4-mapped one, counts as both."""
        found = parsed_address(address)
        if found is None:
            return False
        return _is_within(found, self.allowed) or not _is_within(found, self.denied)


@dataclass(eq=False)
class Dialler:
    """Source of the addresses to dial for one cluster. Thread-safe; it resolves each name once.

    :param resolver: a name -> its addresses and canonical names; OSError: there are none.
    """

    rule: DialRule
    resolver: Callable[[str], Answers] = resolve
    _known: dict[str, tuple[str, ...] | str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host, all of which may be dialled.

        :param host: a name, an IPv4 address, or an IPv6 address with or without brackets.
        :raises NotDialled: when it has none, or one of them may not be dialled.
        """
        name = host.strip("[]")
        with self._lock:
            if name not in self._known:
                self._known[name] = self._judged(name)
            known = self._known[name]
        if isinstance(known, str):
            raise NotDialled(known)
        return known

    def connect(
        self, host: str, port: int, *, timeout: float | None, options: Sequence[tuple[int, int, int | bytes]] = ()
    ) -> socket.socket:
        """Connect to the first address of a host that accepts the connection.

        :param timeout: seconds for each address; None: without one.
        :param options: of the socket: level, name, value.
        :raises OSError: when no connection comes about; NotDialled when none was tried.
        """
        problem: OSError | None = None
        for address in self.addresses(host):
            try:
                connection = socket.create_connection((address, port), timeout=timeout)
            except OSError as error:
                problem = error
                continue
            for option in options:
                connection.setsockopt(*option)
            return connection
        raise problem or NotDialled("the name has no address")

    def _judged(self, name: str) -> tuple[str, ...] | str:
        """Return the addresses, or the sentence why none is dialled."""
        try:
            found = [name] if parsed_address(name) is not None else list(self.resolver(name))
        except (OSError, UnicodeError):
            return "the name cannot be resolved"
        addresses = tuple(dict.fromkeys(text for text in found if parsed_address(text) is not None))
        if not addresses:
            return "the name has no address"
        if not all(self.rule.permits(address) for address in addresses):
            return "an address of it is in a denied range"
        if all(_is_within(parsed_address(address), self.rule.allowed) for address in addresses):
            return addresses[:MOST]
        names = [text.rstrip(".").lower() for text in (name, *found) if parsed_address(text) is None]
        if any(SERVICE_NAMES.fullmatch(text) for text in names):
            return "it is a name of this machine or of a Service"
        return addresses[:MOST]


@lru_cache(maxsize=4096)
def parsed_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, of one that holds an IPv4 address (IPv4-mapped, NAT64) that one; None if the text is no address."""
    try:
        address = ip_address(text.partition("%")[0])  # without the zone of a link-local address
    except ValueError:
        return None
    return IPv4Address(int(address) & 0xFFFFFFFF) if any(address in network for network in _HOLDING_IPV4) else address


def _is_within(address: IPv4Address | IPv6Address | None, networks: Sequence[str]) -> bool:
    return address is not None and any(address in _network(text) for text in networks)


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)
