# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One run of the pipeline, and the steps that every run has: observe, announce a plan, write it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..apply.apply import ApplyResult
from ..apply.diff import diff_plan
from ..base.errors import MeshError
from ..leases.registry import registry_name
from ..mesh.model import Mesh
from ..mesh.traffic_facts import TrafficFacts
from ..observe import Observation
from ..plan.steps import Plan
from ..status.links import build_status
from .links import requests, unobserved_members
from .options import Options
from .outcome import Outcome, Recorder
from .participants import Participants, failures_left, participating_members
from .ports import Ports
from .shown import PlanMade


@dataclass(frozen=True, kw_only=True)
class Run:
    """Inputs that every run has: mesh, participants, ports, and whether it may write. ``now``: when it began; aware, UTC."""

    mesh: Mesh
    who: Participants
    ports: Ports
    now: datetime
    check_mode: bool = False
    diff: bool = False

    def observe(self, parallel: int) -> Observation:
        """Observe every member that takes part. The caller closes the connections."""
        members = self.who.access(participating_members(self.who, self.mesh))
        return self.ports.observe(members, parallel=parallel, registry=registry_name(self.mesh.binding))


@contextmanager
def observing(run: Run, options: Options) -> Iterator[tuple[Recorder, Observation]]:
    """Observe the members that take part, and yield the observation with a recorder, which counts the API requests at the end.

    :raises Interrupted: when an error left the context.
    """
    with run.observe(options.parallel) as observation, Recorder(Outcome(clusters=run.mesh.clusters)) as recorder:
        recorder.note(requests=requests(observation))
        yield recorder, observation
        recorder.note(requests=requests(observation))


def announce(
    run: Run, plan: Plan, observation: Observation, recorder: Recorder, traffic: Mapping[str, TrafficFacts] | None = None
) -> dict[str, Any]:
    """Show and record the plan before anything is written. Returns it as data."""
    data = plan.to_dict()
    run.ports.show(PlanMade(data))
    diff = tuple(diff_plan(plan, observation.whole.facts, traffic)) if run.diff else ()
    recorder.note(changed=run.check_mode and not plan.empty, plan=data, diff=diff)
    return data


def write(run: Run, options: Options, plan: Plan, observation: Observation, recorder: Recorder) -> ApplyResult:
    """Apply the plan, and record whether something was written.

    :raises MeshError: when an error came before the first write; later ones are in the result.
    """
    # If a defect of the collection ends the run here, writes may have been made: reporting a change too many is the safe side.
    before = recorder.outcome
    recorder.note(changed=True)
    try:
        allowed = failures_left(options.max_failures, run.mesh, observation)
        done = run.ports.apply(plan, observation.whole, now=run.now, parallel=options.parallel, max_failures=allowed)
    except MeshError:
        recorder.outcome = before
        raise
    recorder.note(changed=before.changed or done.changed)
    return done


def measure(ports: Ports, mesh: Mesh, observation: Observation, proof: str, **more: Any) -> dict[str, Any]:
    """Measure every link now, and return ``status.binding``.

    :param proof: how the links are proven, as the option of that name: auto, readers or none.
    :param more: for ``build_status``: generation, findings, previous.
    """
    readers = (ports.read_links if proof == "none" else ports.prove_links)(observation, mesh)
    proofs = ports.prove_as_controller(observation, mesh, proof)
    # The time is taken after reading, which takes seconds: the age of a heartbeat counts from then.
    return build_status(mesh, observation.facts, unobserved_members(observation, mesh), readers, now=ports.now(), proofs=proofs, **more)
