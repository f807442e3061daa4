# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that reports the cluster name and id of each member, and assigns them to clusters that were never meshed.

A cluster that is or was in a mesh is never renumbered: it is refused with a recipe, and nothing is written to any cluster. An assignment
claims leases, writes the configuration, restarts workloads in their order and proves the result; each step ends before the next begins.

If a run stops, the next one goes on there: claimed leases are kept, and pod templates record which assignment they were restarted for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final

from ..apply.rollout import Workload
from ..base.errors import ClusterError, Defect, Forbidden
from ..base.json_fields import mapping, text
from ..checks.context import CheckContext
from ..checks.registry import registered
from ..checks.registry import run as run_some
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import finding
from ..identity.decide import IdentityDecision, IdentityRequest, IdentityVerdict, decide, has_usable_identity
from ..identity.findings import SOLVED, foreign_leases, identity_findings
from ..identity.plan import (
    WAVE_AGENTS,
    WAVE_APISERVER,
    WAVE_CONFIG,
    WAVE_OPERATOR,
    assignments,
    plan_assign,
    plan_of_waves,
    registry_after,
    registry_if_done,
)
from ..identity.verify import IdentityProof, prove
from ..leases.agreement import doubted, mesh_registry, readable_copies
from ..leases.claims import with_renewed_claims
from ..leases.quorum import NotRecorded, Recorded, record, recording
from ..leases.registry import KEY, Registry
from ..mesh.binding.link_policy import LinkPolicy
from ..mesh.binding.model import MANAGER_DOMAIN, Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.link_decisions import decide_links
from ..mesh.ownership.marks import MANAGED_BY_LABEL
from ..observe import Observation
from ..plan.steps import Plan
from .connect import NOTHING_WRITTEN
from .options import IdentityOptions
from .outcome import Outcome, Recorder, failure_findings, finding_of, refusal_sentence
from .participants import silence
from .run import Run, announce, apply_locked, locked, observation_stands, observing
from .shown import FindingsMade, IdentitiesDecided, Sentence

_FAMILIES: Final = ("CM-ID-", "CM-LEASE-", "CM-MESH-")
PAUSE: Final = 0.2  # seconds at most before a conflicting write is repeated; random, so that two controllers do not keep step


@dataclass
class AssignmentProgress:
    """Progress of an assignment. ``stopped`` says in one sentence where it stopped; "" when it was completed."""

    decisions: tuple[IdentityDecision, ...]
    registry: Registry
    changed: bool = False
    proofs: tuple[IdentityProof, ...] = ()
    findings: tuple[Finding, ...] = ()
    stopped: str = ""
    waits: bool = False  # stopped only because the option wait is off


def assign_identities(run: Run, options: IdentityOptions, requests: Mapping[str, IdentityRequest]) -> Outcome:
    """Report the cluster name and id of each member; with the policy ``assign`` assign them to clusters that were never meshed.

    :param requests: name and id that the user wants, by inventory name.
    :raises Interrupted: when an error ended the run.
    """

    def attempt(run: Run) -> Outcome | None:
        with observing(run, options) as (recorder, observation):
            done = _decide_and_assign(run, options, requests, observation, recorder)
            recorder.note(unmet=silence(run.who, run.mesh, observation.failures, options.max_failures))
        return recorder.outcome if done else None

    reads_only = options.identity_policy != "assign"
    return locked(replace(run, check_mode=run.check_mode or reads_only), options, "assign names and ids", attempt)


def _decide_and_assign(
    run: Run, options: IdentityOptions, requests: Mapping[str, IdentityRequest], observation: Observation, recorder: Recorder
) -> bool:
    """Decide, and assign if that is wanted. Return False, before anything is shown, if the clusters have to be observed again."""
    made = judge_identities(run, options, requests, observation)
    if made.plan is not None and not observation_stands(run, observation, write=not made.idle):
        return False
    show_identities(run, made, recorder)
    error = refusal_sentence(made.findings, NOTHING_WRITTEN if options.identity_policy == "assign" else "see the findings.")
    recorder.note(error=error)
    if made.plan is None:
        return True
    announce(run, made.plan, observation, recorder)
    if not run.check_mode and not made.idle:
        assign(run, options, requests, made, observation, recorder)
    return True


