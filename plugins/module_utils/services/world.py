# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Cilium makes of the Services of a mesh: which cluster exports, which one uses. Of a scene as it is, or as a plan will leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..checks.wording import enabled
from ..facts import ClusterFacts
from ..items.facts import Key, ObjectFacts
from ..items.scene import Scene
from ..versions import cilium_version, holds
from .annotations import is_global, is_shared
from .claims import Place
from .endpoints import Counts, counts

NAMESPACE_GLOBAL: Final = "clustermesh.cilium.io/global"
DEFAULT_GLOBAL: Final = "clustermesh-default-global-namespace"


@dataclass(frozen=True, kw_only=True)
class World:
    """``annotations``, ``stubs`` and ``gone`` (stubs that are deleted): what a plan changes; without them it is the scene itself."""

    scene: Scene
    annotations: Mapping[Place, Mapping[str, str]] = field(default_factory=dict)
    stubs: Mapping[Place, ObjectFacts] = field(default_factory=dict)
    gone: frozenset[Place] = frozenset()
    _exporters: dict[Key, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def service(self, host: str, key: Key) -> ObjectFacts | None:
        if (host, key) in self.gone:
            return None
        return self.scene.traffic[host].services.get(key) or self.stubs.get((host, key))

    def annotations_of(self, host: str, key: Key) -> Mapping[str, str]:
        changed = self.annotations.get((host, key))
        if changed is not None:
            return changed
        service = self.service(host, key)
        return service.annotations if service else {}

    def exports(self, host: str, key: Key) -> bool:
        """Are its backends told to others? Cilium: global, shared, in a global namespace (operator/watchers/service_sync.go)."""
        service = self.service(host, key)
        if service is None or service.spec.get("type") == "ExternalName":
            return False
        return is_shared(self.annotations_of(host, key)) and self.namespace_global(host, key[0])

    def uses(self, host: str, key: Key) -> bool:
        """Does the cluster take backends of others? Only if the Service is there and global there too (issue 23298)."""
        return self.service(host, key) is not None and is_global(self.annotations_of(host, key))

    def exporters(self, key: Key) -> tuple[str, ...]:
        if key not in self._exporters:  # asked for several times per Service and cluster
            self._exporters[key] = tuple(host for host in self.scene.hosts if self.exports(host, key))
        return self._exporters[key]

    def exporters_seen_by(self, host: str, key: Key) -> tuple[str, ...]:
        """Clusters linked with ``host`` that export to it."""
        return tuple(peer for peer in self.exporters(key) if self.scene.mesh.linked(host, peer))

    def consumers(self, key: Key) -> tuple[str, ...]:
        """Members that answer and are linked with a cluster that exports."""
        return tuple(host for host in self.scene.hosts if self.exporters_seen_by(host, key))

    def endpoints(self, host: str, key: Key) -> Counts:
        return counts(self.scene.traffic[host], key)

    def ready(self, hosts: tuple[str, ...], key: Key) -> int:
        return sum(self.endpoints(host, key).ready for host in hosts)

    def namespace_global(self, host: str, namespace: str) -> bool:
        return is_global_namespace(self.scene.facts[host], self.scene.traffic[host].namespaces.get(namespace))


def is_global_namespace(facts: ClusterFacts, namespace: ObjectFacts | None) -> bool:
    """From 1.20 a namespace that is not global tells others nothing (pkg/clustermesh/namespace/manager.go)."""
    if not holds("namespace_filter", cilium_version(facts)):
        return True
    said = namespace.annotations.get(NAMESPACE_GLOBAL) if namespace else None
    return enabled(facts, DEFAULT_GLOBAL, True) if said is None else said.lower() == "true"


def syncs_endpoints(facts: ClusterFacts) -> bool:
    """Does cilium-operator write EndpointSlices for the endpoints of other clusters?"""
    return enabled(facts, "clustermesh-enable-endpoint-sync")
