# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The rollout of a workload as a state machine: from what Karmada holds to the one transition of this run. Pure.

    Complete ──a new content: revision, suspension──▶ Preparing ──the suspension is seen: template──▶ Rolling ──each wave──▶ Complete

A run makes one transition, and each transition is one write of the PropagationPolicy, before or after writes that may be repeated. So a run
that is killed between any two writes is continued by the next run. Without waves a new content goes to Rolling at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ..base.json_fields import annotations_of, mapping, number, parse_time, text
from ..plan.steps import NOW
from .contents import REVISION_ANNOTATION, TenantObject, content_hash, content_of, is_part, keys_of
from .facts import BindingFacts, MemberFacts, TenantFacts
from .models import FleetCluster, FleetWorkload
from .revisions import MOST, Revision, revisions_of, surplus, taken_numbers
from .rollout_state import COMPLETE, PREPARING, ROLLING, STATE_ANNOTATION, OperationState, Rollback, RolloutState, state_of, what_of

SETTLING: Final = 5  # seconds
"""How long a wave is watched at least when a change concerns an object beside the workload: what Karmada reports of a ConfigMap, Service or
the like names no generation (pkg/resourceinterpreter/default/native/reflectstatus.go), so that it may be about the object before. Karmada
brought a change to its members in 0.3 s where that was tried (docs/karmada-hazards.md, R1)."""

PAUSED: Final = "Paused"
STALLED: Final = "Stalled"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What Karmada holds of one workload."""

    now: datetime
    state: RolloutState | None = None  # None: no rollout was begun, or its annotation is lost
    revisions: Mapping[int, Revision] = field(default_factory=dict)
    taken: frozenset[int] = frozenset()  # numbers that no new revision can have
    live_revision: int = 0  # of the template, 0: there is none
    generation: int = 0  # metadata.generation of the template
    binding: BindingFacts | None = None
    beside: Mapping[TenantObject, BindingFacts | None] = field(default_factory=dict)  # of its other objects that are not being deleted
    scheduled: bool = True  # the scheduler has decided on the present placement and number of replicas
    members: Mapping[str, MemberFacts] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What this run does for a rollout, and how the rollout is reported.

    :param state: to be written if it differs from the one that was read.
    :param mint: revision to create first.
    :param write: revision whose templates shall be there; None leaves them as they are.
    :param drop: revisions to delete.
    :param phase: Complete, Preparing, Rolling, Paused or Stalled.
    """

    state: RolloutState
    mint: Revision | None = None
    write: Revision | None = None
    drop: tuple[int, ...] = ()
    phase: str = COMPLETE
    message: str = ""
    waiting: tuple[str, ...] = ()  # members of the present wave that are not done


def situation_of(facts: TenantFacts, workload: FleetWorkload) -> Situation:
    """Return what the facts say about one workload."""
    key = TenantObject(workload.kind, workload.name)
    live = facts.objects.get(key)
    policy = facts.policies.get(workload.name)
    binding = facts.bindings.get(key.binding)
    own = facts.owned(workload.name)
    return Situation(
        now=facts.now,
        state=state_of(annotations_of(policy).get(STATE_ANNOTATION, "")) if policy is not None else None,
        revisions=revisions_of(workload.name, own.revisions.values()),
        taken=taken_numbers(workload.name, own.revisions),
        live_revision=_revision_of(live) if live is not None else 0,
        generation=number(live, "metadata", "generation"),
        binding=binding,
        beside={
            other: facts.bindings.get(other.binding)
            for other, found in own.objects.items()
            if other != key and not text(found, "metadata", "deletionTimestamp")
        },
        scheduled=binding is None or _is_decided(binding, live, policy),
        members=facts.members,
    )


def _revision_of(live: Mapping[str, Any]) -> int:
    """Return the revision that an object in Karmada was written with, 0 if none is noted."""
    noted = annotations_of(live).get(REVISION_ANNOTATION, "")
    return int(noted) if noted.isascii() and noted.isdigit() and len(noted) < len(str(MOST + 1)) else 0


