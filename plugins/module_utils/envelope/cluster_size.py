# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Size of one cluster as it counts in a mesh, and its keys and watches in the mesh etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..base.numbers import whole_number
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.sizes import ServiceNumbers, SizeFacts
from ..mesh.versions.cilium_config import enabled, ip_versions, setting
from ..mesh.versions.limits import max_clusters
from .limits import IDENTITIES_OF, LOAD_BALANCER_ENTRIES

NODE_BYTES: Final = 2048
IDENTITY_BYTES: Final = 512
ADDRESS_BYTES: Final = 320
SERVICE_BYTES: Final = 2048
"""Bytes of a key with its value in etcd, rounded up from real ones; only the order of magnitude matters."""

NODE_ADDRESSES: Final = 3  # of each family: the node's own, its router's, its health endpoint's (pkg/node/manager, upserts to the ipcache)
PREFIXES: Final = 5
"""Watches of one reader on one peer: nodes, identities, addresses, services, and the heartbeat (pkg/clustermesh, remote_cluster.go)."""


@dataclass(frozen=True, kw_only=True)
class ClusterSize:
    """Numbers of one cluster; None where one is not known.

    ``services``: global services that it exports. ``lb_own``: load-balancer entries of its Services with its own backends; ``lb_peers``:
    those that backends of peers add today. ``secrets``: bytes by name of the Secret with the peers.
    """

    host: str
    nodes: int
    identities: int | None = None
    endpoints: int | None = None
    services: int | None = None
    lb_own: int | None = None
    lb_peers: int | None = None
    families: int = 1
    max_clusters: int = 255
    lb_most: int = LOAD_BALANCER_ENTRIES
    ipsec: bool = False
    kvstoremesh: bool = True
    replicas: int = 1
    mcs: bool = False
    secrets: Mapping[str, int] = field(default_factory=dict)
    configured: int = 0  # peers in these Secrets

    @property
    def addresses(self) -> int | None:
        """Entries of the ipcache that the cluster brings to every node that knows it."""
        return None if self.endpoints is None else self.families * (self.endpoints + NODE_ADDRESSES * self.nodes)

    @property
    def keys(self) -> int | None:
        """Keys that the cluster publishes to its peers."""
        if self.identities is None or self.endpoints is None or self.services is None:
            return None
        return self.nodes + self.identities + self.families * self.endpoints + self.services

    @property
    def bytes(self) -> int | None:
        """Bytes of these keys."""
        if self.identities is None or self.endpoints is None or self.services is None:
            return None
        addresses = self.families * self.endpoints * ADDRESS_BYTES
        return self.nodes * NODE_BYTES + self.identities * IDENTITY_BYTES + addresses + self.services * SERVICE_BYTES

    @property
    def readers(self) -> int:
        """Processes that read each peer: pods of clustermesh-apiserver, or without kvstoremesh every agent."""
        return self.replicas if self.kvstoremesh else self.nodes

    @property
    def watches(self) -> int:
        """Watches of one reader on one peer."""
        return PREFIXES + int(self.mcs)


def size_of(facts: ClusterFacts, sizes: SizeFacts | None, services: ServiceNumbers | None) -> ClusterSize:
    """Return the size of a cluster from its facts."""
    most, lb_most = max_clusters(facts), setting(facts, "bpf-lb-map-max", str(LOAD_BALANCER_ENTRIES))
    return ClusterSize(
        host=facts.host,
        nodes=len(facts.nodes),
        identities=sizes.identities if sizes else None,
        endpoints=sizes.endpoints if sizes else None,
        services=services.exported if services else None,
        lb_own=services.lb_own if services else None,
        lb_peers=services.lb_peers if services else None,
        families=max(len(ip_versions(facts)), 1),
        max_clusters=int(most) if most in {str(number) for number in IDENTITIES_OF} else min(IDENTITIES_OF),
        lb_most=whole_number(lb_most) or LOAD_BALANCER_ENTRIES,
        ipsec=enabled(facts, "enable-ipsec"),
        kvstoremesh=facts.runs_kvstoremesh,
        replicas=max(facts.apiserver.desired, 1) if facts.apiserver else 1,
        mcs=enabled(facts, "clustermesh-enable-mcs-api"),
        secrets={secret.name: sum(key.size for key in secret.keys.values()) for secret in (facts.clustermesh, facts.kvstoremesh)},
        configured=len({name for name, key in facts.clustermesh.keys.items() if key.config is not None and name != facts.name}),
    )
