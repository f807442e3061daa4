# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The runs that connect and disconnect clusters: observe them, plan, write the plan, and measure the links.

Every write is decided before the first one is made. If any finding blocks, nothing is written to any cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..adopt.plan import plan_adopt
from ..base.tables import cell, count
from ..checks import run_checks
from ..etcd.heartbeat import ControllerProof, ProofVerdict
from ..findings.finding import Finding, ordered
from ..findings.wording import finding, listed
from ..leases.plan_tombstones import lockout_findings
from ..links.disconnect import plan_disconnect
from ..links.load_balancer import awaiting_address
from ..mesh.binding.model import Mesh
from ..mesh.binding.waivers import WaiverKind
from ..mesh.facts.cluster import ObserveFailure
from ..observe import Observation
from ..observe.heartbeats import Link
from ..plan.compare import plan_changes
from ..plan.steps import Plan
from ..plan.stored import StoredPlan, options_data
from ..report.plan import SHORT_HASH
from ..report.sentences import verdict
from ..status.link_findings import late_findings, late_sentence, unmeasured_findings
from ..status.links import build_status, earlier_binding
from ..status.node_paths import node_findings
from ..status.wait import FIRST_PAUSE, LONGEST_PAUSE, wait_for_links
from .judgement import context_of, judge_without_offenders, options_for
from .link_progress import LinkProgress
from .links import missing_package, unobserved_members
from .options import ConnectOptions, Options
from .outcome import Interrupted, Outcome, Recorder, after_disconnect, finding_of, refusal_sentence
from .participants import (
    leaving_clusters,
    left_out,
    left_out_sentences,
    observe_former,
    participating_members,
    recovery_sentences,
    require_two,
    silence,
)
from .run import Run, announce, announce_writes, locked, observation_stands, observing, write
from .shown import FindingsMade, LinksMeasured, Sentence

NOTHING_WRITTEN: Final = "nothing was written anywhere."
ADOPTED_ALONE: Final = "no link was written, only what the adoption needs."
PLAN_CHANGED: Final = "CM-PLAN-01"


@dataclass(frozen=True, kw_only=True)
class ConnectDecision:
    """Findings about a run, and its plan; ``plan`` is None while a finding blocks it."""

    findings: tuple[Finding, ...]
    plan: Plan | None
    excluded: tuple[str, ...] = ()  # members that cannot take part: a finding blocks, and the plan is that of the others
    adopts: bool = False  # the plan takes over what another tool made; the links are planned after it


def connect(run: Run, options: ConnectOptions, disconnect_option: str, *, approved: StoredPlan | None = None) -> Outcome:
    """Connect the clusters of a mesh, or disconnect them, as ``options.purpose`` says.

    :param disconnect_option: how the user asks to disconnect, for instance ``state=absent``; named in errors.
    :param approved: the plan that was approved; if the new plan has another hash, nothing is written.
    :raises InvalidInput: when the options do not fit each other, the mesh or the limit.
    :raises Interrupted: when an error ended the run.
    """
    leaving = leaving_clusters(run.who, run.mesh, options, disconnect_option)
    action = options.purpose if approved is None else f"apply ({options.purpose})"
    return locked(run, options, action, lambda locking: _connect(locking, options, leaving, approved))