def _is_decided(binding: BindingFacts, live: Mapping[str, Any] | None, policy: Mapping[str, Any] | None) -> bool:
    """Return whether the scheduler has decided on what the policy and the template say now: Karmada brings it both with a delay."""
    total, given = number(live, "spec", "replicas"), binding.replicas.values()
    divided = sum(given) == total or all(count == total for count in given)
    return is_part(mapping(policy, "spec", "placement"), binding.placement) and binding.total == total and divided


def turn_of(
    workload: FleetWorkload,
    found: Situation,
    clusters: Collection[FleetCluster],
    context: Mapping[str, Any],
    clients: Collection[str] = (),
) -> Turn:
    """Return the transition of this run.

    :param clusters: candidates of the placement.
    :param context: what a new revision notes about its placement.
    :param clients: members that get the global Service of the workload, with or without the workload.
    """
    state = _operated(workload, found, found.state or _recovered(found))
    if workload.hold is not None:
        state = replace(state, held=workload.hold)
    wanted = _wanted(workload, found, state)
    current = found.revisions.get(state.revision)
    if (current is None or current.hash != content_hash(wanted)) and not (_is_paused(workload, state) and found.live_revision):
        everywhere = (tuple(cluster.member for cluster in clusters),)
        waves = waves_of(workload, clusters, clients) if found.live_revision else everywhere
        return _begin(workload, found, state, wanted, waves, context)
    if state.phase == PREPARING:
        return _prepare(workload, found, state)
    if state.phase == ROLLING:
        return _roll(workload, found, state)
    return _rest(workload, found, state, wanted)


def _is_paused(workload: FleetWorkload, state: RolloutState) -> bool:
    return workload.rollout.paused or state.held


def _recovered(found: Situation) -> RolloutState:
    """Return the state of a workload whose annotation is missing: what is live is taken as complete."""
    return RolloutState(revision=found.live_revision)


def _operated(workload: FleetWorkload, found: Situation, state: RolloutState) -> RolloutState:
    """Return the state after the operation that is asked for, which is done once per id."""
    asked = workload.operation
    if asked is None or asked.id == state.operation.id or asked.id in state.earlier:
        return state
    noted = OperationState(kind=asked.kind, id=asked.id, result="Accepted", cluster=asked.cluster, to=asked.to_revision)
    state = state.with_operation(noted)
    if not noted.is_rolled_out:
        return state
    if asked.kind == "Restart":
        return replace(state, restart=asked.id)
    if asked.to_revision not in found.revisions:
        known = ", ".join(str(position) for position in sorted(found.revisions)) or "none"
        message = f"There is no revision {asked.to_revision}; there are {known}."
        return replace(state, operation=noted._replace(result="Invalid", message=message))
    content = found.revisions[asked.to_revision].content
    back = Rollback(asked.to_revision, content_hash(content_of(workload)))
    return replace(state, rollback=back, restart=str(content.get("restart", "")))


def not_carried_out(workload: FleetWorkload, state: RolloutState) -> str:
    """Return why the operation that is asked for is not carried out and will not be, "" if it is or may be.

    :param state: after the operation was noted.
    """
    asked = workload.operation
    if asked is None:
        return ""
    last, wanted = asked.id == state.operation.id, what_of(asked.kind, asked.to_revision, asked.cluster)
    before = state.operation.what if last else state.earlier.get(asked.id, "")
    if before and before != wanted:
        return f"The id {asked.id} was used for {before}, and each id is carried out once: give {wanted} another id."
    return state.operation.message if last and state.operation.result == "Invalid" else ""


