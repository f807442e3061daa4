# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_connect: makes clusters one mesh, or takes them out of it, on one observation of all of them.

Every write is decided before the first one is made; a blocking finding anywhere means that nothing is written anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ..module_utils.apply import apply_plan
from ..module_utils.checks import run_checks
from ..module_utils.diff import diff_plan
from ..module_utils.errors import InvalidInput, MeshError
from ..module_utils.findings import Finding
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.plan import Plan, plan_disconnect
from ..module_utils.status import build_status
from ..module_utils.wait import wait_for_links
from ..plugin_utils.engine import PARALLEL, context_of, judge_and_plan, read_all, requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, after_disconnect, count, finding_of, refusal
from ..plugin_utils.play import accesses, mesh_of
from ..plugin_utils.progress import Progress
from ..plugin_utils.report import behind, disconnected_line, findings_lines, plan_lines, status_lines, verdict
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

NOTHING_WRITTEN = "nothing was written anywhere."

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "clusters": {"type": "list", "elements": "str", "default": []},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 300},
    "certificate_days": {"type": "int", "default": 365},
    "renew_before_days": {"type": "int", "default": 30},
}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"])
        leaving = _leaving(mesh, call.params)
        with observe(accesses(call.play, mesh.clusters), parallel=PARALLEL) as observation:
            self.so_far = Outcome(clusters=mesh.clusters, requests=requests(observation))
            if call.params["state"] == "absent":
                outcome = self._disconnect(call, mesh, leaving, observation)
            else:
                outcome = self._connect(call, mesh, observation)
            return replace(outcome, requests=requests(observation))

    def _connect(self, call: Call, mesh: Mesh, observation: Observation) -> Outcome:
        context = context_of(observation, mesh, call.params, call.now)
        options = {key: call.params[key] for key in ("certificate_days", "renew_before_days")}
        findings, plan = judge_and_plan(context, **options)
        self.show(findings_lines(findings))
        if plan is None:
            return replace(self.so_far, findings=findings, error=refusal(findings, NOTHING_WRITTEN))
        self._announce(call, plan, findings, observation)
        if call.check_mode:
            return self.so_far
        if not self._apply(call, plan, observation):
            return self.so_far
        return self._wait(call, mesh, observation) if call.params["wait"] else self.so_far

    def _disconnect(self, call: Call, mesh: Mesh, leaving: frozenset[str] | None, observation: Observation) -> Outcome:
        context = context_of(observation, mesh, call.params, call.now)
        findings = run_checks(context, "disconnect")
        self.show(findings_lines(findings))
        if any(finding.blocks for finding in findings):
            return replace(self.so_far, findings=findings, error=refusal(findings, NOTHING_WRITTEN))
        plan = plan_disconnect(mesh, observation.facts, leaving, call.now)
        self._announce(call, plan, findings, observation)
        if call.check_mode or not self._apply(call, plan, observation):
            return self.so_far
        return self._after_disconnect(call, mesh, leaving, observation)

    def _announce(self, call: Call, plan: Plan, findings: tuple[Finding, ...], observation: Observation) -> None:
        """The plan, for people and as data, before anything is done."""
        data = plan.to_dict()
        self.show(plan_lines(data))
        diff = tuple(diff_plan(plan, observation.facts)) if call.diff else ()
        self.so_far = replace(self.so_far, changed=call.check_mode and not plan.empty, findings=findings, plan=data, diff=diff)

    def _apply(self, call: Call, plan: Plan, observation: Observation) -> bool:
        """Make the writes; False when some failed, which ``so_far`` then says."""
        if plan.empty:
            return True
        # Should apply_plan end by a defect of ours, writes may have been made: better to claim a change too many than one too few.
        before, self.so_far = self.so_far, replace(self.so_far, changed=True)
        try:
            done = apply_plan(plan, observation, now=call.now, parallel=PARALLEL)
        except MeshError:  # it raises these only before the first write
            self.so_far = before
            raise
        failed = tuple(finding_of(done.failures[host]) for host in sorted(done.failures))
        self.so_far = replace(self.so_far, changed=done.changed, findings=(*failed, *self.so_far.findings))
        if not failed:
            return True
        self.show(findings_lines(failed))
        hosts = ", ".join(sorted(done.failures))
        text = (
            f"{len(done.applied)} of {count(len(plan.steps), 'step')} done; writing failed in {hosts}. Run again when the cause is mended."
        )
        self.so_far = replace(self.so_far, error=text)
        return False

    def _wait(self, call: Call, mesh: Mesh, observation: Observation) -> Outcome:
        seconds = float(call.params["wait_timeout"])
        progress = Progress(show=self.show, clock=time.monotonic, pause=time.sleep, links=len(mesh.links), timeout=seconds)
        waited = wait_for_links(
            lambda: read_all(observation, mesh),
            mesh,
            timeout=seconds,
            clock=time.monotonic,
            sleep=progress.sleep,
            facts=observation.facts,
            progress=progress.entered,
        )
        status = build_status(mesh, observation.facts, observation.failures, waited.readers, now=datetime.now(UTC), written=True)
        self.show(status_lines(mesh.binding.name, status))
        error = "" if waited.ready else f"{verdict(mesh.binding.name, status)} after {waited.elapsed:.0f} s. {behind(status)}"
        return replace(self.so_far, status=status, error=error)

    def _after_disconnect(self, call: Call, mesh: Mesh, leaving: frozenset[str] | None, observation: Observation) -> Outcome:
        if leaving is None:
            silent = [host for host in mesh.clusters if host in observation.failures]
            self.show([disconnected_line(mesh.binding.name, mesh.clusters, silent)])
            return replace(self.so_far, status=after_disconnect(silent))
        if not call.params["wait"]:
            return self.so_far
        rest = Mesh(binding=replace(mesh.binding, cluster_refs=tuple(host for host in mesh.clusters if host not in leaving)))
        status = build_status(rest, observation.facts, observation.failures, read_all(observation, rest), now=datetime.now(UTC))
        self.show(status_lines(mesh.binding.name, status))
        return replace(self.so_far, status=status)


def _leaving(mesh: Mesh, params: Mapping[str, Any]) -> frozenset[str] | None:
    """Which clusters leave; None: all. A mesh of one is none."""
    named = [str(name) for name in params["clusters"]]
    if not named:
        return None
    if params["state"] != "absent":
        raise InvalidInput("clusters is for state=absent: it names those that leave.", remedy="Members are named in binding.clusterRefs.")
    strangers = [name for name in named if name not in mesh.clusters]
    if strangers:
        raise InvalidInput(
            f"clusters names {', '.join(strangers)}, no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}."
        )
    return frozenset(named) if len(set(mesh.clusters) - set(named)) > 1 else None
