# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of a workload, computed from facts that cannot be stale. Pure.

Karmada's own summary (FullyApplied) stays True for a member that is dead and for one that is suspended. So a part counts as there only if
its report is applied, healthy and about the template's present generation, and the member itself is Ready now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..base.conditions import condition
from ..base.redact import one_line
from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..mesh.binding.fleet_kinds import ERROR, PENDING, PROGRESSING, FleetKind
from .contents import TenantObject
from .facts import BindingFacts, MemberFacts, PlacedFacts, TenantFacts
from .models import FleetRequest, FleetWorkload, RefusedObject
from .plan import WorkloadDecision
from .refusals import refusal_of
from .rollout import PAUSED, STALLED, Situation, Turn, beside_of, lacking_in, not_carried_out, situation_of
from .rollout_state import COMPLETE
from .writes import is_global, item_of, service_name

AVAILABLE: Final = FleetKind.WORKLOAD.good
DEGRADED: Final = "Degraded"


@dataclass(frozen=True, kw_only=True)
class WorkloadStatus:
    """Status of one workload in the form of the CRD, and the findings about it. ``withheld``: texts for the operator of the platform."""

    status: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    withheld: tuple[Mapping[str, str], ...] = ()

    @property
    def phase(self) -> str:
        """Phase of the workload."""
        return str(self.status["phase"])


@dataclass(frozen=True, kw_only=True)
class Part:
    """Part of a workload in one cluster. ``refusal``: sentence about what the cluster did not take, "" if it took all."""

    cluster: str  # name of the KubernetesCluster
    member: str
    replicas: int
    placed: PlacedFacts
    current: bool
    ready_member: bool
    suspended: bool
    refusal: str = ""
    note: str = ""  # what it waits for, and gets by itself
    lacking: tuple[str, ...] = ()  # objects beside the workload that it has not got

    @property
    def is_there(self) -> bool:
        """Whether all of it runs there now."""
        whole = self.placed.ready >= self.replicas and self.placed.updated >= self.replicas
        arrived = self.placed.applied and self.current and not self.refusal and not self.lacking
        return arrived and self.placed.health == "Healthy" and self.ready_member and whole

    def row(self) -> dict[str, Any]:
        """Return the row of ``status.placements``."""
        message = self.refusal or self.note or self._message()
        return {
            "clusterName": self.cluster,
            "member": self.member,
            "replicas": self.replicas,
            "readyReplicas": self.placed.ready,
            "updatedReplicas": self.placed.updated,
            "applied": self.placed.applied,
            "health": self.placed.health,
            "current": self.current,
            "clusterReady": self.ready_member,
            **({"message": message} if message else {}),
        }

    def _message(self) -> str:
        if not self.ready_member:
            return "The cluster is not Ready, so this is the last report of it, and may be old."
        if self.suspended:
            return "It waits for its wave of the rollout."
        if not self.current:
            return "It has not got the present template yet."
        if self.placed.updated < self.replicas or self.placed.ready < self.replicas:
            new, ready = self.placed.updated, self.placed.ready
            return f"Pods with the present template: {new} of {self.replicas}; ready ones, of any template: {ready}."
        return f"It has not got {listed(self.lacking)} of the present revision yet." if self.lacking else ""


def refused_status(refused: RefusedObject) -> WorkloadStatus:
    """Return the status of an object whose spec is not valid."""
    message = one_line("; ".join(refused.problems), 2000)
    found = finding("CM-FLEET-01", item=item_of(refused.name), summary=f"{refused.kind} {refused.name} is not valid: {message}")
    conditions = [condition("Accepted", False, "InvalidSpec", message), condition("Ready", False, "InvalidSpec", message)]
    return WorkloadStatus(status={"phase": ERROR, "observedGeneration": refused.generation, "conditions": conditions}, findings=(found,))


