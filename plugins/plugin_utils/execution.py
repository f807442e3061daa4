# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an observation to a plan, and from a plan to a mesh that was measured: what the actions that plan or write have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ..module_utils.apply import apply_plan
from ..module_utils.checks import run_checks
from ..module_utils.diff import diff_plan
from ..module_utils.errors import InvalidInput, MeshError
from ..module_utils.facts import ObserveFailure
from ..module_utils.findings import Finding, ordered
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.plan import Plan, plan_disconnect
from ..module_utils.plan_elb import awaiting_address
from ..module_utils.plan_tombstones import lockout_findings
from ..module_utils.proof import Verdict
from ..module_utils.registry import registry_name
from ..module_utils.status import build_status, earlier_binding
from ..module_utils.stored_plan import options_data
from ..module_utils.wait import wait_for_links
from .engine import context_of, judge_and_plan, not_seen, read_all, requests
from .mesh_action import Call, MeshAction
from .outcome import Outcome, after_disconnect, count, finding_of, refusal
from .participants import check_breadth, failures_left, left_out_lines, look_at_former, require_two, ways_out
from .play import Play, accesses, asked, left_out, plain
from .progress import Progress
from .proving import PROOF, controller_proofs, missing_lines, prove_all
from .report import behind, disconnected_line, findings_lines, plan_lines, status_lines, verdict
from .spec import BREADTH, PREVIOUS, Spec

NOTHING_WRITTEN: Final = "nothing was written anywhere."

PLANNING: Final[Spec] = {
    "clusters": {"type": "list", "elements": "str", "default": []},
    "certificate_days": {"type": "int", "default": 365},
    "renew_before_days": {"type": "int", "default": 30},
    "take_back": {"type": "list", "elements": "str", "default": []},
    "repair": {"type": "bool", "default": False},
    **BREADTH,
}
"""Options of every action that plans, besides those of spec.JUDGEMENT. The twin of doc_fragments/_mesh.py, PLANNING: change both."""

WAITING: Final[Spec] = {"wait": {"type": "bool", "default": True}, "wait_timeout": {"type": "int", "default": 300}, **PROOF, **PREVIOUS}
"""Options of every action that writes. The twin of doc_fragments/_mesh.py, WAITING: change both."""


