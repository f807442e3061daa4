# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that makes clusters members of Karmada, renews their tokens, reports on them, and lets them leave (docs/decisions/0059).

There is no lock: what two runs could spoil for each other has a uid or a resource version as its precondition, and a run that ends at any
place is taken up by the next one. Members do not depend on each other: what fails for one keeps no other one from being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from ..base.conditions import timestamp
from ..base.errors import ClusterError
from ..base.json_fields import text
from ..base.tables import count
from ..findings.finding import Finding, ordered
from ..findings.wording import listed
from ..kubeconfig.access import ClusterAccess
from ..members.decide import MemberDecision, Rules, decide_join, decide_leave, plan_of, provisioned
from ..members.facts import ClusterSide, Facts, KarmadaFacts, PreservedWork
from ..members.fill import filled, tokens_of
from ..members.join import ACCOUNT_UIDS, CLUSTER_UID, TOKENS_END, WAVE_CLUSTER, WAVE_TOKENS
from ..members.judge import held_finding, plane_held_finding, ready_finding, staying_finding
from ..members.leave import WAVE_NAMESPACE, WAVE_NOTE, WAVE_TOMBSTONE, WAVE_WORKS, release_step
from ..members.management import WAVE_MAKE, found_plane, left_in_plane, provisioning_of
from ..members.models import Member, MemberRequest, TokenRules
from ..members.names import ACCOUNTS, CLUSTERS, IMPERSONATOR, MANAGER, account_of, is_made_for
from ..members.reads import (
    ALL_CLUSTERS,
    awaited_reads,
    get,
    karmada_facts,
    karmada_reads,
    namespaces_of,
    plane_clusters,
    plane_read,
    preserved_works,
    served_clusters,
    side_of,
    side_reads,
    still_there,
    works_read,
)
from ..members.status import member_status, metrics, readiness
from ..mesh.binding.fleet_kinds import FleetKind
from ..observe import Observation
from ..observe.reads import Read
from ..plan.steps import Plan, Step
from .links import requests
from .member_diff import diff_members
from .member_ports import REAL_MEMBER_PORTS, MemberPorts
from .options import MembersOptions
from .outcome import Outcome, Recorder, finding_of
from .participants import Participants
from .ports import Ports
from .progress import writing
from .shown import FindingsMade, PlanMade, Sentence

PAUSE: Final = 0.5  # seconds between two reads of what is awaited


@dataclass(kw_only=True)
class MembersRun:
    """One run: what it is to do, its ports, and what it has open. ``now``: when it began; aware, UTC."""

    request: MemberRequest
    options: MembersOptions
    who: Participants
    ports: Ports
    now: datetime
    check_mode: bool = False
    diff: bool = False
    reach: MemberPorts = REAL_MEMBER_PORTS
    open: Observation = field(default_factory=Observation)
    networks: dict[str, tuple[str, ...]] = field(default_factory=dict)  # cilium_mesh_endpoint_networks of each host
    failed: dict[str, ClusterError] = field(default_factory=dict)  # by name of the cluster: why no more is written for it
    steps: list[Step] = field(default_factory=list)  # of all plans that were shown

    def read(self, host: str, reads: Mapping[str, Read]) -> dict[str, Any]:
        """Return the answers of an open cluster."""
        return self.ports.read(self.open, host, reads)

    def get(self, host: str, path: str) -> Any:
        """Return one object; None if it does not exist."""
        return self.read(host, get(path))[path]

    @property
    def leaving(self) -> bool:
        """Whether the clusters are to leave."""
        return self.options.state == "absent"

    @property
    def rules(self) -> Rules:
        """The choices of the run."""
        hours = self.options.token_hours, self.options.renew_before_hours
        tokens = TokenRules(lifetime=hours[0] * 3600, renew_before=hours[1] * 3600)
        return Rules(tokens=tokens, deadline=self.options.deadline, abandon=frozenset(self.options.abandon))


