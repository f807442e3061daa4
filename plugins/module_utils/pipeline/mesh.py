# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run for a whole mesh: names and ids, links and items, on one observation, under one lock, by one plan with one hash.

What has to be there before the rest can be planned is a stage of its own: names and ids that clusters are given, and what is adopted from
another tool. A stage has its own plan; a run that was not approved then observes again and goes on, and one that was approved ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Self

from ..apply.diff import diff_plan
from ..findings.finding import Finding
from ..findings.wording import finding
from ..identity.decide import IdentityRequest
from ..items.desired import Desired
from ..items.scene import Scene
from ..mesh.facts.cluster import ObserveFailure
from ..mesh.ownership.objects import former_members
from ..observe import Observation
from ..plan.steps import Plan
from ..plan.stored import StoredPlan
from ..reconcile.plan import ItemsPlan
from ..reconcile.scene import as_if_connected, observe_again, with_links
from .connect import (
    ADOPTED_ALONE,
    PLAN_CHANGED,
    ConnectDecision,
    after_stage,
    carry_out,
    decide,
    measure_links,
    refuse_changed,
    show_decision,
    unmet_links,
)
from .identity import assign, judge_identities, show_identities
from .item_ports import REAL_ITEM_PORTS, ItemPorts
from .items import (
    NO_ROWS,
    ItemsDecision,
    binding_status_of,
    carry_out_items,
    decide_items,
    judge_items,
    refuse_unnamed,
    show_losses,
    show_unreached,
    watch_flows,
)
from .links import requests
from .options import ConnectOptions, IdentityOptions, ItemsOptions
from .outcome import Interrupted, Outcome, Recorder
from .participants import leaving_clusters, observe_former
from .run import Run, announce, locked, observation_stands
from .shown import FindingsMade, PlanMade, Sentence

ABSENT: Final = "state=absent"
ASSIGNED_ALONE: Final = "no link was written, only names and ids."
ITEMS_LEFT: Final = "no item was written, nor was anything pruned"


@dataclass(frozen=True, kw_only=True)
class MeshOptions:
    """Options of a run for a whole mesh. ``identity`` None: no names and ids are assigned."""

    links: ConnectOptions
    items: ItemsOptions
    identity: IdentityOptions | None = None
    identities: Mapping[str, IdentityRequest] = field(default_factory=dict)  # what the user wants, by inventory name


class _End(Enum):
    """How a part of one pass ended."""

    NOTHING = "there was nothing to do"
    AGAIN = "the clusters have to be observed again"
    WRITTEN = "a stage was written; the rest of the run observes again"
    DONE = "the run ends"


def reconcile_mesh(
    run: Run, options: MeshOptions, desired: Desired, *, approved: StoredPlan | None = None, reach: ItemPorts = REAL_ITEM_PORTS
) -> Outcome:
    """Bring names, links and items to what the mesh says; with ``state: absent`` remove the items, and then the links.

    :param desired: with no kinds only the links are written.
    :param approved: the plan that was approved; if the new plan has another hash, nothing is written.
    :raises InvalidInput: when the options do not fit each other, the mesh or the limit.
    :raises Interrupted: when an error ended the run.
    """
    leaving = leaving_clusters(run.who, run.mesh, options.links, ABSENT)
    action = f"mesh ({options.items.state})"
    if approved is not None:
        action = f"apply ({action})"
    return locked(run, options.links, action, lambda locking: _reconcile(locking, reach, options, leaving, desired, approved))


def _reconcile(
    run: Run,
    reach: ItemPorts,
    options: MeshOptions,
    leaving: frozenset[str] | None,
    desired: Desired,
    approved: StoredPlan | None,
) -> Outcome | None:
    """Observe, plan and write once; return None if the clusters have to be observed again."""
    written_alone = ADOPTED_ALONE
    with _MeshRecorder(run.mesh.clusters) as recorder, run.observe(options.links.parallel) as observation:
        recorder.observation = observation
        once = _Pass(run, reach, options, leaving, desired, approved, observation, recorder)
        end = once.identities()
        if end is _End.WRITTEN:
            options, written_alone = replace(options, identity=None), ASSIGNED_ALONE
        elif end is _End.NOTHING:
            end = once.links_and_items()
        outcome = recorder.outcome
    if end is _End.WRITTEN:
        return after_stage(outcome, lambda: _reconcile(run, reach, options, leaving, desired, None), written_alone)
    return None if end is _End.AGAIN else outcome


