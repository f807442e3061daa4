# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""View of which clusters export and use the Services of a mesh, for a scene as it is, or as a plan will leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..items.scene import Scene
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import Key, ObjectFacts
from ..mesh.versions.cilium_config import enabled
from ..mesh.versions.minors import cilium_version, holds
from .annotations import is_global, is_shared
from .assignment import Place
from .endpoints import EndpointCounts, endpoint_counts

NAMESPACE_GLOBAL: Final = "clustermesh.cilium.io/global"
DEFAULT_GLOBAL: Final = "clustermesh-default-global-namespace"


@dataclass(frozen=True, kw_only=True)
class MeshView:
    """Services of a mesh as Cilium uses them.

    ``annotations``, ``stubs`` and ``gone`` (stubs that are deleted) are the changes of a plan; without them it is the scene itself.
    """

    scene: Scene
    annotations: Mapping[Place, Mapping[str, str]] = field(default_factory=dict)
    stubs: Mapping[Place, ObjectFacts] = field(default_factory=dict)
    gone: frozenset[Place] = frozenset()
    _exporters: dict[Key, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _global: dict[tuple[str, str], bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def service(self, host: str, key: Key) -> ObjectFacts | None:
        """Return the Service in the cluster; None without one."""
        if (host, key) in self.gone:
            return None
        return self.scene.traffic[host].services.get(key) or self.stubs.get((host, key))

    def annotations_of(self, host: str, key: Key) -> Mapping[str, str]:
        """Return the annotations of the Service in the cluster."""
        changed = self.annotations.get((host, key))
        if changed is not None:
            return changed
        service = self.service(host, key)
        return service.annotations if service else {}

    def exports(self, host: str, key: Key) -> bool:
        """Return whether the cluster exports the backends of the Service.

        Cilium exports a Service that is global, shared, and in a global namespace (operator/watchers/service_sync.go).
        """
        service = self.service(host, key)
        if service is None or service.spec.get("type") == "ExternalName":
            return False
        return is_shared(self.annotations_of(host, key)) and self.namespace_global(host, key[0])

    def uses(self, host: str, key: Key) -> bool:
        """Return whether the cluster uses backends of others: only if the Service exists and is global there (issue 23298)."""
        return self.service(host, key) is not None and is_global(self.annotations_of(host, key))

    def exporters(self, key: Key) -> tuple[str, ...]:
        """Return the clusters that export the Service."""
        if key not in self._exporters:  # used several times per Service and cluster
            self._exporters[key] = tuple(host for host in self.scene.hosts if self.exports(host, key))
        return self._exporters[key]

    def exporters_seen_by(self, host: str, key: Key) -> tuple[str, ...]:
        """Return the clusters linked with ``host`` that export to it."""
        return tuple(peer for peer in self.exporters(key) if self.scene.mesh.linked(host, peer))

    def consumers(self, key: Key) -> tuple[str, ...]:
        """Return the members that answer and are linked with a cluster that exports."""
        return tuple(host for host in self.scene.hosts if self.exporters_seen_by(host, key))

    def endpoints(self, host: str, key: Key) -> EndpointCounts:
        """Return the numbers of the cluster's own endpoints."""
        return endpoint_counts(self.scene.traffic[host], key)

    def ready(self, hosts: tuple[str, ...], key: Key) -> int:
        """Return the number of ready endpoints in the clusters together."""
        return sum(self.endpoints(host, key).ready for host in hosts)

    def namespace_global(self, host: str, namespace: str) -> bool:
        """Return whether the namespace is global in the cluster."""
        if (host, namespace) not in self._global:  # used several times per Service and cluster
            found = self.scene.traffic[host].namespaces.get(namespace)
            self._global[host, namespace] = exports_services(self.scene.facts[host], found)
        return self._global[host, namespace]

    def namespace_known(self, host: str, namespace: str) -> bool:
        """Return whether other clusters know the identities of the pods of the namespace."""
        return exports_identities(self.scene.facts[host], self.scene.traffic[host].namespaces.get(namespace))


def exports_services(facts: ClusterFacts, namespace: ObjectFacts | None) -> bool:
    """Return whether the Services of the namespace are exported (operator/watchers/service_sync.go of 1.20)."""
    return not holds("namespace_filter", cilium_version(facts)) or _is_global(facts, namespace)


def exports_identities(facts: ClusterFacts, namespace: ObjectFacts | None) -> bool:
    """Return whether the identities and endpoints of the pods of the namespace are exported.

    1.19 reads the annotation already, and not yet the key of cilium-config (clustermesh-apiserver/clustermesh/synchronizer.go).
    """
    return not holds("namespace_identities", cilium_version(facts)) or _is_global(facts, namespace)


def _is_global(facts: ClusterFacts, namespace: ObjectFacts | None) -> bool:
    said = namespace.annotations.get(NAMESPACE_GLOBAL) if namespace else None
    return enabled(facts, DEFAULT_GLOBAL, True) if said is None else said.lower() == "true"


def syncs_endpoints(facts: ClusterFacts) -> bool:
    """Return whether cilium-operator writes EndpointSlices for the endpoints of other clusters."""
    return enabled(facts, "clustermesh-enable-endpoint-sync")