def run_members(run: MembersRun) -> Outcome:
    """Join, renew, or let leave, as the options say, and report.

    :raises InvalidInput: when a host has no usable variables; no request was sent.
    :raises Interrupted: when an error ended the run.
    """
    request = run.request
    hosts = (request.karmada, *((request.management,) if request.management else ()), *(member.host for member in request.members))
    accesses = {access.host: access for access in run.who.access(hosts)}
    run.networks = {host: access.endpoint_networks for host, access in accesses.items()}
    with run.open, Recorder(Outcome(clusters=tuple(member.host for member in request.members))) as recorder:
        for host in hosts[: 2 if request.management else 1]:  # without these nothing can be done
            run.ports.connect(run.open, accesses[host])
        try:
            facts = _read(run, accesses)
            decisions = _decide(run, facts)
            if not run.leaving and request.management and not run.check_mode:
                facts, decisions = _provision(run, accesses, facts, decisions, recorder)
            _announce(run, plan_of(decisions, facts), facts, recorder)
            if not run.check_mode:
                carry = _leave if run.leaving else _join
                facts, decisions = carry(run, accesses, facts, decisions, recorder)
            _report(run, facts, decisions, recorder)
        finally:
            recorder.note(requests=requests(run.open))
    return recorder.outcome


def _read(run: MembersRun, accesses: Mapping[str, ClusterAccess], only: Iterable[str] | None = None, before: Facts | None = None) -> Facts:
    """Read everything. Clusters that the management plane has not made yet are not contacted.

    :param only: names of clusters to contact; None for all.
    :param before: facts of the others.
    """
    request = run.request
    facts = Facts(karmada=_karmada(run, leaving=run.leaving), planes=_planes(run) if request.management else {})
    wanted = [member for member in request.members if (only is None or member.name in only) and _is_there(run, facts, member)]
    sides = dict(before.sides) if before is not None else {}
    silent = dict(before.silent) if before is not None else {}
    with ThreadPoolExecutor(max(1, min(run.options.parallel, len(wanted)))) as pool:
        observations = {member.name: pool.submit(_observe_side, run, accesses[member.host], member, facts) for member in wanted}
    for name, observation in observations.items():
        sides.pop(name, None)
        silent.pop(name, None)
        try:
            sides[name] = observation.result()
        except ClusterError as error:
            silent[name] = error
    return replace(facts, sides=sides, silent=silent)


def _karmada(run: MembersRun, *, leaving: bool) -> KarmadaFacts:
    request, host = run.request, run.request.karmada
    clusters = served_clusters(run.read(host, {"clusters": ALL_CLUSTERS})["clusters"], host)
    return karmada_facts(request, clusters, run.read(host, karmada_reads(request, leaving=leaving)))


def _planes(run: MembersRun) -> Mapping[str, Mapping[str, Any]]:
    host = run.request.management
    return plane_clusters(run.read(host, {"clusters": plane_read(run.request)})["clusters"], host)


def _is_there(run: MembersRun, facts: Facts, member: Member) -> bool:
    return run.leaving or provisioned(run.request, facts, member).ready


def _observe_side(run: MembersRun, access: ClusterAccess, member: Member, facts: Facts) -> ClusterSide:
    host, opened = access.host, run.open
    if host not in opened.clusters:
        run.ports.connect(opened, access)
    deep = run.leaving or member.member in facts.karmada.tombstones
    found = run.read(host, side_reads(member, contents=deep))
    contents = run.reach.read_namespaces(opened, host, namespaces_of(member)) if deep else {}
    return side_of(member, found, contents, endpoint=opened.clusters[host].endpoint, networks=run.networks[host])


def _decide(run: MembersRun, facts: Facts) -> list[MemberDecision]:
    decide = decide_leave if run.leaving else decide_join
    return [decide(run.request, facts, member, run.rules, run.now) for member in run.request.members]


def _announce(run: MembersRun, plan: Plan, facts: Facts, recorder: Recorder) -> None:
    """Show and record a plan before anything of it is written; of several plans of a run, all steps are recorded."""
    run.steps += plan.steps
    data = replace(plan, steps=tuple(run.steps)).to_dict()
    run.ports.show(PlanMade(plan.to_dict()))
    diff = (*recorder.outcome.diff, *diff_members(plan, run.request, facts)) if run.diff else ()
    recorder.note(changed=recorder.outcome.changed or (run.check_mode and not plan.empty), plan=data, diff=diff)


