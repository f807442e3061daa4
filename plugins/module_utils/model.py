# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The mesh as its users write it. ``parse`` turns the ``cilium_mesh`` variable into values or refuses it as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from .topology import Topology

MANAGER_DOMAIN = "cilium-mesh.edge-portal.eu"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A ClusterMeshBinding: metadata name plus spec."""

    name: str
    cluster_refs: tuple[str, ...]  # inventory names
    topology: Topology = field(default_factory=Topology)
    service_type: str | None = None  # LoadBalancer | NodePort | None: as it runs
    enable_kvstoremesh: bool | None = None
    hubble_enabled: bool | None = None
    hubble_ui: bool | None = None
    workspace: str = ""  # kcp logical cluster; "" outside kcp
    namespace: str = ""
    generation: int = 0  # metadata.generation of the custom resource; 0 outside kcp

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
        """Does ``local`` connect to ``peer``, and so ``peer`` to ``local``? Only members do."""
        return local in self._members and peer in self._members and self.binding.topology.linked(local, peer)

    def peers(self, local: str) -> tuple[str, ...]:
        """Whom ``local`` connects to, in the order of the members."""
        return self.binding.topology.peers(local, self.clusters) if local in self._members else ()

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Ordered pairs (local, peer)."""
        return tuple((local, peer) for local in self.clusters for peer in self.peers(local))

    def among(self, hosts: Iterable[str]) -> Mesh:
        """The part of the mesh that lies within ``hosts``: the same binding, and so the same owner, with these members and their links."""
        kept = frozenset(hosts)
        if kept >= self._members:
            return self
        refs = tuple(host for host in self.clusters if host in kept)
        return Mesh(binding=replace(self.binding, cluster_refs=refs, topology=self.binding.topology.among(refs)))

    @cached_property
    def seen_together(self) -> tuple[Mesh, ...]:
        """Parts of the mesh in which every two clusters are linked or have a peer in common: names, ids, addresses have to differ there."""
        return tuple(self.among(group) for group in self.binding.topology.seen_together(self.clusters))

    @cached_property
    def tied_together(self) -> tuple[Mesh, ...]:
        """Parts of the mesh that links tie together, directly or over others: there, whatever both ends of a link share has to be equal."""
        return tuple(self.among(group) for group in self.binding.topology.tied_together(self.clusters))
