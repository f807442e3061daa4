# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan for the workloads of one tenant: every write to Karmada of one run, decided before the first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.json_fields import labels_of
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.fleet_kinds import FleetKind
from ..plan.steps import Plan, Step
from .contents import keys_of
from .evictions import Budget, evictions_of
from .facts import TenantFacts
from .models import EVERYWHERE, Fleet, FleetRequest, FleetWorkload, PlacementPolicy
from .names import DOMAIN, karmada_namespace
from .placement import Candidates, candidates, chosen, unknown_clusters, unknown_mesh_sentence
from .revisions import revision_name
from .rollout import Situation, Turn, situation_of, turn_of
from .rollout_state import RolloutState
from .writes import Target, Writer, is_global, is_leaving, is_tenants, item_of, policies_of


@dataclass(frozen=True, kw_only=True)
class WorkloadDecision:
    """What was decided on one workload.

    :param target: None if nothing can be done for it; then ``reason`` (CamelCase) and ``message`` say why.
    :param before: state that its PropagationPolicy has.
    :param waits: whether time or another object resolves it; else its spec has to change.
    :param is_reported: whether a finding of the plan says already why nothing can be done.
    :param unknown: clusters that it names, or its Fleet or PlacementPolicy, and that are none of the tenant: a place -> their names.
    """

    workload: FleetWorkload
    target: Target | None = None
    before: RolloutState | None = None
    found: Candidates = field(default_factory=Candidates)
    reason: str = ""
    message: str = ""
    waits: bool = False
    is_reported: bool = False
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """Plan of a run, and what was decided on each workload. ``leaving``: workloads that are being deleted."""

    plan: Plan
    decisions: Mapping[str, WorkloadDecision]
    leaving: tuple[str, ...] = ()


def plan_fleet(request: FleetRequest, facts: TenantFacts, karmada: str) -> FleetPlan:
    """Return the plan of this run.

    :param karmada: inventory name of the control plane.
    """
    asked = request.workloads if request.workloads is not None else {}
    refused = {entry.name for entry in request.refused if entry.kind == FleetKind.WORKLOAD}
    foreign = _foreign_namespace(request, facts, karmada)
    if foreign:
        decisions = {
            name: WorkloadDecision(workload=workload, reason="ForeignNamespace", message=foreign[0].summary, is_reported=True)
            for name, workload in asked.items()
        }
        return FleetPlan(plan=Plan(manager=DOMAIN, problems=foreign), decisions=decisions)
    if facts.namespace is not None and is_leaving(facts.namespace):
        message = f"Namespace {karmada_namespace(request.tenant)} is being deleted in Karmada."
        decisions = {
            name: WorkloadDecision(workload=entry, reason="NamespaceTerminating", message=message, waits=True)
            for name, entry in asked.items()
        }
        return FleetPlan(plan=Plan(manager=DOMAIN), decisions=decisions)
    decisions = _decided(request, facts, asked, karmada)
    writer = Writer(request, facts, karmada)
    steps: list[Step] = []
    for decision in decisions.values():
        if decision.target is not None:
            steps += writer.workload(decision.target, decision.before)
    leaving = () if request.workloads is None or request.keep_others else tuple(sorted(set(facts.owners) - asked.keys() - refused))
    for name in leaving:
        steps += writer.removal(name)
    if any(decision.target for decision in decisions.values()):
        steps = [*writer.namespace(), *steps]
    elif request.workloads is not None and not asked and not refused and not facts.owners:
        steps += writer.namespace_removal()
    ordered = tuple(sorted(steps, key=lambda step: (step.wave, step.item)))
    left_out = tuple(item_of(name) for name, decision in decisions.items() if decision.target is None)
    return FleetPlan(plan=Plan(manager=DOMAIN, steps=ordered, not_carried_out=left_out), decisions=decisions, leaving=leaving)


def _decided(request: FleetRequest, facts: TenantFacts, asked: Mapping[str, FleetWorkload], karmada: str) -> dict[str, WorkloadDecision]:
    """Return what is decided on each workload, in the order of names: while they share a budget, the first ones use it."""
    left = {name: situation_of(facts, workload).state for name, workload in asked.items()} if request.max_evictions else {}
    used = sum(state.left_by_rules for state in left.values() if state is not None)
    decisions = {}
    for name, workload in sorted(asked.items()):
        budget = Budget(request.max_evictions, used) if request.max_evictions else None
        decision = decisions[name] = decide(request, facts, workload, karmada, budget)
        if decision.target is not None:
            before = decision.before.left_by_rules if decision.before is not None else 0
            used += decision.target.turn.state.left_by_rules - before
    return decisions


