# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Claims of names and ids by clusters that do not run them yet: which of them keep others from an id, and when they end. Pure.

A claim that two copies hold counts. One that a single copy holds may be that of a controller at work, or a lie of the copy's writer. It
counts where the other voters could hold it too, as their copies cannot be read; else it cannot stand, and a cluster that relies on it loses
the race for the voters (``leases.quorum``). docs/decisions/0048 says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ..plan.steps import NOW
from .agreement import unwitnessed
from .quarantine import time_of
from .registry import Lease, LeaseState, Registry, precedence

CLAIM_LASTS: Final = timedelta(hours=24)
"""Time after which a claim of a cluster that is no member counts for nothing. A run that assigns ids takes minutes."""
SKEW: Final = timedelta(hours=1)
"""Time by which the clock of another controller may be ahead. A claim of a later time was made by no controller."""
NEWCOMERS: Final = 16
"""Claims of clusters that are no members which one copy can hold alone and that count, where the other voters cannot be read."""


def is_timely(claim: Lease, now: datetime) -> bool:
    """Return whether a controller can have made the claim not too long ago.

    :param now: aware.
    """
    since = now if claim.since == NOW else time_of(claim)
    return since is not None and now - CLAIM_LASTS <= since <= now + SKEW


def without_ended_claims(registry: Registry, members: Collection[str], now: datetime) -> Registry:
    """Return the registry without claims that count for nothing any more: of clusters that are no members, and not timely.

    A claim of a member stays: its cluster may run the id since the run that claimed it was stopped.
    """
    kept = tuple(
        lease for lease in registry.leases if lease.state is not LeaseState.RESERVED or lease.host in members or is_timely(lease, now)
    )
    return registry if len(kept) == len(registry.leases) else replace(registry, leases=kept)


def with_renewed_claims(registry: Registry, hosts: Collection[str], now: datetime) -> Registry:
    """Return the registry in which the claims of these hosts, whose controller is at work, are timely."""
    late = [lease for lease in registry.leases if lease.state is LeaseState.RESERVED and lease.host in hosts]
    return registry.with_leases(replace(one, since=NOW, serial=one.next_serial) for one in late if not is_timely(one, now))


def claims_that_may_stand(
    whole: Registry,
    copies: Mapping[str, Registry],
    unsure: Collection[str],
    voters: Collection[str],
    members: Collection[str],
    now: datetime,
) -> tuple[Lease, ...]:
    """Return the claims outside ``whole`` that a majority of the voters can hold, as far as the copies tell that were read.

    They are of clusters without an active lease, and have a name and an id that no other active cluster holds: no controller makes others.
    One copy alone adds one claim for each member that has none, and ``NEWCOMERS`` others at most.

    :param whole: what the copies agree on.
    :param copies: the copies that were read, by inventory name.
    :param unsure: voters that were not read, or did not answer a write.
    """
    held = _holders(whole, copies, voters)
    found: dict[tuple[str, str, int], Lease] = {}
    for host in set(voters) & set(copies):
        claims = [one for one in _possible(whole, copies[host]) if _may_stand(held[one.key], unsure, voters) and is_timely(one, now)]
        latest = {claim.host: claim for claim in sorted(claims, key=precedence)}
        strangers = sorted((claim for claim in latest.values() if claim.host not in members), key=lambda one: (one.id, one.key))
        known = [claim for claim in latest.values() if claim.host in members and whole.claim(claim.host) is None]
        for claim in (*known, *strangers[:NEWCOMERS]):
            found[claim.key] = max(found.get(claim.key, claim), claim, key=precedence)
    return tuple(found[key] for key in sorted(found))


def contradict(wanted: Registry, claims: Collection[Lease]) -> bool:
    """Return whether one of the claims is for a name or an id that another cluster holds in ``wanted``."""
    ids = {lease.id: lease.host for lease in wanted.leases if lease.holds}
    names = {lease.name: lease.host for lease in wanted.leases if lease.holds}
    return any(ids.get(one.id, one.host) != one.host or names.get(one.name, one.host) != one.host for one in claims)


def kept_in_place(copy: Registry, wanted: Registry, now: datetime, *, certain: bool) -> Registry:
    """Return ``wanted`` as it is written over ``copy``: with the claims that the copy holds alone, until they end.

    So a copy only grows while claims are made, as docs/decisions/0013 needs it, and a claim of one copy spreads to no other.

    :param certain: enough copies were read to tell which is wrong; if not, all that the copy holds alone stays.
    """
    alone = unwitnessed(copy, wanted)
    if certain:
        claims = (lease for lease in alone if lease.state is LeaseState.RESERVED and is_timely(lease, now))
        alone = tuple(claim for claim in claims if wanted.active(claim.host) is None)
    return wanted.with_leases(alone) if alone else wanted


def _possible(whole: Registry, copy: Registry) -> Iterator[Lease]:
    """Yield the claims of a copy that ``whole`` does not have, without those that no controller makes."""
    active = [lease for lease in whole.leases if lease.state is LeaseState.ACTIVE]
    hosts, ids, names = {one.host for one in active}, {one.id for one in active}, {one.name for one in active}
    decided = {lease.key for lease in whole.leases if lease.holds}
    for lease in copy.leases:
        taken = lease.host in hosts or lease.id in ids or lease.name in names
        if lease.state is LeaseState.RESERVED and lease.key not in decided and not taken:
            yield lease


def _holders(whole: Registry, copies: Mapping[str, Registry], voters: Collection[str]) -> dict[tuple[str, str, int], set[str]]:
    """Return which voters hold each claim that ``whole`` does not have, by its key."""
    found: dict[tuple[str, str, int], set[str]] = {}
    for host in set(voters) & set(copies):
        for claim in _possible(whole, copies[host]):
            found.setdefault(claim.key, set()).add(host)
    return found


def _may_stand(holders: Collection[str], unsure: Collection[str], voters: Collection[str]) -> bool:
    """Return whether the voters that hold a claim, and those of which that is not known, are a majority."""
    return 2 * len(set(holders) | set(unsure)) > len(voters)
