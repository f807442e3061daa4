# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The mesh as its users write it. ``parse`` turns the ``cilium_mesh`` variable into values or refuses it as a whole."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

MANAGER_DOMAIN = "cilium-mesh.edge-portal.eu"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A ClusterMeshBinding: metadata name plus spec."""

    name: str
    cluster_refs: tuple[str, ...]  # inventory names
    service_type: str | None = None  # LoadBalancer | NodePort | None: as it runs
    enable_kvstoremesh: bool | None = None
    hubble_enabled: bool | None = None
    hubble_ui: bool | None = None
    workspace: str = ""  # kcp logical cluster; "" outside kcp
    namespace: str = ""

    @property
    def owner(self) -> str:
        """12 hex digits that tell this binding from every other one, also of another workspace."""
        text = f"{self.workspace}\0{self.namespace}\0{self.name}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def manager(self) -> str:
        """Field manager of this binding. One per binding, so that two meshes that share a cluster never prune each other's keys."""
        return f"{MANAGER_DOMAIN}/{self.owner}"


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The binding and, later, what refers to it."""

    binding: Binding

    @property
    def clusters(self) -> tuple[str, ...]:
        return self.binding.cluster_refs

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.clusters)  # linked() is asked for every ordered pair of up to 511 clusters

    def linked(self, local: str, peer: str) -> bool:
        """Does ``local`` connect to ``peer``? Full mesh."""
        return local != peer and local in self._members and peer in self._members

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Ordered pairs (local, peer)."""
        return tuple((a, b) for a in self.clusters for b in self.clusters if self.linked(a, b))
