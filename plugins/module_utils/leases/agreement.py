# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the members agree on about the leases: of each lease the latest version that more than one copy holds.

The owner of a member may write anything into its copy: that another cluster is dead, has another uid, or lost its id to a third one. A
version that one copy alone holds is therefore news of its writer, and decides nothing about others. Runs that were stopped leave such
versions too: the next one plans the change again and writes it to all. docs/decisions/0048 says why two copies are enough.

In a mesh of two, two copies that differ cannot be judged: there the later version counts, as in ``merge``. In a larger mesh of which only
two copies can be read, a version that one of them holds alone is not certain: it decides nothing, and stays where it is until a third copy
can be read (``leases.plan.copies_after``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from .registry import Lease, LeaseState, Registry, member_copies, merge, precedence

WITNESSES: Final = 2  # copies that must hold a version, or a later one
JUDGEABLE: Final = 3  # from so many copies on it shows which one is wrong


def witnesses_needed(copies: int, members: int) -> int:
    """Return how many of so many copies must hold a version of a lease for it to count, in a mesh with so many members.

    The only copy of a mesh is all that is known. In a mesh of two, each has links only with the other.
    """
    return WITNESSES if copies >= WITNESSES and members >= JUDGEABLE else 1


def is_certain(copies: int, members: int) -> bool:
    """Return whether so many copies show which of them is wrong, as far as one can know it in a mesh with so many members."""
    return copies >= JUDGEABLE or members < JUDGEABLE


def agreed(copies: Collection[Registry], mesh: str, enough: int) -> Registry:
    """Return the registry of the latest version of each lease that enough copies hold; a later version of a copy counts for the earlier.

    Of two copies that both have to hold it, the versions must be equal: the earlier one may be made up as well as the later.

    :param mesh: owner hash of the binding.
    :param enough: how many copies must hold it: ``witnesses_needed``.
    :raises RegistryProblem: when the copies are of different meshes.
    """
    distinct = {id(copy): copy for copy in copies}  # equal copies are mostly one object: see ``member_copies``
    if enough <= 1 or (len(distinct) == 1 and len(copies) >= enough):
        return merge(distinct.values(), mesh)
    if len(copies) == enough:
        first, *others = copies
        same = set(first.leases).intersection(*(copy.leases for copy in others))
        return merge((Registry(mesh=mesh, leases=tuple(same)), *(Registry(mesh=copy.mesh) for copy in distinct.values())))
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
    readable = readable_copies(mesh, facts).values()
    return agreed(readable, mesh.binding.owner, witnesses_needed(len(readable), len(mesh.clusters)))


def readable_copies(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, Registry]:
    """Return the copies that can be parsed, by inventory name."""
    return {host: copy for host, copy in member_copies(mesh, facts).items() if isinstance(copy, Registry)}


def doubted(whole: Registry, copies: Collection[Registry], members: int) -> tuple[Lease, ...]:
    """Return what keeps ids from new clusters although one copy alone holds it, since too few copies can be read to tell which is wrong.

    Claims are not among it (``leases.claims``).

    :param whole: what the copies agree on.
    """
    if is_certain(len(copies), members):
        return ()
    alone = (lease for copy in copies for lease in unwitnessed(copy, whole) if lease.state is not LeaseState.RESERVED)
    return tuple(dict.fromkeys(alone))


def unwitnessed(held: Registry, elsewhere: Registry) -> tuple[Lease, ...]:
    """Return the leases that are held later than they are elsewhere, or that are missing there."""
    known = {lease.key: precedence(lease) for lease in elsewhere.leases}
    return tuple(lease for lease in held.leases if lease.key not in known or precedence(lease) > known[lease.key])


def _latest_witnessed(versions: list[tuple[Lease, int]], enough: int) -> Lease | None:
    witnesses = 0
    for lease, times in sorted(versions, key=lambda entry: precedence(entry[0]), reverse=True):
        witnesses += times
        if witnesses >= enough:
            return lease
    return None