def _write_wave(run: MembersRun, steps: Iterable[Step], recorder: Recorder) -> None:
    """Write the steps of one wave, save those of members for which a write failed before."""
    kept = tuple(step for step in steps if step.item not in {f"{FleetKind.CLUSTER.referred}/{name}" for name in run.failed})
    if not kept:
        return
    plan = Plan(manager=MANAGER, steps=kept)
    before = recorder.outcome.changed
    recorder.note(changed=True)  # if a defect ends the run here, something may have been written
    try:
        progress = writing(run.ports)
        done = run.ports.apply(plan, run.open, now=run.ports.now(), parallel=run.options.parallel, progress=progress)
    except ClusterError:
        recorder.note(changed=before)
        raise
    recorder.note(changed=before or done.changed)
    for item, errors in done.items.items():
        run.failed.setdefault(item.partition("/")[2], next(iter(errors.values())))


def _by_wave(decisions: Iterable[MemberDecision], waves: Callable[[int], bool]) -> dict[int, list[Step]]:
    found: dict[int, list[Step]] = {}
    for step in sorted((step for decision in decisions for step in decision.steps), key=lambda step: step.wave):
        if waves(step.wave):
            found.setdefault(step.wave, []).append(step)
    return found


# --- joining -----------------------------------------------------------------------------------------------------------------------------


def _provision(
    run: MembersRun, accesses: Mapping[str, ClusterAccess], facts: Facts, decisions: list[MemberDecision], recorder: Recorder
) -> tuple[Facts, list[MemberDecision]]:
    """Have the management plane make the clusters that are not ready, wait for them, and decide anew."""
    waiting = [decision for decision in decisions if not decision.provisioning.ready and not decision.refused]
    if not waiting:
        return facts, decisions
    plan = plan_of(waiting, facts)
    if not plan.empty:
        _announce(run, plan, facts, recorder)
        _write_wave(run, plan.steps, recorder)
    names = {decision.member.name for decision in waiting} - set(run.failed)

    def late() -> bool:
        planes = _planes(run)
        members = [member for member in run.request.members if member.name in names]
        return not all(provisioning_of(found_plane(planes, member)).ready for member in members)

    if names and run.options.wait:
        _wait(run, late)
    facts = _read(run, accesses)
    return facts, _decide(run, facts)


def _join(
    run: MembersRun, accesses: Mapping[str, ClusterAccess], facts: Facts, decisions: list[MemberDecision], recorder: Recorder
) -> tuple[Facts, list[MemberDecision]]:
    values: dict[str, dict[str, str]] = {}
    for number, steps in _by_wave(decisions, lambda wave: wave >= WAVE_MAKE).items():
        if number == WAVE_TOKENS:
            _issue(run, steps, values)
        if number >= WAVE_TOKENS:
            steps = [filled(step, values.get(step.item, {})) for step in steps]
        _write_wave(run, steps, recorder)
    written = {d.member.name for d in decisions if any(step.wave in (WAVE_CLUSTER, WAVE_TOKENS) for step in d.steps)} - set(run.failed)
    members = [member for member in run.request.members if member.name in written]

    def late() -> bool:
        return not all(readiness(_cluster(run, member))[0] for member in members)

    if members and run.options.wait:
        _wait(run, late)
    if recorder.outcome.changed:
        facts = replace(facts, karmada=_karmada(run, leaving=False))
    return facts, [replace(decision, steps=()) for decision in decisions]


def _issue(run: MembersRun, steps: Iterable[Step], values: dict[str, dict[str, str]]) -> None:
    """Have the members issue their tokens, now that the accounts exist, and note what the plan has placeholders for."""
    steps = list(steps)
    for member in run.request.members:
        own = [step for step in steps if step.item == member.item]
        if not own or member.name in run.failed:
            continue
        try:
            issued = {wanted: run.reach.issue_token(run.open, wanted, MANAGER) for wanted in tokens_of(own)}
            accounts = [run.get(member.host, f"{ACCOUNTS}/{account}") or {} for account in (account_of(member), IMPERSONATOR)]
            cluster = _cluster(run, member) or {}
        except ClusterError as error:
            run.failed[member.name] = error
            continue
        for wanted, token in issued.items():
            run.open.secrets.put(wanted.cluster, wanted.account, wanted.purpose, token.token.reveal())
        values[member.item] = {
            TOKENS_END: timestamp(min(token.ends for token in issued.values())),
            ACCOUNT_UIDS: " ".join(text(account, "metadata", "uid") for account in accounts),
            CLUSTER_UID: text(cluster, "metadata", "uid"),
        }


