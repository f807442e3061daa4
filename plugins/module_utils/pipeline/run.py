# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One run of the pipeline, and the steps that every run has: observe, announce a plan, write it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..apply.apply import ApplyResult
from ..apply.diff import diff_plan
from ..base.errors import Defect, InvalidInput, MeshError
from ..leases.registry import registry_name
from ..lock.lock import Lock, Terms
from ..lock.state import DURATION, LONGEST, LONGEST_WAIT, SHORTEST
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ReaderFacts
from ..mesh.facts.traffic import TrafficFacts
from ..observe import Observation
from ..plan.steps import ApiWrite, Plan
from ..status.links import build_status
from .links import contacts, requests, unobserved_members
from .options import Options
from .outcome import Outcome, Recorder
from .participants import Participants, failures_left, participating_members
from .ports import Ports
from .progress import writing
from .shown import PlanMade, Sentence, WritesBegin


@dataclass(frozen=True, kw_only=True)
class Run:
    """Inputs that every run has: mesh, participants, ports, and whether it may write. ``now``: when it began; aware, UTC.

    ``lock``: the lock of the mesh, in a run that may write (``locked``). ``spent``: requests of observations that did not stand.
    """

    mesh: Mesh
    who: Participants
    ports: Ports
    now: datetime
    check_mode: bool = False
    diff: bool = False
    lock: Lock | None = None
    spent: Counter[str] = field(default_factory=Counter)

    def observe(self, parallel: int, **reads: Any) -> Observation:
        """Observe every member that takes part. The caller closes the connections.

        :param reads: ``links_only`` of ``observe.observe``.
        """
        members = self.who.access(participating_members(self.who, self.mesh))
        return self.ports.observe(members, parallel=parallel, registry=registry_name(self.mesh.binding), **self.reads_lock, **reads)

    @property
    def reads_lock(self) -> dict[str, Any]:
        """Arguments by which an observation reads the lock of the mesh; {} for runs that write nothing."""
        return {"lock": self.mesh.binding} if self.lock is not None else {}


def locked(run: Run, options: Options, action: str, attempt: Callable[[Run], Outcome | None]) -> Outcome:
    """Call ``attempt`` with a run that can take the lock of the mesh, again and again until it returns an outcome, and give the lock back.

    In check mode nothing is written, and there is no lock.

    :param action: what the run does, as other users read it while it holds the lock.
    :param attempt: observes, and returns None when ``observation_stands`` says that another run may have written since.
    :raises InvalidInput: when an option of the lock is out of its range; no request was sent.
    """
    _check_terms(options)
    terms = Terms(
        binding=run.mesh.binding,
        action=action,
        timeout=options.lock_timeout or 0,
        duration=options.lock_duration or DURATION,
        holder=options.lock_holder or "",
        parallel=options.parallel,
    )
    ports = run.ports
    lock = None if run.check_mode else ports.lock(terms, clocks=ports, show=lambda text: ports.show(Sentence(text)))
    holding = replace(run, lock=lock, spent=Counter())
    try:
        outcome = attempt(holding)
        while outcome is None:
            outcome = attempt(holding)
    finally:
        released = lock.release() if lock is not None else {}
    made = {host: count + holding.spent[host] + released.get(host, 0) for host, count in outcome.requests.items()}
    return replace(outcome, requests=made)


def _check_terms(options: Options) -> None:
    for name, value, least, most in (
        ("lock_timeout", options.lock_timeout, 0, LONGEST_WAIT),
        ("lock_duration", options.lock_duration, SHORTEST, LONGEST),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidInput(f"{name} is {value}.", remedy=f"Use {least} to {most}.")


def observation_stands(run: Run, observation: Observation, *, write: bool, leaving: Collection[str] = ()) -> bool:
    """Take the lock of every cluster that was reached. Return False if the clusters have to be observed again, under the lock.

    :param write: False for a plan without a step: then nothing is taken, but no other run may hold the lock either.
    :param leaving: members that this run takes out. Former members leave in any case.
    :raises LockHeld: when another run is at work.
    :raises ClusterError: when the lock cannot be taken.
    """
    if run.lock is None:
        return True
    whole = observation.whole
    stay = [host for host, facts in whole.facts.items() if facts.registry.present]
    gone = {*leaving, *(observation.former.clusters if observation.former is not None else ())}
    stands = run.lock.take(whole.clusters, whole.locks, stay, write=write, leaving=gone)
    if not stands:
        run.spent.update(requests(observation))
    return stands


def apply_locked(run: Run, plan: Plan, observation: Observation, **limits: Any) -> ApplyResult:
    """Apply a plan under the lock of the mesh. This is the only way by which a run applies one.

    :param limits: as ``apply.apply_plan`` has them.
    :raises MeshError: when an error came before the first write; later ones are in the result.
    """
    if run.lock is None:
        raise Defect("A plan was about to be applied without the lock of the mesh.")
    done = run.ports.apply(plan, observation, allow=run.lock.allow, progress=writing(run.ports), **limits)
    record = f"/configmaps/{registry_name(run.mesh.binding)}"
    for step in done.applied:
        if isinstance(step.action, ApiWrite) and step.action.path.endswith(record):
            run.lock.register(step.cluster, stays=step.verb != "delete")
    return done


@contextmanager
def observing(run: Run, options: Options) -> Iterator[tuple[Recorder, Observation]]:
    """Observe the members that take part, and yield the observation with a recorder, which counts the API requests at the end.

    :raises Interrupted: when an error left the context.
    """
    with run.observe(options.parallel) as observation, Recorder(Outcome(clusters=run.mesh.clusters)) as recorder:
        recorder.note(**contacts(observation))
        yield recorder, observation
        recorder.note(**contacts(observation))


def announce(
    run: Run,
    plan: Plan,
    observation: Observation,
    recorder: Recorder,
    traffic: Mapping[str, TrafficFacts] | None = None,
    *,
    approvable: bool = True,
) -> dict[str, Any]:
    """Show and record the plan before anything is written. Returns it as data.

    :param approvable: false for half of a plan, which has no hash by which it could be approved.
    """
    data = plan.to_dict() if approvable else {**plan.to_dict(), "hash": ""}
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
        done = apply_locked(run, plan, observation.whole, now=run.now, parallel=options.parallel, max_failures=allowed)
    except MeshError:
        recorder.outcome = before
        raise
    recorder.note(changed=before.changed or done.changed)
    return done


def announce_writes(run: Run, plan: Plan) -> None:
    """Say that the writes begin."""
    run.ports.show(WritesBegin(len(plan.steps)))


def measure(ports: Ports, mesh: Mesh, observation: Observation, proof: str, **more: Any) -> dict[str, Any]:
    """Measure every link now, and return ``status.binding``.

    :param proof: how the links are proven, as the option of that name: auto, readers or none.
    :param more: for ``build_status``: generation, findings, previous.
    """
    return measure_readers(ports, mesh, observation, proof, **more)[1]


def measure_readers(
    ports: Ports, mesh: Mesh, observation: Observation, proof: str, **more: Any
) -> tuple[Mapping[str, ReaderFacts], dict[str, Any]]:
    """Measure every link as ``measure`` does, and return the reports of the readers too."""
    readers = (ports.read_links if proof == "none" else ports.prove_links)(observation, mesh)
    proofs = ports.prove_as_controller(observation, mesh, proof)
    # The time is taken after reading, which takes seconds: the age of a heartbeat counts from then.
    status = build_status(mesh, observation.facts, unobserved_members(observation, mesh), readers, now=ports.now(), proofs=proofs, **more)
    return readers, status