def _wanted(workload: FleetWorkload, found: Situation, state: RolloutState) -> dict[str, Any]:
    """Return the content that is wanted: of the spec, or of the revision of a rollback until the spec changes."""
    spec = content_of(workload)
    back = state.rollback
    if back is not None and back.spec == content_hash(spec) and back.to in found.revisions:
        base = {key: value for key, value in found.revisions[back.to].content.items() if key != "restart"}
    else:
        base = spec
    return {**base, "restart": state.restart} if state.restart else base


def _begin(
    workload: FleetWorkload,
    found: Situation,
    state: RolloutState,
    wanted: dict[str, Any],
    waves: tuple[tuple[str, ...], ...],
    context: Mapping[str, Any],
) -> Turn:
    newest = found.revisions.get(max(found.revisions, default=0))
    if newest is not None and newest.hash == content_hash(wanted) and newest.number > state.revision:
        revision, mint = newest, None  # an earlier run was ended after it had made the revision
    else:
        number_of_new = max((state.revision, *found.revisions, *found.taken)) + 1
        revision = mint = Revision(number=number_of_new, content=wanted, context=context)
    back = state.rollback
    if back is not None and back.spec != content_hash(content_of(workload)):
        state = replace(state, rollback=None)
    operation = state.operation
    if operation.result == "Accepted" and operation.is_rolled_out and not operation.revision:
        operation = operation._replace(revision=revision.number)
    begun = replace(
        state,
        revision=revision.number,
        origin=found.live_revision,
        waves=waves,
        wave=0 if len(waves) > 1 else 1,
        phase=PREPARING if len(waves) > 1 else ROLLING,
        wave_started=NOW,
        settled_since="",
        skipped=(),
        operation=operation,
    )
    if begun.phase == ROLLING:
        return Turn(state=begun, mint=mint, write=revision, phase=ROLLING, message=f"Revision {revision.number} goes to all clusters.")
    message = f"Revision {revision.number} waits until all clusters but those of wave 1 are suspended."
    return Turn(state=begun, mint=mint, write=found.revisions.get(found.live_revision), phase=PREPARING, message=message)


def _prepare(workload: FleetWorkload, found: Situation, state: RolloutState) -> Turn:
    """Write the templates once Karmada's own records of the placement show the suspension: before, they could go everywhere.

    Each object has a record of its own, and Karmada changes them one after the other. What is beside a workload that the scheduler has
    placed nowhere may have none (writes.py).
    """
    later, main = set(state.suspended), found.binding
    records = [record for record in found.beside.values() if record is not None or (main is not None and main.replicas)]
    if found.live_revision:  # else another program has deleted the template, which comes back suspended
        records.append(main)
    seen = all(record is not None and record.suspended >= later for record in records)
    if seen and not _is_paused(workload, state):
        begun = replace(state, phase=ROLLING, wave=1, wave_started=NOW)
        message = f"Revision {state.revision} goes to wave 1 of {len(state.waves)}."
        return Turn(state=begun, write=found.revisions.get(state.revision), phase=ROLLING, message=message, waiting=state.waves[0])
    phase = PAUSED if _is_paused(workload, state) else STALLED if _overdue(workload, found, state) else PREPARING
    message = {
        PAUSED: f"Paused before wave 1 of {len(state.waves)}.",
        STALLED: f"Karmada has not suspended the later waves for {workload.rollout.deadline} s; its controllers may be down.",
    }.get(phase, f"Revision {state.revision} waits until all clusters but those of wave 1 are suspended.")
    return Turn(state=state, write=found.revisions.get(found.live_revision), phase=phase, message=message)


