# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters that were taken out without their answer, and what must hold before one of them is taken back. Pure.

A tombstone is a lease in state ``dead``. A cluster that stands where one died, by inventory name or by uid, has to be the one that died:
same name, same id, the same CA behind its server certificate, no other pod networks. The copies of the leases that count are those of the
other members: one's own could be written to say anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .facts import ClusterFacts
from .model import Mesh
from .redact import one_line
from .registry import Lease, LeaseState, Registry, copies, covers, lease_of, merge
from .trust import PLAIN_USER, anchor, user_for_name


@dataclass(frozen=True, kw_only=True)
class Return:
    """A member that stands where one died. ``differences``: one sentence each; () when it is the one that died."""

    host: str  # inventory name
    tombstone: Lease
    running: Lease
    differences: tuple[str, ...]


def tombstones(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> tuple[Lease, ...]:
    """The dead that nobody has taken the place of, as all members that answered know them together."""
    registry = merge(_readable(mesh, _members(mesh, facts)).values(), mesh.binding.owner)
    return tuple(lease for lease in registry.leases if lease.state is LeaseState.DEAD and registry.active(lease.host) is None)


def returns(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> tuple[Return, ...]:
    """Members that stand where one died, by inventory name or uid, with what speaks against each."""
    members = _members(mesh, facts)
    readable = _readable(mesh, members)
    everybodys = {id(copy): copy for copy in readable.values()}.values()  # equal copies are one object
    dead = {lease.key for copy in everybodys for lease in copy.leases if lease.state is LeaseState.DEAD}
    if not dead:
        return ()
    hosts, uids = {host for host, name, number in dead}, {x.uid for c in everybodys for x in c.leases if x.key in dead and x.uid}
    found = []
    for host, cluster in members.items():
        if host not in hosts and cluster.uid not in uids:
            continue
        others = merge((copy for member, copy in readable.items() if member != host), mesh.binding.owner)
        tombstone = _of(others, cluster)
        if tombstone is not None:
            running = lease_of(cluster)
            found.append(Return(host=host, tombstone=tombstone, running=running, differences=differences(tombstone, running)))
    return tuple(found)


def _members(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, ClusterFacts]:
    return {host: facts[host] for host in mesh.clusters if host in facts}


def _readable(mesh: Mesh, members: Mapping[str, ClusterFacts]) -> dict[str, Registry]:
    return {host: copy for host, copy in copies(mesh, members).items() if isinstance(copy, Registry)}


def _of(registry: Registry, cluster: ClusterFacts) -> Lease | None:
    """The newest tombstone that the cluster stands on; None where it holds an active lease already."""
    if registry.active(cluster.host) is not None:
        return None
    dead = [lease for lease in registry.leases if lease.state is LeaseState.DEAD and registry.active(lease.host) is None]
    own = [lease for lease in dead if lease.host == cluster.host or (lease.uid and lease.uid == cluster.uid)]
    return max(own, key=lambda lease: (lease.serial, lease.since, lease.key), default=None)


def differences(tombstone: Lease, running: Lease) -> tuple[str, ...]:
    """What the cluster has to prove and does not, one sentence each. Another uid alone is none: the key of its CA is the better proof."""
    found = []
    if running.name != tombstone.name:
        found.append(f"its name is {_shown(running.name)}, and was {_shown(tombstone.name)}")
    if running.id != tombstone.id:
        found.append(f"its id is {running.id}, and was {tombstone.id}")
    if not tombstone.ca:
        found.append("its CA was not on record, so that nothing can be compared")
    elif running.ca != tombstone.ca:
        now = f"is {running.ca[:12]}" if running.ca else "cannot be told"
        found.append(f"the CA behind its server certificate {now}, and was {tombstone.ca[:12]}")
    if not covers(tombstone.pod_cidrs, running.pod_cidrs):
        more = [cidr for cidr in running.pod_cidrs if not covers(tombstone.pod_cidrs, (cidr,))]
        found.append(f"its pods may use {', '.join(more)}, and could use {', '.join(tombstone.pod_cidrs) or 'nothing'}")
    return tuple(found)


def ways_in(cluster: ClusterFacts, dead: Iterable[Lease], *, after_removal: bool = False) -> dict[str, str]:
    """Host of a dead cluster -> why ``cluster`` would still let it in, where it would: it keeps the keys that it was given.

    :param after_removal: the user of the dead one is about to be removed.
    """
    signer = anchor(cluster.server_cert)
    found = {}
    for lease in dead:
        user = user_for_name(lease.name)
        if not cluster.users_enabled:
            found[lease.host] = (
                f"{cluster.host} has no per-peer users (auth mode legacy): who holds a certificate of its CA for {PLAIN_USER} is let in, "
                "and one certificate cannot be revoked alone"
            )
        elif signer is not None and signer.public_key == lease.ca:
            found[lease.host] = f"both have the same CA, so that certificates of its own for {PLAIN_USER} are let in"
        elif user in cluster.users.users and not after_removal:
            found[lease.host] = f"user {_shown(user)} is still in users.yaml of {cluster.host}"
    return found


def _shown(text: str) -> str:
    return f'"{one_line(text, 60)}"'