@dataclass(frozen=True, kw_only=True)
class IdentitiesDecision:
    """Decisions on the cluster names and ids of the members that answered, before anything is written.

    ``plan`` is None if nothing is to be assigned or a finding blocks. ``idle``: there is nothing to do.
    """

    decisions: tuple[IdentityDecision, ...]
    registry: Registry
    findings: tuple[Finding, ...]
    plan: Plan | None
    idle: bool


def judge_identities(
    run: Run, options: IdentityOptions, requests: Mapping[str, IdentityRequest], observation: Observation
) -> IdentitiesDecision:
    """Decide on every member, and plan the assignment if the policy is ``assign``. Nothing is written or shown."""
    mesh, facts, assigns = run.mesh, observation.facts, options.identity_policy == "assign"
    members = mesh.members_in(facts)
    registry = mesh_registry(mesh, members)
    doubts = doubted(registry, readable_copies(mesh, members).values(), len(mesh.clusters))
    assignment = IdentityAssignment(run=run, observation=observation, requests=requests, options=options)
    decisions = assignment.decide(registry.with_leases(doubts))
    findings = _findings(run, observation, decisions, assigns)
    blocked = any(finding.blocks for finding in findings)
    plan = plan_assign(mesh, facts, decisions, registry) if assigns and not blocked else None
    idle = plan is None or (plan.empty and not any(d.verdict is IdentityVerdict.RESUME for d in decisions))
    return IdentitiesDecision(decisions=decisions, registry=registry, findings=findings, plan=plan, idle=idle)


def show_identities(run: Run, made: IdentitiesDecision, recorder: Recorder) -> None:
    """Show and record what was decided."""
    run.ports.show(FindingsMade(made.findings))
    run.ports.show(IdentitiesDecided(made.decisions))
    recorder.note(findings=made.findings, extra=_extra(made.decisions, made.registry))


def assign(
    run: Run,
    options: IdentityOptions,
    requests: Mapping[str, IdentityRequest],
    made: IdentitiesDecision,
    observation: Observation,
    recorder: Recorder,
) -> None:
    """Assign names and ids as decided, prove them, and record and show how far that came."""
    assignment = IdentityAssignment(run=run, observation=observation, requests=requests, options=options)
    # If a defect of the collection ends the run here, writes may have been made: reporting a change too many is the safe side.
    recorder.note(changed=True)
    done = assignment.carry_out(made.registry, made.decisions)
    run.ports.show(FindingsMade(done.findings))
    for proof in done.proofs:
        run.ports.show(Sentence(f"  {proof.host}: {'; '.join(proof.evidence)}", "good" if proof.proven else "attention"))
    recorder.note(
        changed=done.changed,
        findings=(*done.findings, *made.findings),
        extra=_extra(done.decisions, done.registry, done.proofs),
        error="" if done.waits or not done.stopped else f"Stopped: {done.stopped}.",
    )