def workload_status(request: FleetRequest, facts: TenantFacts, decision: WorkloadDecision, failure: str = "") -> WorkloadStatus:
    """Return the status of a workload as the facts show it, which were read after the last write of the run.

    :param decision: made from the same facts.
    :param failure: sentence about the write that failed in this run, "" if none did.
    """
    workload, situation = decision.workload, situation_of(facts, decision.workload)
    turn = decision.target.turn if decision.target is not None else None
    parts, withheld = _parts(request, facts, situation, workload)
    names = {cluster.member: cluster.name for cluster in request.clusters.values()}
    turn = replace(turn, message=_named(turn.message, names)) if turn is not None else None
    conditions = _conditions(request, decision, situation, turn, parts, failure)
    findings = (*decision.findings, *_findings(decision, situation, turn, parts, conditions))
    return WorkloadStatus(
        status={
            "phase": _phase(decision, situation, turn, parts, failure),
            "observedGeneration": workload.generation,
            "replicas": sum(part.replicas for part in parts),
            "readyReplicas": sum(part.placed.ready for part in parts if part.ready_member),
            "updatedReplicas": sum(part.placed.updated for part in parts if part.ready_member and part.current),
            "placements": [part.row() for part in parts],
            **_history(request, situation, turn),
            "conditions": conditions,
        },
        findings=findings,
        withheld=withheld,
    )


def _parts(
    request: FleetRequest, facts: TenantFacts, found: Situation, workload: FleetWorkload
) -> tuple[list[Part], tuple[Mapping[str, str], ...]]:
    names = {cluster.member: cluster.name for cluster in request.clusters.values()}
    main = TenantObject(workload.kind, workload.name)
    parts: list[Part] = []
    withheld: list[Mapping[str, str]] = []
    binding = found.binding or BindingFacts()
    beside = beside_of(workload, found)
    for member in sorted(binding.replicas):
        placed, facts_of_member = binding.placed.get(member, PlacedFacts()), facts.members.get(member) or MemberFacts(name=member)
        refusals, notes = list[str](), list[str]()
        for key in (main, *beside):
            entry = facts.bindings.get(key.binding, BindingFacts()).placed.get(member)
            if entry is not None and not entry.applied and entry.message:
                refused = refusal_of(entry.message)
                said = f"{key.kind} {key.name} {refused.sentence}."
                if refused.passes:
                    notes.append(said)
                    continue
                refusals.append(said)
                withheld.append({"cluster": member, "peer": "", "reason": one_line(entry.message, 300)})
        parts.append(
            Part(
                cluster=names.get(member, ""),
                member=member,
                replicas=placed.replicas if workload.kind == "DaemonSet" else binding.replicas[member],
                placed=placed,
                current=placed.generation == found.generation and found.generation > 0,
                ready_member=facts_of_member.ready,
                suspended=member in binding.suspended,
                refusal=" ".join(refusals),
                note=" ".join(notes),
                lacking=tuple(f"{key.kind} {key.name}" for key in lacking_in(member, found, beside)),
            )
        )
    return parts, tuple(withheld)


def _phase(decision: WorkloadDecision, found: Situation, turn: Turn | None, parts: Sequence[Part], failure: str) -> str:
    if turn is None:
        if not parts:
            return PENDING if decision.waits else ERROR
        return DEGRADED
    if failure:
        return DEGRADED if parts else PENDING
    if turn.phase == STALLED:
        return DEGRADED
    if any(part.refusal or not part.ready_member or part.placed.health == "Unhealthy" for part in parts):
        return DEGRADED
    if parts and found.binding is not None and found.binding.scheduled is False:
        return DEGRADED  # what runs stays where it was
    if found.binding is None or not parts:
        return PENDING
    done = found.scheduled and turn.phase == COMPLETE and found.live_revision == turn.state.revision
    return AVAILABLE if done and all(part.is_there for part in parts) else PROGRESSING


