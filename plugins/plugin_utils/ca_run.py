# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A CA roll from wherever it is to the stage that was asked for: observe, plan, write, prove, again and again.

It keeps nothing but the clusters' own marks, so it may be killed at any point. It stops, and says so, when something is not proven in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Final

from ..module_utils.apply import apply_plan
from ..module_utils.ca.guards import MARKS_CODE, OTHERS_CODE, guards, held, silent
from ..module_utils.ca.look import look
from ..module_utils.ca.observe import observe_rolls
from ..module_utils.ca.roll import Request, RollPlan, plan_roll
from ..module_utils.ca.seen import Seen, Wait
from ..module_utils.ca.state import Stage, roll_of
from ..module_utils.diff import diff_plan
from ..module_utils.errors import ClusterError, MeshError, WriteConflict
from ..module_utils.facts import ClusterFacts
from ..module_utils.findings import Finding
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.plan import Plan
from ..module_utils.registry import registry_name
from ..module_utils.status import link_states
from ..module_utils.steps import ApiWrite, Step
from .ca_lines import stage_lines, stage_rows, wait_lines
from .engine import context_of, judge_and_plan, read_all
from .outcome import finding_of
from .report import Line, findings_lines, plan_lines

PAUSES: Final = (0.2, 0.5, 1.0, 2.0)  # seconds between two looks; the last one goes on
DOUBTS: Final = 3  # looks in a row at a mark without its Secret before it is believed
CONFLICTS: Final = 20  # writes in a row that met somebody else's: two controllers, or a controller that fights


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run needs of the outside."""

    observe: Callable[[], Observation]  # opens connections; the run closes them
    show: Callable[[Iterable[Line]], None]
    now: Callable[[], datetime]  # aware, UTC
    clock: Callable[[], float]  # seconds, monotonic
    sleep: Callable[[float], None]


class Fate(Enum):
    """What came of the writes of one turn."""

    DONE = "done"
    CONFLICT = "conflict"  # somebody wrote in between: look again
    FAILED = "failed"


@dataclass
class _Timer:
    """How long a stage takes, and how long to pause in it."""

    clock: Callable[[], float]
    stage: Stage | None = None
    began: float = -1.0
    turns: int = 0
    conflicts: int = 0

    def enter(self, stage: Stage | None) -> None:
        if self.began < 0 or stage is not self.stage:
            self.stage, self.began, self.turns, self.conflicts = stage, self.clock(), 0, 0

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    def pause(self) -> float:
        self.turns += 1
        return PAUSES[min(self.turns, len(PAUSES)) - 1]


@dataclass
class RollRun:
    """One run. After ``run`` its fields say what came of it; they are true at any moment before, too."""

    world: World
    mesh: Mesh
    params: Mapping[str, Any]
    request: Callable[[Mapping[str, ClusterFacts]], Request]
    diff: bool = False
    changed: bool = False
    error: str = ""
    findings: tuple[Finding, ...] = ()
    plan: RollPlan = field(default_factory=lambda: RollPlan(stage=None))
    written: list[Step] = field(default_factory=list)
    diffs: list[Mapping[str, Any]] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    _told: str = ""
    _over: bool = False
    _began: bool = False  # this run has seen a roll
    _doubts: int = 0

    def run(self, *, check: bool) -> None:
        """Until the roll is where it was asked to be, or holds. ``check``: one look, and the plan of the stage that it is in."""
        timer = _Timer(self.world.clock)
        while self._turn(check, timer):
            self.world.sleep(timer.pause())

    def _turn(self, check: bool, timer: _Timer) -> bool:
        """Look, then write or wait. False: this was the last turn."""
        with self.world.observe() as observation:
            try:
                return self._look_and_act(check, timer, observation)
            finally:
                for host, cluster in observation.clusters.items():
                    self.requests[host] = self.requests.get(host, 0) + sum(cluster.requests.values())

    def _look_and_act(self, check: bool, timer: _Timer, observation: Observation) -> bool:
        plan = self._decide(observation)
        if plan is None:
            return False
        self._tell(plan)
        self.plan = replace(plan, clusters=plan.clusters or self.plan.clusters)
        if check:
            self._announce(plan.steps, observation)
            self.changed = bool(plan.steps or plan.waits)
            return False
        timer.enter(plan.stage)
        if plan.steps:
            fate = self._write(plan.steps, observation)
            timer.conflicts += fate is Fate.CONFLICT
            self._over = self._over or (plan.ends and fate is Fate.DONE)
            if fate is Fate.FAILED or (self._over and plan.ends):
                return fate is not Fate.FAILED
        elif not plan.waits:
            return False
        if timer.seconds > float(self.params["wait_timeout"]) or timer.conflicts > CONFLICTS:
            self._hold(plan, timer.seconds)
            return False
        return True

    def data(self) -> dict[str, Any]:
        """Key ``roll`` of the result."""
        return {
            "stage": self.plan.stage.value if self.plan.stage else "",
            "clusters": list(self.plan.clusters),
            "stages": stage_rows(self.plan),
            "waits": [{"cluster": wait.cluster, "text": wait.text} for wait in self.plan.waits],
            "held": any(finding.code in ("CM-CA-08", "CM-CA-09") for finding in self.findings),
        }

    def plan_data(self) -> dict[str, Any]:
        """Every step that was written, or in check mode would be next."""
        steps = tuple(self.written) if self.written else self.plan.steps
        return Plan(manager=self.mesh.binding.manager, steps=steps).to_dict()

    def _decide(self, observation: Observation) -> RollPlan | None:
        """The next plan, or None when something forbids it; then ``findings`` and ``error`` say so."""
        if observation.failures:
            stages = [roll.stage for facts in observation.facts.values() if (roll := roll_of(facts.ca))]
            stage = min(stages, key=lambda s: s.place, default=None)
            self._refuse(silent(self.mesh, observation.failures, stage), held_at=str(stage or ""))
            return None
        now = self.world.now()
        accept = [code for code in self.params["accept"] if code != OTHERS_CODE]
        context = context_of(observation, self.mesh, {**self.params, "accept": accept}, now)
        days = {key: self.params[key] for key in ("certificate_days", "renew_before_days")}
        findings, connect = judge_and_plan(context, **days)
        self.findings = findings
        if connect is None:
            self._refuse(findings)
            return None
        rolls = observe_rolls(observation, self.mesh, now, parallel=self.params["parallel"])
        links = link_states(self.mesh, read_all(observation, self.mesh), facts=observation.facts)
        seen = look(observation, self.mesh, rolls, now=now, connect=connect.steps, links=links)
        request = self.request(observation.facts)
        self._began = self._began or bool(seen.marked())
        if self._began and not seen.marked():  # it has ended: by this run, or by another controller that was faster
            rest = plan_roll(seen, replace(request, clusters=()))
            return rest if rest.steps else self._links_again(seen, connect)
        plan = plan_roll(seen, request)
        return self._guarded(plan, guards(seen, plan.clusters, frozenset(self.params["accept"]), source=request.source))

    def _links_again(self, seen: Seen, connect: Plan) -> RollPlan:
        """The links go back to what they are without a roll, and the record of who is who gets each member's CA."""
        self._over = True
        record = f"/configmaps/{registry_name(self.mesh.binding)}"
        steps = (*seen.connect, *(s for s in connect.steps if isinstance(s.action, ApiWrite) and s.action.path.endswith(record)))
        return RollPlan(stage=None, steps=steps, waits=() if steps else seen.links)

    def _guarded(self, plan: RollPlan, problems: tuple[Finding, ...]) -> RollPlan | None:
        """The plan, unless something forbids it."""
        if not any(problem.blocks for problem in problems):
            self.findings, self._doubts = (*problems, *self.findings), 0
            return plan
        self.plan = plan
        if self._began and self._doubts < DOUBTS and {problem.code for problem in problems} == {MARKS_CODE}:
            self._doubts += 1  # the mark was read before its Secret: another controller may have ended the roll in between
            return replace(plan, steps=(), waits=tuple(Wait(cluster=p.cluster, text=p.summary) for p in problems), ends=False)
        self._refuse((*problems, *self.findings))
        return None

    def _refuse(self, findings: tuple[Finding, ...], held_at: str = "") -> None:
        self.findings = findings
        codes = ", ".join(sorted({finding.code for finding in findings if finding.blocks}))
        where = f"The CA roll is held at stage {held_at}" if held_at else "Nothing more was written"
        hosts = ", ".join(sorted({finding.cluster for finding in findings if finding.blocks and finding.cluster}))
        self.error = f"{where} ({codes}{f': {hosts}' if hosts else ''})."
        self.world.show(findings_lines(findings))

    def _hold(self, plan: RollPlan, seconds: float) -> None:
        stage = plan.stage
        if stage is None:
            late = plan.waits[0].text if plan.waits else "writing meets the writes of others again and again"
            self.error = f"The roll is done, but after {seconds:.0f} s not every link is ready: {late}."
            return
        found = held(plan.waits, stage, seconds)
        self.findings = (*found, *self.findings)
        self.world.show(findings_lines(found))
        hosts = ", ".join(sorted({wait.cluster for wait in plan.waits})) or "writing meets the writes of others again and again"
        self.error = f"The CA roll is held at stage {stage} after {seconds:.0f} s ({hosts})."

    def _tell(self, plan: RollPlan) -> None:
        """The stages when one begins, and what is waited for when that changes."""
        name = self.mesh.binding.name
        if not self._told or plan.stage is not self.plan.stage:
            self.world.show(stage_lines(name, plan))
        waits = "".join(wait.text for wait in plan.waits) if not plan.steps else ""
        if waits and waits != self._told:
            self.world.show(wait_lines(plan))
        self._told = waits or self._told or "begun"

    def _announce(self, steps: tuple[Step, ...], observation: Observation) -> Plan:
        plan = Plan(manager=self.mesh.binding.manager, steps=steps)
        self.world.show(plan_lines(plan.to_dict()))
        if self.diff:
            self.diffs += diff_plan(plan, observation.facts)
        return plan

    def _write(self, steps: tuple[Step, ...], observation: Observation) -> Fate:
        plan = self._announce(steps, observation)
        before, self.changed = self.changed, True
        try:
            done = apply_plan(plan, observation, now=self.world.now(), parallel=self.params["parallel"])
        except MeshError:  # raised before the first write only
            self.changed = before
            raise
        self.changed = before or done.changed
        self.written += done.applied
        errors = {host: error for host, error in done.failures.items() if not isinstance(error, WriteConflict)}
        if not errors:
            return Fate.CONFLICT if done.failures else Fate.DONE
        failed = tuple(finding_of(_named(errors[host], host)) for host in sorted(errors))
        self.findings = (*failed, *self.findings)
        self.world.show(findings_lines(failed))
        self.error = f"The CA roll is held at stage {self.plan.stage}: writing failed in {', '.join(sorted(errors))}."
        return Fate.FAILED


def _named(error: ClusterError, host: str) -> ClusterError:
    error.cluster = error.cluster or host
    return error
