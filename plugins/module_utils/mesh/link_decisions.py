# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Decisions about the links of one mesh: the endpoint of each cluster, and for each ordered pair the endpoint as dialled and the trust.

They are made once, for checks, plan and reports, which have to come to the same result: in a mesh of 255 clusters for 65,000 pairs. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeAlias

from ..base.gc_pause import collector_paused
from .binding.link_policy import LinkPolicy
from .binding.model import Mesh
from .endpoints.address_moves import Held, held_until
from .endpoints.addresses import dialable
from .endpoints.dialled import DialledEndpoints
from .endpoints.endpoint import (
    EndpointProblem,
    InUse,
    MeshEndpoint,
    RefusedValue,
    endpoint_of,
    may_keep_the_one_in_use,
    needs_names_in_use,
    refused_values,
)
from .endpoints.etcd_config import valid_cluster_name
from .endpoints.in_use import endpoints_in_use
from .endpoints.ip_families import dialable_families, limit_to_families
from .endpoints.member_names import alias_names, names_in_use
from .endpoints.names import MemberNames
from .facts.cluster import ClusterFacts
from .ownership.objects import recorded_moves
from .trust.link_trust import Trust, TrustProblem, TrustSide, trust_between

Endpoints: TypeAlias = Mapping[str, MeshEndpoint | EndpointProblem]
"""Inventory name of a cluster -> its endpoint with all its addresses, or the reason why there is none."""


class Move(NamedTuple):
    """New endpoint of a peer whose addresses would restart the pods of a reader, and the endpoint that the reader dials now."""

    new: MeshEndpoint
    used: MeshEndpoint


@dataclass(frozen=True, kw_only=True)
class LinkDecisions:
    """Endpoints and trust of all links of a mesh, with what they were decided from. Every key is an inventory name.

    ``dialled`` has the addresses of the IP families that the readers of the local cluster have, and where those in use are held, these.
    """

    mesh: Mesh
    facts: Mapping[str, ClusterFacts]  # those of clusters outside the mesh count for themselves alone
    policy: LinkPolicy
    now: datetime  # aware, UTC
    members: Mapping[str, ClusterFacts]  # those whose cluster name can be a key: of a Secret, and so a file and a host name in others
    endpoints: Endpoints
    refused: Mapping[str, tuple[RefusedValue, ...]]  # names and addresses that a cluster reports and that no other cluster dials
    dialled: Mapping[str, Endpoints]  # local -> peer -> the endpoint as local dials it
    trust: Mapping[str, Mapping[str, Trust | TrustProblem]]  # local -> peer -> how they trust each other when local dials
    moves: Mapping[str, Mapping[str, Move]]  # local -> peer, where dialling the new endpoint restarts pods of local

    @property
    def moved(self) -> dict[str, Move]:
        """The peers that have a new endpoint which restarts pods of a reader, each with the move in one of its readers."""
        return {peer: move for moves in self.moves.values() for peer, move in moves.items()}

    def with_unproven(self, hosts: frozenset[str]) -> LinkDecisions:
        """Return the decisions with the new addresses of ``hosts`` held until they are proven."""
        policy = replace(self.policy, unproven=hosts)
        return replace(self, policy=policy, dialled=_held_back(self.mesh, self.facts, self.dialled, self.moves, policy, self.now))

    def with_facts(self, facts: Mapping[str, ClusterFacts]) -> LinkDecisions:
        """Return what is decided for other facts, by the same mesh, policy and time."""
        return decide_links(self.mesh, facts, self.policy, self.now)


@collector_paused()
def decide_links(mesh: Mesh, facts: Mapping[str, ClusterFacts], policy: LinkPolicy, now: datetime) -> LinkDecisions:
    """Decide on every link among the members in ``facts``.

    :param facts: by inventory name. Clusters outside the mesh get an endpoint, as they are checked too, and no link.
    :param now: aware, UTC; decides which certificates are valid, and which addresses are held.
    """
    members, manager = mesh.members_in(facts), mesh.binding.manager
    # Reading what is in use off the entries of all members is slow, and most endpoints do not depend on it.
    in_use = endpoints_in_use(members.values(), manager) if any(map(may_keep_the_one_in_use, facts.values())) else {}
    names = MemberNames(aliases=alias_names(members), in_use=names_in_use(members) if any(map(needs_names_in_use, facts.values())) else {})
    endpoints = {host: endpoint_of(cluster, policy, names, in_use.get(cluster.name, InUse())) for host, cluster in facts.items()}
    reached = _reached(members, endpoints)
    moves = _moves(mesh, members, reached)
    sides = {host: TrustSide(cluster, now, manager) for host, cluster in members.items()}
    return LinkDecisions(
        mesh=mesh,
        facts=facts,
        policy=policy,
        now=now,
        members=_named(mesh, members),
        endpoints=endpoints,
        refused={host: refused_values(cluster, policy, names) for host, cluster in facts.items()},
        dialled=_held_back(mesh, facts, reached, moves, policy, now),
        trust={
            host: {peer: trust_between(local, sides[peer], policy.trust) for peer in mesh.peers(host) if peer in sides}
            for host, local in sides.items()
        },
        moves=moves,
    )


