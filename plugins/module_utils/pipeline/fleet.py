# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run for the workloads of one tenant: observe, plan, write, and wait until they are as wanted (docs/decisions/0059).

There is no lock: every write that depends on what was read has its version as a precondition, and a run that ends at any place is taken up
by the next one. Each round of a run makes at most one transition per workload.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from ..base.conditions import with_transition_times
from ..base.errors import ClusterError, InvalidInput, MeshError, WriteConflict
from ..base.tables import count
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import listed
from ..fleet.facts import TenantFacts
from ..fleet.group_status import fleet_statuses, policy_statuses
from ..fleet.models import FleetRequest
from ..fleet.names import karmada_namespace
from ..fleet.plan import FleetPlan, WorkloadDecision, plan_fleet
from ..fleet.reads import REQUESTS_AT_ONCE, tenant_facts, tenant_reads
from ..fleet.revisions import revision_name
from ..fleet.rollout import PAUSED, STALLED, not_carried_out, situation_of
from ..fleet.rollout_state import NO_OPERATION, RolloutState
from ..fleet.status import AVAILABLE, DEGRADED, WorkloadStatus, refused_status, total_phase, workload_status
from ..fleet.staying import is_any_staying, may_go, staying_findings, tenants_own
from ..fleet.writes import item_of, service_name
from ..mesh.binding.fleet_kinds import ERROR, PENDING, PROGRESSING, FleetKind
from ..observe import Observation
from .fleet_diff import diff_fleet
from .links import requests
from .options import FleetOptions
from .outcome import Outcome, Recorder, finding_of
from .participants import Participants
from .ports import Ports
from .progress import writing
from .shown import FindingsMade, PlanMade, Sentence, WorkloadsMeasured

PAUSES: Final = (0.3, 2.0)  # seconds between two rounds: at first, and at most
SHARE: Final = 2.0  # a pause is at least so many times as long as the observation before it: it costs the API server what Karmada needs
LONGEST: Final = 5.0  # seconds that a pause is extended to by that at most
GRACE: Final = 20.0  # seconds for which a refusal may pass by itself: a namespace arrives after what is in it
SHORTEST_HASH: Final = 12
MOST_REVISIONS: Final = 50  # snapshots in one result
REVISIONS_LATER: Final = "revisionsLater"  # key of the result: how many more there are


@dataclass(frozen=True, kw_only=True)
class FleetRun:
    """Inputs of a run. ``karmada``: inventory name. ``previous``: status of each workload before, for the times of its conditions.

    ``known_revisions``: names of the revisions that the caller has; None: it wants none of them.
    """

    request: FleetRequest
    karmada: str
    options: FleetOptions
    who: Participants
    ports: Ports
    now: datetime
    check_mode: bool = False
    diff: bool = False
    previous: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    known_revisions: Collection[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Round:
    """One observation, its plan, and what it says about each workload."""

    facts: TenantFacts
    planned: FleetPlan
    statuses: Mapping[str, WorkloadStatus]
    refused: tuple[Finding, ...] = ()  # writes that failed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return ordered(
            [*self.planned.plan.problems, *self.refused, *(entry for status in self.statuses.values() for entry in status.findings)]
        )


def run_fleet(run: FleetRun) -> Outcome:
    """Carry out what the request asks for, one transition of each workload at a time, and report.

    :raises InvalidInput: when the host has no usable variables, or another plan was approved; nothing was written.
    :raises Interrupted: when an error ended the run.
    """
    opened = Observation()
    run.ports.connect(opened, run.who.access((run.karmada,))[0])
    with opened, Recorder(Outcome(clusters=(run.karmada,))) as recorder:
        try:
            first = _round(run, opened)
            _announce(run, first, recorder)
            if run.check_mode or first.planned.plan.blocked:
                _report(run, first, recorder, blocked=first.planned.plan.blocked)
            else:
                _report(run, _carry_out(run, opened, first, recorder), recorder)
        finally:
            recorder.note(requests=requests(opened))
    return recorder.outcome


