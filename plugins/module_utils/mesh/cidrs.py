# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Address ranges of clusters, and the overlaps between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..base.networks import Network
from .facts.cluster import ClusterFacts
from .versions.cilium_config import ip_versions, setting


@dataclass(frozen=True, kw_only=True)
class AddressRange:
    """Address range that a cluster uses, or may come to use, for pods."""

    host: str
    network: Network
    source: str  # where it was read
    allocated: bool  # in use by a node now; else part of a pool


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Group of clusters connected by overlapping ranges, with the overlapping pairs (at most ``PAIRS_KEPT``)."""

    hosts: tuple[str, ...]
    pairs: tuple[tuple[AddressRange, AddressRange], ...]


PAIRS_KEPT = 8

POOLED = ("cluster-pool", "cluster-pool-v2beta")
BY_CILIUM = (*POOLED, "multi-pool")
"""IPAM modes in which Cilium allocates the ranges and Node.spec.podCIDRs, even when set, is not used."""
BY_CLOUD = ("eni", "azure", "alibabacloud")
"""IPAM modes in which pods get addresses of the cloud's network, which CiliumNode lists."""


def ipam_mode(facts: ClusterFacts) -> str:
    """Return the IPAM mode of Cilium. The default of the chart and of the agent is cluster-pool; agents take it in any case (IPAMMode)."""
    return setting(facts, "ipam", "cluster-pool").lower()


def allocated_ranges(facts: ClusterFacts) -> tuple[AddressRange, ...]:
    """Return the ranges that nodes hold now: those of CiliumNodes, and those of Nodes where Kubernetes allocates."""
    claims: list[AddressRange] = []
    for node in facts.nodes:
        texts = dict.fromkeys(node.allocated_cidrs, "CiliumNode")
        if ipam_mode(facts) not in (*BY_CILIUM, *BY_CLOUD):
            texts |= {text: "Node" for text in node.pod_cidrs if text not in texts}
        claims.extend(_ranges(facts.host, texts.items(), f" {node.name}", allocated=True))
    return tuple(claims)


def pool_ranges(facts: ClusterFacts) -> tuple[AddressRange, ...]:
    """Return the pools of cilium-config, or the CiliumPodIPPools with multi-pool.

    IPAM modes without pools (kubernetes, eni, ...) have none. A value holds one or more ranges, separated by spaces. The chart's default is
    10.0.0.0/8 and fd00::/104 on every installation.
    """
    if ipam_mode(facts) == "multi-pool":
        rows = [(cidr, f"CiliumPodIPPool {pool.name}") for pool in facts.pod_pools for cidr in pool.cidrs]
        return tuple(_ranges(facts.host, rows, "", allocated=False))
    if ipam_mode(facts) not in POOLED:
        return ()
    texts: dict[str, str] = {}
    for version in sorted(ip_versions(facts)):
        key = f"cluster-pool-ipv{version}-cidr"
        texts |= dict.fromkeys(setting(facts, key).replace(",", " ").split(), key)
    return tuple(_ranges(facts.host, texts.items(), "", allocated=False))


def parse_networks(texts: Iterable[str]) -> list[Network]:
    """Parse address ranges; texts that are none are left out."""
    return [network for text in texts if (network := _network(text)) is not None]


def overlaps(claims: Iterable[AddressRange], *, only_pools: bool = False) -> tuple[Overlap, ...]:
    """Return groups of clusters whose ranges overlap.

    Time grows with n log n plus the number of overlaps, not with the square of the clusters.

    :param only_pools: leave out pairs of which both are allocated.
    """
    groups: dict[str, set[str]] = {}
    kept: dict[int, list[tuple[AddressRange, AddressRange]]] = {}
    for a, b in _pairs(claims):
        if only_pools and a.allocated and b.allocated:
            continue
        one, other = groups.setdefault(a.host, {a.host}), groups.setdefault(b.host, {b.host})
        if one is not other:
            one |= other
            for host in other:
                groups[host] = one
            kept[id(one)] = kept.get(id(one), []) + kept.pop(id(other), [])
        pairs = kept.setdefault(id(one), [])
        if len(pairs) < PAIRS_KEPT:
            pairs.append((a, b))
    unique = {id(group): group for group in groups.values()}
    return tuple(Overlap(hosts=tuple(sorted(group)), pairs=tuple(kept[key][:PAIRS_KEPT])) for key, group in unique.items())


def _pairs(claims: Iterable[AddressRange]) -> Iterable[tuple[AddressRange, AddressRange]]:
    """Yield overlapping ranges of different clusters.

    Two ranges overlap only if one contains the other, so a stack of open ranges is enough. If several ranges of one cluster contain the
    present one, the innermost of them is reported. A range that a cluster claims many times counts once: pairs of equal ranges would be as
    many as the square of the claims.
    """
    ordered = sorted(claims, key=lambda c: (c.network.version, int(c.network.network_address), c.network.prefixlen, c.host))
    stack: list[AddressRange] = []
    for claim in ordered:
        while stack and not _holds(stack[-1].network, claim.network):
            stack.pop()
        if stack and stack[-1].host == claim.host and stack[-1].network == claim.network:
            continue
        seen = {claim.host}
        for outer in reversed(stack):
            if outer.host not in seen:
                seen.add(outer.host)
                yield outer, claim
        stack.append(claim)


def _holds(outer: Network, inner: Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _ranges(host: str, texts: Iterable[tuple[str, str]], suffix: str, *, allocated: bool) -> Iterable[AddressRange]:
    for text, source in texts:
        network = _network(text)
        if network is not None:
            yield AddressRange(host=host, network=network, source=source + suffix, allocated=allocated)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def describe(pairs: Iterable[tuple[AddressRange, AddressRange]]) -> str:
    """Format overlapping pairs as text: ``c1 10.0.0.0/24 (CiliumNode n1) and c2 10.0.0.0/8 (cluster-pool-ipv4-cidr); ...``."""
    return "; ".join(f"{a.host} {a.network} ({a.source}) and {b.host} {b.network} ({b.source})" for a, b in pairs)