class PlanAction(MeshAction):
    """An action that decides a plan and, where it writes, carries it out. Everything found out so far stands in ``self.so_far``."""

    def observing(self, call: Call, mesh: Mesh) -> Observation:
        """Every member that takes part, observed, with connections that whoever uses it closes."""
        members = accesses(call.play, asked(call.play, mesh))
        observation = observe(members, parallel=call.params["parallel"], registry=registry_name(mesh.binding))
        self.so_far = Outcome(clusters=mesh.clusters, requests=requests(observation))
        return observation

    def decide(self, call: Call, mesh: Mesh, leaving: frozenset[str] | None, purpose: str, observation: Observation) -> Plan | None:
        """The plan, after its findings were shown; None when one of them blocks, which ``so_far`` then says.

        :param purpose: ``connect`` or ``disconnect``.
        """
        if purpose == "connect" or leaving is None:
            look_at_former(call, mesh, observation)
        context = context_of(observation, mesh, call.params, call.now)
        plan: Plan | None
        if purpose == "connect":
            require_two(call.play, context)
            options = {key: call.params[key] for key in ("certificate_days", "renew_before_days")}
            findings, plan = judge_and_plan(context, **options)
        else:
            lockouts = lockout_findings(mesh, observation.facts, leaving or ())
            findings = ordered((*run_checks(context, "disconnect"), *lockouts))
            blocked = any(finding.blocks for finding in findings)
            plan = None if blocked else plan_disconnect(mesh, observation.whole.facts, leaving, call.now)
            if plan is not None and plan.blocked:  # by a cluster that is no member any more: the checks do not look at it
                findings, plan = ordered((*findings, *plan.problems)), None
        self.show(findings_lines(findings))
        error = refusal(findings, NOTHING_WRITTEN) if plan is None else ""
        self.so_far = replace(self.so_far, findings=findings, error=error)
        return None if plan is None else replace(plan, options=options_data({**call.params, "purpose": purpose}))

    def announce(self, call: Call, plan: Plan, observation: Observation) -> None:
        """The plan, for people and as data, before anything is done."""
        data = plan.to_dict()
        self.show(plan_lines(data))
        diff = tuple(diff_plan(plan, observation.whole.facts)) if call.diff else ()
        self.so_far = replace(self.so_far, changed=call.check_mode and not plan.empty, plan=data, diff=diff)

    def carry_out(
        self, call: Call, mesh: Mesh, leaving: frozenset[str] | None, purpose: str, plan: Plan, observation: Observation
    ) -> Outcome:
        """Write what was announced, wait for the links, and measure. Where writes failed the links are measured once, without waiting."""
        failed = self.apply(call, mesh, plan, observation)
        if purpose == "disconnect":
            return self.so_far if failed else self.after_disconnect(call, mesh, leaving, observation)
        return self.wait(call, mesh, observation, failed) if call.params["wait"] else self.so_far

    def apply(self, call: Call, mesh: Mesh, plan: Plan, observation: Observation) -> dict[str, ObserveFailure]:
        """Make the writes. Returns the clusters in which one failed, which ``so_far`` then says too."""
        if plan.empty:
            return {}
        # Should apply_plan end by a defect of ours, writes may have been made: better to claim a change too many than one too few.
        before, self.so_far = self.so_far, replace(self.so_far, changed=True)
        try:
            allowed = failures_left(call.params["max_failures"], mesh, observation)
            done = apply_plan(plan, observation.whole, now=call.now, parallel=call.params["parallel"], max_failures=allowed)
        except MeshError:  # it raises these only before the first write
            self.so_far = before
            raise
        failed: tuple[Finding, ...] = tuple(finding_of(done.failures[host]) for host in sorted(done.failures))
        self.so_far = replace(self.so_far, changed=done.changed, findings=(*failed, *self.so_far.findings))
        if not failed:
            return {}
        self.show(findings_lines(failed))
        hosts = ", ".join(sorted(done.failures))
        stopped = "; with more failures than max_failures allows, no further wave was begun" if done.stopped else ""
        text = f"{len(done.applied)} of {count(len(plan.steps), 'step')} done; writing failed in {hosts}{stopped}."
        self.so_far = replace(self.so_far, error=" ".join([text, *ways_out(observation, done.failures)]))
        return {f.cluster: ObserveFailure(host=f.cluster, code=f.code, message=f"a write failed: {f.summary}") for f in failed}

    def wait(self, call: Call, mesh: Mesh, observation: Observation, failed: Mapping[str, ObserveFailure]) -> Outcome:
        """Until every link between clusters that answer is ready, or time is up; all others are measured as far as can be."""
        without = awaiting_address(self.so_far.findings, (link["peer"] for link in (self.so_far.plan or {}).get("links", ())))
        awaited = mesh.among([host for host in observation.facts if host not in without])
        seconds = float(call.params["wait_timeout"]) if awaited.links and not failed else 0.0
        written = bool((self.so_far.plan or {}).get("steps"))
        progress = Progress(show=self.show, clock=time.monotonic, pause=time.sleep, links=len(awaited.links), timeout=seconds)
        waited = wait_for_links(
            lambda: read_all(observation, mesh),
            awaited,
            timeout=seconds,
            clock=time.monotonic,
            sleep=progress.sleep,
            facts=observation.facts,
            progress=progress.entered,
            prove=(lambda: prove_all(observation, mesh)) if call.params["proof"] != "none" else None,
            settled=not written,
        )
        proofs = controller_proofs(observation, mesh, call.params["proof"], written=written)
        now = datetime.now(UTC)
        missing = {**failed, **not_seen(observation, mesh)}
        before = earlier_binding(plain(call.params["previous_status"]))
        status = build_status(mesh, observation.facts, missing, waited.readers, now=now, written=True, proofs=proofs, previous=before)
        self.show(missing_lines(call.params["proof"]))
        self.show(status_lines(mesh.binding.name, status))
        refuted = [link for link in awaited.links if link in proofs and proofs[link].verdict is Verdict.REFUTED]
        if (waited.ready and not refuted) or not awaited.links:
            return replace(self.so_far, status=status)
        late = f"{verdict(mesh.binding.name, status)} after {waited.elapsed:.0f} s. {behind(status)}"
        return replace(self.so_far, status=status, error=self.so_far.error or late)

    def after_disconnect(self, call: Call, mesh: Mesh, leaving: frozenset[str] | None, observation: Observation) -> Outcome:
        """What is left of the mesh."""
        rest = mesh.among(host for host in mesh.clusters if host not in (leaving or ()))
        if leaving is None or not rest.links:
            silent = [host for host in mesh.clusters if host in observation.failures]
            self.show([disconnected_line(mesh.binding.name, asked(call.play, mesh), silent), *left_out_lines(call.play, mesh)])
            return replace(self.so_far, status=after_disconnect(silent))
        self.show(left_out_lines(call.play, mesh))
        if not call.params["wait"]:
            return self.so_far
        readers, before = read_all(observation, rest), earlier_binding(plain(call.params["previous_status"]))
        status = build_status(rest, observation.facts, observation.failures, readers, now=datetime.now(UTC), previous=before)
        self.show(status_lines(mesh.binding.name, status))
        return replace(self.so_far, status=status)


def leaving_clusters(mesh: Mesh, params: Mapping[str, Any], purpose: str, option: str, play: Play) -> frozenset[str] | None:
    """Which clusters leave; None: all. A mesh of one is none.

    What a limit leaves out is not contacted, so that the links that cross its border end on the inside: for those inside, it leaves.

    :param option: what the user writes to disconnect, for instance ``state=absent``.
    :raises InvalidInput: ``clusters`` names no members, or the purpose is not to disconnect, or a limit leaves out others than those that
        leave; or a number is too small.
    """
    check_breadth(params)
    named = [str(name) for name in params["clusters"]]
    outside = left_out(play, mesh)
    if not named:
        return _unless_all(mesh, frozenset(outside)) if purpose == "disconnect" and outside else None
    if purpose != "disconnect":
        raise InvalidInput(f"clusters is for {option}: it names those that leave.", remedy="Members are named in binding.clusterRefs.")
    strangers = [name for name in named if name not in mesh.clusters]
    if strangers:
        raise InvalidInput(
            f"clusters names {', '.join(strangers)}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}."
        )
    half = [name for name in outside if name not in named]
    if half:
        raise InvalidInput(
            f"--limit, or the hosts pattern of the play, leaves out {', '.join(half)}, which would keep links to the clusters that leave.",
            remedy="Let it leave out only clusters that clusters names.",
        )
    return _unless_all(mesh, frozenset(named))


def _unless_all(mesh: Mesh, leaving: frozenset[str]) -> frozenset[str] | None:
    return leaving if len(set(mesh.clusters) - leaving) > 1 else None
