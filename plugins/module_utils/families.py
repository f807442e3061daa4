# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which IP versions whoever reads a peer can dial: not the same for every cluster, where some are dual stack and others are not.

kvstoremesh runs in a pod, which has the addresses that Cilium gives (``enable-ipv4``, ``enable-ipv6``) and leaves by those of its node.
Agents run in the network of their node, whose addresses are what counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .endpoints import Endpoint, is_ip, version_of
from .facts import ClusterFacts

_TRUE = ("true", "t", "1")  # as Go's strconv.ParseBool reads it


def families_of(local: ClusterFacts) -> frozenset[int]:
    """IP versions (4, 6) that the readers of ``local`` surely can dial."""
    possible = possible_families(local)
    return (possible & _of_nodes(local)) or possible


def possible_families(local: ClusterFacts) -> frozenset[int]:
    """IP versions that the readers of ``local`` may be able to dial.

    A node may have an address that its status does not list (kubelet's --node-ip may name one family): for pods, Cilium's word stands.
    """
    return _enabled(local) if local.runs_kvstoremesh else _of_nodes(local) or _enabled(local)


def for_families(endpoint: Endpoint, families: Collection[int]) -> Endpoint:
    """The endpoint with the addresses that can be dialled; as it is where none can, which a check says (CM-EP-06)."""
    ips = tuple(ip for ip in endpoint.ips if version_of(ip) in families)
    return replace(endpoint, ips=ips) if ips and ips != endpoint.ips else endpoint


def addresses_of(endpoint: Endpoint) -> tuple[str, ...]:
    """Every address that stands in the endpoint; () where it is dialled by a DNS name."""
    return (endpoint.hostname,) if is_ip(endpoint.hostname) else endpoint.ips


def _of_nodes(local: ClusterFacts) -> frozenset[int]:
    return frozenset(version_of(ip) for node in local.nodes for ip in node.internal_ips if is_ip(ip))


def _enabled(local: ClusterFacts) -> frozenset[int]:
    """The chart writes both keys, with these defaults."""
    config = local.config or {}
    found = {4} if config.get("enable-ipv4", "true").lower() in _TRUE else set()
    return frozenset(found | ({6} if config.get("enable-ipv6", "false").lower() in _TRUE else set()))
