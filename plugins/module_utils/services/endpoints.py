# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Number of endpoints of a Service in one cluster, from its EndpointSlices."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..mesh.facts.traffic import Key, TrafficFacts

MIRRORED: Final = "endpointslice-mesh-controller.cilium.io"
"""Manager of slices that Cilium writes for the endpoints of other clusters (pkg/k8s/utils, EndpointSliceMeshControllerName)."""


class EndpointCounts(NamedTuple):
    """Numbers of endpoints of a Service. A pod with addresses of both families counts once."""

    ready: int
    total: int


def endpoint_counts(traffic: TrafficFacts, key: Key) -> EndpointCounts:
    """Return the numbers of the cluster's own endpoints, without those that Cilium mirrors from other clusters."""
    states: dict[str, bool] = {}
    for entry in traffic.slices_by_service.get(key, ()):
        if entry.managed_by == MIRRORED or entry.source_cluster:
            continue
        for endpoint in entry.endpoints:
            name = f"pod {endpoint.pod}" if endpoint.pod else endpoint.address
            states[name] = states.get(name, False) or endpoint.ready
    return EndpointCounts(ready=sum(states.values()), total=len(states))