def decide(
    request: FleetRequest, facts: TenantFacts, workload: FleetWorkload, karmada: str, budget: Budget | None = None
) -> WorkloadDecision:
    """Return what this run does for one workload, or why it does nothing."""
    resolved = _resolved(request, workload)
    if isinstance(resolved, WorkloadDecision):
        return resolved
    fleet, policy = resolved
    unknown = unknown_clusters(request, workload, fleet, policy)
    permitted = candidates(request, fleet, policy)
    situation = situation_of(facts, workload)
    usable = frozenset(name for name, member in facts.members.items() if member.ready and not member.tainted and not member.deleting)
    found = chosen(permitted, fleet, policy, _held(situation, situation.state), usable - _left(situation.state))
    if not found.clusters:
        return WorkloadDecision(workload=workload, found=found, reason=found.reason, message=found.message, waits=True, unknown=unknown)
    clients = candidates(request, fleet, EVERYWHERE).members if is_global(workload) else ()
    turn = turn_of(workload, situation, found.clusters, _context(fleet, policy), clients)
    evicted = evictions_of(policy.migration, situation, turn.state, permitted, budget)
    turn = replace(turn, state=evicted.state)
    homes = _held(situation, evicted.state)
    found = chosen(permitted, fleet, policy, homes, usable - _left(evicted.state))
    foreign = tuple(_foreign_objects(request, facts, workload, policy, turn, karmada))
    if foreign:
        message = foreign[0].summary
        return WorkloadDecision(workload=workload, found=found, reason="ForeignObject", message=message, findings=foreign, unknown=unknown)
    kept = "each cluster keeps what it has, and no other one gets a copy"
    unread = (f"{unknown_mesh_sentence(permitted)}; {kept}.",) if permitted.unknown_mesh else ()
    notes = tuple(
        finding("CM-FLEET-06", cluster=karmada, item=item_of(workload.name), summary=f"FleetWorkload {workload.name}: {note}")
        for note in (*unread, *evicted.notes)
    )
    target = Target(workload, fleet, policy, found, turn, homes)
    return WorkloadDecision(workload=workload, target=target, before=situation.state, found=found, findings=notes, unknown=unknown)


def _resolved(request: FleetRequest, workload: FleetWorkload) -> tuple[Fleet, PlacementPolicy] | WorkloadDecision:
    invalid = {(entry.kind, entry.name): entry.problems for entry in request.refused}
    fleet = request.fleets.get(workload.fleet)
    policy = request.policies.get(workload.placement) if workload.placement else EVERYWHERE
    if fleet is not None and policy is not None:
        return fleet, policy
    kind, name = (FleetKind.FLEET, workload.fleet) if fleet is None else (FleetKind.POLICY, workload.placement)
    how = f"is not valid: {'; '.join(invalid[kind, name][:3])}" if (kind, name) in invalid else "does not exist"
    unknown = unknown_clusters(request, workload, fleet, policy)
    return WorkloadDecision(workload=workload, waits=True, reason=f"{kind}NotFound", message=f"{kind} {name} {how}.", unknown=unknown)


def _held(found: Situation, state: RolloutState | None) -> frozenset[str]:
    """Return the members that have a part of the workload and have not been left."""
    return frozenset(found.binding.replicas) - _left(state) if found.binding is not None else frozenset()


def _left(state: RolloutState | None) -> frozenset[str]:
    return frozenset(state.evicted) if state is not None else frozenset()


def _context(fleet: Fleet, policy: PlacementPolicy) -> dict[str, Any]:
    """Return what a revision notes about where the workload was to go."""
    return {
        "fleet": {"name": fleet.name, "clusters": list(fleet.clusters)},
        "placement": {"name": policy.name, "strategy": policy.strategy},
    }


def _foreign_namespace(request: FleetRequest, facts: TenantFacts, karmada: str) -> tuple[Finding, ...]:
    if facts.namespace is None or is_tenants(facts.namespace, request):
        return ()
    name = karmada_namespace(request.tenant)
    return (
        finding(
            "CM-FLEET-04",
            cluster=karmada,
            summary=f"Namespace {name} in Karmada has not the labels of the workspace, so it is foreign, and nothing is written into it.",
            fix=f"Delete the Namespace {name} if it is not needed.",
        ),
    )


def _foreign_objects(
    request: FleetRequest, facts: TenantFacts, workload: FleetWorkload, policy: PlacementPolicy, turn: Turn, karmada: str
) -> Iterable[Finding]:
    wanted = turn.write.content if turn.write is not None else {}
    own = request.tenant.labels_of(workload.name)
    live: list[tuple[str, Mapping[str, Any]]] = [
        (f"{key.kind} {key.name}", facts.objects[key]) for key in (keys_of(workload.name, wanted) if wanted else ()) if key in facts.objects
    ]
    names = policies_of(workload, policy)
    live += [(f"PropagationPolicy {name}", facts.policies[name]) for name in names if name in facts.policies]
    if turn.mint is not None and (name := revision_name(workload.name, turn.mint.number)) in facts.revisions:
        live.append((f"ControllerRevision {name}", facts.revisions[name]))
    for shown, found in live:
        if own.items() <= labels_of(found).items():
            continue
        other = facts.owner(found) if is_tenants(found, request) else ""
        whose = f"belongs to FleetWorkload {other}" if other else "was not made by this project"
        yield finding(
            "CM-FLEET-04",
            cluster=karmada,
            item=item_of(workload.name),
            summary=f"{shown} of {karmada_namespace(request.tenant)} {whose}, so FleetWorkload {workload.name} is not written.",
            fix="Give the object of the FleetWorkload another name, or delete the one that is in its place.",
        )
