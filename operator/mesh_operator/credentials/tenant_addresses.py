# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Addresses to which no tenant may direct the operator: this machine, its own cluster, kcp, the management plane, metadata services.

What the text of a kubeconfig shows is refused with its reason. Everything else is judged where it is dialled (base/dialling.py of the
engine), and a tenant learns no more than that it cannot be reached.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import (
    SERVICE_NAMES,
    DialRule,
    parsed_address,
    resolve,
    stands_for,
)

NETWORKS: Final = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128"),  # metadata of Alibaba, of Azure, and of AWS by IPv6
    *("2002::/16", "2001::/32"),  # 6to4 and Teredo, out of use: any IPv4 address
)
AGAIN: Final = 300.0  # seconds after which the names of the operator's own servers are resolved again
SOON: Final = 10.0  # seconds after which a name that did not resolve is tried again
PATIENCE: Final = 5.0  # seconds from the beginning of a lookup for which turns wait for it, if no address is known
KEPT: Final = (
    3600.0  # seconds for which an address counts after it was in an answer: a load balancer with many shows some of them at a time
)


def may_be_named(host: str, allowed: Sequence[str]) -> bool:
    """Return whether a tenant's kubeconfig may name this host. It contacts no server; a name may be refused when it is dialled.

    :param host: of a URL: a name, an IPv4 address, or an IPv6 address in brackets.
    :param allowed: CIDRs that would be refused otherwise.
    """
    text = host.strip("[]")
    if parsed_address(text) is not None:
        return DialRule(denied=NETWORKS, allowed=tuple(allowed)).permits(text)
    # Where ranges are allowed, such a name may lead into them, which shows when it is dialled.
    return bool(allowed) or not SERVICE_NAMES.fullmatch(text.rstrip(".").lower())


@dataclass
class _Name:
    """Name of one of the operator's own servers. Times are monotonic seconds."""

    addresses: dict[str, float] = field(default_factory=dict)  # and when each was last in an answer
    due: float = 0.0  # of the next lookup
    ends: float | None = None  # until when a lookup under way is waited for; None: none is under way


class DeniedNetworks:
    """Ranges at which the operator contacts nothing for tenants, with the present addresses of its own servers. Thread-safe.

    Names are looked up on threads of their own, one at a time for each name: getaddrinfo(3) has no timeout, and one silent name server must
    not hold the turns of all tenants. Callers get the last known addresses at once.
    """

    def __init__(
        self,
        configured: Iterable[str],
        servers: Callable[[], Iterable[str]],
        resolver: Callable[[str], Sequence[str]] = resolve,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        """Prepare the ranges.

        :param configured: CIDRs of --deny-address.
        :param servers: returns HOST:PORT of kcp, its virtual workspaces, and the management plane.
        :param patience: see PATIENCE.
        """
        self._fixed = tuple(dict.fromkeys((*NETWORKS, *(str(ip_network(text)) for text in configured))))
        self._servers, self._resolve, self._clock, self._patience = servers, resolver, clock, patience
        self._answered = threading.Condition()  # it guards the names, and is not held while one is looked up
        self._names: dict[str, _Name] = {}

    def __call__(self) -> tuple[str, ...]:
        """Return the ranges. An address counts for ``KEPT`` seconds, and for as long as its name does not resolve.

        Where no address of a name is that young, the lookup is waited for, until PATIENCE after its beginning. A name that never had an
        answer then has no address: the operator asks the same name servers, and cannot reach that server either.
        """
        hosts = {urlsplit(f"//{server}").hostname or "" for server in self._servers()} | {os.environ.get("KUBERNETES_SERVICE_HOST", "")}
        own = [str(address) for host in sorted(hosts - {""}) for address in stands_for(host)]
        named = sorted(host for host in hosts - {""} if not stands_for(host))
        with self._answered:
            for host in named:
                self._resolve_in_background(host)
            for host in named:
                own += self._addresses(host)
        return tuple(dict.fromkeys((*self._fixed, *(str(ip_network(address)) for address in own))))

    def _resolve_in_background(self, host: str) -> None:
        """Begin a lookup if one is due."""
        name, now = self._names.setdefault(host, _Name()), self._clock()
        if name.ends is None and now >= name.due:
            threading.Thread(target=self._ask, args=(host, name), name=f"lookup of {host}", daemon=True).start()
            name.ends = now + self._patience  # the thread waits for the lock before it changes this

    def _ask(self, host: str, name: _Name) -> None:
        addresses: set[str] | None = None
        try:
            with suppress(OSError, ValueError):  # the operator itself cannot reach it now either
                addresses = {str(address) for text in self._resolve(host) for address in stands_for(text)}
        finally:
            with self._answered:
                now = self._clock()
                if addresses is not None:
                    known = name.addresses | dict.fromkeys(addresses, now)
                    name.addresses = {address: at for address, at in known.items() if now - at < KEPT}
                name.due, name.ends = now + (SOON if addresses is None else AGAIN), None
                self._answered.notify_all()

    def _addresses(self, host: str) -> list[str]:
        name, asked = self._names[host], self._names[host].ends
        while name.ends is not None and name.ends == asked and not self._is_known(name):
            left = name.ends - self._clock()
            if left <= 0:
                break
            self._answered.wait(left)
        return sorted(name.addresses)

    def _is_known(self, name: _Name) -> bool:
        return max(name.addresses.values(), default=-KEPT) > self._clock() - KEPT
