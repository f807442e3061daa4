# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run for items (global services, intents, exposed services): it observes, plans, writes, probes, and returns the status of each item.

An item that is refused, waits, or fails in a cluster does not stop the others; the run then fails, and its error names the item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..base.errors import KeptBack
from ..base.tables import cell, count
from ..findings.finding import Finding, ordered
from ..items.desired import Desired
from ..items.keeping import KEPT
from ..items.models import GlobalService
from ..items.planned import ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.binding.model import Mesh
from ..mesh.binding.topology import Topology
from ..mesh.facts.traffic import TrafficFacts
from ..observe import Observation
from ..plan.steps import Plan, Step
from ..plan.stored import StoredPlan
from ..reconcile.plan import ItemsPlan, plan_items, waits_for_mesh
from ..reconcile.scene import observe_again, observe_scene
from ..reconcile.seen_flows import outages, with_seen_flows
from ..reconcile.status import Course, Rows, item_rows, requeue_seconds
from ..reconcile.unmet import unmet_items
from ..status.links import earlier_binding
from .approval import unnamed_finding
from .connect import NOTHING_WRITTEN, refuse_changed
from .item_ports import REAL_ITEM_PORTS, ItemPorts
from .links import contacts
from .options import ItemsOptions
from .outcome import Outcome, Recorder, finding_of, refusal_sentence
from .participants import LEFT_OUT, left_out_sentences, observe_former, silence, silent_findings
from .probes import probe_intents
from .progress import counted
from .run import Run, announce, announce_writes, locked, measure, observation_stands, write
from .shown import FindingsMade, ItemsMeasured, Sentence

NO_ROWS: Final[Mapping[str, list[Any]]] = {kind.value: [] for kind in ItemKind}
NAMED: Final = 3
ALL: Final = "all"  # in place of the names of items


def reconcile_items(
    run: Run, options: ItemsOptions, desired: Desired, *, approved: StoredPlan | None = None, reach: ItemPorts = REAL_ITEM_PORTS
) -> Outcome:
    """Write the objects of every item of ``desired.kinds``, and prune objects of items that do not exist any more.

    :param approved: the plan that was approved; if the new plan has another hash, nothing is written.
    :raises Interrupted: when an error ended the run.
    """
    kinds = ", ".join(kind.value for kind in ItemKind if kind in desired.kinds)
    action = f"{'remove' if options.state == 'absent' else 'write'} {kinds}"
    return locked(run, options, action, lambda locking: _reconcile(locking, reach, options, desired, approved))


def _reconcile(run: Run, reach: ItemPorts, options: ItemsOptions, desired: Desired, approved: StoredPlan | None) -> Outcome | None:
    """Observe, plan and write once; return None if the clusters have to be observed again."""
    mesh = run.mesh
    with (
        Recorder(Outcome(clusters=mesh.clusters, extra={"status": NO_ROWS, "outages": []})) as recorder,
        run.observe(options.parallel) as observation,
    ):
        observe_former(run.ports, run.who, mesh, observation, parallel=options.parallel, more=options.former, reads_lock=run.reads_lock)
        binding = binding_status_of(run, options, desired, observation)
        if binding is not None and not options.binding_status:
            recorder.note(binding_status=binding)
        made = judge_items(run, options, desired, binding, observation)
        if made.decided is not None:
            write = not made.decided.plan.empty and (approved is None or approved.is_the_same_as(made.decided.plan.hash))
            if not observation_stands(run, observation, write=write):
                return None
        show_unreached(run, made, recorder)
        recorder.note(**contacts(observation))
        decided = watch_flows(run, reach, options, made, observation)
        if decided is None:
            return recorder.outcome
        announce(run, decided.plan, observation, recorder, made.traffic)
        show_losses(run, made, decided, recorder)
        if approved is not None and not approved.is_the_same_as(decided.plan.hash):
            refuse_changed(run, approved, decided.plan.hash, recorder)
            return recorder.outcome
        if approved is not None and refuse_unnamed(run, options, decided, recorder):
            return recorder.outcome
        carry_out_items(run, reach, options, desired, decided, made.scene, observation, recorder)
        recorder.note(**contacts(observation))
    return recorder.outcome