def read_fleet(run: FleetRun) -> Outcome:
    """Report the workloads without writing anything."""
    return run_fleet(replace(run, check_mode=True))


def _round(run: FleetRun, opened: Observation, failures: Mapping[str, ClusterError] | None = None) -> Round:
    tenant, ports = run.request.tenant, run.ports
    found = ports.read(opened, run.karmada, tenant_reads(tenant), parallel=REQUESTS_AT_ONCE)
    facts = tenant_facts(tenant, found, run.karmada, opened.clusters[run.karmada].server_time() or ports.now())
    planned = plan_fleet(run.request, facts, run.karmada)
    statuses = {entry.name: refused_status(entry) for entry in run.request.refused if entry.kind == FleetKind.WORKLOAD}
    for name, decision in planned.decisions.items():
        error = (failures or {}).get(name)
        statuses[name] = workload_status(run.request, facts, decision, _sentence(error) if error is not None else "")
    refused = tuple(replace(finding_of(error, Severity.REMEDIABLE), item=item_of(name)) for name, error in (failures or {}).items())
    return Round(facts=facts, planned=planned, statuses=dict(sorted(statuses.items())), refused=refused)


def _announce(run: FleetRun, made: Round, recorder: Recorder) -> None:
    """Show and record the plan before anything of it is written.

    :raises InvalidInput: when another plan was approved.
    """
    plan = made.planned.plan
    run.ports.show(PlanMade(plan.to_dict()))
    diff = tuple(diff_fleet(plan, made.facts)) if run.diff else ()
    recorder.note(changed=run.check_mode and not plan.empty, plan=plan.to_dict(), diff=diff)
    approved = run.options.hash
    if approved and (len(approved) < SHORTEST_HASH or not plan.hash.startswith(approved)):
        raise InvalidInput(
            f"The plan has the hash {plan.hash[:SHORTEST_HASH]}, and {approved[:SHORTEST_HASH]} was approved; nothing was written.",
            remedy="Something has changed since. Read the new plan, and approve its hash.",
        )


def _carry_out(run: FleetRun, opened: Observation, made: Round, recorder: Recorder) -> Round:
    """Write round by round until every workload is as wanted, or time is up; without waiting, one round."""
    end = run.ports.clock() + run.options.wait_timeout
    written = run.ports.clock()
    failures: dict[str, ClusterError] = {}
    said: dict[str, str] = {}
    pause = PAUSES[0]
    stalled = frozenset(
        name for name, decision in made.planned.decisions.items() if decision.target and decision.target.turn.phase == STALLED
    )
    if made.planned.plan.empty and not (run.options.wait and _is_waiting(run.request, made, GRACE, stalled)):
        return made
    while True:
        if not made.planned.plan.empty:
            failures = _write(run, opened, made, recorder)
            written = run.ports.clock()
            pause = pause if failures else PAUSES[0]
        else:
            failures = {}  # it was made after all, or by another run
        began = run.ports.clock()
        made = _round(run, opened, failures)
        if not run.options.wait:
            return made
        took = run.ports.clock() - began
        _tell_progress(run, made, said)
        idle = run.ports.clock() - written
        if made.planned.plan.empty and not failures and not _is_waiting(run.request, made, idle, stalled):
            return made
        if run.ports.clock() >= end:
            return made
        run.ports.sleep(max(pause, min(LONGEST, SHARE * took)))
        pause = min(PAUSES[1], pause * 1.3)


