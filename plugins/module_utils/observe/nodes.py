# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of nodes, with the ranges that Cilium's IPAM gave to each (CiliumNode), and of the pools that they come from (CiliumPodIPPool)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_network
from typing import Any

from ..base.json_fields import items, mapping, text, texts
from ..base.networks import Network, join_networks
from ..mesh.facts.cluster import NodeFacts, PodPoolFacts


def node_facts(nodes: Iterable[Any], cilium_nodes: Iterable[Any]) -> tuple[NodeFacts, ...]:
    """Return the facts of each Node, sorted by name. A CiliumNode without a Node (external, or being removed) is left out."""
    by_name = {text(c, "metadata", "name"): c for c in cilium_nodes}
    found = [_node(n, by_name.get(text(n, "metadata", "name"))) for n in nodes]
    return tuple(sorted(found, key=lambda n: n.name))


def _node(node: Any, cilium_node: Any) -> NodeFacts:
    addresses = items(node, "status", "addresses")
    one = text(node, "spec", "podCIDR")
    return NodeFacts(
        name=text(node, "metadata", "name"),
        ready=any(text(c, "type") == "Ready" and text(c, "status") == "True" for c in items(node, "status", "conditions")),
        internal_ips=tuple(text(a, "address") for a in addresses if text(a, "type") == "InternalIP"),
        external_ips=tuple(text(a, "address") for a in addresses if text(a, "type") == "ExternalIP"),
        pod_cidrs=texts(node, "spec", "podCIDRs") or ((one,) if one else ()),
        allocated_cidrs=_allocated(cilium_node),
        mesh_ips=_addresses(cilium_node, "InternalIP"),
        router_ips=_addresses(cilium_node, "CiliumInternalIP"),
        os_image=text(node, "status", "nodeInfo", "osImage"),
    )


def _allocated(cilium_node: Any) -> tuple[str, ...]:
    """Return the ranges that a node holds.

    cluster-pool and kubernetes IPAM write ``podCIDRs``, multi-pool writes ``pools.allocated[].cidrs``. ENI, Azure and Alibaba Cloud list
    single addresses in ``pool``; neighbours are joined, since a node has dozens of them.
    """
    pools = items(cilium_node, "spec", "ipam", "pools", "allocated")
    found = [*texts(cilium_node, "spec", "ipam", "podCIDRs"), *(cidr for pool in pools for cidr in texts(pool, "cidrs"))]
    return tuple(dict.fromkeys([*found, *_join_addresses(mapping(cilium_node, "spec", "ipam", "pool"))]))


def _join_addresses(addresses: Iterable[str]) -> Iterator[str]:
    networks: list[Network] = []
    for address in addresses:
        with suppress(ValueError):
            networks.append(ip_network(address))
    return map(str, join_networks(networks))


def _addresses(cilium_node: Any, kind: str) -> tuple[str, ...]:
    return tuple(text(a, "ip") for a in items(cilium_node, "spec", "addresses") if text(a, "type") == kind and text(a, "ip"))


def pod_pool_facts(values: Iterable[Any]) -> tuple[PodPoolFacts, ...]:
    """Return the facts of pools, sorted by name."""
    found = [
        PodPoolFacts(name=text(v, "metadata", "name"), cidrs=(*texts(v, "spec", "ipv4", "cidrs"), *texts(v, "spec", "ipv6", "cidrs")))
        for v in values
    ]
    return tuple(sorted(found, key=lambda pool: pool.name))