def _conditions(
    request: FleetRequest, decision: WorkloadDecision, found: Situation, turn: Turn | None, parts: Sequence[Part], failure: str
) -> list[dict[str, Any]]:
    accepted = turn is not None
    word, sentence = (decision.reason, decision.message) if not accepted else ("Accepted", "")
    present = [part for part in parts if part.is_there]
    absent = [part.cluster or part.member for part in parts if not part.is_there]
    refused = [f"{part.cluster}: {part.refusal}" for part in parts if part.refusal]
    scheduled = _scheduled(found)
    if failure:
        applied = condition("Applied", False, "NotWritten", failure)
    elif refused:
        applied = condition("Applied", False, "Refused", " ".join(refused))
    else:
        done = bool(parts) and all(part.placed.applied and part.current for part in parts)
        applied = condition("Applied", done, "Applied" if done else "Waiting")
    moving = turn is not None and turn.phase != COMPLETE
    stalled = turn is not None and turn.phase == STALLED
    lost = [part.cluster or part.member for part in parts if not part.ready_member]
    degraded = bool(refused or lost or stalled or failure) or (turn is None and bool(parts))
    reason = "ClusterNotReady" if lost else "Refused" if refused else "RolloutStalled" if stalled else word if degraded else "AsWanted"
    why = (
        f"Not Ready: {', '.join(lost)}." if lost else failure or " ".join(refused) or (turn.message if stalled and turn else "") or sentence
    )
    available = bool(parts) and any(part.ready_member and part.placed.ready for part in parts)
    ready = accepted and found.scheduled and not moving and not failure and bool(parts) and not absent
    return [
        condition("Accepted", accepted, word, sentence),
        scheduled,
        applied,
        condition("Available", available, "ReplicasReady" if available else "NoReplicaReady"),
        condition("Progressing", moving and not stalled, _progress_reason(turn), turn.message if turn else ""),
        condition("Degraded", degraded, reason, why if degraded else ""),
        _clusters_found(decision),
        *_global_service(request, decision.workload),
        condition(
            "Ready", ready, "Ready" if ready else _unready(decision, turn, absent), _unready_message(decision, turn, absent, present)
        ),
    ]


def _clusters_found(decision: WorkloadDecision) -> dict[str, Any]:
    if not decision.unknown:
        return condition("ClustersFound", True, "ClustersFound")
    return condition("ClustersFound", False, "ClustersMissing", unknown_sentence(decision.unknown))


def unknown_sentence(unknown: Mapping[str, Sequence[str]]) -> str:
    """Return which names are those of no KubernetesCluster, and who has them."""
    said = "; ".join(f"{place} names {listed(names)}" for place, names in unknown.items())
    return one_line(f"No KubernetesCluster of these names exists, or it is being deleted: {said}.", 1024)


def _global_service(request: FleetRequest, workload: FleetWorkload) -> list[dict[str, Any]]:
    """Return the condition of a workload that asks for a GlobalService."""
    if not is_global(workload):
        return []
    name = service_name(workload.name)
    if name in request.taken_services:
        message = f"A GlobalService {name} exists that was not made for this workload. It stays as it is, and the Service is not global."
        return [condition("ServiceGlobal", False, "NameTaken", message)]
    return [condition("ServiceGlobal", True, "Asked", f"It is the GlobalService {name}, whose status says how far it has come.")]


def _progress_reason(turn: Turn | None) -> str:
    if turn is None:
        return "NotAccepted"
    return {PAUSED: "RolloutPaused", STALLED: "RolloutStalled", COMPLETE: "RolloutComplete"}.get(turn.phase, "RollingOut")


def _unready(decision: WorkloadDecision, turn: Turn | None, absent: Sequence[str]) -> str:
    if turn is None:
        return decision.reason
    if turn.phase != COMPLETE:
        return _progress_reason(turn)
    return "NotEverywhere" if absent else "NotScheduled"


def _unready_message(decision: WorkloadDecision, turn: Turn | None, absent: Sequence[str], present: Sequence[Part]) -> str:
    if turn is None:
        return decision.message
    if turn.phase != COMPLETE:
        return turn.message
    return f"It runs in {len(present)} of {len(present) + len(absent)} clusters; it does not in {', '.join(absent)}." if absent else ""


def _scheduled(found: Situation) -> dict[str, Any]:
    binding = found.binding
    if binding is None or binding.scheduled is None or (binding.scheduled and not found.scheduled):
        return condition("Scheduled", None, "Waiting", "The scheduler has not decided yet.")
    if binding.scheduled:
        return condition("Scheduled", True, "Scheduled")
    sentences = {
        "NoClusterFit": "No cluster fits: each is excluded by the placement, not Ready, or does not serve the kind.",
        "Unschedulable": "The clusters have not enough room for the replicas.",
    }
    return condition("Scheduled", False, binding.reason or "SchedulerError", sentences.get(binding.reason, "The spread cannot be met."))