def _cluster(run: MembersRun, member: Member) -> Any:
    """Return the Cluster of a member in Karmada; None if there is none."""
    return run.get(run.request.karmada, f"{CLUSTERS}/{member.member}")


# --- leaving -----------------------------------------------------------------------------------------------------------------------------


def _leave(
    run: MembersRun, accesses: Mapping[str, ClusterAccess], facts: Facts, decisions: list[MemberDecision], recorder: Recorder
) -> tuple[Facts, list[MemberDecision]]:
    """Delete the Clusters, wait until Karmada has taken its objects out of the members, and then take away what is left there.

    What comes last, the Cluster of the management plane with the cluster itself, waits until nothing is left in the member.
    """
    ends = run.ports.clock() + run.options.wait_timeout
    for steps in _by_wave(decisions, lambda wave: wave < WAVE_WORKS).values():
        _write_wave(run, steps, recorder)
    going = [d.member for d in decisions if not d.refused and not d.waits and d.member.name not in run.failed]

    def late() -> bool:
        stay = [member for member in going if _cluster(run, member) is not None]
        for member in stay:
            if member.name in run.options.abandon:
                works = run.read(run.request.karmada, {"works": works_read(member)})["works"]
                _release(run, member, preserved_works(works), recorder)
        return bool(stay)

    if going and run.options.wait:
        _wait(run, late, ends)
    gone = {member.name for member in going if _cluster(run, member) is None}
    facts = _read(run, accesses, only=gone, before=facts)
    rest = [decision for decision in _decide(run, facts) if decision.member.name in gone]
    for steps in _by_wave(rest, lambda wave: WAVE_NAMESPACE <= wave < WAVE_TOMBSTONE).values():
        _write_wave(run, steps, recorder)
    unclean = {decision.member.name for decision in rest if decision.left}
    if unclean:
        if run.options.wait:
            _wait_for_members(run, rest, ends)
        facts = _read(run, accesses, only=unclean, before=facts)
        rest = [decision for decision in _decide(run, facts) if decision.member.name in gone]
    if _finish(run, [decision for decision in rest if not decision.left], facts, recorder, ends):
        facts = _read(run, accesses, only=(), before=facts)
    return facts, _decide(run, facts)


def _wait_for_members(run: MembersRun, decisions: Iterable[MemberDecision], ends: float) -> None:
    """Wait until what is to go is out of the members. One that does not answer is asked again, unless it is given up."""
    rows = [decision for decision in decisions if decision.left and decision.member.name not in run.failed]
    waiting = {decision.member.name: (decision.member, decision.left) for decision in rows}

    def late() -> bool:
        for name, (member, left) in list(waiting.items()):
            try:
                waiting[name] = member, still_there(left, run.read(member.host, awaited_reads(member, left)))
            except ClusterError:
                if name not in run.options.abandon:
                    continue
                waiting[name] = member, ()
            if not waiting[name][1]:
                del waiting[name]
        return bool(waiting)

    _wait(run, late, ends)


def _finish(run: MembersRun, clean: list[MemberDecision], facts: Facts, recorder: Recorder, ends: float) -> bool:
    """Write what follows when nothing is left in the members, and wait for the management plane. Return whether something may be new.

    :param clean: also those that fell silent meanwhile, of which that is noted.
    """
    waves = _by_wave(clean, lambda wave: wave == WAVE_NOTE or wave >= WAVE_TOMBSTONE)
    new = tuple(step for steps in waves.values() for step in steps if step not in run.steps)
    if new:  # the plan had no place for them while something was held
        _announce(run, replace(plan_of(clean, facts), steps=new), facts, recorder)
    for steps in waves.values():
        _write_wave(run, steps, recorder)
    members = [decision.member for decision in clean if decision.plane and not decision.waits and decision.member.name not in run.failed]

    def late() -> bool:
        planes = _planes(run)
        return any(left_in_plane(found_plane(planes, member), member, run.request) is not None for member in members)

    if members and run.options.wait:
        _wait(run, late, ends)
    return bool(waves or members)


