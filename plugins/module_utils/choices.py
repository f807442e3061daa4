# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How the links of one mesh are made: the endpoint of each cluster, the trust of each ordered pair, each decided once.

Checks and planner ask the same questions, in a mesh of 255 clusters 65,000 pairs of them, and have to come to the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

from .endpoints import Endpoint, EndpointProblem, endpoint_of
from .facts import ClusterFacts
from .model import Mesh
from .trust import Trust, TrustProblem, choose_trust


class Choices:
    """A pure function of its arguments, remembered. Not for several threads at once.

    :param facts: by inventory name; clusters outside the mesh are ignored.
    :param now: aware, UTC.
    :param trust: as in ``choose_trust``, ``forced``.
    :param node_addresses: as in ``endpoint_of``.
    :param resolved: as in ``endpoint_of``.
    """

    def __init__(
        self,
        mesh: Mesh,
        facts: Mapping[str, ClusterFacts],
        *,
        now: datetime,
        trust: str = "auto",
        node_addresses: str = "InternalIP",
        resolved: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._mesh = mesh
        self._facts = facts
        self._now = now
        self._forced = trust
        self._node_addresses = node_addresses
        self._resolved = resolved or {}
        self._endpoints: dict[str, Endpoint | EndpointProblem] = {}
        self._trust: dict[tuple[str, str], Trust | TrustProblem] = {}

    def endpoint(self, peer: ClusterFacts) -> Endpoint | EndpointProblem:
        """Where ``peer`` is dialled by all others, or why it cannot be."""
        found = self._endpoints.get(peer.host)
        if found is None:
            found = self._endpoints[peer.host] = endpoint_of(
                peer,
                node_addresses=self._node_addresses,
                resolved=self._resolved,
                in_use=lambda: self._in_use.get(peer.name, frozenset()),
            )
        return found

    def trust(self, local: ClusterFacts, peer: ClusterFacts) -> Trust | TrustProblem:
        """How ``local`` and ``peer`` trust each other when ``local`` dials, or why they cannot.

        :raises InvalidInput: there is no such trust mode.
        """
        pair = (local.host, peer.host)
        found = self._trust.get(pair)
        if found is None:
            found = self._trust[pair] = choose_trust(local, peer, now=self._now, forced=self._forced)
        return found

    @cached_property
    def _in_use(self) -> Mapping[str, frozenset[str]]:
        """Cluster name -> the addresses that our own entries give it now, in whichever member."""
        found: dict[str, set[str]] = {}
        for host in self._mesh.clusters:
            for name, ip in _own_entries(self._facts[host], self._mesh.binding.manager) if host in self._facts else ():
                found.setdefault(name, set()).add(ip)
        return {name: frozenset(ips) for name, ips in found.items()}


def _own_entries(local: ClusterFacts, manager: str) -> Iterator[tuple[str, str]]:
    """(cluster name of a peer, address) of host aliases, and of configurations that hold aliases."""
    for workload in (local.apiserver, local.agent):
        for alias in workload.host_aliases if workload else ():
            if manager in alias.managers:
                yield from ((hostname.partition(".")[0], alias.ip) for hostname in alias.hostnames)
    for secret in (local.kvstoremesh, local.clustermesh):
        for name, key in secret.keys.items():
            if key.config and manager in key.managers:
                aliases = key.config.partition("\n  ips:\n")[2]
                yield from ((name, line.strip(' -"')) for line in aliases.splitlines() if line.startswith("    - "))
