# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Address ranges of clusters, and which of them overlap between clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

from ..facts import ClusterFacts
from .wording import setting

Network: TypeAlias = "IPv4Network | IPv6Network"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A range that a cluster uses, or may come to use, for pods."""

    host: str
    network: Network
    source: str  # where it was read
    allocated: bool  # in use by a node now; else part of a pool


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Clusters that are tied together by overlapping ranges, with the overlapping pairs of claims (at most ``PAIRS_KEPT``)."""

    hosts: tuple[str, ...]
    pairs: tuple[tuple[Claim, Claim], ...]


PAIRS_KEPT = 8

POOLED = ("cluster-pool", "cluster-pool-v2beta")
BY_CILIUM = (*POOLED, "multi-pool")
"""IPAM modes in which Cilium allocates the ranges and Node.spec.podCIDRs, even when set, is not used."""
BY_CLOUD = ("eni", "azure", "alibabacloud")
"""IPAM modes in which pods get addresses of the cloud's network, which CiliumNode lists."""


def ipam(facts: ClusterFacts) -> str:
    """The chart's default, and the agent's, is cluster-pool."""
    return setting(facts, "ipam", "cluster-pool")


def allocated(facts: ClusterFacts) -> tuple[Claim, ...]:
    """The ranges that nodes hold now: of CiliumNodes; of Nodes where Kubernetes allocates."""
    claims: list[Claim] = []
    for node in facts.nodes:
        texts = dict.fromkeys(node.allocated_cidrs, "CiliumNode")
        if ipam(facts) not in (*BY_CILIUM, *BY_CLOUD):
            texts |= {text: "Node" for text in node.pod_cidrs if text not in texts}
        claims.extend(_claims(facts.host, texts.items(), f" {node.name}", allocated=True))
    return tuple(claims)


def pools(facts: ClusterFacts) -> tuple[Claim, ...]:
    """The pools that cilium-config names, or CiliumPodIPPools with multi-pool; none in IPAM modes without pools (kubernetes, eni, ...).

    The values hold one or more ranges apart by spaces. The chart's default is 10.0.0.0/8 and fd00::/104 on every install.
    """
    if ipam(facts) == "multi-pool":
        rows = [(cidr, f"CiliumPodIPPool {pool.name}") for pool in facts.pod_pools for cidr in pool.cidrs]
        return tuple(_claims(facts.host, rows, "", allocated=False))
    if ipam(facts) not in POOLED:
        return ()
    texts: dict[str, str] = {}
    for family in ("ipv4", "ipv6"):
        if setting(facts, f"enable-{family}", "true") == "true":
            texts |= dict.fromkeys(setting(facts, f"cluster-pool-{family}-cidr").replace(",", " ").split(), f"cluster-pool-{family}-cidr")
    return tuple(_claims(facts.host, texts.items(), "", allocated=False))


def networks(texts: Iterable[str]) -> list[Network]:
    """The parseable ones of the texts."""
    return [network for text in texts if (network := _network(text)) is not None]


def overlaps(claims: Iterable[Claim], *, only_pools: bool = False) -> tuple[Overlap, ...]:
    """Groups of clusters whose claims overlap. Time grows with n log n plus the number of overlaps, not with the square of the clusters.

    :param only_pools: leave out pairs of which both are allocated.
    """
    groups: dict[str, set[str]] = {}
    kept: dict[int, list[tuple[Claim, Claim]]] = {}
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


def _pairs(claims: Iterable[Claim]) -> Iterable[tuple[Claim, Claim]]:
    """Overlapping claims of different clusters. Two ranges overlap only when one holds the other, so a stack of open ranges is enough.

    Of the ranges that hold the present one, one per cluster is reported: the innermost.
    """
    ordered = sorted(claims, key=lambda c: (c.network.version, int(c.network.network_address), c.network.prefixlen, c.host))
    stack: list[Claim] = []
    for claim in ordered:
        while stack and not _holds(stack[-1].network, claim.network):
            stack.pop()
        seen = {claim.host}
        for outer in reversed(stack):
            if outer.host not in seen:
                seen.add(outer.host)
                yield outer, claim
        stack.append(claim)


def holds_all(outer: Sequence[Network], inner: Network) -> bool:
    """Does one of ``outer`` hold the whole of ``inner``?"""
    return any(_holds(network, inner) for network in outer)


def _holds(outer: Network, inner: Network) -> bool:
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def _claims(host: str, texts: Iterable[tuple[str, str]], suffix: str, *, allocated: bool) -> Iterable[Claim]:
    for text, source in texts:
        network = _network(text)
        if network is not None:
            yield Claim(host=host, network=network, source=source + suffix, allocated=allocated)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def describe(pairs: Iterable[tuple[Claim, Claim]]) -> str:
    """``c1 10.0.0.0/24 (CiliumNode n1) and c2 10.0.0.0/8 (cluster-pool-ipv4-cidr); ...``."""
    return "; ".join(f"{a.host} {a.network} ({a.source}) and {b.host} {b.network} ({b.source})" for a, b in pairs)
