# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An assignment carried out: claims on record, configuration, restarts in their order, proof. Each step ends before the next begins.

Whatever stops it, another run goes on there: claims are kept, pod templates tell what they were restarted for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from ..module_utils.apply import apply_plan
from ..module_utils.facts import ClusterFacts
from ..module_utils.findings import Finding, Severity
from ..module_utils.identity import Decision, Wish, decide, established
from ..module_utils.identity_proof import IdentityProof, prove
from ..module_utils.lease_protocol import NotRecorded, Recorded, record, recording
from ..module_utils.lease_store import ClusterCopies
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.plan_identity import (
    WAVE_AGENTS,
    WAVE_APISERVER,
    WAVE_CONFIG,
    WAVE_OPERATOR,
    assignments,
    part,
    plan_assign,
    registry_after,
    registry_if_done,
)
from ..module_utils.registry import Registry
from ..module_utils.rollout import Workload, wait_for_rollouts
from ..module_utils.steps import Step
from .outcome import finding_of

PAUSE: Final = 0.2  # seconds at most before a lost write is tried again; by chance, so that two do not keep step


@dataclass
class Assigned:
    """How far it came. ``stopped`` says where, in one sentence; "" at the end."""

    decisions: tuple[Decision, ...]
    registry: Registry
    changed: bool = False
    written: list[Step] = field(default_factory=list)
    proofs: tuple[IdentityProof, ...] = ()
    findings: tuple[Finding, ...] = ()
    stopped: str = ""
    waits: bool = False  # stopped only because it was not to wait


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What is needed all the way. ``say`` is told of each step; ``look`` observes all members anew."""

    mesh: Mesh
    observation: Observation
    wishes: Mapping[str, Wish]
    quarantine: timedelta
    now: datetime
    wait: bool
    timeout: float
    say: Callable[[str], None]
    look: Callable[[], Observation]

    def run(self, registry: Registry, decisions: tuple[Decision, ...]) -> Assigned:
        """All of it, or up to where it stopped."""
        done = Assigned(decisions=decisions, registry=registry)
        if not self._claim(done):
            return done
        deadline = time.monotonic() + (self.timeout if self.wait else 0)
        plan = plan_assign(self.mesh, self.observation.facts, done.decisions, done.registry)
        for wave in (WAVE_CONFIG, WAVE_OPERATOR, WAVE_AGENTS, WAVE_APISERVER):
            steps = part(plan, wave)
            result = apply_plan(steps, self.observation, now=self.now)
            done.changed |= result.changed
            done.written.extend(result.applied)
            for step in result.applied:
                self.say(f"{step.cluster}: {step.verb} {step.object}")
            if result.failures:
                done.findings = tuple(finding_of(error) for error in result.failures.values())
                done.stopped = f"writing failed in {', '.join(sorted(result.failures))}"
                return done
            if not self._rolled_out(done, wave, deadline):
                return done
        if assignments(done.decisions):
            self._prove(done)
        return done

    def _claim(self, done: Assigned) -> bool:
        """Put the claims on record. They may come out otherwise than was announced, where another controller was faster."""
        facts = self.observation.facts

        def choose(known: Registry) -> Registry:
            return registry_after(self._decide(known), facts, known)

        result = self._record(choose, self.observation, done)
        if isinstance(result, NotRecorded):
            done.stopped = f"nothing was assigned: {result.why}"
            done.findings = (_not_recorded(result),)
            return False
        before = {d.host: (d.name, d.id) for d in done.decisions}
        done.registry, done.decisions = result.registry, self._decide(result.registry)
        for decision in assignments(done.decisions):
            if before.get(decision.host) != (decision.name, decision.id):
                self.say(f"{decision.host}: another controller was faster; it gets name {decision.name} and id {decision.id}")
        return True

    def _decide(self, known: Registry) -> tuple[Decision, ...]:
        return decide(self.mesh, self.observation.facts, known, wishes=self.wishes, now=self.now, quarantine=self.quarantine)

    def _record(self, choose: Callable[[Registry], Registry], observation: Observation, done: Assigned) -> Recorded | NotRecorded:
        facts = observation.facts
        silent = [host for host in self.mesh.clusters if host not in facts]
        running = [host for host, cluster in facts.items() if host in self.mesh.clusters and established(cluster)]
        members = [host for host in self.mesh.clusters if host in observation.clusters]
        store = ClusterCopies(self.mesh, observation.clusters, facts)
        protocol = recording(self.mesh.binding.owner, choose, [*running, *silent], members, now=datetime.now(UTC))
        result = record(store, protocol, pause=lambda: time.sleep(random.uniform(0, PAUSE)))
        done.changed |= bool(store.written)
        return result

    def _rolled_out(self, done: Assigned, wave: int, deadline: float) -> bool:
        wanted = [w for d in assignments(done.decisions) if (w := _workload(self.observation.facts[d.host], wave)) is not None]
        late = wait_for_rollouts(self.observation.clusters, wanted, deadline=deadline, clock=time.monotonic, sleep=time.sleep)
        if not late:
            return True
        done.waits = not self.wait
        done.findings = tuple(_late(workload, how, blocks=self.wait) for workload, how in sorted(late.items()))
        done.stopped = f"{', '.join(map(str, sorted(late)))} not rolled out; run it again to go on there"
        return False

    def _prove(self, done: Assigned) -> None:
        """Look again, and make leases of the claims of those that are proven."""
        targets = {d.host: d for d in assignments(done.decisions)}
        with self.look() as fresh:
            seen = {host: d for host, d in targets.items() if host in fresh.facts}
            done.proofs = tuple(prove(fresh.clusters[host], fresh.facts[host], d) for host, d in seen.items())
            doubts = [_unproven(proof) for proof in done.proofs if not proof.proven]
            gone = [finding_of_silence(host) for host in targets if host not in seen]
            done.findings = (*doubts, *gone)
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
    return Finding(
        code="CM-LEASE-14",
        severity=Severity.BLOCKING if blocks else Severity.ADVISORY,
        cluster=workload.host,
        summary=f"{workload} has not rolled out, so nothing after it was restarted",
        evidence=how,
        fix=f"kubectl --namespace {workload.namespace} rollout status {kind}/{workload.name}\n"
        "When it is done, run this again: it goes on there.",
    )


def _unproven(proof: IdentityProof) -> Finding:
    return Finding(
        code="CM-LEASE-14",
        severity=Severity.BLOCKING,
        cluster=proof.host,
        summary=f"It is not proven that all of {proof.host} runs the name and id that it was given",
        evidence="; ".join(proof.doubts),
        fix="Mend what the evidence names, then run this again: it goes on there.",
    )


def finding_of_silence(host: str) -> Finding:
    """A cluster that was written and does not answer afterwards."""
    return Finding(
        code="CM-LEASE-14",
        severity=Severity.BLOCKING,
        cluster=host,
        summary=f"{host} was given a name and an id, and does not answer any more",
        fix="When it does, run this again: it goes on there.",
    )


def _not_recorded(result: NotRecorded) -> Finding:
    return Finding(
        code="CM-LEASE-13",
        severity=Severity.BLOCKING,
        summary="The leases could not be put on record with a majority of the members",
        evidence=result.why,
        fix="Run again when the missing members answer and no other controller assigns ids at the same time.",
    )


def leases_data(registry: Registry) -> Sequence[Mapping[str, object]]:
    """The leases as a result shows them."""
    return [lease.to_dict() for lease in registry.leases]
