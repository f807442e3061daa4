# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Nodes, with what Cilium's IPAM gave to each (CiliumNode)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..facts import NodeFacts
from .objects import items, text, texts


def node_facts(nodes: Iterable[Any], cilium_nodes: Iterable[Any]) -> tuple[NodeFacts, ...]:
    """One entry per Node, sorted by name. A CiliumNode without a Node (external, or being removed) is left out."""
    allocated = {text(c, "metadata", "name"): _allocated(c) for c in cilium_nodes}
    found = [_node(n, allocated.get(text(n, "metadata", "name"), ())) for n in nodes]
    return tuple(sorted(found, key=lambda n: n.name))


def _node(node: Any, allocated: tuple[str, ...]) -> NodeFacts:
    addresses = items(node, "status", "addresses")
    one = text(node, "spec", "podCIDR")
    return NodeFacts(
        name=text(node, "metadata", "name"),
        ready=any(text(c, "type") == "Ready" and text(c, "status") == "True" for c in items(node, "status", "conditions")),
        internal_ips=tuple(text(a, "address") for a in addresses if text(a, "type") == "InternalIP"),
        external_ips=tuple(text(a, "address") for a in addresses if text(a, "type") == "ExternalIP"),
        pod_cidrs=texts(node, "spec", "podCIDRs") or ((one,) if one else ()),
        allocated_cidrs=allocated,
    )


def _allocated(cilium_node: Any) -> tuple[str, ...]:
    """cluster-pool and kubernetes IPAM write ``podCIDRs``; multi-pool writes ``pools.allocated[].cidrs``."""
    pools = items(cilium_node, "spec", "ipam", "pools", "allocated")
    found = [*texts(cilium_node, "spec", "ipam", "podCIDRs"), *(cidr for pool in pools for cidr in texts(pool, "cidrs"))]
    return tuple(dict.fromkeys(found))
