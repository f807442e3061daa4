# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Limits of a mesh, as data: what is bounded, at how much, by which source, and what happens there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Bound(StrEnum):
    """Names of the limits, as results have them."""

    CLUSTERS = "clusters"
    IDENTITIES = "identities"
    IPSEC_NODES = "ipsec-nodes"
    IPCACHE = "ipcache"
    LOAD_BALANCER = "load-balancer"
    SECRET = "secret"
    KVSTORE = "kvstore"
    NODES = "nodes"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit of a cluster in a mesh. ``estimate``: the use is a lower bound, from numbers of objects and typical sizes."""

    title: str
    source: str
    consequence: str  # what happens beyond it
    remedy: str
    estimate: bool = False


IDENTITIES_OF: Final[Mapping[int, int]] = {255: 65_535, 511: 32_767}
"""``max-connected-clusters`` -> identities of one cluster."""

IPSEC_NODES: Final = 65_535
IPCACHE_ENTRIES: Final = 512_000
LOAD_BALANCER_ENTRIES: Final = 65_536
SECRET_BYTES: Final = 1024 * 1024
KVSTORE_BYTES: Final = 2 * 1024**3
NODES_OF_A_CLUSTER: Final = 5_000

LIMITS: Final[Mapping[Bound, Limit]] = {
    Bound.CLUSTERS: Limit(
        title="clusters with which one can be connected, itself included",
        source="cilium-config max-connected-clusters: 255, or 511 (Cilium docs, network/clustermesh/setup)",
        consequence="no cluster id is left for another cluster",
        remedy="Only a new installation of every cluster can have 511 (it cannot be changed later). Or link fewer clusters (topology).",
    ),
    Bound.IDENTITIES: Limit(
        title="security identities of one cluster",
        source="an identity has 16 bits for its number with 255 clusters, 15 with 511 (Cilium docs, network/clustermesh/setup)",
        consequence="new pods get no identity and do not start",
        remedy="Leave labels that change with every pod out of identities (Helm value labels; Cilium docs, operations/performance).",
    ),
    Bound.IPSEC_NODES: Limit(
        title="nodes of a cluster and its peers together, with IPsec",
        source="node ids have 16 bits (Cilium docs, security/network/encryption-ipsec, limitations; PR 26810)",
        consequence="further nodes get no id, and traffic to them cannot be encrypted",
        remedy="Use WireGuard, or link fewer clusters (topology).",
    ),
    Bound.IPCACHE: Limit(
        title="addresses in the ipcache of each node: endpoints and nodes of the cluster and its peers",
        source="pkg/maps/ipcache, MaxEntries = 512000; it is no setting",
        consequence="further addresses have no identity, so policies drop their traffic",
        remedy="Link fewer clusters (topology), or keep namespaces from the mesh (clustermesh.cilium.io/global, from 1.19).",
        estimate=True,
    ),
    Bound.LOAD_BALANCER: Limit(
        title="entries for Services and their backends in the load balancer of each node",
        source="cilium-config bpf-lb-map-max, default 65536 (Cilium docs, network/ebpf/maps)",
        consequence="further Services or backends are not served",
        remedy="Raise Helm value bpf.lbMapMax, and restart the agents.",
        estimate=True,
    ),
    Bound.SECRET: Limit(
        title="bytes of the Secret with the peers",
        source="Kubernetes API, core/v1 MaxSecretSize: 1 MiB",
        consequence="every further write of it is refused (CM-CERT-12)",
        remedy="Give the clusters one CA, so that no certificate is kept for each peer, or link fewer clusters (topology).",
    ),
    Bound.KVSTORE: Limit(
        title="bytes in the mesh etcd, with what kvstoremesh keeps of the peers",
        source="etcd docs, op-guide/configuration: quota-backend-bytes, default 2 GiB; the charts 1.16 to 1.20 do not set it",
        consequence="etcd takes no further write, and peers receive no change",
        remedy="Link fewer clusters (topology), or keep namespaces from the mesh (clustermesh.cilium.io/global, from 1.19).",
        estimate=True,
    ),
    Bound.NODES: Limit(
        title="nodes of one cluster",
        source="Kubernetes docs, setup/best-practices/cluster-large: no more than 5,000 nodes",
        consequence="Kubernetes is not tested beyond it",
        remedy="Make another cluster.",
    ),
}
"""The limits by name, with their sources."""