@dataclass(frozen=True, kw_only=True)
class ItemsDecision:
    """Plan of all items before anything is written, with the scenes that it was made on; ``decided`` is None if a finding stops the run."""

    scene: Scene
    former: Scene | None  # clusters that are no members any more
    findings: tuple[Finding, ...]  # about clusters that do not answer or cannot be read
    decided: ItemsPlan | None

    @property
    def traffic(self) -> dict[str, TrafficFacts]:
        """Traffic facts of members and former members, by inventory name."""
        return {**self.scene.traffic, **(self.former.traffic if self.former else {})}


def judge_items(
    run: Run, options: ItemsOptions, desired: Desired, status: Mapping[str, Any] | None, observation: Observation
) -> ItemsDecision:
    """Observe the scenes and plan every item. Nothing is written or shown.

    :param status: ``status.binding``; None: no item waits for the mesh.
    """
    scene, former = observe_scenes(run, options, desired, status, observation)
    leaving = options.state == "absent"
    findings = silent_findings(scene, observation.former, leaving=leaving, max_failures=options.max_failures)
    stopped = any(finding.blocks for finding in findings)
    decided = None if stopped else decide_items(options, desired, scene, former)
    return ItemsDecision(scene=scene, former=former, findings=findings, decided=decided)


def show_unreached(run: Run, made: ItemsDecision, recorder: Recorder, *, said: Collection[Finding] = frozenset()) -> None:
    """Show and record the findings about clusters, and the error if they stop the run. Those ``said`` were shown."""
    run.ports.show(FindingsMade([finding for finding in made.findings if finding not in said]))
    recorder.note(findings=made.findings, error=refusal_sentence(made.findings, NOTHING_WRITTEN))


def watch_flows(run: Run, reach: ItemPorts, options: ItemsOptions, made: ItemsDecision, observation: Observation) -> ItemsPlan | None:
    """Return the plan with findings about flows that Hubble saw and the writes would end; None if there is no plan."""
    if made.decided is None:
        return None
    asking = counted(run.ports, "cluster", "asked for flows")
    return with_seen_flows(
        made.decided,
        made.scene,
        reach.evidence(observation, run.ports),
        now=run.ports.now(),
        parallel=options.parallel,
        progress=asking,
    )


def show_losses(run: Run, made: ItemsDecision, decided: ItemsPlan, recorder: Recorder, *, said: Collection[Finding] = frozenset()) -> None:
    """Show and record the findings about items before anything is written: they say who loses access. Those ``said`` were shown."""
    run.ports.show(FindingsMade([finding for finding in decided.findings if finding not in said]))
    recorder.note(findings=ordered((*made.findings, *decided.findings)), extra={"status": NO_ROWS, "outages": outages(decided)})


def carry_out_items(
    run: Run,
    reach: ItemPorts,
    options: ItemsOptions,
    desired: Desired,
    decided: ItemsPlan,
    scene: Scene,
    observation: Observation,
    recorder: Recorder,
) -> None:
    """Write the plan unless in check mode, probe, and record and show the status of every item."""
    after, course = scene, Course()
    if not run.check_mode:
        failed, applied = ({}, ()) if decided.plan.empty else _write_items(run, options, decided.plan, observation, recorder)
        hosts, written = {step.cluster for step in applied}, frozenset(step.item for step in applied)
        if hosts:
            after = observe_again(run.ports.read_traffic, scene, observation, desired.kinds, hosts, parallel=options.parallel)
        probes, findings = probe_intents(run, reach, options, desired, decided, after, observation, failed=failed, written=written)
        recorder.note(findings=ordered((*recorder.outcome.findings, *findings)))
        course = Course(failed=failed, probes=probes)
    _record_statuses(run, options, desired, decided, after, course, recorder)
    silent = [host for host, failure in scene.failures.items() if failure.code != LEFT_OUT]
    recorder.note(unmet=silence(run.who, run.mesh, silent, options.max_failures))


