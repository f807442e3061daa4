# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the members agree on about the leases: of each lease the latest version that more than one copy holds.

The owner of a member may write anything into its copy: that another cluster is dead, has another uid, or lost its id to a third one. A
version that one copy alone holds is therefore news of its writer, and decides nothing about others. Runs that were stopped leave such
versions too: the next one plans the change again and writes it to all. docs/decisions/0048 says why two copies are enough.

Two copies that differ cannot be judged: there the later version counts, as in ``merge``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ..mesh.facts import ClusterFacts
from ..mesh.model import Mesh
from .registry import Lease, LeaseState, Registry, member_copies, merge, precedence

WITNESSES: Final = 2  # copies that must hold a version, or a later one
JUDGEABLE: Final = 3  # from so many copies on


def witnesses_needed(copies: int) -> int:
    """Return how many of so many copies must hold a version of a lease for it to count."""
    return WITNESSES if copies >= JUDGEABLE else 1


def agreed(copies: Collection[Registry], mesh: str, *, needed: int | None = None) -> Registry:
    """Return the registry of the latest version of each lease that enough copies hold; a later version of a copy counts for the earlier.

    :param mesh: owner hash of the binding.
    :param needed: how many copies are enough; None: ``witnesses_needed`` of these copies.
    :raises RegistryProblem: when the copies are of different meshes.
    """
    enough = witnesses_needed(len(copies)) if needed is None else needed
    distinct = {id(copy): copy for copy in copies}  # equal copies are mostly one object: see ``member_copies``
    if enough <= 1 or (len(distinct) == 1 and len(copies) >= enough):
        return merge(distinct.values(), mesh)
    times = Counter(id(copy) for copy in copies)
    versions: dict[tuple[str, str, int], list[tuple[Lease, int]]] = {}
    for place, copy in distinct.items():
        for lease in copy.leases:
            versions.setdefault(lease.key, []).append((lease, times[place]))
    witnessed = (_latest_witnessed(found, enough) for found in versions.values())
    accepted = tuple(lease for lease in witnessed if lease is not None)
    return merge((Registry(mesh=mesh, leases=accepted), *(Registry(mesh=copy.mesh) for copy in distinct.values())))


def mesh_registry(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> Registry:
    """Return what the members that answered agree on; without leases if no copy can be parsed."""
    readable = [copy for copy in member_copies(mesh, facts).values() if isinstance(copy, Registry)]
    return agreed(readable, mesh.binding.owner)


def unwitnessed(held: Registry, elsewhere: Registry) -> tuple[Lease, ...]:
    """Return the leases that are held later than they are elsewhere, or that are missing there."""
    known = {lease.key: precedence(lease) for lease in elsewhere.leases}
    return tuple(lease for lease in held.leases if lease.key not in known or precedence(lease) > known[lease.key])


def with_open_claims(whole: Registry, copies: Iterable[Registry]) -> Registry:
    """Return the registry with the claims of all copies, for a controller that chooses ids.

    A claim that one copy holds may be that of a controller that is at work, and is never taken for free. It counts for nothing if another
    active cluster holds its name or its id, or if it is of an active or a dead lease: no controller claims these.
    """
    active = [lease for lease in whole.leases if lease.state is LeaseState.ACTIVE]
    ids, names = {lease.id: lease.host for lease in active}, {lease.name: lease.host for lease in active}
    decided = {lease.key for lease in whole.leases if lease.state in (LeaseState.ACTIVE, LeaseState.DEAD)}
    claims = {
        (lease.key, lease.serial): lease
        for copy in {id(copy): copy for copy in copies}.values()
        for lease in copy.leases
        if lease.state is LeaseState.RESERVED
        and lease.key not in decided
        and ids.get(lease.id, lease.host) == names.get(lease.name, lease.host) == lease.host
    }
    return whole.with_leases(claims.values()) if claims else whole


def _latest_witnessed(versions: list[tuple[Lease, int]], enough: int) -> Lease | None:
    witnesses = 0
    for lease, times in sorted(versions, key=lambda entry: precedence(entry[0]), reverse=True):
        witnesses += times
        if witnesses >= enough:
            return lease
    return None
