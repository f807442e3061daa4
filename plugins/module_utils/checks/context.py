# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The context of the checks: their inputs, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from ..etcd.peer_records import PeerRecords
from ..leases.agreement import mesh_registry
from ..leases.registry import Registry
from ..mesh.binding.model import Mesh
from ..mesh.binding.waivers import WaiverKind
from ..mesh.facts.cluster import ClusterFacts, ObserveFailure, ProbeResult
from ..mesh.facts.sizes import SizeFacts
from ..mesh.link_decisions import LinkDecisions

HELD: Final = "CM-EP-09"
"""Code of the finding about new addresses that are held back. If a user accepts it, they are written."""


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Inputs of the checks: values only, no connection to a cluster."""

    decisions: LinkDecisions  # about the links of the whole mesh, from the facts of the clusters that answered
    failures: Mapping[str, ObserveFailure]  # by inventory name; clusters that did not
    accept: frozenset[str] = field(default_factory=frozenset)  # codes that the user accepts
    tolerated: frozenset[str] = field(default_factory=frozenset)  # members without an answer that do not stop the run (mesh/tolerance.py)
    excluded: frozenset[str] = frozenset()  # members that were observed and cannot take part (checks/offenders.py); ``facts`` lacks them
    max_failures: int | None = None  # as the option; None: members may be silent if the mesh tolerates it
    former: Mapping[str, ClusterFacts] = field(default_factory=dict)  # by inventory name; former members, observed to withdraw their links
    former_failures: Mapping[str, ObserveFailure] = field(default_factory=dict)  # by inventory name; former members that did not answer
    peer_records: Mapping[str, PeerRecords] = field(
        default_factory=dict
    )  # by inventory name; what each member publishes about itself (etcd/peer_records.py)
    sizes: Mapping[str, SizeFacts] = field(default_factory=dict)  # by inventory name; numbers of objects, which verify reads
    take_back: frozenset[str] = field(default_factory=frozenset)  # returning clusters that the user vouches for (leases/tombstones.py)
    part: Mesh | None = None  # the part of the mesh that is checked; None: the whole
    probes: tuple[ProbeResult, ...] = ()  # TLS handshakes that the caller made from the controller (observe/tls_probe.py)

    @property
    def mesh(self) -> Mesh:
        """The mesh that is checked; in a check of parts of a mesh: the part."""
        return self.part or self.decisions.mesh

    @property
    def facts(self) -> Mapping[str, ClusterFacts]:
        """Facts of the clusters that answered, by inventory name."""
        return self.decisions.facts

    @property
    def now(self) -> datetime:
        """Time of the run, aware, UTC."""
        return self.decisions.now

    @property
    def left_out(self) -> tuple[str, ...]:
        """Members that were not asked at all: --limit, or the hosts pattern of the play, leaves them out."""
        known = {*self.facts, *self.failures, *self.excluded}
        return tuple(host for host in self.mesh.clusters if host not in known)

    @cached_property
    def leases(self) -> Registry:
        """What the copies of the leases agree on that the members of the whole mesh keep, whichever part of it is checked."""
        mesh = self.decisions.mesh
        return mesh_registry(mesh, mesh.members_in(self.facts))

    def acceptance(self, code: str) -> str:
        """Return why and until when the binding accepts a finding; "" if it does not, and the code is accepted for one run."""
        waived = (entry for entry in self.mesh.binding.waivers if entry.kind is WaiverKind.ACCEPT and entry.subject == code)
        return next((f"accepted until {entry.until:%Y-%m-%d}: {entry.reason}" for entry in waived if entry.in_force(self.now)), "")


def members(context: CheckContext) -> tuple[ClusterFacts, ...]:
    """Return the members that answered and run Cilium, each once even if two hosts of the inventory are the same cluster."""
    found: list[ClusterFacts] = []
    seen: set[str] = set()
    for host in context.mesh.clusters:
        facts = context.facts.get(host)
        if facts is None or facts.config is None or (facts.uid and facts.uid in seen):
            continue
        seen.add(facts.uid)
        found.append(facts)
    return tuple(found)