def _connect(run: Run, options: ConnectOptions, leaving: frozenset[str] | None, approved: StoredPlan | None) -> Outcome | None:
    """Observe, plan and write once; return None if the clusters have to be observed again."""
    goes_on = False
    with observing(run, options) as (recorder, observation):
        decision = _decide_links(run, options, leaving, observation)
        if decision.plan is not None:
            write = not decision.plan.empty and (approved is None or approved.is_the_same_as(decision.plan.hash))
            if not observation_stands(run, observation, write=write, leaving=leaving or ()):
                return None
        plan = _announce_decision(run, decision, observation, recorder)
        if plan is not None and approved is not None and not approved.is_the_same_as(plan.hash):
            evidence = ["Give the plan together with its hash to see what has changed."]
            if approved.data:
                evidence = plan_changes(approved.data, recorder.outcome.plan or {})
            refuse_changed(run, approved, plan.hash, recorder, evidence=evidence)
        elif plan is not None and not run.check_mode:
            failed = carry_out(run, options, plan, observation, recorder)
            goes_on = decision.adopts and approved is None and not failed
            if not goes_on:
                measure_links(run, options, leaving, observation, decision, failed, recorder)
        recorder.note(unmet=unmet_links(run, options, decision, observation))
    return after_stage(recorder.outcome, lambda: _connect(run, options, leaving, None), ADOPTED_ALONE) if goes_on else recorder.outcome


def unmet_links(run: Run, options: ConnectOptions, decision: ConnectDecision, observation: Observation) -> str:
    """Return the sentence about members that are left as they are or did not answer; "" without such members."""
    # A dead member is taken out by name, so that nothing is expected of it.
    silent = [host for host in observation.failures if host not in options.clusters]
    return " ".join(filter(None, (exclusion(decision), silence(run.who, run.mesh, silent, options.max_failures))))


def measure_links(
    run: Run,
    options: ConnectOptions,
    leaving: frozenset[str] | None,
    observation: Observation,
    decision: ConnectDecision,
    failed: Mapping[str, ObserveFailure],
    recorder: Recorder,
) -> None:
    """Measure the links after the plan of ``decision`` was written, as the options say.

    :param failed: clusters in which a write failed, as ``carry_out`` returns them.
    """
    if options.purpose == "connect" and options.wait:
        _wait(run, options, observation, decision, failed, recorder)
    elif options.purpose == "disconnect" and not failed:
        _measure_rest(run, options, leaving, observation, recorder)
    if run.lock is not None and options.wait:
        run.lock.settle()


def after_stage(stage: Outcome, rest: Callable[[], Outcome | None], alone: str) -> Outcome:
    """Carry out the rest of a run behind a stage that was written and had a plan of its own, and return both outcomes as one.

    :param rest: observes, plans and writes; None: the clusters have to be observed again.
    :param alone: says in errors that only the stage was written.
    :raises Interrupted: when an error ended the rest, with what both did.
    """
    outcome = None
    try:
        while outcome is None:
            outcome = rest()
    except Interrupted as stopped:
        raise Interrupted(_joined(stage, stopped.outcome, alone), stopped.error) from stopped.error
    return _joined(stage, outcome, alone)


def _joined(stage: Outcome, rest: Outcome, alone: str) -> Outcome:
    steps = [*(stage.plan or {}).get("steps", ()), *(rest.plan or {}).get("steps", ())]
    return replace(
        rest,
        changed=stage.changed or rest.changed,
        error=rest.error.replace(NOTHING_WRITTEN, alone),
        requests=Counter(stage.requests) + Counter(rest.requests),
        plan={**(rest.plan or stage.plan or {}), "steps": steps},
        diff=(*stage.diff, *rest.diff),
    )


def plan_only(run: Run, options: ConnectOptions, disconnect_option: str) -> Outcome:
    """Decide and announce a plan as ``connect`` does, and write nothing. Raises as ``connect``."""
    leaving = leaving_clusters(run.who, run.mesh, options, disconnect_option)
    with observing(run, options) as (recorder, observation):
        decision = _decide_links(run, options, leaving, observation)
        _announce_decision(run, decision, observation, recorder)
        recorder.note(unmet=exclusion(decision))
    return replace(recorder.outcome, changed=False)


def _decide_links(run: Run, options: ConnectOptions, leaving: frozenset[str] | None, observation: Observation) -> ConnectDecision:
    """Decide as ``decide``, with a finding if the whole mesh is taken away and its items stay."""
    decision = decide(run, options, leaving, observation)
    if options.purpose != "disconnect" or leaving is not None or not run.mesh.item_lists or left_out(run.who, run.mesh):
        return decision
    return replace(decision, findings=ordered((*decision.findings, items_stay(run.mesh.item_lists))))


