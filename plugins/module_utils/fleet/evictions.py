# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Evictions: a workload leaves a cluster that is lost, not Connected, or where it stays unhealthy, and may come back later. Pure.

A user may ask for one as well: the cluster is then left until the user asks for the return.

Karmada's own failover is not used: a copy that was unhealthy in both clusters ended in neither. A dwell time both ways keeps a cluster
that comes and goes from moving workloads each time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from ..base.json_fields import parse_time
from ..base.tables import count
from ..plan.steps import NOW
from .models import Migration
from .placement import Candidates, spread_groups
from .rollout import Situation
from .rollout_state import REQUESTED, RETURN, Eviction, RolloutState

LOST: Final = "ClusterNotReady"
NOT_CONNECTED: Final = "NotConnected"
UNHEALTHY: Final = "Unhealthy"

T = TypeVar("T")


class Budget(NamedTuple):
    """Clusters that all workloads of a tenant together may have left because of their state, and how many they have."""

    most: int
    used: int


class Evictions(NamedTuple):
    """State after the evictions and returns of this run, and what could not be done."""

    state: RolloutState
    notes: tuple[str, ...] = ()


def evictions_of(rules: Migration, found: Situation, state: RolloutState, permitted: Candidates, budget: Budget | None = None) -> Evictions:
    """Return the state with at most one member more, or one less, than before.

    :param permitted: clusters that the fleet and the requirements permit, evicted ones included.
    """
    by_user = _carried_out(rules, found, state, permitted)
    if by_user.state.evicted != state.evicted:
        return by_user
    by_rules = _by_rules(rules, found, by_user.state, permitted, budget)
    return Evictions(by_rules.state, (*by_user.notes, *by_rules.notes))


def _carried_out(rules: Migration, found: Situation, state: RolloutState, permitted: Candidates) -> Evictions:
    """Return the state after the operation Evict or Return, which is tried again until the rules permit it."""
    asked = state.operation
    if asked.result != "Accepted" or asked.is_rolled_out:
        return Evictions(state)
    members = {cluster.name: cluster.member for cluster in permitted.clusters}
    if asked.cluster not in members:
        message = f"{asked.cluster or 'It'} is none of the clusters that the placement permits: {', '.join(members)}."
        return Evictions(replace(state, operation=asked._replace(result="Invalid", message=message)))
    member, done = members[asked.cluster], asked._replace(result="Complete")
    if asked.kind == RETURN:
        return Evictions(replace(state, evicted=_without(state.evicted, member), operation=done))
    refused = "" if member in state.evicted else _refused(rules, found, state, member, permitted)
    if refused:
        return Evictions(state, (f"{asked.cluster} is kept in spite of {REQUESTED}: {refused}.",))
    left = {**state.evicted, member: Eviction(REQUESTED, NOW, state.revision)}
    return Evictions(replace(state, evicted=left, operation=done))


def _by_rules(rules: Migration, found: Situation, state: RolloutState, permitted: Candidates, budget: Budget | None) -> Evictions:
    holders = found.binding.replicas if found.binding is not None else {}
    names = {cluster.member: cluster.name for cluster in permitted.clusters}
    evicted = {member: eviction for member, eviction in state.evicted.items() if member in permitted.members}
    if evicted.keys() >= {member for member in permitted.members if member not in permitted.unconnected or member in holders}:
        evicted = {}  # the others have left the fleet or the mesh meanwhile, and a workload is somewhere rather than nowhere
    if not rules.auto:
        kept = sorted(names[member] for member in _lost_links(permitted).intersection(holders) if member not in evicted)
        notes = tuple(f"{name} is kept in spite of {NOT_CONNECTED}: migration.auto of the PlacementPolicy is not set." for name in kept)
        asked_for = {member: eviction for member, eviction in evicted.items() if eviction.reason == REQUESTED}
        return Evictions(replace(state, evicted=asked_for, unhealthy={}, links={}), notes)
    unhealthy, links = _unhealthy(found, state), _links(holders, state, evicted, permitted)
    state = replace(state, evicted=evicted, unhealthy=unhealthy, links=links)
    back = next((member for member in sorted(evicted) if _may_return(rules, found, state, member, permitted)), "")
    if back:
        return Evictions(replace(state, evicted=_without(evicted, back), links=_without(links, back)))
    refusals = []
    for member, reason in sorted(_reasons(rules, found, state).items()):
        refused = _over_budget(rules, state, budget) or _refused(rules, found, state, member, permitted)
        if not refused:
            left = {**evicted, member: Eviction(reason, NOW, state.revision)}
            return Evictions(replace(state, evicted=left, unhealthy=_without(unhealthy, member), links=_without(links, member)))
        refusals.append(f"{names.get(member, member)} is kept in spite of {reason}: {refused}.")
    return Evictions(state, tuple(refusals))


