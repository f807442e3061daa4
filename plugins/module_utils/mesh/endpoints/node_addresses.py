# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Node addresses that peers dial where the mesh endpoint is a Service of type NodePort."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts.cluster import NodeFacts
from .addresses import canonical_ip, dialable, ip_version, is_ip, sorted_ips

NODES_PER_ENDPOINT = 3  # two nodes may fail without cutting the link, and the list of aliases stays short
ENOUGH_NODES = 2  # one node may fail without cutting the link: a third one is not worth the restart that a new address costs before 1.20


def choose_node_ips(
    nodes: Sequence[NodeFacts],
    node_addresses: str,
    in_use: Sequence[str] = (),
    families: Sequence[int] = (4, 6),
    *,
    allowed: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Choose up to three node addresses of each family: those in use as long as they serve, else those of Ready nodes by name.

    :param allowed: as in ``refusal_of_address``.
    """
    return sorted_ips(ip for family in families for ip in _choose_of_family(nodes, node_addresses, in_use, family, allowed))


def _choose_of_family(
    nodes: Sequence[NodeFacts], node_addresses: str, in_use: Sequence[str], family: int, allowed: tuple[str, ...]
) -> tuple[str, ...]:
    """Choose the node addresses of one family.

    The addresses in use stay if every one is still a node's and a Ready one is among them: a node that is away for a moment must not
    restart the clients.
    """
    ready: list[str] = []
    known: set[str] = set()
    for node in sorted(nodes, key=lambda n: n.name):
        addresses = [a for a in addresses_of_node(node, node_addresses) if is_ip(a) and ip_version(a) == family]
        usable = [canonical_ip(a) for a in dialable(addresses, allowed)][:1]
        known.update(usable)
        ready.extend(a for a in usable if node.ready and a not in ready)
    current = {canonical_ip(a) for a in in_use if is_ip(a) and ip_version(a) == family}
    enough = len(current) >= min(ENOUGH_NODES, len(ready))
    if current and enough and len(current) <= NODES_PER_ENDPOINT and current <= known and not current.isdisjoint(ready):
        return sorted_ips(current)
    stable_first = sorted(ready, key=lambda a: a not in current)  # sorted is stable: by name within each half
    return tuple(stable_first[:NODES_PER_ENDPOINT])


def addresses_of_node(node: NodeFacts, node_addresses: str) -> tuple[str, ...]:
    """Return the addresses of one kind that a node reports: ``InternalIP`` or ``ExternalIP``."""
    return node.external_ips if node_addresses == "ExternalIP" else node.internal_ips