def items_stay(lists: Sequence[str]) -> Finding:
    """Return the finding that items stay in the clusters; ``lists`` are those of ``cilium_mesh`` that name them."""
    return finding(
        "CM-ITEM-20",
        summary="cilium_mesh names items, and disconnecting leaves what they made in the clusters",
        evidence=f"{', '.join(lists)} of cilium_mesh are not empty",
        fix="Run the playbook mesh with cilium_mesh_state=absent instead; it takes away the items, and then the connections. "
        "It can still be run afterwards.",
    )


def exclusion(decision: ConnectDecision) -> str:
    """Return the sentence with which a run ends that left members as they are because they cannot take part; "" without such members."""
    if not decision.excluded:
        return ""
    blocking = refusal_sentence(decision.findings, "").rstrip("; ")
    return f"{blocking}: {listed(decision.excluded)} cannot take part, and the links there stay as they are; the others are linked."


def decide(run: Run, options: ConnectOptions, leaving: frozenset[str] | None, observation: Observation) -> ConnectDecision:
    """Run the checks on an observation and plan from it. Nothing is written or shown.

    This is the first half of a run and the whole of a dry run.
    """
    if options.purpose == "connect" or leaving is None:
        observe_former(run.ports, run.who, run.mesh, observation, parallel=options.parallel, reads_lock=run.reads_lock)
    context = context_of(run.ports, observation, run.mesh, options, run.now)
    plan: Plan | None
    excluded: tuple[str, ...] = ()
    adoption = _adoption(run, observation) if options.purpose == "connect" else None
    adopts = adoption is not None and not adoption.empty and not adoption.blocked
    if adoption is not None and adopts:
        findings, plan = ordered(adoption.problems), adoption
    elif options.purpose == "connect":
        require_two(run.who, context)
        judged, problems = judge_without_offenders(context, options), adoption.problems if adoption else ()
        findings = ordered((*judged.findings, *problems))
        plan, excluded = (None, ()) if any(problem.blocks for problem in problems) else (judged.plan, judged.excluded)
    else:
        lockouts = lockout_findings(run.mesh, observation.facts, leaving or ())
        findings = ordered((*run_checks(context, "disconnect"), *lockouts))
        blocked = any(finding.blocks for finding in findings)
        plan = None if blocked else plan_disconnect(run.mesh, observation.whole.facts, leaving)
        if plan is not None and plan.blocked:  # by a former member, which the checks do not cover
            findings, plan = ordered((*findings, *plan.problems)), None
    effective = options_for(run.mesh, options, run.now) if options.purpose == "connect" else options
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(effective).items()}
    return ConnectDecision(findings=findings, plan=plan and replace(plan, options=options_data(chosen)), excluded=excluded, adopts=adopts)


def _adoption(run: Run, observation: Observation) -> Plan | None:
    """Return the plan that adopts what another tool made; None if the binding does not ask for that, or a member is not known."""
    asked = any(waiver.kind is WaiverKind.ADOPT and waiver.in_force(run.now) for waiver in run.mesh.binding.waivers)
    return plan_adopt(run.mesh, observation.facts).plan if asked and not observation.failures else None


def carry_out(run: Run, options: Options, plan: Plan, observation: Observation, recorder: Recorder) -> dict[str, ObserveFailure]:
    """Write a plan that was announced.

    Returns the clusters in which a write failed, by inventory name; ``recorder`` then has a finding for each, and the error.
    """
    if plan.empty:
        return {}
    announce_writes(run, plan)
    done = write(run, options, plan, observation, recorder)
    failed: tuple[Finding, ...] = tuple(finding_of(done.failures[host]) for host in sorted(done.failures))
    if not failed:
        return {}
    run.ports.show(FindingsMade(failed))
    stopped = "; with more failures than max_failures allows, no further wave was begun" if done.stopped else ""
    text = f"{len(done.applied)} of {count(len(plan.steps), 'step')} done; writing failed in {', '.join(sorted(done.failures))}{stopped}."
    error = " ".join([text, *recovery_sentences(observation, done.failures)])
    recorder.note(findings=(*failed, *recorder.outcome.findings), error=error)
    return {f.cluster: ObserveFailure(host=f.cluster, code=f.code, message=f"a write failed: {f.summary}", writing=True) for f in failed}


