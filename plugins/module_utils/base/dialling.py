# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses that a run dials for the owner of a cluster, where ranges are denied: it resolves a name once, and dials what it judged.

The owner of a cluster chooses the server of its kubeconfig and the endpoints in its Secrets. Where the operator of the controller
denies ranges (host variable ``cilium_mesh_denied_networks``), no connection goes there, and the owner gets one sentence,
whatever the reason, so that no owner can scan ports and names that only the controller sees.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias, TypeVar

MOST: Final = 4  # addresses of one name that are tried; all of them are judged
SERVICE_NAMES: Final = re.compile(r"(?:.*\.)?(?:localhost|svc|cluster\.local|[0-9]+|0x[0-9a-f]*)|kubernetes(?:\.default)?|.*:.*|")
"""Names of this machine and of Services, and names that inet_aton(3) reads as addresses, such as 127.1 and 0x7f.1; in lower case."""

_HOLDING_IPV4: Final = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))  # IPv4-mapped (RFC 4291); NAT64 (RFC 6052)

IPAddress: TypeAlias = IPv4Address | IPv6Address
Connection = TypeVar("Connection")
Answers = Sequence[str]
"""Addresses and canonical names of a name, as the resolver gives them."""


class NotDialled(OSError):
    """Address or name that is not dialled. The text is for the log of the controller, and not for the owner of the cluster."""


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
        """Return whether an address may be dialled: each address that it stands for is allowed, or in no denied range.

        Where ranges are denied, no name is permitted: its addresses are judged instead.
        """
        written = parsed_address(address)
        if written is None or not self.denied:
            return not self.denied
        # A range such as ::/8 has all IPv4 addresses in it by accident; one within the prefix of NAT64 is meant.
        denied = [each for each in stands_for(address) if _is_within(each, self.denied)]
        denied += [written] * _is_within(written, [text for text in self.denied if _is_meant(_network(text))])
        return all(_is_within(each, self.allowed) for each in denied)

    def allows(self, address: str) -> bool:
        """Return whether an address is in an allowed range, whatever is denied."""
        found = stands_for(address)
        return bool(found) and all(_is_within(each, self.allowed) for each in found)


NO_RULE: Final = DialRule(denied=())


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

    def first(self, host: str, connect: Callable[[str, float | None], Connection], *, timeout: float | None) -> Connection:
        """Return what ``connect`` returns for the first address of a host for which it raises no OSError.

        An open port and a closed one lead to the next address alike, as long as ``connect`` does the TLS handshake too. Else a name with
        two addresses, that of a port to scan and that of a good server, would tell whether the port is open.

        :param connect: is given an address, and the seconds that it has for each of connection and handshake.
        :param timeout: seconds for all addresses, in equal shares; None: without one.
        :raises OSError: the last one, when no connection comes about; NotDialled when none was tried.
        """
        addresses = self.addresses(host)
        problem: OSError | None = None
        for address in addresses:
            try:
                return connect(address, timeout and timeout / len(addresses))
            except OSError as error:  # ssl.SSLError is one
                problem = error
            except Exception:  # ssl's ValueError or TypeError for a name that no handshake can have, once the port is open
                problem = OSError("the name fits in no TLS handshake")
        raise problem or NotDialled("the name has no address")

    def _judged(self, name: str) -> tuple[str, ...] | str:
        """Return the addresses, or the sentence why none is dialled."""
        try:
            found = [name] if parsed_address(name) is not None else list(self.resolver(name))
        except Exception:  # OSError; or ValueError: no codec has the name, as with labels of more than 63 characters
            return "the name cannot be resolved"
        addresses = tuple(dict.fromkeys(text for text in found if parsed_address(text) is not None))
        if not addresses:
            return "the name has no address"
        if not all(self.rule.permits(address) for address in addresses):
            return "an address of it is in a denied range"
        if all(self.rule.allows(address) for address in addresses):
            return addresses[:MOST]
        names = [text.rstrip(".").lower() for text in (name, *found) if parsed_address(text) is None]
        if any(SERVICE_NAMES.fullmatch(text) for text in names):
            return "it is a name of this machine or of a Service"
        return addresses[:MOST]


def connected(address: str, port: int, seconds: float | None, options: Iterable[tuple[int, int, int | bytes]] = ()) -> socket.socket:
    """Return a socket that is connected to an address.

    :param options: level, name and value of each.
    :raises OSError: when no connection comes about in time.
    """
    connection = socket.create_connection((address, port), timeout=seconds)
    for option in options:
        connection.setsockopt(*option)
    return connection


@lru_cache(maxsize=4096)
def parsed_address(text: str) -> IPAddress | None:
    """Return an address without the zone that a link-local one may have; None if the text is no address."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def stands_for(text: str) -> tuple[IPAddress, ...]:
    """Return the addresses to which packets for an address may go; () if the text is no address.

    For an IPv4-mapped address and one of NAT64 that is the IPv4 address. An IPv4-compatible address (RFC 4291), one of 6to4 (RFC 3056) and
    one of Teredo (RFC 4380) stand for themselves too.
    """
    address = parsed_address(text)
    if address is None or isinstance(address, IPv4Address):
        return () if address is None else (address,)
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in _HOLDING_IPV4):
        return (last,)
    within = [address.sixtofour, *(address.teredo or ()), last if 1 < int(address) < 1 << 32 else None]  # :: and ::1 are others
    return (address, *(each for each in within if each is not None))


def _is_within(address: IPAddress, networks: Sequence[str]) -> bool:
    return any(address in _network(text) for text in networks)


def _is_meant(network: IPv4Network | IPv6Network) -> bool:
    """Return whether a range is one of IPv4-mapped addresses or of NAT64, and not just a wide one around them."""
    return isinstance(network, IPv6Network) and any(
        network.subnet_of(prefix) for prefix in _HOLDING_IPV4 if isinstance(prefix, IPv6Network)
    )


@lru_cache(maxsize=4096)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)
