# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that rolls a CA to the stage that the user names: it observes, plans, writes and proves until the stage is reached.

The state of a roll is kept as marks on objects of the clusters only: a run may be killed at any point, and the next one goes on. It stops
with a finding when a stage is not proven in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from ..apply.diff import diff_plan
from ..base.errors import ClusterError, WriteConflict
from ..ca.guards import MARKS_CODE, roll_blockers, unanswered_findings, unproven_stage_findings
from ..ca.roll import RollPlan, RollRequest, plan_roll
from ..ca.roll_inputs import RollInputs, StageWait
from ..ca.roll_observation import observe_roll_inputs
from ..findings.finding import Finding
from ..leases.registry import registry_name
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.trust.ca_roll import RollStage, roll_of
from ..observe import Observation
from ..plan.steps import ApiWrite, Plan, Step
from ..status.links import link_states
from .judgement import context_of, judge_and_plan, waived_codes
from .links import requests
from .options import ConnectOptions
from .outcome import Outcome, Recorder, finding_of
from .run import Run, locked, observation_stands, write
from .shown import FindingsMade, PlanMade, Sentence, StageReached
from .trust import measure_trust, without_own_codes
from .trust_ports import REAL_TRUST_PORTS, TrustPorts

RequestOf = Callable[[Mapping[str, ClusterFacts]], RollRequest]

WHAT: Final = {
    RollStage.PREPARE: "the next CA is stored beside the present one",
    RollStage.TRUST: "every reader and every mesh etcd trusts both",
    RollStage.CLIENTS: "peers show certificates of the next CA",
    RollStage.LEAVES: "the clusters' own certificates are the next CA's",
    RollStage.DROP: "no reader trusts the old CA any more",
}
WAITS_SHOWN: Final = 6
PAUSES: Final = (0.2, 0.5, 1.0, 2.0)  # seconds between two observations; the last value repeats
DOUBTS: Final = 3  # observations in a row that find a mark without its Secret before that counts as a fact
CONFLICTS: Final = 20  # conflicting writes in a row: two controllers at work, or one that reverts the writes


def roll_ca(run: Run, options: ConnectOptions, request: RequestOf, reach: TrustPorts = REAL_TRUST_PORTS) -> Outcome:
    """Roll the CA until it reaches the stage that the request names, or is held by a finding.

    In check mode: observe once, and plan the stage that the roll is in.

    :param request: returns the request from the facts of the members, by inventory name.
    :raises Interrupted: when an error ended the run.
    """
    return locked(run, options, "CA roll", lambda locking: _roll(locking, reach, options, request))


def _roll(run: Run, reach: TrustPorts, options: ConnectOptions, request: RequestOf) -> Outcome:
    with Recorder(Outcome(clusters=run.mesh.clusters)) as recorder:
        roll = RollRun(run, options, request, recorder, reach)
        timer = Timer(run.ports.clock)
        try:
            while roll.turn(timer):
                run.ports.sleep(timer.pause())
        finally:
            recorder.note(plan=roll.plan_data(), diff=tuple(roll.diffs), extra={"roll": roll.data()})
        if roll.plan.ends or roll.plan.stage is None:
            run.ports.show(StageReached(run.mesh.binding.name, roll.plan))
        with run.observe(options.parallel) as after:
            measure_trust(run, reach, options, after, recorder)
    return recorder.outcome


def stage_rows(plan: RollPlan) -> list[dict[str, str]]:
    """Return ``{stage, what, state}`` for every stage of a roll; ``state`` is done, now or later."""
    place = plan.stage.place if plan.stage else len(RollStage)
    ended = place + (1 if plan.ends else 0)
    return [
        {"stage": stage.value, "what": WHAT[stage], "state": "done" if stage.place < ended else "now" if stage.place == place else "later"}
        for stage in RollStage
    ]


class WriteResult(Enum):
    """Result of the writes of one turn."""

    DONE = "done"
    CONFLICT = "conflict"  # another writer was faster: observe again
    FAILED = "failed"


@dataclass
class Timer:
    """Time since a stage began, and the pause before its next turn; in seconds."""

    clock: Callable[[], float]
    stage: RollStage | None = None
    began: float = -1.0
    turns: int = 0
    conflicts: int = 0

    def enter(self, stage: RollStage | None) -> None:
        """Begin to count anew if ``stage`` is another one than before."""
        if self.began < 0 or stage is not self.stage:
            self.stage, self.began, self.turns, self.conflicts = stage, self.clock(), 0, 0

    @property
    def seconds(self) -> float:
        """Seconds since the stage began."""
        return self.clock() - self.began

    def pause(self) -> float:
        """Count a turn, and return the seconds to sleep before the next one."""
        self.turns += 1
        return PAUSES[min(self.turns, len(PAUSES)) - 1]