def _announce_decision(run: Run, decision: ConnectDecision, observation: Observation, recorder: Recorder) -> Plan | None:
    """Show the findings and the plan, and return the plan.

    Returns None when a finding blocks; ``recorder`` then has the error.
    """
    show_decision(run, decision, recorder)
    if decision.plan is not None:
        announce(run, decision.plan, observation, recorder)
    return decision.plan


def show_decision(run: Run, decision: ConnectDecision, recorder: Recorder) -> None:
    """Show and record the findings of a decision, and the error if one blocks."""
    run.ports.show(FindingsMade(decision.findings))
    error = refusal_sentence(decision.findings, NOTHING_WRITTEN) if decision.plan is None else ""
    recorder.note(findings=decision.findings, error=error)


def refuse_changed(run: Run, approved: StoredPlan, fresh: str, recorder: Recorder, *, evidence: Sequence[str] = ()) -> None:
    """Record and show the finding that the approved plan does not apply any more.

    :param fresh: hash of the new plan.
    """
    was, now = approved.hash[:SHORT_HASH], fresh[:SHORT_HASH]
    changed = finding(
        PLAN_CHANGED,
        summary=f"the approved plan {was} is out of date; the current plan is {now}",
        evidence=evidence,
        fix="Review the current plan, which the same run with --check shows, and approve its hash.",
    )
    run.ports.show(FindingsMade([changed]))
    error = f"{PLAN_CHANGED}: {changed.summary}; {NOTHING_WRITTEN} {changed.evidence}".rstrip().replace("\n", "; ")
    recorder.note(changed=False, findings=(changed, *recorder.outcome.findings), error=error)


def _wait(
    run: Run,
    options: ConnectOptions,
    observation: Observation,
    decision: ConnectDecision,
    failed: Mapping[str, ObserveFailure],
    recorder: Recorder,
) -> None:
    """Wait until every link between clusters that answer is ready or the time is over, and record the status.

    Links to clusters that do not answer are measured from the end that answers, and those of excluded members are measured but not
    awaited. After a failed write the links are measured once, without waiting.
    """
    mesh, ports, plan, excluded = run.mesh, run.ports, decision.plan, decision.excluded
    without = awaiting_address(recorder.outcome.findings, (link.peer for link in (plan.links if plan else ())))
    awaited = mesh.among([host for host in observation.facts if host not in without and host not in excluded])
    seconds = float(options.wait_timeout) if awaited.links and not failed else 0.0
    written = plan is not None and not plan.empty
    progress = LinkProgress(ports=ports, links=len(awaited.links), timeout=seconds, guard=run.lock.settle if run.lock else lambda: None)
    waited = wait_for_links(
        lambda: ports.read_links(observation, mesh),
        awaited,
        timeout=seconds,
        clock=ports.clock,
        sleep=progress.sleep,
        facts=observation.facts,
        progress=progress.entered,
        prove=(lambda: ports.prove_links(observation, mesh)) if options.proof != "none" else None,
        settled=not written,
    )
    again = seconds - waited.elapsed if written and waited.ready else 0.0
    proofs = _controller_proofs(run, options, observation, awaited, written=written, timeout=again, sleep=progress.sleep)
    now = ports.now()
    missing, before = {**failed, **unobserved_members(observation, mesh)}, earlier_binding(options.previous_status)
    status = build_status(
        mesh,
        observation.facts,
        missing,
        waited.readers,
        now=now,
        written=True,
        idle=not written,
        findings=[finding for finding in recorder.outcome.findings if finding.cluster in excluded],
        proofs=proofs,
        previous=before,
    )
    _show(run, missing_package(options.proof))
    ports.show(LinksMeasured(mesh.binding.name, status, brief=not written))
    found = (*(unmeasured_findings(waited.last, missing) if awaited.links else ()), *node_findings(status, observation.facts))
    if found:
        ports.show(FindingsMade(found, brief=True))
    late: tuple[Finding, ...] = ()
    if awaited.links and (_refuted(awaited, proofs) or not waited.ready):
        expected = set(awaited.links)
        late = late_findings(row for row in status["links"] if (row["cluster"], row["peer"]) in expected)
        ports.show(FindingsMade(late, brief=True))
        why = late_sentence((*late, *found), f"{verdict(mesh.binding.name, status)} after {waited.elapsed:.0f} s.")
        recorder.note(error=recorder.outcome.error or why)
    recorder.note(status=status, findings=(*recorder.outcome.findings, *late, *found))


