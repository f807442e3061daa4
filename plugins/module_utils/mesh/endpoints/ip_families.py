# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""IP versions that the readers of a peer can dial, which differ between clusters where some are dual stack and others are not.

kvstoremesh runs in a pod, which has the addresses that Cilium gives (``enable-ipv4``, ``enable-ipv6``) and leaves by those of its node.
Agents run in the network of their node, whose addresses are what counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..facts.cluster import ClusterFacts
from ..versions.cilium_config import ip_versions
from .addresses import ip_version, is_ip
from .endpoint import MeshEndpoint


def dialable_families(local: ClusterFacts) -> frozenset[int]:
    """Return the IP versions (4, 6) that the readers of ``local`` can certainly dial."""
    possible = possible_families(local)
    return (possible & _node_families(local)) or possible


def possible_families(local: ClusterFacts) -> frozenset[int]:
    """Return the IP versions that the readers of ``local`` may be able to dial.

    A node may have an address that its status does not list (kubelet's --node-ip may name one family); for pods, Cilium's setting counts.
    """
    return ip_versions(local) if local.runs_kvstoremesh else _node_families(local) or ip_versions(local)


def limit_to_families(endpoint: MeshEndpoint, families: Collection[int]) -> MeshEndpoint:
    """Return the endpoint with the addresses that can be dialled.

    If none can, the endpoint is returned unchanged, and a check reports it (CM-EP-06).
    """
    ips = tuple(ip for ip in endpoint.ips if ip_version(ip) in families)
    return replace(endpoint, ips=ips) if ips and ips != endpoint.ips else endpoint


def addresses_of(endpoint: MeshEndpoint) -> tuple[str, ...]:
    """Return every address of the endpoint; () if it is dialled by a DNS name."""
    return (endpoint.hostname,) if is_ip(endpoint.hostname) else endpoint.ips


def _node_families(local: ClusterFacts) -> frozenset[int]:
    return frozenset(ip_version(ip) for node in local.nodes for ip in node.internal_ips if is_ip(ip))
