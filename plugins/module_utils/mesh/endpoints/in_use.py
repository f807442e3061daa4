# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Endpoints at which the members of a mesh dial their peers now, by the entries of one binding. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..facts.cluster import ClusterFacts
from .addresses import ip_version, is_ip
from .dialled import own_urls
from .endpoint import InUse


def endpoints_in_use(members: Iterable[ClusterFacts], manager: str) -> Mapping[str, InUse]:
    """Return the endpoint of each peer by cluster name, as at least half of the members have it that have one.

    One member whose owner edits its entries must not decide where the others dial.
    """
    ips: dict[str, list[frozenset[str]]] = {}
    urls: dict[str, Counter[tuple[str, int]]] = {}
    for member in members:
        own: dict[str, set[str]] = {}
        for name, ip in _own_entries(member, manager):
            own.setdefault(name, set()).add(ip)
        for name, addresses in own.items():
            ips.setdefault(name, []).append(frozenset(addresses))
        for name, url in own_urls(member, manager):
            urls.setdefault(name, Counter())[url] += 1
    return {name: _in_use_by_most(ips.get(name, []), urls.get(name, Counter())) for name in {**ips, **urls}}


def _in_use_by_most(entries: Sequence[frozenset[str]], urls: Counter[tuple[str, int]]) -> InUse:
    """Return what at least half of the members have, of each IP family among the members that have it. The first of equals counts."""
    hostname, port = min(urls, key=lambda url: (-urls[url], url), default=("", 0))
    found: set[str] = set()
    for version in (4, 6):
        of_family = [kept for addresses in entries if (kept := {ip for ip in addresses if is_ip(ip) and ip_version(ip) == version})]
        counts = Counter(ip for addresses in of_family for ip in addresses)
        found |= {ip for ip, number in counts.items() if 2 * number >= len(of_family)}
    return InUse(hostname=hostname, port=port, ips=tuple(sorted(found)))


def _own_entries(local: ClusterFacts, manager: str) -> Iterator[tuple[str, str]]:
    """Yield (cluster name of a peer, address) of host aliases, and of configurations that hold aliases."""
    for workload in (local.apiserver, local.agent):
        for alias in workload.host_aliases if workload else ():
            if manager in alias.managers:
                yield from ((hostname.partition(".")[0], alias.ip) for hostname in alias.hostnames)
    for secret in (local.kvstoremesh, local.clustermesh):
        for name, key in secret.keys.items():
            if key.config and manager in key.managers:
                aliases = key.config.partition("\n  ips:\n")[2]
                yield from ((name, line.strip(' -"')) for line in aliases.splitlines() if line.startswith("    - "))
