# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Decision of a run about each member: its writes, its findings, and why it is refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ..base.errors import ClusterError
from ..base.json_fields import text
from ..findings.finding import Finding
from ..findings.wording import failure_finding
from ..plan.steps import Plan, Step, digest_of
from .contents import Found
from .facts import ClusterSide, Facts
from .join import join_steps
from .judge import (
    REASONS,
    foreign_cluster,
    join_findings,
    left_finding,
    other_cluster,
    placed_finding,
    provisioning_finding,
    refusals,
    silent_finding,
    token_findings,
    tombstone_finding,
)
from .leave import Patience, gives_up, is_held, leave_steps, leaving_objects, noted_at
from .management import (
    NOT_ASKED,
    Provisioning,
    found_plane,
    left_in_plane,
    make_steps,
    plane_differs,
    plane_problem,
    provisioning_of,
    remove_steps,
)
from .models import Member, MemberRequest, TokenRules
from .names import MANAGER

UNREACHABLE = "ClusterUnreachable"


@dataclass(frozen=True, kw_only=True)
class MemberDecision:
    """What becomes of one member. ``refused``: CamelCase reason, "" if it is not refused; then it has no steps.

    ``waits``: whether it leaves without its cluster only later, as that does not answer. ``left``: what is to go with its membership, and
    is still in the cluster; ``plane``: its Cluster in the management plane, while that is there and is waited for.
    """

    member: Member
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    refused: str = ""
    provisioning: Provisioning = NOT_ASKED
    waits: bool = False
    left: tuple[Found, ...] = ()
    plane: Found | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Choices of a run. ``deadline`` in seconds; ``abandon``: names of clusters that are given up."""

    tokens: TokenRules = field(default_factory=TokenRules)
    deadline: int = 3600
    abandon: frozenset[str] = frozenset()


def provisioned(request: MemberRequest, facts: Facts, member: Member) -> Provisioning:
    """Return what the management plane says of a cluster; that it is ready where no management plane is asked."""
    return provisioning_of(found_plane(facts.planes, member)) if request.management else NOT_ASKED


def decide_join(request: MemberRequest, facts: Facts, member: Member, rules: Rules, now: datetime) -> MemberDecision:
    """Decide on a cluster that is to be a member."""
    plane = found_plane(facts.planes, member) if request.management else None
    taken = plane_problem(plane, member, request)
    if taken is not None:
        return MemberDecision(member=member, findings=(taken,), refused=REASONS[taken.code], provisioning=Provisioning(False, "NameTaken"))
    differs = plane_differs(plane, member, request)
    decision = _decide_join(request, facts, member, rules, now)
    return replace(decision, findings=(*decision.findings, differs)) if differs is not None else decision


def _decide_join(request: MemberRequest, facts: Facts, member: Member, rules: Rules, now: datetime) -> MemberDecision:
    made = make_steps(found_plane(facts.planes, member), member, request) if request.management else []
    provisioning = provisioned(request, facts, member)
    if not provisioning.ready:
        waiting = provisioning_finding(request, member, provisioning)
        return MemberDecision(member=member, steps=tuple(made), findings=(waiting,), provisioning=provisioning)
    side = facts.sides.get(member.name)
    if side is None:
        return _silent(member, facts.silent.get(member.name), provisioning)
    found = facts.karmada.clusters.get(member.member)
    findings = join_findings(request, member, side, facts.karmada)
    stopped = refusals(findings)
    if stopped:
        return MemberDecision(member=member, findings=tuple(findings), refused=REASONS[stopped[0].code], provisioning=provisioning)
    if found is not None:
        findings += token_findings(request, member, found, rules.tokens, now)
    steps = (*made, *join_steps(request, member, side, facts.karmada, rules.tokens, now))
    return MemberDecision(member=member, steps=steps, findings=tuple(findings), provisioning=provisioning)


def _silent(member: Member, error: ClusterError | None, provisioning: Provisioning) -> MemberDecision:
    if error is None:
        return MemberDecision(member=member, provisioning=provisioning)
    said = failure_finding(error.code, message=error.message, remedy=error.remedy, cluster=member.host)
    return MemberDecision(
        member=member,
        findings=(replace(said, item=member.item),),
        refused=REASONS.get(error.code, UNREACHABLE),
        provisioning=provisioning,
    )


def decide_leave(request: MemberRequest, facts: Facts, member: Member, rules: Rules, now: datetime) -> MemberDecision:
    """Decide on a cluster that is to leave."""
    found = facts.karmada.clusters.get(member.member)
    plane = found_plane(facts.planes, member) if request.management else None
    abandoned = member.name in rules.abandon
    side, error = facts.sides.get(member.name), facts.silent.get(member.name)
    other = other_cluster(request, member, side, found) if side is not None else None
    side = None if abandoned and other is not None else side  # what is at that address is not what leaves
    stone = facts.karmada.tombstones.get(member.member)
    if side is not None and stone is not None and text(stone, "data", "id") != side.uid:
        side = None
    placed = placed_finding(request, member, facts.karmada, answers=side is not None)
    problems = (foreign_cluster(request, member, found), placed, None if abandoned else other)
    stopped = [problem for problem in problems if problem is not None]
    if stopped:
        return MemberDecision(member=member, findings=tuple(stopped), refused=REASONS[stopped[0].code])
    patience = Patience(rules.deadline, abandoned)
    steps = leave_steps(request, member, side, facts.karmada, patience, now)
    findings: list[Finding] = []
    noted = noted_at(found, stone)
    waits = side is None and noted is not None and not gives_up(noted, patience, now)
    if noted is not None and (waits or (side is None and found is not None and error is not None)):
        findings.append(silent_finding(member, noted, error, rules.deadline, has_left=found is None))
    if side is None and not waits and (stone is not None or found is not None):
        findings.append(tombstone_finding(request, member))
    left = left_finding(member, side) if side is not None else None
    findings += [left] if left is not None else []
    objects = leaving_objects(member, side, stone) if side is not None else []
    if not waits and not is_held(objects):
        steps += remove_steps(plane, member, request)
    return MemberDecision(
        member=member,
        steps=tuple(steps),
        findings=tuple(findings),
        waits=waits,
        left=tuple(entry.found for entry in objects),
        plane=None if abandoned else left_in_plane(plane, member, request),
    )


def plan_of(decisions: Collection[MemberDecision], facts: Facts) -> Plan:
    """Return the plan of all decisions. Its problems are none: a refused member keeps no other one from being written."""
    steps = sorted((step for decision in decisions for step in decision.steps), key=lambda step: step.wave)
    members = [decision.member for decision in decisions]
    relied = {member.host: _relied_on(facts.sides[member.name]) for member in members if member.name in facts.sides}
    refused = tuple(decision.member.item for decision in decisions if decision.refused)
    return Plan(manager=MANAGER, steps=tuple(steps), relied_on=relied, not_carried_out=refused)


def _relied_on(side: ClusterSide) -> Mapping[str, str]:
    return {"identity": digest_of([side.uid, side.endpoint.url, side.endpoint.authority])}