def _release(run: MembersRun, member: Member, works: Iterable[PreservedWork], recorder: Recorder) -> None:
    _write_wave(run, [step for work in works if work.deleting and (step := release_step(run.request, member, work))], recorder)


# --- both --------------------------------------------------------------------------------------------------------------------------------


def _wait(run: MembersRun, late: Callable[[], bool], ends: float | None = None) -> None:
    """Look again and again until nothing is late, or the time is over. A plane that does not answer for a moment is asked again.

    :param ends: when the time of several waits is over; None: it begins now.
    """
    deadline = run.ports.clock() + run.options.wait_timeout if ends is None else ends
    while True:
        try:
            if not late():
                return
        except ClusterError:
            if run.ports.clock() >= deadline:
                raise
        if run.ports.clock() >= deadline:
            return
        run.ports.sleep(PAUSE)


def _report(run: MembersRun, facts: Facts, decisions: list[MemberDecision], recorder: Recorder) -> None:
    """Record findings, status and metrics, and whether the run did all that was asked for."""
    rows: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    findings: list[Finding] = []
    undone: list[str] = []
    now = run.ports.now()
    for decision in decisions:
        member, found = decision.member, facts.karmada.clusters.get(decision.member.member)
        own = found if found is not None and is_made_for(found, member) else None
        findings += decision.findings
        error = run.failed.get(member.name)
        if error is not None:
            findings.append(replace(finding_of(error), item=member.item))
        refused = decision.refused or ("WriteFailed" if error is not None else "")
        if run.leaving:
            if own is not None or decision.steps or decision.left or decision.plane or decision.waits or refused:
                findings += _unfinished(run, decision, own) if run.options.wait and not (run.check_mode or refused) else ()
                undone.append(member.name)
                rows.append(member_status(member, own, decision.provisioning, now, refused=refused, leaving=True))
            continue
        ready, reason = readiness(own)
        if own is not None and not ready and not refused:
            findings.append(ready_finding(run.request, member, reason))
        if refused or not decision.provisioning.ready or (own is None and not run.check_mode) or (own is not None and not ready):
            undone.append(member.name)
        rows.append(member_status(member, own, decision.provisioning, now, refused=refused))
        figures.append(metrics(member, own, now))
    ranked = ordered(findings)
    run.ports.show(FindingsMade(ranked))
    shown = "; ".join(f"{row['name']} {row['phase']}" for row in rows) or "none"
    run.ports.show(Sentence(f"Clusters: {shown}", "attention" if undone else "good"))
    recorder.note(findings=ranked, unmet=_unmet(run, undone), extra={"clusters": rows, "metrics": figures})


def _unfinished(run: MembersRun, decision: MemberDecision, own: Mapping[str, Any] | None) -> list[Finding]:
    """Return the finding that a cluster has not left in time; [] where another one says so, or there is nothing to wait for."""
    member, seconds = decision.member, run.options.wait_timeout
    if own is not None:
        deleted = bool(text(own, "metadata", "deletionTimestamp"))
        return [staying_finding(run.request, member, own, seconds)] if deleted or not decision.findings else []
    if decision.left:
        return [held_finding(member, decision.left, seconds)]
    if decision.plane is not None and not decision.waits:
        return [plane_held_finding(run.request, member, decision.plane, seconds)]
    return []


def _unmet(run: MembersRun, undone: list[str]) -> str:
    if not undone or (run.check_mode and run.leaving):
        return ""
    what = "did not leave" if run.leaving else "did not become a ready member"
    return f"Of {count(len(run.request.members), 'cluster')}, {len(undone)} {what}: {listed(undone)}. The findings say why."
