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
KEPT: Final = (
    3600.0  # seconds for which an address counts after it was in an answer: a load balancer with many shows some of them at a time
)


def may_be_named(host: str, allowed: Sequence[str]) -> bool:
    """Return whether a tenant's kubeconfig may name this host. It contacts nobody; a name may be refused when it is dialled.

    :param host: of a URL: a name, an IPv4 address, or an IPv6 address in brackets.
    :param allowed: CIDRs that would be refused otherwise.
    """
    text = host.strip("[]")
    if parsed_address(text) is not None:
        return DialRule(denied=NETWORKS, allowed=tuple(allowed)).permits(text)
    # Where ranges are allowed, such a name may lead into them, which shows when it is dialled.
    return bool(allowed) or not SERVICE_NAMES.fullmatch(text.rstrip(".").lower())


class DeniedNetworks:
    """Ranges at which the operator contacts nothing for tenants, with the present addresses of its own servers. Thread-safe."""

    def __init__(
        self,
        configured: Iterable[str],
        servers: Callable[[], Iterable[str]],
        resolver: Callable[[str], Sequence[str]] = resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the ranges.

        :param configured: CIDRs of --deny-address.
        :param servers: returns HOST:PORT of kcp, its virtual workspaces, and the management plane.
        """
        self._fixed = tuple(dict.fromkeys((*NETWORKS, *(str(ip_network(text)) for text in configured))))
        self._servers, self._resolve, self._clock = servers, resolver, clock
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}  # by host: when it is resolved again
        self._found: dict[str, dict[str, float]] = {}  # by host: its addresses, and when each was last in an answer

    def __call__(self) -> tuple[str, ...]:
        """Return the ranges. An address counts for ``KEPT`` seconds, and for as long as its name does not resolve."""
        hosts = {urlsplit(f"//{server}").hostname or "" for server in self._servers()} | {os.environ.get("KUBERNETES_SERVICE_HOST", "")}
        with self._lock:
            own = [address for host in sorted(hosts - {""}) for address in self._addresses(host)]
        return tuple(dict.fromkeys((*self._fixed, *(str(ip_network(address)) for address in own))))

    def _addresses(self, host: str) -> list[str]:
        if stands_for(host):
            return [str(address) for address in stands_for(host)]
        now, known = self._clock(), self._found.setdefault(host, {})
        if now >= self._next.get(host, now):
            self._next[host] = now + SOON
            with suppress(OSError, ValueError):  # the operator itself cannot reach it now either
                answer = {str(address): now for text in self._resolve(host) for address in stands_for(text)}
                self._found[host] = {address: at for address, at in (known | answer).items() if now - at < KEPT}
                self._next[host] = now + AGAIN
        return sorted(self._found[host])
