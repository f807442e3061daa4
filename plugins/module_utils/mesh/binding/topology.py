# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Topology of a mesh: which members are linked.

In FullMesh every two members are linked, in HubAndSpoke spokes with hubs, in Pairs the named pairs. Two clusters always have links in both
directions: services, identities and health of a Cilium Cluster Mesh mean nothing one way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Mode(StrEnum):
    """Topology mode: the value of ``binding.topology.mode``."""

    FULL_MESH = "FullMesh"
    HUB_AND_SPOKE = "HubAndSpoke"  # hubs are linked with all members, also with each other
    PAIRS = "Pairs"


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Value of ``binding.topology``, in inventory names. Its methods expect members only."""

    mode: Mode = Mode.FULL_MESH
    hubs: tuple[str, ...] = ()  # of HubAndSpoke
    pairs: tuple[tuple[str, str], ...] = ()  # of Pairs; the order within a pair means nothing

    @cached_property
    def _hubs(self) -> frozenset[str]:
        return frozenset(self.hubs)

    @cached_property
    def _pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(pair for a, b in self.pairs for pair in ((a, b), (b, a)))

    def linked(self, one: str, other: str) -> bool:
        """Return whether two members are linked. O(1): it is called for every ordered pair of up to 511 clusters."""
        if self.mode is Mode.FULL_MESH:
            return one != other
        if self.mode is Mode.HUB_AND_SPOKE:
            return one != other and (one in self._hubs or other in self._hubs)
        return (one, other) in self._pairs

    def peers(self, local: str, members: Sequence[str]) -> tuple[str, ...]:
        """Return the members that ``local`` is linked with, in their order."""
        if self.mode is Mode.FULL_MESH:
            return tuple(peer for peer in members if peer != local)
        return tuple(peer for peer in members if self.linked(local, peer))

    def among(self, members: Iterable[str]) -> Topology:
        """Return the topology reduced to ``members``."""
        kept = frozenset(members)
        pairs = tuple(pair for pair in self.pairs if kept.issuperset(pair))
        return Topology(mode=self.mode, hubs=tuple(hub for hub in self.hubs if hub in kept), pairs=pairs)

    def common_peer_groups(self, members: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return groups in which every two members are linked or have a common peer; each two such members are in one of them.

        A cluster keeps names, ids and addresses of all its peers in one place, so that these have to differ from each other too, not
        only from its own (Cilium: identities carry the id of their cluster, the ipcache is one map).
        """
        if self.mode is Mode.FULL_MESH:
            return (tuple(members),)
        rank = {member: place for place, member in enumerate(members)}
        groups = {frozenset((member, *self.peers(member, members))) for member in members}
        largest = [sorted(group, key=rank.__getitem__) for group in groups if not any(group < other for other in groups)]
        return tuple(tuple(group) for group in sorted(largest, key=lambda group: [rank[member] for member in group]))

    def connected_components(self, members: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return groups of members that links connect, directly or over others.

        A value that must be equal along every link is equal in such a group.
        """
        if self.mode is Mode.FULL_MESH:
            return (tuple(members),)
        return tuple(self._ties(members))

    def _ties(self, members: Sequence[str]) -> Iterator[tuple[str, ...]]:
        left = dict.fromkeys(members)
        while left:
            found, open_ends = set[str](), [*left][:1]
            while open_ends:
                member = open_ends.pop()
                if member not in found:
                    found.add(member)
                    open_ends += self.peers(member, members)
            yield tuple(member for member in members if member in found)
            left = {member: None for member in left if member not in found}