def _write(run: FleetRun, opened: Observation, made: Round, recorder: Recorder) -> dict[str, ClusterError]:
    """Apply the plan, and return name of a workload -> why its write failed."""
    before = recorder.outcome.changed
    recorder.note(changed=True)  # if a defect ends the run here, something may have been written
    try:
        progress = writing(run.ports)
        done = run.ports.apply(made.planned.plan, opened, now=run.ports.now(), parallel=run.options.parallel, progress=progress)
    except MeshError:
        recorder.note(changed=before)
        raise
    recorder.note(changed=before or done.changed)
    if done.failures:
        raise next(iter(done.failures.values()))
    failed = {item: next(iter(errors.values())) for item, errors in done.items.items()}
    names = {item_of(name): name for name in (*made.statuses, *made.planned.leaving)}
    return {names[item]: error for item, error in failed.items() if item in names}


def _sentence(error: ClusterError) -> str:
    if isinstance(error, WriteConflict):
        return "Another run wrote at the same time; this one goes on from what it finds."
    return f"Karmada's API server did not take a write: {error.message}"


def _is_waiting(request: FleetRequest, made: Round, idle: float, stalled: Collection[str] = ()) -> bool:
    """Return whether time alone may bring a workload further.

    :param idle: seconds since the last write.
    :param stalled: workloads whose rollout had stalled when the run began. They get their deadline once more: what stopped them may be
        removed by now, and Karmada tries again after pauses that grow (its Works wait in a rate-limited queue).
    """
    if made.planned.leaving or (is_any_staying(request, made.facts) and (idle < GRACE or may_go(made.facts))):
        return True
    if any(_is_pending(decision) for decision in made.planned.decisions.values()):
        return True
    if made.statuses:
        return any(_may_go_on(made, name, status, idle, name in stalled) for name, status in made.statuses.items())
    # It is removed when nothing is left in it, where the tenant is to have no workload.
    return request.workloads is not None and not request.keep_others and bool(tenants_own(request, made.facts))


def _is_pending(decision: WorkloadDecision) -> bool:
    """Return whether an eviction, or a return, that is asked for waits until the rules permit it."""
    asked, last = decision.workload.operation, decision.target.turn.state.operation if decision.target is not None else NO_OPERATION
    return asked is not None and asked.id == last.id and last.result == "Accepted" and not last.is_rolled_out


def _may_go_on(made: Round, name: str, status: WorkloadStatus, idle: float, stalled: bool) -> bool:
    decision = made.planned.decisions.get(name)
    if decision is None or decision.target is None:
        return False
    phase = decision.target.turn.phase
    if phase == PAUSED:
        return False
    if phase == STALLED:
        return stalled and idle <= max(GRACE, decision.workload.rollout.deadline)
    if status.phase == DEGRADED:
        return idle < GRACE or phase != "Complete"
    return status.phase in (PENDING, PROGRESSING)


def _tell_progress(run: FleetRun, made: Round, said: dict[str, str]) -> None:
    for name, status in made.statuses.items():
        messages = [str(status.status.get("rollout", {}).get("message", ""))]
        if (decision := made.planned.decisions.get(name)) is not None and _is_pending(decision):
            messages += [entry.summary for entry in decision.findings]
        message = " ".join(filter(None, messages))
        if message and said.get(name) != message:
            said[name] = message
            run.ports.show(Sentence(f"{name}: {message}"))