def _roll(workload: FleetWorkload, found: Situation, state: RolloutState) -> Turn:
    write = found.revisions.get(state.revision)
    if found.live_revision != state.revision:  # what members report is about the template before
        message = f"Revision {state.revision} goes to wave {state.wave} of {len(state.waves)}."
        return Turn(state=state, write=write, phase=ROLLING, message=message, waiting=state.waves[state.wave - 1] if state.waves else ())
    last = state.wave >= len(state.waves)
    present = set(state.waves[state.wave - 1]) if state.waves else set()
    holders = set(found.binding.replicas) if found.binding is not None else set()
    if last:  # clusters that came meanwhile are in no wave
        present |= holders - {member for wave in state.waves for member in wave}
    waiting, lost, beside = [], [], beside_of(workload, found)
    for member in sorted(present):
        facts = found.members.get(member)
        if facts is None or not facts.ready:
            lost.append(member)
        elif not settled_in(member, found):
            waiting.append(member)
        elif member in holders and (lacking := lacking_in(member, found, beside)):
            waiting.append(f"{member} ({', '.join(f'{key.kind} {key.name}' for key in lacking)})")
    if not found.scheduled:
        waiting = waiting or ["the scheduler"]
    if last and not waiting and not any(_is_proven(member, found) for member in found.members):
        waiting = ["a cluster that proves it"]  # all of them are lost, or the scheduler chose none
    skipped = tuple(sorted({*state.skipped, *lost}))
    where = f"wave {state.wave} of {len(state.waves)}"
    if _is_paused(workload, state):
        return Turn(state=state, write=write, phase=PAUSED, message=f"Paused in {where}.", waiting=tuple(waiting))
    if waiting:
        state = replace(state, settled_since="") if state.settled_since else state
        overdue = _overdue(workload, found, state)
        message = f"{where.capitalize()} waits for {', '.join(waiting)}"
        message += f", longer than {workload.rollout.deadline} s." if overdue else "."
        return Turn(state=state, write=write, phase=STALLED if overdue else ROLLING, message=message, waiting=tuple(waiting))
    pause = max(workload.rollout.pause, SETTLING if _changes_beside(found, state) else 0)
    if pause and not last:
        since = parse_time(state.settled_since)
        if since is None:
            kept = replace(state, settled_since=NOW, skipped=skipped)
            return Turn(state=kept, write=write, phase=ROLLING, message=f"{where.capitalize()} is done; it is watched now.")
        if found.now - since < timedelta(seconds=pause):
            message = f"{where.capitalize()} is done, and watched for {pause} s."
            return Turn(state=state, write=write, phase=ROLLING, message=message)
    if not last:
        on = replace(state, wave=state.wave + 1, wave_started=NOW, settled_since="", skipped=skipped)
        message = f"Revision {state.revision} goes to wave {on.wave} of {len(state.waves)}."
        return Turn(state=on, write=write, phase=ROLLING, message=message, waiting=state.waves[on.wave - 1])
    done = replace(state, phase=COMPLETE, waves=(), wave=0, wave_started="", settled_since="", skipped=skipped)
    if done.operation.result == "Accepted" and done.operation.is_rolled_out:
        done = replace(done, operation=done.operation._replace(result="Complete"))
    return Turn(state=done, write=write, drop=_surplus(workload, found, done), message=_complete(workload, done))


def _rest(workload: FleetWorkload, found: Situation, state: RolloutState, wanted: Mapping[str, Any]) -> Turn:
    write = found.revisions.get(state.revision)
    if _is_paused(workload, state) and (write is None or write.hash != content_hash(wanted)):
        return Turn(state=state, write=write, phase=PAUSED, message="Paused; the spec has changes that are not rolled out.")
    if state.operation.result == "Accepted" and state.operation.is_rolled_out:  # what it asks for is there already
        state = replace(state, operation=state.operation._replace(result="Complete", revision=state.revision))
    return Turn(state=state, write=write, drop=_surplus(workload, found, state), message=_complete(workload, state))


def lacking_in(member: str, found: Situation, keys: Iterable[TenantObject]) -> list[TenantObject]:
    """Return the objects beside the workload that the member has not got, as far as reports tell.

    A report may be about the object before (SETTLING). A run writes these objects before the workload (writes.py).

    :param keys: those of the live revision.
    """
    lacking = []
    for key in keys:
        binding = found.beside.get(key)
        placed = binding.placed.get(member) if binding is not None and member not in binding.suspended else None
        if placed is None or not placed.applied:
            lacking.append(key)
    return lacking


