# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How many endpoints a Service has in one cluster, from its EndpointSlices."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..items.facts import Key, TrafficFacts

MIRRORED: Final = "endpointslice-mesh-controller.cilium.io"
"""Who manages slices that Cilium writes for the endpoints of other clusters (pkg/k8s/utils, EndpointSliceMeshControllerName)."""


class Counts(NamedTuple):
    """Endpoints of a Service. A pod with addresses of both families counts once."""

    ready: int
    total: int


def counts(traffic: TrafficFacts, key: Key) -> Counts:
    """The cluster's own endpoints; those that Cilium mirrors from other clusters are not among them."""
    states: dict[str, bool] = {}
    for entry in traffic.slices_by_service.get(key, ()):
        if entry.managed_by == MIRRORED or entry.source_cluster:
            continue
        for endpoint in entry.endpoints:
            name = f"pod {endpoint.pod}" if endpoint.pod else endpoint.address
            states[name] = states.get(name, False) or endpoint.ready
    return Counts(ready=sum(states.values()), total=len(states))
