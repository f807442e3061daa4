# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An outage of a mesh of three clusters that grows step by step, as readers and API servers show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import timestamp
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    ClusterFacts,
    LinkFacts,
    ReaderFacts,
    WriterFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from tests.testing.facts_builders import NOW, cluster_facts, failure, key_facts, link_facts, mesh_of, not_ready, peer_secret, reader_facts

HOSTS: Final = ("c1", "c2", "c3")
MESH: Final = mesh_of(*HOSTS)
COUNTED: Final = {"nodes": 3, "services": 2, "endpoints": 40, "identities": 7}
SEVERITY: Final = {"Connected": 0, "Pending": 1, "Connecting": 1, "Degraded": 2, "Error": 3}
STEPS: Final = st.one_of(st.sampled_from(MESH.links), st.sampled_from(HOSTS))
"""A link is known a little better to be lost, or the API server of a cluster falls silent."""
AGES: Final = st.sampled_from([None, timedelta(minutes=1), timedelta(minutes=20)])
MOST: Final = 4


def link_reports(cluster: str, peer: str, loss: int, *, arrived: Mapping[str, int] = COUNTED) -> tuple[LinkFacts, ...]:
    """What the readers report of a link that is known better and better to be lost.

    :param loss: 0: it works; 1: a new connection fails; 2: kvstoremesh has noticed it; 3: the agents have; 4: kvstoremesh has forgotten
        the peer.
    :param arrived: what readers have of the peer. They keep it when the connection ends.
    """
    first = link_facts(cluster, peer, arrived=arrived)
    agents = reader_facts(cluster, [peer]).links[1:]
    reports = (
        first,
        replace(first, proof="refuted", error="refused"),
        not_ready(first),
        not_ready(first),
        not_ready(first, known=False, arrived={}),
    )
    return reports[loss], *(replace(one if loss < 3 else not_ready(one), arrived=arrived) for one in agents)


def reader_of(cluster: str, losses: Mapping[tuple[str, str], int], **options: Any) -> ReaderFacts:
    """Readers of a cluster with several peers; ``losses`` by link."""
    found = [link_reports(*link, loss, **options) for link, loss in losses.items() if link[0] == cluster]
    return reader_facts(cluster, [], links=tuple(report for reports in found for report in reports))


def linked_clusters(age: timedelta | None) -> dict[str, ClusterFacts]:
    """Facts of the clusters, whose links were written so long ago; None: nothing says when."""
    found = {}
    for host in HOSTS:
        secret = peer_secret("cilium-kvstoremesh", {peer: key_facts("x") for peer in HOSTS if peer != host})
        writers = [] if age is None else [WriterFacts(manager="m", operation="Apply", time=timestamp(NOW - age))]
        found[host] = replace(cluster_facts(host), kvstoremesh=secret, writers={"Secret cilium-kvstoremesh": tuple(writers)})
    return found


@dataclass
class Outage:
    """An outage so far. It only grows."""

    facts: Mapping[str, ClusterFacts]
    losses: dict[tuple[str, str], int] = field(default_factory=lambda: dict.fromkeys(MESH.links, 0))
    silent: set[str] = field(default_factory=set)
    seconds: int = 0

    def grow(self, step: tuple[str, str] | str) -> None:
        """Take a step of ``STEPS``."""
        if isinstance(step, str):
            self.silent.add(step)
        else:
            self.losses[step] = min(MOST, self.losses[step] + 1)

    def measured(self, **options: Any) -> dict[str, Any]:
        """Status of the binding, as a run measures it a second after the one before."""
        self.seconds += 1
        up = {host: facts for host, facts in self.facts.items() if host not in self.silent}
        readers, failures = {host: reader_of(host, self.losses) for host in up}, {host: failure(host) for host in self.silent}
        return build_status(MESH, up, failures, readers, now=NOW + timedelta(seconds=self.seconds), **options)