@dataclass
class RollRun:
    """A CA roll, turn by turn. Findings and errors go to the recorder; the other fields are the state between two turns."""

    run: Run
    options: ConnectOptions
    request: RequestOf
    recorder: Recorder
    reach: TrustPorts = REAL_TRUST_PORTS
    plan: RollPlan = field(default_factory=lambda: RollPlan(stage=None))
    written: list[Step] = field(default_factory=list)
    diffs: list[Mapping[str, Any]] = field(default_factory=list)
    _shown_waits: str = ""  # text of the waits that were shown last; "begun" before the first
    _over: bool = False
    _began: bool = False  # an observation of this run had marks of a roll
    _doubts: int = 0

    def turn(self, timer: Timer) -> bool:
        """Observe the members, then write or wait; return False after the last turn."""
        with self.run.observe(self.options.parallel) as observation:
            try:
                return self._observe_and_act(timer, observation)
            finally:
                before = self.recorder.outcome.requests
                made = {h: before.get(h, 0) + n for h, n in requests(observation).items()}
                self.recorder.note(requests={**before, **made}, withheld=tuple(observation.withheld))

    def _observe_and_act(self, timer: Timer, observation: Observation) -> bool:
        plan = self._decide(observation)
        if plan is None:
            return False
        self._show_progress(plan)
        self.plan = replace(plan, clusters=plan.clusters or self.plan.clusters)
        if self.run.check_mode:
            self._announce(plan.steps, observation)
            self.recorder.note(changed=bool(plan.steps or plan.waits))
            return False
        timer.enter(plan.stage)
        if plan.steps:
            written = self._write(plan.steps, observation)
            timer.conflicts += written is WriteResult.CONFLICT
            self._over = self._over or (plan.ends and written is WriteResult.DONE)
            if written is WriteResult.FAILED or (self._over and plan.ends):
                return written is not WriteResult.FAILED
        elif not plan.waits:
            return False
        if timer.seconds > float(self.options.wait_timeout) or timer.conflicts > CONFLICTS:
            self._hold(plan, timer.seconds)
            return False
        return True

    def data(self) -> dict[str, Any]:
        """Return the value of key ``roll`` of the result."""
        return {
            "stage": self.plan.stage.value if self.plan.stage else "",
            "clusters": list(self.plan.clusters),
            "stages": stage_rows(self.plan),
            "waits": [{"cluster": wait.cluster, "text": wait.text} for wait in self.plan.waits],
            "held": any(finding.code in ("CM-CA-08", "CM-CA-09") for finding in self.recorder.outcome.findings),
        }

    def plan_data(self) -> dict[str, Any]:
        """Return a plan, as data, of every step that was written; of the next steps if none was."""
        steps = tuple(self.written) if self.written else self.plan.steps
        return Plan(manager=self.run.mesh.binding.manager, steps=steps).to_dict()

    def _decide(self, observation: Observation) -> RollPlan | None:
        """Return the plan of this turn; None when a finding blocks it, which ``recorder`` then has with the error."""
        if observation.failures:
            stages = [roll.stage for facts in observation.facts.values() if (roll := roll_of(facts.ca))]
            stage = min(stages, key=lambda s: s.place, default=None)
            self._refuse(unanswered_findings(self.run.mesh, observation.failures, stage), held_at=str(stage or ""))
            return None
        mesh, ports = self.run.mesh, self.run.ports
        now = self.run.now if self.run.check_mode else ports.now()
        findings, connect = judge_and_plan(context_of(ports, observation, mesh, without_own_codes(self.options), now), self.options)
        self.recorder.note(findings=findings)
        if connect is None:
            self._refuse(findings)
            return None
        rolls = self.reach.observe_rolls(observation, mesh, now, parallel=self.options.parallel)
        links = link_states(mesh, ports.read_links(observation, mesh), facts=observation.facts)
        seen = observe_roll_inputs(observation, mesh, rolls, now=now, connect=connect.steps, links=links)
        request = self.request(observation.facts)
        self._began = self._began or bool(seen.marked())
        if self._began and not seen.marked():  # the roll has ended: by this run, or by another controller that was faster
            rest = plan_roll(seen, replace(request, clusters=()))
            return rest if rest.steps else self._plan_links_after(seen, connect)
        plan, accept = plan_roll(seen, request), frozenset(self.options.accept) | waived_codes(mesh, now)
        return self._unless_blocked(plan, roll_blockers(seen, plan.clusters, accept, source=request.source))

    def _plan_links_after(self, seen: RollInputs, connect: Plan) -> RollPlan:
        """Return the plan after the last stage: links as without a roll, and the CA of each member in the lease registry."""
        self._over = True
        record = f"/configmaps/{registry_name(self.run.mesh.binding)}"
        steps = (*seen.connect, *(s for s in connect.steps if isinstance(s.action, ApiWrite) and s.action.path.endswith(record)))
        return RollPlan(stage=None, steps=steps, waits=() if steps else seen.links)

    def _unless_blocked(self, plan: RollPlan, problems: tuple[Finding, ...]) -> RollPlan | None:
        """Return ``plan`` if no finding of ``problems`` blocks it, else record them and return None.

        Contradicting marks may be one outdated read; for ``DOUBTS`` turns the plan is returned without steps.
        """
        if not any(problem.blocks for problem in problems):
            self._add_findings(problems)
            self._doubts = 0
            return plan
        self.plan = plan
        if self._began and self._doubts < DOUBTS and {problem.code for problem in problems} == {MARKS_CODE}:
            self._doubts += 1  # the mark was read before its Secret: another controller may have ended the roll in between
            return replace(plan, steps=(), waits=tuple(StageWait(cluster=p.cluster, text=p.summary) for p in problems), ends=False)
        self._refuse((*problems, *self.recorder.outcome.findings))
        return None

    def _refuse(self, findings: tuple[Finding, ...], held_at: str = "") -> None:
        codes = ", ".join(sorted({finding.code for finding in findings if finding.blocks}))
        where = f"The CA roll is held at stage {held_at}" if held_at else "Nothing more was written"
        hosts = ", ".join(sorted({finding.cluster for finding in findings if finding.blocks and finding.cluster}))
        self.recorder.note(findings=findings, error=f"{where} ({codes}{f': {hosts}' if hosts else ''}).")
        self.run.ports.show(FindingsMade(findings))

    def _add_findings(self, findings: tuple[Finding, ...]) -> None:
        self.recorder.note(findings=(*findings, *self.recorder.outcome.findings))

    def _hold(self, plan: RollPlan, seconds: float) -> None:
        stage = plan.stage
        if stage is None:
            late = plan.waits[0].text if plan.waits else "other writers change the same objects again and again"
            self.recorder.note(error=f"The roll is done, but after {seconds:.0f} s not every link is ready: {late}.")
            return
        unproven = plan.waits or _rewritten(plan.steps)
        found = unproven_stage_findings(unproven, stage, seconds)
        self._add_findings(found)
        self.run.ports.show(FindingsMade(found))
        hosts = ", ".join(sorted({wait.cluster for wait in unproven}))
        self.recorder.note(error=f"The CA roll is held at stage {stage} after {seconds:.0f} s ({hosts}).")

    def _show_progress(self, plan: RollPlan) -> None:
        """Show the stages when one begins, and the waits when they change."""
        name = self.run.mesh.binding.name
        if not self._shown_waits or plan.stage is not self.plan.stage:
            self.run.ports.show(StageReached(name, plan))
        waits = "".join(wait.text for wait in plan.waits) if not plan.steps else ""
        if waits and waits != self._shown_waits:
            more = len(plan.waits) - WAITS_SHOWN
            for text in (*(wait.text for wait in plan.waits[:WAITS_SHOWN]), *([f"and {more} more"] if more > 0 else ())):
                self.run.ports.show(Sentence(f"  waiting: {text}"))
        self._shown_waits = waits or self._shown_waits or "begun"

    def _announce(self, steps: tuple[Step, ...], observation: Observation) -> Plan:
        plan = Plan(manager=self.run.mesh.binding.manager, steps=steps)
        self.run.ports.show(PlanMade(plan.to_dict()))
        if self.run.diff:
            self.diffs += diff_plan(plan, observation.facts)
        return plan

    def _write(self, steps: tuple[Step, ...], observation: Observation) -> WriteResult:
        if not observation_stands(self.run, observation, write=True):
            return WriteResult.CONFLICT
        plan = self._announce(steps, observation)
        done = write(replace(self.run, now=self.run.ports.now()), self.options, plan, observation, self.recorder)
        self.written += done.applied
        errors = {host: error for host, error in done.failures.items() if not isinstance(error, WriteConflict)}
        if not errors:
            return WriteResult.CONFLICT if done.failures else WriteResult.DONE
        failed = tuple(finding_of(_with_cluster(errors[host], host)) for host in sorted(errors))
        self._add_findings(failed)
        self.run.ports.show(FindingsMade(failed))
        self.recorder.note(error=f"The CA roll is held at stage {self.plan.stage}: writing failed in {', '.join(sorted(errors))}.")
        return WriteResult.FAILED


def _rewritten(steps: tuple[Step, ...]) -> tuple[StageWait, ...]:
    """Return as waits the objects that a stage goes on writing, since they are never what it wrote."""
    why = "is not what this stage writes, however often it does: another writer changes it, or it does not come from the next CA"
    return tuple(StageWait(cluster=cluster, text=f"{name} {why}") for cluster, name in dict.fromkeys((s.cluster, s.object) for s in steps))


def _with_cluster(error: ClusterError, host: str) -> ClusterError:
    error.cluster = error.cluster or host
    return error
