# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that rehearses losses: it observes the members and their links once, decides everything from that, and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..ca.report import trust_report
from ..findings.finding import Severity
from ..items.desired import Desired
from ..mesh.binding.item_kinds import ItemKind
from ..observe import Observation
from ..plan.steps import Plan
from ..reconcile.scene import observe_scene
from ..rehearse.harm import Harm
from ..rehearse.loss import Loss
from ..rehearse.rehearsal import RehearsalInputs, rehearse
from ..rehearse.stalls import WaitingPlan, stall_inputs
from .judgement import context_of, judge_and_plan
from .links import contacts
from .options import PARALLEL, ConnectOptions
from .outcome import REQUEUE_SECONDS, Outcome, failure_findings
from .run import Run, measure
from .shown import LossesRehearsed

KINDS: Final = (ItemKind.GLOBAL_SERVICE, ItemKind.EXPOSURE)


def rehearse_losses(run: Run, desired: Desired, losses: Sequence[Loss], *, fail_on: Sequence[Harm], proof: str) -> Outcome:
    """Rehearse each loss from one observation, and judge the gate.

    :param proof: how the links are proven, as the option of that name.
    """
    with run.observe(PARALLEL) as observation:
        status = measure(run.ports, run.mesh, observation, proof)
        rehearsals = rehearse(_inputs(run, desired, observation, status), losses)
        run.ports.show(LossesRehearsed(run.mesh.binding.name, rehearsals))
        return Outcome(
            findings=failure_findings(observation.failures.values(), Severity.ADVISORY, "What is lost with it is not known."),
            clusters=run.mesh.clusters,
            **contacts(observation),
            error=rehearsals.gate(fail_on),
            extra={"rehearsal": rehearsals.to_dict()},
        )


def _inputs(run: Run, desired: Desired, observation: Observation, status: Mapping[str, Any]) -> RehearsalInputs:
    scene = observe_scene(run.ports.read_traffic, observation, run.mesh, KINDS, now=run.now, binding_status=status, parallel=PARALLEL)
    options = ConnectOptions()
    context = context_of(run.ports, observation, run.mesh, options, run.now)
    report = trust_report(context.decisions, {}, renew_before_days=options.renew_before_days)
    plan = judge_and_plan(context, options)[1] if len(observation.facts) > 1 else None
    stalls = stall_inputs(scene, report["pairs"], _waiting(plan))
    return RehearsalInputs(scene=scene, desired=desired, stalls=stalls, mesh_check=REQUEUE_SECONDS["Connected"])


def _waiting(plan: Plan | None) -> WaitingPlan | None:
    """Return the plan of the links as one that may wait for an approval; None if there is nothing to approve."""
    if plan is None or plan.empty:
        return None
    clusters = {step.cluster for step in plan.steps} | set(plan.relied_on)
    return WaitingPlan(plan.hash, len(plan.steps), frozenset(clusters))
