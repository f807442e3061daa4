# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Evictions: a workload leaves a cluster that is lost, or where it stays unhealthy, and may come back later. Pure.

Karmada's own failover is not used: a copy that was unhealthy in both clusters ended in neither. A dwell time both ways keeps a cluster
that comes and goes from moving workloads each time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ..base.json_fields import parse_time
from ..plan.steps import NOW
from .models import Migration
from .rollout import Situation
from .rollout_state import Eviction, RolloutState

LOST: Final = "ClusterNotReady"
UNHEALTHY: Final = "Unhealthy"


class Evictions(NamedTuple):
    """State after the evictions and returns of this run, and what could not be done."""

    state: RolloutState
    notes: tuple[str, ...] = ()


def evictions_of(rules: Migration, found: Situation, state: RolloutState, candidates: Collection[str]) -> Evictions:
    """Return the state with at most one member more, or one less, than before.

    :param candidates: members that the placement permits, evicted ones included.
    """
    evicted = {member: eviction for member, eviction in state.evicted.items() if member in candidates}
    if not rules.auto:
        return Evictions(replace(state, evicted={}, unhealthy={}))
    unhealthy = _unhealthy(found, state)
    state = replace(state, evicted=evicted, unhealthy=unhealthy)
    back = next((member for member, eviction in sorted(evicted.items()) if _may_return(rules, found, state, member, eviction)), "")
    if back:
        return Evictions(replace(state, evicted={member: entry for member, entry in evicted.items() if member != back}))
    reasons = _reasons(rules, found, unhealthy)
    notes = []
    for member, reason in sorted(reasons.items()):
        refused = _refused(rules, found, state, member, candidates)
        if not refused:
            left = Eviction(reason, NOW, state.revision)
            rest = {name: since for name, since in unhealthy.items() if name != member}
            return Evictions(replace(state, evicted={**evicted, member: left}, unhealthy=rest))
        notes.append(f"{member} is kept in spite of {reason}: {refused}.")
    return Evictions(state, tuple(notes))


def _unhealthy(found: Situation, state: RolloutState) -> dict[str, str]:
    """Return since when the workload is unhealthy in each member that can be believed."""
    if found.binding is None:
        return {}
    ill = [
        member
        for member in found.binding.replicas
        if _is_ready(member, found) and (placed := found.binding.placed.get(member)) is not None and placed.health == "Unhealthy"
    ]
    return {member: state.unhealthy.get(member) or NOW for member in sorted(ill)}


def _reasons(rules: Migration, found: Situation, unhealthy: Mapping[str, str]) -> dict[str, str]:
    """Return why members should be left, of those that have a part of the workload."""
    reasons = {}
    for member in found.binding.replicas if found.binding is not None else ():
        facts = found.members.get(member)
        if facts is None or (not facts.ready and _passed(facts.since, found.now, rules.dwell)):
            reasons[member] = LOST
        elif member in unhealthy and _passed(parse_time(unhealthy[member]), found.now, rules.unhealthy):
            reasons[member] = UNHEALTHY
    return reasons


def _may_return(rules: Migration, found: Situation, state: RolloutState, member: str, eviction: Eviction) -> bool:
    """Return whether a workload may come back: to a lost member after the dwell time, as another revision where it was unhealthy."""
    if not _ready_for(member, found, rules.dwell):
        return False
    return eviction.reason == LOST or eviction.revision != state.revision


def _refused(rules: Migration, found: Situation, state: RolloutState, member: str, candidates: Collection[str]) -> str:
    """Return why a member must not be left now, "" if it may be."""
    evicted = state.evicted
    if len(evicted) >= rules.max_evictions:
        return f"{len(evicted)} of at most {rules.max_evictions} clusters are left already"
    others = [other for other in candidates if other != member and other not in evicted]
    if not any(_is_better(rules, found, state, other) for other in others):
        return f"no other cluster has been Ready for {rules.dwell} s without the same trouble"
    replicas = found.binding.replicas if found.binding is not None else {}
    here = _ready_replicas(member, found)
    rest = sum(_ready_replicas(other, found) for other in replicas if other != member)
    least = math.ceil(sum(replicas.values()) * rules.min_available_percent / 100)
    if here and rest < least:
        return f"{rest} replicas would be left, and {least} are the least"
    return ""


def _is_better(rules: Migration, found: Situation, state: RolloutState, member: str) -> bool:
    return _ready_for(member, found, rules.dwell) and not found.members[member].tainted and member not in state.unhealthy


def _ready_replicas(member: str, found: Situation) -> int:
    """Return the ready replicas in a member, 0 for one that is lost: its last report says nothing of now."""
    placed = found.binding.placed.get(member) if found.binding is not None else None
    return placed.ready if placed is not None and _is_ready(member, found) else 0


def _is_ready(member: str, found: Situation) -> bool:
    facts = found.members.get(member)
    return facts is not None and facts.ready


def _ready_for(member: str, found: Situation, seconds: int) -> bool:
    facts = found.members.get(member)
    return facts is not None and facts.ready and not facts.deleting and _passed(facts.since, found.now, seconds)


def _passed(since: datetime | None, now: datetime, seconds: int) -> bool:
    return since is not None and now - since >= timedelta(seconds=seconds)
