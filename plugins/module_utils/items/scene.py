# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scene: the observation that planning an item uses. Values only, no clock, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..mesh.binding.model import Binding, Mesh
from ..mesh.facts.cluster import ClusterFacts, ObserveFailure
from ..mesh.facts.traffic import TrafficFacts

CONNECTED_PHASES = frozenset({"Connected", "Degraded"})
"""Phases of a binding in which its items are carried out (the prerequisite of a GlobalService and of a ConnectivityIntent)."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Facts and traffic of all clusters at one moment."""

    mesh: Mesh
    now: datetime  # aware, UTC
    facts: Mapping[str, ClusterFacts]  # by inventory name; only members that answered
    traffic: Mapping[str, TrafficFacts]  # the same keys as ``facts``, unless reading failed there
    failures: Mapping[str, ObserveFailure] = field(default_factory=dict)  # members that did not answer, or whose traffic could not be read
    names: Mapping[str, str] = field(default_factory=dict)  # inventory name -> cluster-name; of silent members as the registry has it
    phase: str = ""  # of the binding; "" was not measured
    dead: frozenset[str] = frozenset()  # members to which no link of any member that answers works, proven just now
    link_errors: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (local, peer) -> stage and error of a link that is not ready

    @property
    def binding(self) -> Binding:
        """Binding of the mesh."""
        return self.mesh.binding

    @property
    def hosts(self) -> tuple[str, ...]:
        """Members whose traffic is known, in the order of the binding."""
        return tuple(host for host in self.mesh.clusters if host in self.traffic and host in self.facts)

    @property
    def silent(self) -> tuple[str, ...]:
        """Members of which nothing is known."""
        return tuple(host for host in self.mesh.clusters if host not in self.hosts)