def _without(entries: Mapping[str, T], member: str) -> dict[str, T]:
    return {name: entry for name, entry in entries.items() if name != member}


def _links(holders: Collection[str], state: RolloutState, evicted: Mapping[str, Eviction], permitted: Candidates) -> dict[str, str]:
    """Return since when members have a part and are not Connected, or were left for that and are Connected again."""
    turned = {member for member in _lost_links(permitted).intersection(holders) if member not in evicted}
    turned |= {member for member, entry in evicted.items() if entry.reason == NOT_CONNECTED and member not in permitted.unconnected}
    return {member: state.links.get(member) or NOW for member in sorted(turned)}


def _lost_links(permitted: Candidates) -> frozenset[str]:
    return frozenset() if permitted.unknown_mesh else permitted.unconnected


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


def _reasons(rules: Migration, found: Situation, state: RolloutState) -> dict[str, str]:
    """Return why members should be left, of those that have a part of the workload."""
    reasons = {}
    for member in found.binding.replicas if found.binding is not None else ():
        facts = found.members.get(member)
        if facts is None or (not facts.ready and _passed(facts.since, found.now, rules.dwell)):
            reasons[member] = LOST
        elif member in state.unhealthy and _passed(parse_time(state.unhealthy[member]), found.now, rules.unhealthy):
            reasons[member] = UNHEALTHY
        elif member in state.links and _passed(parse_time(state.links[member]), found.now, rules.dwell):
            reasons[member] = NOT_CONNECTED
    return reasons


def _may_return(rules: Migration, found: Situation, state: RolloutState, member: str, permitted: Candidates) -> bool:
    """Return whether a workload may come back: after the dwell time, and as another revision to where it was unhealthy."""
    reason = state.evicted[member].reason
    if reason == REQUESTED or member in permitted.unconnected or not _ready_for(member, found, rules.dwell):
        return False
    if reason == NOT_CONNECTED:
        return _passed(parse_time(state.links[member]), found.now, rules.dwell)
    return reason == LOST or state.evicted[member].revision != state.revision


def _over_budget(rules: Migration, state: RolloutState, budget: Budget | None) -> str:
    if state.left_by_rules >= rules.max_evictions:
        return f"{state.left_by_rules} of at most {rules.max_evictions} clusters are left already"
    if budget is not None and budget.used >= budget.most:
        return f"the workloads of the tenant have left clusters {budget.used} times already, of at most {budget.most}"
    return ""


def _refused(rules: Migration, found: Situation, state: RolloutState, member: str, permitted: Candidates) -> str:
    """Return why a member must not be left now, "" if it may be."""
    left = {member, *state.evicted}
    others = [other for other in permitted.clusters if other.member not in left and other.member not in permitted.unconnected]
    if not any(_is_better(rules, found, state, other.member) for other in others):
        return f"no other cluster has been Ready for {rules.dwell} s without the same trouble"
    if permitted.spread is not None and (groups := len(spread_groups(others, permitted.spread))) < permitted.spread.least:
        by, least, _most = permitted.spread
        return f"the others are in {count(groups, by)}, and the spread asks for {least}"
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
