# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Read of the numbers of identities and endpoints: one small request for each, whatever the number."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ..base.errors import ClusterError
from ..kube.client import Cluster
from ..mesh.facts.cluster import Unread
from ..mesh.facts.sizes import SizeFacts

COUNTED: Final[Mapping[str, str]] = {
    "identities": "/apis/cilium.io/v2/ciliumidentities",
    "endpoints": "/apis/cilium.io/v2/ciliumendpoints",
}
"""Field of ``SizeFacts`` -> API path of the collection. A cluster without the kind has none of it."""


def read_sizes(cluster: Cluster) -> SizeFacts:
    """Return the numbers of one cluster. What cannot be read is unknown, and no error: a mesh can be made without it."""
    found: dict[str, int] = {}
    unread: list[Unread] = []
    for name, path in COUNTED.items():
        try:
            found[name] = cluster.count(path)
        except ClusterError as error:
            unread.append(Unread(what=name, message=error.message, remedy=error.remedy))
    return SizeFacts(host=cluster.host, identities=found.get("identities"), endpoints=found.get("endpoints"), unread=tuple(unread))


def read_all_sizes(clusters: Mapping[str, Cluster], *, parallel: int) -> dict[str, SizeFacts]:
    """Return the numbers of each cluster, by inventory name."""
    if not clusters:
        return {}
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        return dict(zip(clusters, pool.map(read_sizes, clusters.values()), strict=True))