def _history(request: FleetRequest, found: Situation, turn: Turn | None) -> dict[str, Any]:
    names = {cluster.member: cluster.name for cluster in request.clusters.values()}
    state = turn.state if turn is not None else found.state
    revisions = [
        {"number": revision.number, "hash": revision.hash, **({"createdAt": revision.created} if revision.created else {})}
        for revision in (found.revisions[number] for number in sorted(found.revisions))
    ]
    history: dict[str, Any] = {"revisions": revisions}
    if state is None:
        return history
    moving = state.phase != COMPLETE
    history["currentRevision"] = state.origin if moving and state.origin else state.revision
    history["updatedRevision"] = state.revision
    if turn is not None:
        history["rollout"] = {
            "phase": turn.phase,
            "wave": state.wave,
            "of": len(state.waves),
            "revision": state.revision,
            "fromRevision": state.origin,
            "suspendedClusters": [names.get(member, member) for member in state.suspended],
            "skippedClusters": [names.get(member, member) for member in state.skipped],
            "message": turn.message,
        }
    if state.operation.id:
        asked = state.operation
        last = {"type": asked.kind, "id": asked.id, "revision": asked.revision, "result": asked.result, "message": asked.message}
        history["lastOperation"] = last
    if state.evicted:
        history["evictedClusters"] = [
            {"clusterName": names.get(member, member), "reason": entry.reason, **({"since": entry.since} if "T" in entry.since else {})}
            for member, entry in state.evicted.items()
        ]
    return history


def _named(message: str, names: Mapping[str, str]) -> str:
    """Return the message with the tenant's own names of clusters in place of Karmada's."""
    for member, name in names.items():
        message = message.replace(member, name)
    return message


def _findings(
    decision: WorkloadDecision, found: Situation, turn: Turn | None, parts: Sequence[Part], conditions: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    item, name = item_of(decision.workload.name), decision.workload.name
    findings = []
    if turn is None and not decision.findings and not decision.is_reported:
        findings.append(finding("CM-FLEET-02", item=item, summary=f"FleetWorkload {name} is not written: {decision.message}"))
    by_type = {str(entry["type"]): entry for entry in conditions}
    if decision.unknown and decision.reason != "FleetEmpty":  # CM-FLEET-02 says it then
        findings.append(finding("CM-FLEET-11", item=item, summary=f"FleetWorkload {name}: {by_type['ClustersFound']['message']}"))
    taken = by_type.get("ServiceGlobal", {})
    if taken.get("reason") == "NameTaken":
        findings.append(finding("CM-FLEET-12", item=item, summary=f"FleetWorkload {name}: {taken['message']}"))
    scheduled = by_type["Scheduled"]
    if scheduled["status"] == "False":
        findings.append(finding("CM-FLEET-03", item=item, summary=f"FleetWorkload {name} is not scheduled. {scheduled['message']}"))
    message = not_carried_out(decision.workload, turn.state) if turn is not None else ""
    if turn is not None and not message and turn.state.operation.result == "Invalid":
        message = turn.state.operation.message
    if message:
        findings.append(finding("CM-FLEET-05", item=item, summary=f"FleetWorkload {name}: the operation is not carried out. {message}"))
    if turn is not None and turn.phase == STALLED:
        findings.append(finding("CM-FLEET-07", item=item, summary=f"FleetWorkload {name}: the rollout has stalled. {turn.message}"))
    for part in parts:
        where = part.cluster or part.member
        if part.refusal:
            findings.append(finding("CM-FLEET-08", item=item, cluster=where, summary=f"FleetWorkload {name}: {part.refusal}"))
        if not part.ready_member:
            summary = f"FleetWorkload {name}: {where} holds a part of it and is not Ready, so what runs there is not known."
            findings.append(finding("CM-FLEET-10", item=item, cluster=where, summary=summary))
    return findings


def total_phase(phases: Sequence[str]) -> str:
    """Return the phase of all workloads together: the worst one, Available for none."""
    return next((phase for phase in FleetKind.WORKLOAD.phases if phase in phases), AVAILABLE)