def _named(mesh: Mesh, members: Mapping[str, ClusterFacts]) -> dict[str, ClusterFacts]:
    """Return the members with a valid cluster name that no cluster has with which they share a peer."""
    by_name: dict[str, list[str]] = {}
    for host, cluster in members.items():
        by_name.setdefault(cluster.name, []).append(host)
    return {
        host: cluster
        for host, cluster in members.items()
        if valid_cluster_name(cluster.name) and not _shares_a_peer(mesh, host, by_name[cluster.name])
    }


def _shares_a_peer(mesh: Mesh, host: str, hosts: Collection[str]) -> bool:
    """Return whether another of ``hosts`` is linked with this one, or with one of its peers: one cluster would hold both under one key."""
    if len(hosts) < 2:
        return False
    peers = mesh.peers(host)
    return any(other != host and (mesh.linked(host, other) or any(mesh.linked(peer, other) for peer in peers)) for other in hosts)


def _reached(members: Mapping[str, ClusterFacts], endpoints: Endpoints) -> dict[str, Endpoints]:
    """Return by local cluster the endpoints with the addresses that its readers can dial. Clusters of equal families share one mapping."""
    families = {host: dialable_families(local) for host, local in members.items()}
    shared: dict[frozenset[int], Endpoints] = {
        versions: {
            host: limit_to_families(endpoint, versions) if isinstance(endpoint, MeshEndpoint) else endpoint
            for host, endpoint in endpoints.items()
        }
        for versions in set(families.values())
    }
    return {host: shared[versions] for host, versions in families.items()}


def _moves(mesh: Mesh, members: Mapping[str, ClusterFacts], reached: Mapping[str, Endpoints]) -> dict[str, dict[str, Move]]:
    """Return by local cluster and peer the moves that would restart pods of the local cluster."""
    found: dict[str, dict[str, Move]] = {}
    for host, local in members.items():
        dialled = DialledEndpoints(local, mesh.binding.manager)
        for peer in mesh.peers(host) if dialled else ():
            new = reached[host].get(peer)
            used = dialled.changed_by(members[peer].name, new) if isinstance(new, MeshEndpoint) else None
            if used and isinstance(new, MeshEndpoint):
                move = Move(new, replace(new, hostname=used.hostname, port=used.port, ips=used.ips))
                found.setdefault(host, {})[peer] = move
    return found


def _held_back(
    mesh: Mesh,
    facts: Mapping[str, ClusterFacts],
    reached: Mapping[str, Endpoints],
    moves: Mapping[str, Mapping[str, Move]],
    policy: LinkPolicy,
    now: datetime,
) -> dict[str, Endpoints]:
    """Return the endpoints by local cluster and peer, of which those that moved are the ones in use if they are held."""
    found = dict(reached)
    for host, peers in moves.items():
        recorded = _recorded(mesh, facts[host])
        after = {}
        for peer, move in peers.items():
            held = None if policy.follow else _hold(facts[peer], move, recorded.get(facts[peer].name, ()), policy, now)
            after[peer] = replace(move.used, held=held) if held else move.new
        found[host] = {**reached[host], **after}
    return found


def _recorded(mesh: Mesh, local: ClusterFacts) -> Mapping[str, tuple[datetime, ...]]:
    workload = local.apiserver if local.runs_kvstoremesh else local.agent
    return recorded_moves(mesh.binding, workload) if workload else {}


def _hold(peer: ClusterFacts, move: Move, times: tuple[datetime, ...], policy: LinkPolicy, now: datetime) -> Held | None:
    """Return why the endpoint in use stays; None if the new one is dialled.

    :param times: when the entries of the peer changed before.
    """
    # An override is the user's own word, and nothing may be dialled at an address that is refused.
    if peer.endpoint_override or dialable(move.used.ips, peer.endpoint_networks) != move.used.ips:
        return None
    addresses = move.new.ips or (move.new.hostname,)
    if peer.host in policy.unproven:
        return Held(addresses=addresses)
    until = held_until(times, now)
    return Held(addresses=addresses, until=until) if until else None
