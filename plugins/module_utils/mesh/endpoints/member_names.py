# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""DNS names that the members of a mesh have, and those that they dial, read off their facts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..facts.cluster import ClusterFacts
from .dialled import URL
from .endpoint import split_host_port
from .names import MESH_DOMAIN, canonical_name


def alias_names(members: Mapping[str, ClusterFacts]) -> Mapping[str, frozenset[str]]:
    """Return the names that other clusters may have as host aliases, each with the inventory names of the members that it is for."""
    found: dict[str, set[str]] = {}
    for host, cluster in members.items():
        for domain in (MESH_DOMAIN, *cluster.endpoint_domains):
            found.setdefault(f"{cluster.name}.{domain}", set()).add(host)
    return {name: frozenset(hosts) for name, hosts in found.items()}


def names_in_use(members: Mapping[str, ClusterFacts]) -> Mapping[str, frozenset[str]]:
    """Return the names of endpoints and those that are dialled, each with the inventory names of the members to which it belongs.

    A name that a member dials for a peer belongs to the peer.
    """
    by_name: dict[str, list[str]] = {}
    for host, cluster in members.items():
        by_name.setdefault(cluster.name, []).append(host)
    found: dict[str, set[str]] = {}
    for host, cluster in members.items():
        for name in _names_of(cluster):
            found.setdefault(canonical_name(name), set()).add(host)
        for secret in (cluster.kvstoremesh, cluster.clustermesh):
            for key, entry in secret.keys.items():
                for url in URL.finditer(entry.config or ""):
                    found.setdefault(canonical_name(url[2] or url[1]), set()).update(by_name.get(key, (host,)))
    return {name: frozenset(hosts) for name, hosts in found.items()}


def _names_of(cluster: ClusterFacts) -> Iterator[str]:
    """Yield the DNS names at which a cluster itself is reached: those of its mesh endpoint, and the one of its API server."""
    override = split_host_port(cluster.endpoint_override)
    if override is not None:
        yield override[0]
    if cluster.service is not None:
        yield from cluster.service.ingress_hostnames
    for workload in (cluster.agent, cluster.apiserver, cluster.operator):
        for environment in workload.environment.values() if workload else ():
            yield environment.get("KUBERNETES_SERVICE_HOST", "")  # Helm value k8sServiceHost