@dataclass(frozen=True, kw_only=True)
class IdentityAssignment:
    """Inputs of one assignment, and its steps as methods."""

    run: Run
    observation: Observation
    requests: Mapping[str, IdentityRequest]
    options: IdentityOptions

    def decide(self, known: Registry) -> tuple[IdentityDecision, ...]:
        """Decide on every member, with the leases that are known."""
        quarantine = timedelta(hours=self.options.quarantine_hours)
        return decide(self.run.mesh, self.observation.facts, known, requests=self.requests, now=self.run.now, quarantine=quarantine)

    def carry_out(self, registry: Registry, decisions: tuple[IdentityDecision, ...]) -> AssignmentProgress:
        """Assign names and ids: claim, write, restart, prove. Returns how far it came; failures of clusters are findings."""
        run, ports, done = self.run, self.run.ports, AssignmentProgress(decisions=decisions, registry=registry)
        if not self._claim(done):
            return done
        deadline = ports.clock() + (self.options.wait_timeout if self.options.wait else 0)
        plan = plan_assign(run.mesh, self.observation.facts, done.decisions, done.registry)
        for wave in (WAVE_CONFIG, WAVE_OPERATOR, WAVE_AGENTS, WAVE_APISERVER):
            result = apply_locked(run, plan_of_waves(plan, wave), self.observation, now=run.now)
            done.changed |= result.changed
            for step in result.applied:
                self._show(f"{step.cluster}: {step.verb} {step.object}")
            if result.failures:
                done.findings = tuple(finding_of(error) for error in result.failures.values())
                done.stopped = f"writing failed in {', '.join(sorted(result.failures))}"
                return done
            if not self._await_rollouts(done, wave, deadline):
                return done
        if assignments(done.decisions):
            self._prove(done)
        return done

    def _show(self, sentence: str) -> None:
        self.run.ports.show(Sentence(f"  {sentence}"))

    def _claim(self, done: AssignmentProgress) -> bool:
        """Write the claimed leases to the lease registry; return False when a majority did not take them.

        If another controller was faster, other names and ids are claimed than were announced; ``done.decisions`` has them.
        """
        facts = self.observation.facts

        def choose(known: Registry) -> Registry:
            decisions = self.decide(known)
            assigned = [decision.host for decision in assignments(decisions)]
            return with_renewed_claims(registry_after(decisions, facts, known), assigned, self.run.now)

        result = self._record(choose, self.observation, done)
        if isinstance(result, NotRecorded):
            done.stopped = f"nothing was assigned: {result.why}"
            done.findings = (_not_recorded(result),)
            return False
        before = {d.host: (d.name, d.id) for d in done.decisions}
        done.registry, done.decisions = result.registry, self.decide(result.registry)
        for decision in assignments(done.decisions):
            if before.get(decision.host) != (decision.name, decision.id):
                self._show(f"{decision.host}: another controller took the values first; it gets name {decision.name} and id {decision.id}")
        return True

    def _record(self, choose: Callable[[Registry], Registry], observation: Observation, done: AssignmentProgress) -> Recorded | NotRecorded:
        facts = observation.facts
        silent = [host for host in self.run.mesh.clusters if host not in facts]
        running = [host for host, cluster in facts.items() if host in self.run.mesh.clusters and has_usable_identity(cluster)]
        members = [host for host in self.run.mesh.clusters if host in observation.clusters]
        if self.run.lock is None:
            raise Defect("Leases were about to be written without the lock of the mesh.")
        store = self.run.ports.lease_copies(self.run.mesh, observation.clusters, facts, allow=self.run.lock.allow)
        protocol = recording(self.run.mesh.binding.owner, choose, [*running, *silent], members, now=self.run.ports.now())
        result = record(store, protocol, pause=lambda: self.run.ports.sleep(random.uniform(0, PAUSE)))
        done.changed |= bool(store.written)
        for host in store.written:
            self.run.lock.register(host, stays=True)
        return result

    def _await_rollouts(self, done: AssignmentProgress, wave: int, deadline: float) -> bool:
        wanted = [w for d in assignments(done.decisions) if (w := _workload(self.observation.facts[d.host], wave)) is not None]
        ports = self.run.ports
        late = ports.wait_for_rollouts(self.observation.clusters, wanted, deadline=deadline, clocks=ports)
        if not late:
            return True
        done.waits = not self.options.wait
        done.findings = tuple(_late(workload, how, blocks=self.options.wait) for workload, how in sorted(late.items()))
        done.stopped = f"{', '.join(map(str, sorted(late)))} not rolled out; run it again to go on from there"
        return False

    def _prove(self, done: AssignmentProgress) -> None:
        """Observe the clusters again, and make their claimed leases active if every one is proven."""
        targets = {d.host: d for d in assignments(done.decisions)}
        with self.run.observe(self.options.parallel) as fresh:
            answering = {host: d for host, d in targets.items() if host in fresh.facts}
            own_names = self.run.ports.own_names
            done.proofs = tuple(prove(fresh.facts[host], d, own_names(fresh, host)) for host, d in answering.items())
            unproven = [_unproven(proof) for proof in done.proofs if not proof.proven]
            silent_findings = [no_answer_finding(host) for host in targets if host not in answering]
            done.findings = (*unproven, *silent_findings)
            if done.findings:
                done.stopped = f"not proven in {', '.join(sorted(f.cluster for f in done.findings))}"
                return
            kept = [d for d in done.decisions if d.host in fresh.facts]
            result = self._record(lambda known: registry_if_done(kept, fresh.facts, known), fresh, done)
        if isinstance(result, NotRecorded):
            done.findings, done.stopped = (_not_recorded(result),), "the new clusters run, but their leases are not on record"
        else:
            done.registry = result.registry