def refuse_unnamed(run: Run, options: ItemsOptions, decided: ItemsPlan, recorder: Recorder) -> bool:
    """Record and show that the approval does not name an item that is refused or waits; return whether that is so."""
    left_out = (plan for plan in decided.items if plan.verdict is not ItemVerdict.ACCEPTED)
    unnamed = unnamed_finding(left_out, options.approve_refused)
    if unnamed is None:
        return False
    run.ports.show(FindingsMade([unnamed]))
    error = f"{unnamed.code}: {unnamed.summary}; {NOTHING_WRITTEN}"
    recorder.note(changed=False, findings=(unnamed, *recorder.outcome.findings), error=error)
    return True


def observe_scenes(
    run: Run, options: ItemsOptions, desired: Desired, status: Mapping[str, Any] | None, observation: Observation
) -> tuple[Scene, Scene | None]:
    """Observe the scene of the members, and of former members, which may still hold objects of items; None when there are none.

    :param status: ``status.binding``; None: no item waits for the mesh.
    """
    mesh, parallel = run.mesh, options.parallel
    scene = observe_scene(run.ports.read_traffic, observation, mesh, desired.kinds, now=run.now, binding_status=status, parallel=parallel)
    gone = observation.former
    if gone is None or not gone.facts:
        return scene, None
    left = Mesh(binding=replace(mesh.binding, cluster_refs=tuple(gone.facts), topology=Topology()))
    return scene, observe_scene(run.ports.read_traffic, gone, left, desired.kinds, now=run.now, parallel=parallel)


def decide_items(options: ItemsOptions, desired: Desired, scene: Scene, former: Scene | None) -> ItemsPlan:
    """Plan every item. Together with ``observe_scenes`` this is the first half of a run, and all of a dry run except probes."""
    chosen = {
        "purpose": "items",
        "state": options.state,
        "kinds": sorted(kind.value for kind in desired.kinds),
        "requireConnected": options.require_connected,
    }
    return plan_items(desired, scene, former=former, waits=waits_for_mesh(scene), options=chosen)


def binding_status_of(
    run: Run, options: ItemsOptions, desired: Desired, observation: Observation, *, written: bool = False
) -> Mapping[str, Any] | None:
    """Return ``status.binding`` from an earlier task, or measure it now; None when the run does not need it.

    New connections prove the links where a member does not answer, and for global services with failover: these promise to notice within
    seconds a failure that kvstoremesh notices within up to 130 seconds.

    :param written: this run wrote links after it observed.
    """
    if options.state == "absent" or not options.require_connected:
        return None
    status = options.binding_status or {}
    if not status.get("phase"):
        proven = bool(observation.failures) or any(service.failover for service in desired.each(GlobalService))
        before = earlier_binding(options.previous_status)
        status = measure(run.ports, run.mesh, observation, "readers" if proven else "none", previous=before, written=written)
    return status


def _write_items(
    run: Run, options: ItemsOptions, plan: Plan, observation: Observation, recorder: Recorder
) -> tuple[dict[str, dict[str, str]], Sequence[Step]]:
    """Write the plan, and show and record what failed. Return item -> cluster -> error of a write, and the steps that were applied."""
    announce_writes(run, plan)
    done = write(run, options, plan, observation, recorder)
    ended = [finding_of(error) for _host, error in sorted(done.failures.items())]
    single = [
        replace(finding_of(error), item=item)
        for item, errors in done.items.items()
        for host, error in errors.items()
        if error is not done.failures.get(host)
    ]
    run.ports.show(FindingsMade(ended))
    recorder.note(findings=ordered((*recorder.outcome.findings, *ended, *single)))
    # A deletion that was kept back is no failure of its item in that cluster: a write that failed is, and is reported for its own item.
    failed = {
        item: messages
        for item, errors in done.items.items()
        if (messages := {host: error.message for host, error in errors.items() if not isinstance(error, KeptBack)})
    }
    return failed, done.applied