def _report(run: FleetRun, made: Round, recorder: Recorder, *, blocked: bool = False) -> None:
    rows = [{"name": name, "status": _timed(run, name, status)} for name, status in made.statuses.items()]
    phases = [status.phase for status in made.statuses.values()]
    bad = [f"{name} is {status.phase}" for name, status in made.statuses.items() if status.phase != AVAILABLE]
    paused = [name for name, decision in made.planned.decisions.items() if decision.target and decision.target.turn.phase == PAUSED]
    late = (
        [entry for entry in bad if entry.split()[0] not in paused]
        if run.options.wait
        else [entry for entry in bad if entry.endswith(ERROR)]
    )
    unmet = [f"{count(len(late), 'workload')} not as wanted: {'; '.join(late[:5])}."] if late else []
    unmet += _operations_unmet(run, made)
    staying = list[Finding]()
    if run.options.wait and not (run.check_mode or blocked):
        staying = staying_findings(run.request, made.facts, made.planned.leaving, run.karmada, run.options.wait_timeout)
    if staying:
        unmet.append("What is not wanted any more is still there; the findings say what holds it.")
    if not unmet and made.refused:
        unmet.append(f"Not all could be written of {listed(sorted({entry.item for entry in made.refused}))}; the findings say why.")
    if not unmet and run.options.wait and not (blocked or made.planned.plan.empty):
        unmet.append(f"Time was over before the last {count(len(made.planned.plan.steps), 'write')}. Run again.")
    findings = tuple(ordered([*made.findings, *staying]))
    run.ports.show(FindingsMade(findings))
    run.ports.show(WorkloadsMeasured("/".join(run.request.tenant), rows))
    recorder.note(
        findings=findings,
        status={"phase": total_phase(phases)},  # the rows are in the result once: of 200 workloads they are half a megabyte
        withheld=tuple(entry for status in made.statuses.values() for entry in status.withheld),
        error="The tenant's namespace is foreign; nothing was written." if blocked else "",
        unmet="" if run.check_mode else " ".join(unmet),
        extra={
            "workloads": rows,
            "global_services": global_services(run.request),
            "fleets": fleet_statuses(run.request, made.facts),
            "placement_policies": policy_statuses(run.request),
            "leaving": list(made.planned.leaving),
            **_revisions(run.known_revisions, made),
        },
    )


def _operations_unmet(run: FleetRun, made: Round) -> list[str]:
    """Return a sentence for each operation that was asked for and is not carried out.

    A run that does not wait leaves an eviction to later runs, until the rules permit it.
    """
    found = []
    for name, decision in made.planned.decisions.items():
        state = decision.target.turn.state if decision.target is not None else RolloutState()
        if why := not_carried_out(decision.workload, state):
            found.append(f"The operation on {name} is not carried out: {why}")
        elif run.options.wait and _is_pending(decision):
            found.append(f"{state.operation.what} of {name} is not carried out yet; the findings say what is in the way.")
    return found


def _revisions(known: Collection[str] | None, made: Round) -> dict[str, Any]:
    """Return revisions that the caller does not have, the newest of each workload first, and how many of very many come later.

    :param known: None: the caller wants none.
    """
    if known is None:
        return {}
    found = []
    for name, decision in made.planned.decisions.items():
        kept = situation_of(made.facts, decision.workload).revisions
        for number in sorted(kept, reverse=True):
            if (own := revision_name(name, number)) not in known:
                row = {"name": own, "workload": name, "number": number, "hash": kept[number].hash, "snapshot": dict(kept[number].content)}
                found.append(row)
    later = max(0, len(found) - MOST_REVISIONS)
    return {"revisions": found[:MOST_REVISIONS], **({REVISIONS_LATER: later} if later else {})}


def _timed(run: FleetRun, name: str, status: WorkloadStatus) -> dict[str, Any]:
    before = run.previous.get(name, {}).get("conditions", ())
    kept: Sequence[Mapping[str, Any]] = [entry for entry in before if isinstance(entry, Mapping)] if isinstance(before, list) else []
    return {**status.status, "conditions": with_transition_times(status.status["conditions"], run.now, kept)}


def global_services(request: FleetRequest) -> list[dict[str, Any]]:
    """Return the GlobalServices that workloads with ``service.global`` ask for, with the ClusterMeshBinding of each.

    One whose name a tenant's own GlobalService has is left out: it would be overwritten.
    """
    namespace = karmada_namespace(request.tenant)
    found = []
    for workload in (request.workloads or {}).values():
        service = workload.service
        if service is not None and service.get("global") and service_name(workload.name) not in request.taken_services:
            affinity = {"affinity": service["affinity"]} if "affinity" in service else {}
            selector = {"namespace": namespace, "name": workload.name}
            found.append({"name": service_name(workload.name), "meshRef": dict(service["meshRef"]), "selector": selector, **affinity})
    return found
