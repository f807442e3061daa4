# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks and plan of a connection, both from one context, so that they use the same cluster names and decisions about links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from ..base.errors import InvalidInput
from ..checks import run_checks
from ..checks.context import HELD, CheckContext
from ..checks.offenders import offenders
from ..checks.registry import registered
from ..findings.catalogue import CATALOGUE
from ..findings.finding import Finding, ordered
from ..leases.plan import plan_leases
from ..links.connect import plan_connect
from ..mesh.binding.link_policy import LinkPolicy
from ..mesh.binding.model import Mesh
from ..mesh.binding.waivers import WaiverKind
from ..mesh.link_decisions import decide_links
from ..mesh.tolerance import tolerated_failures
from ..observe import Observation
from ..plan.steps import Plan, PlanOptions
from .options import ConnectOptions
from .ports import Ports

_DEFAULT: Final = ConnectOptions()


def accepted_codes(codes: Iterable[str]) -> frozenset[str]:
    """Validate the option ``accept``: a code without effect would be a silent mistake.

    :raises InvalidInput: when a code is unknown, or its finding cannot be accepted.
    """
    wanted = [str(code).strip() for code in codes]
    checks = registered()
    unknown = sorted({code for code in wanted if code not in checks})
    fixed = sorted({code for code in wanted if code in checks and not checks[code].acceptable})
    possible = ", ".join(sorted(code for code, check in checks.items() if check.acceptable))
    if unknown:
        raise InvalidInput(f"accept names findings that do not exist: {', '.join(unknown)}.", remedy=f"It may name {possible}.")
    if fixed:
        raise InvalidInput(f"accept names findings that cannot be accepted: {', '.join(fixed)}.", remedy=f"It may name {possible}.")
    return frozenset(wanted)


def hosts_to_take_back(mesh: Mesh, hosts: Iterable[str]) -> frozenset[str]:
    """Validate the option ``take_back``.

    :raises InvalidInput: when it names a cluster that is no member.
    """
    named = {str(host) for host in hosts}
    strangers = sorted(named - set(mesh.clusters))
    if strangers:
        raise InvalidInput(
            f"take_back names {', '.join(strangers)}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}."
        )
    return frozenset(named)


def waived_codes(mesh: Mesh, now: datetime) -> frozenset[str]:
    """Return the codes that waivers of the binding accept at this time, those of a CA roll among them."""
    return frozenset(waiver.subject for waiver in mesh.binding.waivers if waiver.kind is WaiverKind.ACCEPT and waiver.in_force(now))


def options_for(mesh: Mesh, options: ConnectOptions, now: datetime) -> ConnectOptions:
    """Return the options together with what the binding chooses and waives at this time.

    An option of the run that is not the default goes before the choice of the binding; waivers add to the options.
    """
    binding, waived = mesh.binding, [waiver for waiver in mesh.binding.waivers if waiver.in_force(now)]
    subjects = {kind: tuple(waiver.subject for waiver in waived if waiver.kind is kind) for kind in WaiverKind}
    of_others = {code for code, row in CATALOGUE.items() if row.acceptable} - registered().keys()  # which no check yields
    return replace(
        options,
        trust=binding.trust if binding.trust and options.trust == _DEFAULT.trust else options.trust,
        node_addresses=binding.node_addresses
        if binding.node_addresses and options.node_addresses == _DEFAULT.node_addresses
        else options.node_addresses,
        accept=tuple(dict.fromkeys((*options.accept, *(code for code in subjects[WaiverKind.ACCEPT] if code not in of_others)))),
        take_back=tuple(dict.fromkeys((*options.take_back, *(s for s in subjects[WaiverKind.TAKE_BACK] if s in mesh.clusters)))),
        repair=options.repair or bool(subjects[WaiverKind.REPAIR]),
    )


def context_of(ports: Ports, observation: Observation, mesh: Mesh, given: ConnectOptions, now: datetime) -> CheckContext:
    """Return the context of the checks. The planner uses the same cluster names and decisions about links.

    :raises InvalidInput: when an option is not valid.
    """
    options = options_for(mesh, given, now) if given.purpose == "connect" else given  # nothing in a binding stops a disconnect
    accept = accepted_codes(options.accept)
    policy = LinkPolicy(
        trust=options.trust,
        node_addresses=options.node_addresses,
        repair=options.repair,
        follow=HELD in accept,
        resolved=ports.resolve_names(observation.facts.values()),
    )
    decisions = decide_links(mesh, observation.facts, policy, now)
    if moved := decisions.moved:
        decisions = decisions.with_unproven(ports.unproven_moves(moved, observation.facts, observation.secrets))
    return CheckContext(
        decisions=decisions,
        failures=observation.failures,
        accept=accept,
        take_back=hosts_to_take_back(mesh, options.take_back),
        tolerated=tolerated_failures(mesh, observation.facts, observation.failures, options.max_failures),
        max_failures=options.max_failures,
        former=observation.former.facts if observation.former else {},
        former_failures=observation.former.failures if observation.former else {},
    )


def judge_and_plan(
    context: CheckContext, chosen: ConnectOptions, purpose: Literal["connect", "verify"] = "connect"
) -> tuple[tuple[Finding, ...], Plan | None]:
    """Run the checks of connect and plan; return the findings, and the plan unless one blocks.

    :param purpose: ``verify`` if the plan is not to be written: a member that does not answer then blocks in any case.

    The planner adds findings that need a plan: foreign keys where the mesh would write, links for which no trust mode is possible.
    """
    findings = run_checks(context, purpose)
    if any(finding.blocks for finding in findings):
        return findings, None
    options = PlanOptions(certificate_days=chosen.certificate_days, renew_before_days=chosen.renew_before_days)
    decisions = context.decisions
    leases = plan_leases(decisions.mesh, decisions.facts, decisions.members, context.former)
    plan = plan_connect(decisions, leases, options)
    known = {(f.code, f.cluster, f.peer) for f in findings}
    findings = ordered((*findings, *(p for p in plan.problems if (p.code, p.cluster, p.peer) not in known)))
    return findings, None if plan.blocked else plan


@dataclass(frozen=True, kw_only=True)
class RunJudgement:
    """Findings, the plan unless one blocks it, and the members that the plan leaves as they are because they cannot take part."""

    findings: tuple[Finding, ...]
    plan: Plan | None
    excluded: tuple[str, ...] = ()


def judge_without_offenders(context: CheckContext, chosen: ConnectOptions) -> RunJudgement:
    """Judge and plan; if only findings about members alone block, plan the links among the others, as if these members did not answer.

    What was written for an excluded member stays as it is, nothing is written in it, and its findings still block: it is not as asked.
    """
    findings, plan = judge_and_plan(context, chosen)
    excluded = offenders(context, findings) if plan is None else frozenset()
    facts = {host: cluster for host, cluster in context.facts.items() if host not in excluded}
    if not excluded or not context.mesh.among(facts).links:
        return RunJudgement(findings=findings, plan=plan)
    others, plan = judge_and_plan(replace(context, decisions=context.decisions.with_facts(facts), excluded=excluded), chosen)
    if plan is None:
        return RunJudgement(findings=findings, plan=None)
    about = (f for f in findings if f not in others and not excluded.isdisjoint((f.cluster, f.peer, *f.others)))
    return RunJudgement(findings=ordered((*about, *others)), plan=plan, excluded=tuple(h for h in context.mesh.clusters if h in excluded))
