# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The runs that adopt a mesh which Helm, the cilium CLI or another tool made, and hand it back. No link drops.

They change field managers and labels, and no value. While a tool still renders the objects, adoption only prepares them, and a finding
says how to stop the tool: that is no failure, and the next run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..adopt.hand_back import plan_hand_back
from ..adopt.plan import plan_adopt
from ..findings.finding import Severity, ordered
from ..links.adopted_values import AdoptionStage
from ..observe import Observation
from ..plan.steps import Plan
from .connect import NOTHING_WRITTEN, carry_out
from .options import ConnectOptions
from .outcome import Outcome, Recorder, failure_findings, refusal_sentence
from .run import Run, announce, locked, measure, observation_stands, observing
from .shown import FindingsMade, LinksMeasured, Sentence, Tone

STAGE_SENTENCES: Final[Mapping[AdoptionStage, tuple[str, Tone]]] = {
    AdoptionStage.HELD: ("waits for the hand-over: see CM-OWN-06", "attention"),
    AdoptionStage.FREE: ("adopted", "good"),
    AdoptionStage.DONE: ("nothing to adopt", ""),
}


def adopt(run: Run, options: ConnectOptions, *, handed_over: bool) -> Outcome:
    """Adopt the mesh: make the binding the owner of its objects.

    :param handed_over: the user states that the tool does not render the objects any more.
    :raises Interrupted: when an error ended the run.
    """

    def attempt(run: Run) -> Outcome | None:
        with observing(run, options) as (recorder, observation):
            adoption = plan_adopt(run.mesh, observation.facts, handed_over=handed_over)
            done = _carry_out(run, options, adoption.plan, adoption.stages, observation, recorder)
        return recorder.outcome if done else None

    return locked(run, options, "adopt", attempt)


def hand_back(run: Run, options: ConnectOptions) -> Outcome:
    """Hand the mesh back to the tool that made it.

    :raises Interrupted: when an error ended the run.
    """

    def attempt(run: Run) -> Outcome | None:
        with observing(run, options) as (recorder, observation):
            done = _carry_out(run, options, plan_hand_back(run.mesh, observation.facts), {}, observation, recorder)
        return recorder.outcome if done else None

    return locked(run, options, "hand back", attempt)


def _carry_out(
    run: Run,
    options: ConnectOptions,
    plan: Plan,
    stages: Mapping[str, AdoptionStage],
    observation: Observation,
    recorder: Recorder,
) -> bool:
    """Show the plan and write it. Return False, before anything is shown, if the clusters have to be observed again."""
    findings = ordered((*failure_findings(observation.failures.values(), Severity.BLOCKING), *plan.problems))
    error = refusal_sentence(findings, NOTHING_WRITTEN)
    if not error and not observation_stands(run, observation, write=not plan.empty):
        return False
    run.ports.show(FindingsMade(findings))
    recorder.note(findings=findings, extra={"stages": {host: stage.value for host, stage in stages.items()}}, error=error)
    if error:
        return True
    announce(run, plan, observation, recorder)
    if run.check_mode or carry_out(run, options, plan, observation, recorder):
        return True
    for host, stage in stages.items():
        run.ports.show(Sentence(f"  {host}: {STAGE_SENTENCES[stage][0]}", STAGE_SENTENCES[stage][1]))
    status = measure(run.ports, run.mesh, observation, "none")  # without waiting, as no link was changed
    run.ports.show(LinksMeasured(run.mesh.binding.name, status))
    recorder.note(status=status)
    return True
