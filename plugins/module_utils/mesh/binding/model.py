# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The binding and its mesh as values. ``parse`` builds them from the ``cilium_mesh`` variable or refuses it as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from .item_kinds import ItemKind
from .topology import Topology
from .waivers import Waiver

Known = TypeVar("Known")

MANAGER_DOMAIN = "cilium-mesh.edge-portal.eu"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """ClusterMeshBinding: metadata name plus spec."""

    name: str
    cluster_refs: tuple[str, ...]  # inventory names
    topology: Topology = field(default_factory=Topology)
    service_type: str | None = None  # LoadBalancer | NodePort | None: leave it as it is
    enable_kvstoremesh: bool | None = None
    hubble_enabled: bool | None = None
    hubble_ui: bool | None = None
    trust: str = ""  # a member of TrustMode; "": the option of the run decides
    node_addresses: str = ""  # InternalIP | ExternalIP; "": the option of the run decides
    waivers: tuple[Waiver, ...] = ()
    workspace: str = ""  # kcp logical cluster; "" outside kcp
    namespace: str = ""
    generation: int = 0  # metadata.generation of the custom resource; 0 outside kcp

    @cached_property
    def owner(self) -> str:
        """Owner hash: 12 hex digits that distinguish this binding from every other one, also from one of another workspace."""
        text = f"{self.workspace}\0{self.namespace}\0{self.name}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def manager(self) -> str:
        """Field manager of this binding.

        There is one per binding, so that two meshes with a common cluster never prune each other's keys.
        """
        return f"{MANAGER_DOMAIN}/{self.owner}"


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """Clusters that one binding connects, with their links."""

    binding: Binding
    item_lists: tuple[ItemKind, ...] = ()  # lists beside the binding that have an entry, whatever it is

    @property
    def clusters(self) -> tuple[str, ...]:
        """Inventory names of the members, in the order of the binding."""
        return self.binding.cluster_refs

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.clusters)  # linked() is called for every ordered pair of up to 511 clusters

    def linked(self, local: str, peer: str) -> bool:
        """Return whether ``local`` and ``peer`` are members with links to each other."""
        return local in self._members and peer in self._members and self.binding.topology.linked(local, peer)

    def peers(self, local: str) -> tuple[str, ...]:
        """Return the peers of ``local``, in the order of the members."""
        return self._peers.get(local, ())

    @cached_property
    def _peers(self) -> Mapping[str, tuple[str, ...]]:
        return {local: self.binding.topology.peers(local, self.clusters) for local in self.clusters}  # a run asks many times for each

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Links as ordered pairs (local, peer)."""
        return tuple((local, peer) for local in self.clusters for peer in self.peers(local))

    def members_in(self, known: Mapping[str, Known]) -> dict[str, Known]:
        """Return the entries of ``known`` (by inventory name) that are of members, in the order of the mesh."""
        return {host: known[host] for host in self.clusters if host in known}

    def among(self, hosts: Iterable[str]) -> Mesh:
        """Return the part of the mesh within ``hosts``: the same binding, and so the same owner, with these members and their links."""
        kept = frozenset(hosts)
        if kept >= self._members:
            return self
        refs = tuple(host for host in self.clusters if host in kept)
        return Mesh(binding=replace(self.binding, cluster_refs=refs, topology=self.binding.topology.among(refs)))

    @cached_property
    def common_peer_groups(self) -> tuple[Mesh, ...]:
        """Parts of the mesh in which every two clusters are linked or have a common peer.

        Cluster names, ids and addresses have to be unique within each of them.
        """
        return tuple(self.among(group) for group in self.binding.topology.common_peer_groups(self.clusters))

    @cached_property
    def connected_components(self) -> tuple[Mesh, ...]:
        """Parts of the mesh that links connect, directly or over others.

        A value that both ends of a link have to share must be equal within each of them.
        """
        return tuple(self.among(group) for group in self.binding.topology.connected_components(self.clusters))
