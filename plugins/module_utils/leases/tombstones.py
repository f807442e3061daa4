# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters that were disconnected without their answer, and the conditions under which one of them is taken back. Pure.

A tombstone is a lease in state ``dead``. A member with the inventory name or the uid of a dead cluster has to be that cluster:
same name, same id, the same CA behind its server certificate, no other pod networks. Only the copies of the other members count: the
member could have written anything into its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..base.redact import one_line
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.trust.link_trust import PLAIN_USER, anchor, user_for_name
from .agreement import WITNESSES, agreed, is_certain, mesh_registry, readable_copies, witnesses_needed
from .registry import Lease, LeaseState, Registry, covers, lease_of


@dataclass(frozen=True, kw_only=True)
class ReturningMember:
    """Member in the place of a dead cluster. ``differences``: one sentence each; () if it is the cluster that died."""

    host: str  # inventory name
    tombstone: Lease
    running: Lease
    differences: tuple[str, ...]


def tombstones(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> tuple[Lease, ...]:
    """Return the tombstones in whose place no active lease stands, from the copies of all members that answered."""
    registry = mesh_registry(mesh, mesh.members_in(facts))
    return tuple(lease for lease in registry.leases if lease.state is LeaseState.DEAD and registry.active(lease.host) is None)


def returning_members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> tuple[ReturningMember, ...]:
    """Return the members with the inventory name or uid of a dead cluster, with their differences from its tombstone."""
    members = mesh.members_in(facts)
    readable = readable_copies(mesh, members)
    distinct = {id(copy): copy for copy in readable.values()}.values()  # equal copies are one object
    dead = {lease.key for copy in distinct for lease in copy.leases if lease.state is LeaseState.DEAD}
    if not dead:
        return ()
    needed = witnesses_needed(len(readable), len(mesh.clusters))
    hosts, uids = {host for host, name, number in dead}, {x.uid for c in distinct for x in c.leases if x.key in dead and x.uid}
    found = []
    for host, cluster in members.items():
        if host not in hosts and cluster.uid not in uids:
            continue
        others = agreed([copy for member, copy in readable.items() if member != host], mesh.binding.owner, needed)
        tombstone = _newest_tombstone(others, cluster)
        if tombstone is not None:
            running = lease_of(cluster)
            found.append(ReturningMember(host=host, tombstone=tombstone, running=running, differences=differences(tombstone, running)))
    return tuple(found)


def doubtful_deaths(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, tuple[ReturningMember, ...]]:
    """Return the members of which one other copy alone says that they died, by the member that keeps it; {} if enough copies can be read.

    Nothing shows whether that copy is wrong. To connect the member would let a stranger in if it is right, and to refuse the member would
    let one copy condemn it: the caller waits for a third copy.
    """
    members = mesh.members_in(facts)
    readable = readable_copies(mesh, members)
    if is_certain(len(readable), len(mesh.clusters)) or len(readable) < WITNESSES:
        return {}
    certain = {item.host for item in returning_members(mesh, facts)}
    found: dict[str, list[ReturningMember]] = {}
    for writer, copy in readable.items():
        for host in members.keys() - certain - {writer}:
            tombstone, running = _newest_tombstone(copy, members[host]), lease_of(members[host])
            if tombstone is not None and differences(tombstone, running):
                item = ReturningMember(host=host, tombstone=tombstone, running=running, differences=differences(tombstone, running))
                found.setdefault(writer, []).append(item)
    return {writer: tuple(sorted(items, key=lambda item: item.host)) for writer, items in found.items()}


def _newest_tombstone(registry: Registry, cluster: ClusterFacts) -> Lease | None:
    """Return the newest tombstone with the cluster's inventory name or uid; None if the cluster holds an active lease already."""
    if registry.active(cluster.host) is not None:
        return None
    dead = [lease for lease in registry.leases if lease.state is LeaseState.DEAD and registry.active(lease.host) is None]
    own = [lease for lease in dead if lease.host == cluster.host or (lease.uid and lease.uid == cluster.uid)]
    return max(own, key=lambda lease: (lease.serial, lease.since, lease.key), default=None)


def differences(tombstone: Lease, running: Lease) -> tuple[str, ...]:
    """Return the differences between a cluster and its tombstone, one sentence each.

    Another uid alone is none: the key of its CA is the better proof.
    """
    found = []
    if running.name != tombstone.name:
        found.append(f"its name is {_quoted(running.name)}, and was {_quoted(tombstone.name)}")
    if running.id != tombstone.id:
        found.append(f"its id is {running.id}, and was {tombstone.id}")
    if not tombstone.ca:
        found.append("its CA was not on record, so that nothing can be compared")
    elif running.ca != tombstone.ca:
        now = f"is {running.ca[:12]}" if running.ca else "is not known"
        found.append(f"the CA behind its server certificate {now}, and was {tombstone.ca[:12]}")
    if not covers(tombstone.pod_cidrs, running.pod_cidrs):
        more = [cidr for cidr in running.pod_cidrs if not covers(tombstone.pod_cidrs, (cidr,))]
        found.append(f"its pods may use {', '.join(more)}, and could use {', '.join(tombstone.pod_cidrs) or 'nothing'}")
    return tuple(found)


def remaining_access(cluster: ClusterFacts, dead: Iterable[Lease], *, after_removal: bool = False) -> dict[str, str]:
    """Return host of a dead cluster -> reason why ``cluster`` would still let it in, since it keeps the keys that it was given.

    :param after_removal: the user of the dead one is about to be removed.
    """
    signer = anchor(cluster.server_cert)
    found = {}
    for lease in dead:
        user = user_for_name(lease.name)
        if not cluster.users_enabled:
            found[lease.host] = (
                f"{cluster.host} has no per-peer users (auth mode legacy): its mesh etcd accepts every certificate of its CA "
                f"for {PLAIN_USER}, and one certificate cannot be revoked alone"
            )
        elif signer is not None and signer.public_key == lease.ca:
            found[lease.host] = f"both have the same CA, so that certificates of its own for {PLAIN_USER} are accepted"
        elif user in cluster.users.users and not after_removal:
            found[lease.host] = f"user {_quoted(user)} is still in users.yaml of {cluster.host}"
    return found


def _quoted(text: str) -> str:
    return f'"{one_line(text, 60)}"'