def _workload(cluster: ClusterFacts, wave: int) -> Workload | None:
    found = {WAVE_OPERATOR: cluster.operator, WAVE_AGENTS: cluster.agent, WAVE_APISERVER: cluster.apiserver}.get(wave)
    return Workload(cluster.host, cluster.namespace, found.kind, found.name) if found is not None else None


def _late(workload: Workload, how: str, *, blocks: bool) -> Finding:
    kind = workload.kind.lower()
    return finding(
        "CM-LEASE-14",
        severity=Severity.BLOCKING if blocks else Severity.ADVISORY,
        cluster=workload.host,
        summary=f"{workload} has not rolled out, so nothing after it was restarted",
        evidence=how,
        fix=f"kubectl --namespace {workload.namespace} rollout status {kind}/{workload.name}\n"
        "When it is done, run this again: it goes on from there.",
    )


def _unproven(proof: IdentityProof) -> Finding:
    return finding(
        "CM-LEASE-14",
        cluster=proof.host,
        summary=f"It is not proven that all of {proof.host} runs the name and id that it was given",
        evidence="; ".join(proof.doubts),
        fix="Resolve what the evidence names, then run this again: it goes on from there.",
    )


def no_answer_finding(host: str) -> Finding:
    """Return the finding about a cluster that was written and does not answer afterwards."""
    return finding(
        "CM-LEASE-14",
        cluster=host,
        summary=f"{host} was given a name and an id, and does not answer any more",
        fix="When it answers again, run this again: it goes on from there.",
    )


def _not_recorded(result: NotRecorded) -> Finding:
    return finding(
        "CM-LEASE-13",
        summary="The leases could not be recorded on a majority of the members",
        evidence=result.why,
        fix="Run again when the missing members answer and no other controller assigns ids at the same time.",
    )


def _findings(run: Run, observation: Observation, decisions: Iterable[IdentityDecision], assign: bool) -> tuple[Finding, ...]:
    """Return the findings of the identity checks, of the decisions, and about leases of other bindings."""
    context = CheckContext(decisions=decide_links(run.mesh, observation.facts, LinkPolicy(), run.now), failures=observation.failures)
    checks = run_some(context, [entry for code, entry in registered().items() if code.startswith(_FAMILIES)])
    assigned = (
        {d.host for d in decisions if d.verdict in (IdentityVerdict.ASSIGN, IdentityVerdict.RESUME) and d.id is not None}
        if assign
        else set()
    )
    kept = [f for f in checks if not (f.cluster in assigned and f.code in (*SOLVED, "CM-LEASE-15"))]
    silent = failure_findings(
        observation.failures.values(), Severity.REMEDIABLE, "Its lease stays as it is; a majority of the members has to answer."
    )
    return ordered(
        (*kept, *silent, *identity_findings(decisions, observation.facts, assign=assign), *_other_bindings(run.mesh, observation))
    )


def _other_bindings(mesh: Mesh, observation: Observation) -> Iterable[Finding]:
    """Yield findings about leases of other bindings; where RBAC forbids reading these, a finding that says so.

    Costs one request per cluster: a list of the ConfigMaps that this collection made.
    """
    found: dict[str, dict[str, str]] = {}
    for host, cluster in observation.clusters.items():
        path = f"/api/v1/namespaces/{observation.facts[host].namespace}/configmaps"
        try:
            items = cluster.list(path, label_selector=f"{MANAGED_BY_LABEL}={MANAGER_DOMAIN}")
        except Forbidden as error:
            yield finding_of(error, Severity.ADVISORY, "Leases of other bindings were not checked.")
            continue
        except ClusterError as error:
            yield finding_of(error, Severity.REMEDIABLE)
            continue
        found[host] = {text(item, "metadata", "name"): text(mapping(item, "data"), KEY) for item in items}
        found[host] = {name: content for name, content in found[host].items() if content}
    yield from foreign_leases(mesh, observation.facts, found)


def _extra(decisions: Iterable[IdentityDecision], registry: Registry, proofs: Iterable[IdentityProof] = ()) -> dict[str, Any]:
    rows = [{**asdict(d), "verdict": d.verdict.value, "reasons": list(d.reasons), "recipe": list(d.recipe)} for d in decisions]
    leases = [lease.to_dict() for lease in registry.leases]
    return {"identities": rows, "leases": leases, "proofs": [asdict(proof) for proof in proofs]}
