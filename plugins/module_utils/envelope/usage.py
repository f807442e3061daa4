# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Use of each limit in each cluster of a mesh, and the loads that have no documented limit: keys and watches of the mesh etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .cluster_size import ClusterSize
from .limits import IDENTITIES_OF, IPCACHE_ENTRIES, IPSEC_NODES, KVSTORE_BYTES, NODES_OF_A_CLUSTER, SECRET_BYTES, Bound

Peers = Callable[[str], Sequence[str]]
"""Inventory name -> inventory names of the clusters with which it is linked."""


class LimitUsage(NamedTuple):
    """Use of one limit in one cluster. ``used`` None: a number is not known, and ``unknown`` names the clusters."""

    bound: Bound
    cluster: str
    used: int | None
    most: int
    detail: str = ""  # name of the Secret
    unknown: tuple[str, ...] = ()

    @property
    def percent(self) -> int | None:
        """Use in whole percent, rounded down: a limit is at 100 when nothing is left."""
        return None if self.used is None else 100 * self.used // self.most


class Load(NamedTuple):
    """Keys in the mesh etcd of one cluster, and its watches. None: a number is not known."""

    cluster: str
    keys: int | None  # of the cluster itself
    cached: int | None  # of its peers, as kvstoremesh keeps them; 0 without kvstoremesh
    watches_of_peers: int
    watches_of_agents: int  # of the cluster's own agents, for the peers behind kvstoremesh
    connections: int


def usages(sizes: Mapping[str, ClusterSize], peers: Peers) -> tuple[LimitUsage, ...]:
    """Return the use of every limit in every cluster."""
    return tuple(usage for size in sizes.values() for usage in _usages_of(size, [sizes[p] for p in peers(size.host) if p in sizes], peers))


def _usages_of(size: ClusterSize, linked: Sequence[ClusterSize], peers: Peers) -> Iterator[LimitUsage]:
    host, known = size.host, (size, *linked)
    yield LimitUsage(Bound.CLUSTERS, host, 1 + len(peers(host)), size.max_clusters)
    yield LimitUsage(Bound.NODES, host, size.nodes, NODES_OF_A_CLUSTER)
    yield LimitUsage(Bound.IDENTITIES, host, size.identities, IDENTITIES_OF[size.max_clusters], unknown=_unknown([size], "identities"))
    if size.ipsec:
        yield LimitUsage(Bound.IPSEC_NODES, host, sum(entry.nodes for entry in known), IPSEC_NODES)
    yield LimitUsage(Bound.IPCACHE, host, _sum(known, "addresses"), IPCACHE_ENTRIES, unknown=_unknown(known, "addresses"))
    lb = None if size.lb_own is None or size.lb_peers is None else size.lb_own + size.lb_peers
    yield LimitUsage(Bound.LOAD_BALANCER, host, lb, size.lb_most, unknown=() if lb is not None else (host,))
    kept = known if size.kvstoremesh else (size,)
    yield LimitUsage(Bound.KVSTORE, host, _sum(kept, "bytes"), KVSTORE_BYTES, unknown=_unknown(kept, "bytes"))
    for name, used in size.secrets.items():
        yield LimitUsage(Bound.SECRET, host, used, SECRET_BYTES, detail=name)


def etcd_loads(sizes: Mapping[str, ClusterSize], peers: Peers) -> tuple[Load, ...]:
    """Return the keys and watches of every cluster's mesh etcd."""
    found = []
    for size in sizes.values():
        linked = [sizes[peer] for peer in peers(size.host) if peer in sizes]
        found.append(
            Load(
                cluster=size.host,
                keys=size.keys,
                cached=_sum(linked, "keys") if size.kvstoremesh else 0,
                watches_of_peers=sum(peer.readers * peer.watches for peer in linked),
                watches_of_agents=size.nodes * len(linked) * size.watches if size.kvstoremesh else 0,
                connections=sum(peer.readers for peer in linked) + (size.nodes if size.kvstoremesh else 0),
            )
        )
    return tuple(found)


def _sum(sizes: Sequence[ClusterSize], name: str) -> int | None:
    values = [getattr(size, name) for size in sizes]
    return None if any(value is None for value in values) else sum(values)


def _unknown(sizes: Sequence[ClusterSize], name: str) -> tuple[str, ...]:
    return tuple(size.host for size in sizes if getattr(size, name) is None)