def _changes_beside(found: Situation, state: RolloutState) -> bool:
    """Return whether the present revision has other objects beside the workload than the one before, or that one is not known."""
    before, now = found.revisions.get(state.origin), found.revisions.get(state.revision)
    if before is None or now is None:
        return True
    return any(before.content.get(part) != now.content.get(part) for part in ("service", "resources"))


def beside_of(workload: FleetWorkload, found: Situation) -> tuple[TenantObject, ...]:
    """Return the objects beside the workload that its live revision consists of."""
    live = found.revisions.get(found.live_revision)
    main = TenantObject(workload.kind, workload.name)
    return tuple(key for key in keys_of(workload.name, live.content) if key != main) if live is not None else ()


def settled_in(member: str, found: Situation) -> bool:
    """Return whether the member has the workload at the template's generation, applied, healthy and with all replicas updated and ready.

    A member to which the scheduler gives nothing has nothing to wait for.
    """
    if found.binding is None:
        return False
    if member not in found.binding.replicas:
        return True
    placed = found.binding.placed.get(member)
    if placed is None or not placed.applied or placed.health != "Healthy" or placed.generation != found.generation:
        return False
    return placed.updated == placed.replicas == placed.ready


def _is_proven(member: str, found: Situation) -> bool:
    placed = found.binding is not None and member in found.binding.replicas
    return placed and found.members[member].ready and settled_in(member, found)


def waves_of(workload: FleetWorkload, clusters: Collection[FleetCluster], clients: Collection[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the waves as members: those that are named, and what is left as the last one; or batches in the order of names.

    :param clients: members that get a changed Service with the last wave, when all clusters with the workload have it.
    """
    members = {cluster.name: cluster.member for cluster in clusters}
    rules = workload.rollout
    waves: list[tuple[str, ...]] = []
    if rules.batch_size:
        ordered = [members[name] for name in sorted(members)]
        waves = [tuple(ordered[start : start + rules.batch_size]) for start in range(0, len(ordered), rules.batch_size)]
    elif rules.waves:
        named: set[str] = set()
        for wave in rules.waves:
            waves.append(tuple(members[name] for name in wave if name in members and name not in named))
            named |= set(wave)
        waves.append(tuple(members[name] for name in sorted(members) if name not in named))
    else:
        waves = [tuple(members[name] for name in sorted(members))]
    waves = [wave for wave in waves if wave]
    others = sorted(set(clients).difference(members.values())) if len(waves) > 1 else []
    return (*waves[:-1], (*waves[-1], *others)) if others else tuple(waves)


def _surplus(workload: FleetWorkload, found: Situation, state: RolloutState) -> tuple[int, ...]:
    keep = {state.revision, found.live_revision, *((state.rollback.to,) if state.rollback else ())}
    return surplus(found.revisions, workload.history_limit, keep)


def _overdue(workload: FleetWorkload, found: Situation, state: RolloutState) -> bool:
    started = parse_time(state.wave_started)
    return started is not None and found.now - started > timedelta(seconds=workload.rollout.deadline)


def _complete(workload: FleetWorkload, state: RolloutState) -> str:
    """Return what is said of a rollout that is done, and of what the spec alone does not show."""
    skipped = f" {', '.join(state.skipped)} got it late or not at all, as not Ready." if state.skipped else ""
    back = state.rollback
    rolled_back = f" It has the content of revision {back.to} until the spec changes." if back and back.spec == _of_spec(workload) else ""
    paused = " It is paused: a change of the spec waits." if _is_paused(workload, state) else ""
    return f"Revision {state.revision} is rolled out.{skipped}{rolled_back}{paused}"


def _of_spec(workload: FleetWorkload) -> str:
    return content_hash(content_of(workload))
