# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything that was read to explain a way: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..items.facts import PodMeta, TrafficFacts
from ..items.labels import matches
from ..items.scene import Scene
from .question import Side

PODS_LOOKED_AT = 5  # of each end; pods of one workload are alike


@dataclass(frozen=True, kw_only=True)
class EndpointIdentity:
    """A CiliumEndpoint: the agent's own word on a pod. ``id`` 0: it has no identity yet."""

    id: int
    state: str  # ready, waiting-for-identity, ...
    labels: tuple[str, ...] = ()  # security labels with their source, e.g. "k8s:app=web"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """``identities``: (inventory name, namespace, pod) -> its CiliumEndpoint, None when it has none; pods that were asked for."""

    scene: Scene
    links: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # (local, peer) -> row of status.links
    identities: Mapping[tuple[str, str, str], EndpointIdentity | None] = field(default_factory=dict)
    unread_identities: Mapping[str, str] = field(default_factory=dict)  # inventory name -> why CiliumEndpoints could not be read there

    def traffic(self, cluster: str) -> TrafficFacts | None:
        return self.scene.traffic.get(cluster)

    def why_silent(self, cluster: str) -> str:
        failure = self.scene.failures.get(cluster)
        return failure.message if failure else "it was not asked"


def pods_of(traffic: TrafficFacts, side: Side) -> tuple[PodMeta, ...]:
    """The pods that a side names, by their metadata."""
    found = traffic.pods_by_namespace.get(side.namespace, ())
    if side.pod:
        return tuple(pod for pod in found if pod.name == side.pod)
    return tuple(pod for pod in found if side.labels and matches(side.labels, pod.labels))