class _MeshRecorder:
    """Keeper of the outcomes of the parts of a run, which are one outcome. An error leaves its context as ``Interrupted``."""

    def __init__(self, clusters: tuple[str, ...]) -> None:
        self.plan = Recorder(Outcome(clusters=clusters))
        self.links = Recorder()
        self.items = Recorder(Outcome(extra={"status": NO_ROWS, "outages": []}))
        self.observation: Observation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise Interrupted(self.outcome, error) from error

    @property
    def outcome(self) -> Outcome:
        """Outcome of all parts so far."""
        plan, links, items, seen = self.plan.outcome, self.links.outcome, self.items.outcome, self.observation
        seconds = min(links.requeue_seconds, int(items.extra.get("requeue_seconds", links.requeue_seconds)))
        binding = links.status if links.status is not None else items.binding_status
        return replace(
            plan,
            changed=plan.changed or links.changed or items.changed,
            findings=_each_once((*plan.findings, *links.findings, *items.findings)),
            error=_sentences(plan.error, links.error, items.error),
            unmet=_sentences(links.unmet, items.unmet),
            requests=requests(seen) if seen else {},
            withheld=tuple(seen.withheld) if seen else (),
            extra={**items.extra, "status": {"binding": binding, **items.extra["status"]}, "requeue_seconds": seconds},
        )