def _controller_proofs(
    run: Run,
    options: ConnectOptions,
    observation: Observation,
    awaited: Mesh,
    *,
    written: bool,
    timeout: float,
    sleep: Callable[[float], None],
) -> Mapping[Link, ControllerProof]:
    """Return the controller's proofs; links that a peer does not let it read are tried again for ``timeout`` seconds.

    A clustermesh-apiserver that has just started has an empty etcd and grants its users their rights one after the other, so a link may be
    refused for a moment after its readers, which the pod before still serves, say that it is ready.
    """
    ports, pause = run.ports, FIRST_PAUSE
    end = ports.clock() + timeout
    while True:
        proofs = ports.prove_as_controller(observation, run.mesh, options.proof, written=written)
        left = end - ports.clock()
        if left <= 0 or not _refuted(awaited, proofs):
            return proofs
        sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE)


def _refuted(mesh: Mesh, proofs: Mapping[Link, ControllerProof]) -> bool:
    return any(link in proofs and proofs[link].verdict is ProofVerdict.REFUTED for link in mesh.links)


def _measure_rest(run: Run, options: ConnectOptions, leaving: frozenset[str] | None, observation: Observation, recorder: Recorder) -> None:
    """Measure the links between the clusters that stay members after others were disconnected, and record the status."""
    mesh = run.mesh
    rest = mesh.among(host for host in mesh.clusters if host not in (leaving or ()))
    if leaving is None or not rest.links:
        silent = [host for host in mesh.clusters if host in observation.failures]
        _show(
            run,
            [disconnected_sentence(mesh.binding.name, participating_members(run.who, mesh), silent), *left_out_sentences(run.who, mesh)],
        )
        recorder.note(status=after_disconnect(silent))
        return
    _show(run, left_out_sentences(run.who, mesh))
    if options.wait:
        readers, before = run.ports.read_links(observation, rest), earlier_binding(options.previous_status)
        # With the failures of all clusters, so that a cluster that leaves and does not answer is named too.
        status = build_status(rest, observation.facts, observation.failures, readers, now=run.ports.now(), previous=before)
        run.ports.show(LinksMeasured(mesh.binding.name, status))
        recorder.note(status=status)


def disconnected_sentence(name: str, clusters: Sequence[str], silent: Sequence[str]) -> Sentence:
    """Return ``edge-mesh-eu: disconnected (1/2 clusters); not observed, and left as it was: cluster-ber-2``."""
    text = f"{cell(name)}: disconnected ({len(clusters) - len(silent)}/{len(clusters)} clusters)"
    return Sentence(f"{text}; not observed, and left as it was: {', '.join(silent)}", "attention") if silent else Sentence(text, "good")


def _show(run: Run, sentences: Sequence[Sentence]) -> None:
    for sentence in sentences:
        run.ports.show(sentence)
