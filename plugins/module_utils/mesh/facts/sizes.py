# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Numbers of objects in one cluster, as facts: how many identities, endpoints and Services count in a mesh."""

from __future__ import annotations

from dataclasses import dataclass

from .cluster import Unread


@dataclass(frozen=True, kw_only=True)
class SizeFacts:
    """Numbers of Cilium's objects in one cluster; None where a number could not be read, and ``unread`` says why."""

    host: str
    identities: int | None = None  # CiliumIdentities
    endpoints: int | None = None  # CiliumEndpoints
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ServiceNumbers:
    """Numbers of one cluster's Services.

    ``exported``: global services that it offers to others. ``lb_own``: entries that its Services take in the load balancer of each of its
    nodes with the backends of the cluster itself; ``lb_peers``: further ones for backends of peers.
    """

    exported: int
    lb_own: int
    lb_peers: int