def _record_statuses(
    run: Run, options: ItemsOptions, desired: Desired, decided: ItemsPlan, scene: Scene, course: Course, recorder: Recorder
) -> None:
    """Record and show the status of every item, and record the error of the run if an item failed."""
    name, show = run.mesh.binding.name, run.ports.show
    rows = item_rows(desired, decided, scene, course, now=run.ports.now(), previous=options.previous_status)
    shown = set(map(id, decided.findings))
    more = [finding for finding in recorder.outcome.findings if finding.item and id(finding) not in shown]
    show(ItemsMeasured(name, rows, more, brief=decided.plan.empty))
    if options.state == "absent" and not run.check_mode:
        show(_removal_sentence(run.mesh, desired.kinds, scene.hosts, course.failed))
    for sentence in left_out_sentences(run.who, run.mesh):
        show(sentence)
    stops = outages(decided)
    if stops:
        what = f"item{'s' if len(stops) > 1 else ''} {'would take' if run.check_mode else 'took'} access from sources that had it"
        show(Sentence(f"{cell(name)}: outage: {items_sentence(stops, what)}", "bad"))
    extra = {"status": rows, "requeue_seconds": requeue_seconds(desired, rows), "outages": stops}
    to_come = {(step.item, step.cluster) for step in decided.plan.steps} if run.check_mode else set()
    unmet: dict[str, list[str]] = {}
    for ref, phase in unmet_items(desired, decided, scene, course, rows, to_come=to_come):
        if ALL not in options.accept_incomplete and str(ref) not in options.accept_incomplete:
            unmet.setdefault(phase, []).append(str(ref))
    recorder.note(extra=extra, error=_error_of(decided, scene, course, rows, unmet))


def _error_of(decided: ItemsPlan, scene: Scene, course: Course, rows: Rows, unmet: Mapping[str, Sequence[str]]) -> str:
    """Return one sentence that names the items that are not as asked; "" when all are.

    :param unmet: phase -> accepted items that are in it and should not be.
    """
    refused = [str(plan.ref) for plan in decided.of(ItemVerdict.REFUSED)]
    waiting = [str(plan.ref) for plan in decided.of(ItemVerdict.WAITING)]
    failed = sorted({host for errors in course.failed.values() for host in errors})
    kept = dict.fromkeys(finding.item for finding in decided.findings if finding.code == KEPT)
    blocking = [finding for finding in decided.findings if finding.blocks and finding.item not in refused]
    parts = [
        items_sentence(refused, "refused"),
        items_sentence(waiting, f"waiting for {scene.binding.name} to be connected (phase {scene.phase or 'not known'})"),
        items_sentence(course.failed, f"not written in {', '.join(failed)}"),
        refusal_sentence(blocking, "the objects concerned were left as they are").rstrip("."),
        items_sentence(kept, "with objects that are kept, because their replacement may be missing"),
        *(items_sentence(refs, f"in phase {phase}") for phase, refs in sorted(unmet.items())),
    ]
    summary = "; ".join(part for part in parts if part)
    every = sum(len(entries) for entries in rows.values())
    return f"Of {count(every, 'item')}: {summary}." if summary and every else f"{summary}." if summary else ""


def items_sentence(refs: Iterable[str], what: str) -> str:
    """Return ``2 refused (globalServices/a, globalServices/b)``; "" when there is none."""
    names = [cell(ref) for ref in refs]
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} {what} ({', '.join(names[:NAMED])}{more})"


def _removal_sentence(mesh: Mesh, kinds: Collection[ItemKind], reached: Sequence[str], failed: Collection[str]) -> Sentence:
    """Return ``edge-mesh-eu: globalServices taken away (2/3 clusters); not observed, and left as they are: cluster-ber-2``."""
    which = ", ".join(kind.value for kind in ItemKind if kind in kinds)
    if failed:
        return Sentence(f"{cell(mesh.binding.name)}: {which} not completely removed", "bad")
    silent = [host for host in mesh.clusters if host not in reached]
    done = f"{cell(mesh.binding.name)}: {which} removed ({len(reached)}/{len(mesh.clusters)} clusters)"
    return Sentence(f"{done}; not observed, and left as they are: {', '.join(silent)}", "attention") if silent else Sentence(done, "good")