@dataclass(frozen=True)
class _Pass:
    """One observation, and what is decided and written by it."""

    run: Run
    reach: ItemPorts
    options: MeshOptions
    leaving: frozenset[str] | None
    desired: Desired
    approved: StoredPlan | None
    observation: Observation
    recorder: _MeshRecorder

    @property
    def _absent(self) -> bool:
        return self.options.items.state == "absent"

    def identities(self) -> _End:
        """Assign names and ids to clusters that were never meshed, if that is asked for."""
        identity, wanted, run, recorder = self.options.identity, self.options.identities, self.run, self.recorder.links
        if identity is None:
            return _End.NOTHING
        made = judge_identities(run, identity, wanted, self.observation)
        if made.plan is None or made.idle:
            show_identities(run, made, Recorder())  # what is missing is a finding of the links too
            return _End.NOTHING
        if not observation_stands(run, self.observation, write=self._approves(made.plan)):
            return _End.AGAIN
        show_identities(run, made, recorder)
        announce(run, made.plan, self.observation, self.recorder.plan)
        if self._refuses(made.plan):
            return _End.DONE
        if not run.check_mode:
            assign(run, identity, wanted, made, self.observation, recorder)
            if self.approved is None:
                recorder.note(error="", findings=())  # what is missing is a finding of the links, which come next
                return _End.WRITTEN
        run.ports.show(Sentence("Links and items are planned when these names and ids are assigned.", "attention"))
        return _End.DONE

    def links_and_items(self) -> _End:
        """Plan the links, and the items on the links as they will be, and carry out both by one plan."""
        run, options, observation, recorder = self.run, self.options, self.observation, self.recorder
        former = options.items.former if self.desired.kinds else ()
        parallel = options.links.parallel
        observe_former(run.ports, run.who, run.mesh, observation, parallel=parallel, more=former, reads_lock=run.reads_lock)
        decision = decide(run, options.links, self.leaving, self._as_links_see_it())
        stage = decision.adopts and self.approved is None and not run.check_mode
        steady = self._is_steady(decision)
        if steady:
            if not observation_stands(run, observation, write=False, leaving=self.leaving or ()):
                return _End.AGAIN
            show_decision(run, decision, recorder.links)
            self._measure(decision, {})
        made = None
        if self.desired.kinds and not stage:
            made = judge_items(run, options.items, self.desired, self._status_before(decision, steady=steady), observation)
        parts = [decision.plan, *([made.decided.plan if made.decided else None] if made else [])]
        plan = mesh_plan([part for part in (parts[::-1] if self._absent else parts) if part is not None])
        whole = None not in parts
        if plan is not None:
            write = not plan.empty and (whole or self.approved is None) and self._approves(plan)
            if not observation_stands(run, observation, write=write, leaving=self.leaving or ()):
                return _End.AGAIN
        if not steady:
            show_decision(run, decision, recorder.links)
        recorder.links.note(unmet=unmet_links(run, options.links, decision, observation))
        if made is not None:
            show_unreached(run, made, recorder.items, said=frozenset(decision.findings))
        decided = watch_flows(run, self.reach, options.items, made, observation) if made else None
        if plan is not None:
            announce(run, plan, observation, recorder.plan, made.traffic if made else None, approvable=whole)
        if made is not None and decided is not None:
            show_losses(run, made, decided, recorder.items)
        if self.approved is not None and (
            not whole
            or plan is None
            or self._refuses(plan)
            or (decided is not None and refuse_unnamed(run, options.items, decided, recorder.plan))
        ):
            return _End.DONE
        if self._absent:
            self._take_away(decision, made, decided)
            return _End.DONE
        return self._carry_out(decision, made, decided, steady=steady, stage=stage)

    def _carry_out(
        self, decision: ConnectDecision, made: ItemsDecision | None, decided: ItemsPlan | None, *, steady: bool, stage: bool
    ) -> _End:
        """Write the links and measure them, and then the items."""
        failed = self._write_links(decision)
        if stage and not failed:
            return _End.WRITTEN
        if decision.plan is not None and not steady and not self.run.check_mode:
            self._measure(decision, failed)
        if made is not None and decided is not None:
            scene = made.scene
            if not self.run.check_mode and not steady:
                scene, again = self._decide_again(decision, made, decided)
                if again is None:
                    return _End.DONE
                decided = again
            carry_out_items(self.run, self.reach, self.options.items, self.desired, decided, scene, self.observation, self.recorder.items)
        return _End.DONE

    def _take_away(self, decision: ConnectDecision, made: ItemsDecision | None, decided: ItemsPlan | None) -> None:
        """Remove the items, and then the links. Where an item stays, so do the links: another run has to reach it."""
        if made is not None and decided is not None:
            carry_out_items(
                self.run, self.reach, self.options.items, self.desired, decided, made.scene, self.observation, self.recorder.items
            )
        if not self.recorder.items.outcome.error:
            failed = self._write_links(decision)
            if decision.plan is not None and not self.run.check_mode:
                self._measure(decision, failed)

    def _write_links(self, decision: ConnectDecision) -> dict[str, ObserveFailure]:
        if decision.plan is None or self.run.check_mode:
            return {}
        return carry_out(self.run, self.options.links, decision.plan, self.observation, self.recorder.links)

    def _measure(self, decision: ConnectDecision, failed: Mapping[str, ObserveFailure]) -> None:
        measure_links(self.run, self.options.links, self.leaving, self.observation, decision, failed, self.recorder.links)

    def _decide_again(self, decision: ConnectDecision, made: ItemsDecision, decided: ItemsPlan) -> tuple[Scene, ItemsPlan | None]:
        """Return the scene after the links were written and measured, and the plan of the items there; None if it was not approved.

        The wait for links takes minutes, in which others may have written to what the items are about.
        """
        scene, options = made.scene, self.options.items
        if decision.plan is not None and not decision.plan.empty:
            scene = observe_again(
                self.run.ports.read_traffic, scene, self.observation, self.desired.kinds, scene.hosts, parallel=options.parallel
            )
        scene = with_links(scene, self.observation, self._status_after(decision))
        if scene == made.scene:
            return scene, decided
        again = replace(made, scene=scene, decided=decide_items(options, self.desired, scene, made.former))
        if again.decided is None or again.decided.plan.hash == decided.plan.hash:
            return scene, decided
        if self.approved is not None:
            self._refuse_items(again.decided)
            return scene, None
        planned = watch_flows(self.run, self.reach, options, again, self.observation) or again.decided
        self._announce_again(decision, again, planned, said=frozenset(decided.findings))
        return scene, planned

    def _announce_again(self, decision: ConnectDecision, again: ItemsDecision, planned: ItemsPlan, *, said: frozenset[Finding]) -> None:
        """Show the plan of the items that the links allow, and findings not ``said`` before; record it with that of the links."""
        run = self.run
        run.ports.show(PlanMade({**planned.plan.to_dict(), "hash": ""}))
        whole = mesh_plan([part for part in (decision.plan, planned.plan) if part is not None])
        if whole is not None:
            diff = tuple(diff_plan(whole, self.observation.whole.facts, again.traffic)) if run.diff else ()
            self.recorder.plan.note(plan=whole.to_dict(), diff=diff)
        show_losses(run, again, planned, self.recorder.items, said=said)

    def _refuse_items(self, planned: ItemsPlan) -> None:
        """Record and show that the approved plan of the items does not apply any more, now that the links are as they are."""
        phase = (self.recorder.links.outcome.status or {}).get("phase") or "not measured"
        changed = finding(
            PLAN_CHANGED,
            summary="the links, or what the items are about, are not as the approved plan expects once the links are written "
            f"({self.run.mesh.binding.name} is in phase {phase}), so {ITEMS_LEFT}",
            evidence=[f"{plan.ref}: {plan.verdict.value}" for plan in planned.items if plan.message or plan.findings],
            fix="Run with --check when the links are ready, and approve the new plan.",
        )
        self.run.ports.show(FindingsMade([changed]))
        error = f"{PLAN_CHANGED}: {changed.summary}."
        self.recorder.items.note(findings=(changed, *self.recorder.items.outcome.findings), error=error)

    def _as_links_see_it(self) -> Observation:
        """Return the observation with the former members that the plan of the links is about: those to which members hold links."""
        seen = self.observation
        if seen.former is None:
            return seen
        if self.options.links.purpose == "disconnect" and self.leaving is not None:
            return replace(seen, former=None)
        known, more = former_members(self.run.mesh, seen.facts), seen.former
        kept = replace(
            more,
            facts={host: facts for host, facts in more.facts.items() if host in known},
            failures={host: failure for host, failure in more.failures.items() if host in known},
            clusters={host: cluster for host, cluster in more.clusters.items() if host in known},
        )
        return replace(seen, former=kept if kept.facts or kept.failures else None)

    def _is_steady(self, decision: ConnectDecision) -> bool:
        """Return whether the links need no write, so that they are measured first and the items planned on what they are."""
        idle = decision.plan is not None and decision.plan.empty and not decision.adopts
        return idle and self.approved is None and not self._absent and not self.run.check_mode

    def _status_before(self, decision: ConnectDecision, *, steady: bool) -> Mapping[str, Any] | None:
        """Return ``status.binding`` by which the items are planned: that of the links as they are, or as they will be."""
        if self._absent:
            return None
        if decision.plan is None or steady:
            return self._status_after(decision)
        status: Mapping[str, Any] = {}
        if self.observation.failures:  # whether a silent member is dead is known by its links
            status = binding_status_of(self.run, self.options.items, self.desired, self.observation) or {}
        return as_if_connected(status, self.observation.facts)

    def _status_after(self, decision: ConnectDecision) -> Mapping[str, Any] | None:
        """Return ``status.binding`` as measured before or now. Items wait while a finding or a failed write stops the links."""
        links = self.recorder.links.outcome
        if links.status is not None:
            return links.status
        if decision.plan is None or links.error:
            return {"phase": "Error"}
        status = binding_status_of(self.run, self.options.items, self.desired, self.observation, written=not decision.plan.empty)
        self.recorder.items.note(binding_status=status)
        return status

    def _approves(self, plan: Plan) -> bool:
        return self.approved is None or self.approved.is_the_same_as(plan.hash)

    def _refuses(self, plan: Plan) -> bool:
        """Record and show that another plan was approved; return whether that is so."""
        if self.approved is None or self._approves(plan):
            return False
        refuse_changed(self.run, self.approved, plan.hash, self.recorder.plan)
        return True


def mesh_plan(parts: list[Plan]) -> Plan | None:
    """Return one plan of the parts, in the order in which they are carried out; None without one.

    A plan of links alone stays as it is: its hash is that of the playbooks ``plan`` and ``connect``.
    """
    if len(parts) < 2:
        return parts[0] if parts else None
    links = next((part for part in parts if not _is_of_items(part)), parts[0])
    items = next(part for part in parts if part is not links)
    relied_on = {host: dict(sections) for host, sections in links.relied_on.items()}
    for host, sections in items.relied_on.items():
        relied_on.setdefault(host, {}).update({f"items.{name}": value for name, value in sections.items()})
    return replace(
        links,
        steps=tuple(step for part in parts for step in part.steps),
        problems=tuple(problem for part in parts for problem in part.problems),
        options={**links.options, "items": dict(items.options)},
        relied_on=relied_on,
        not_carried_out=items.not_carried_out,
    )


def _is_of_items(plan: Plan) -> bool:
    return plan.options.get("purpose") == "items"


def _each_once(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return each finding once, as links and items both report a cluster that does not answer."""
    return tuple(dict.fromkeys(findings))


def _sentences(*texts: str) -> str:
    return " ".join(dict.fromkeys(filter(None, texts)))
