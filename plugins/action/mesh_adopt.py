# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_adopt: a mesh that Helm, the cilium CLI or another tool made becomes the binding's, or goes back. No link drops.

Who owns what changes, and marks; no value does. While a tool still renders the objects they are only prepared, and the user is told how
to stop it: that is no failure, the next run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from ..module_utils.adopt import Stage
from ..module_utils.findings import Finding, Severity, ordered
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.plan_adopt import plan_adopt
from ..module_utils.plan_handback import plan_hand_back
from ..module_utils.status import build_status
from ..module_utils.steps import Plan
from ..plugin_utils.engine import read_all, requests
from ..plugin_utils.execution import NOTHING_WRITTEN, PlanAction
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome, failure_findings, refusal
from ..plugin_utils.play import mesh_of
from ..plugin_utils.report import Line, findings_lines, status_lines
from ..plugin_utils.spec import MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **REPORT,
    "state": {"type": "str", "choices": ["adopted", "handed_back"], "default": "adopted"},
    "handed_over": {"type": "bool", "default": False},
    "parallel": {"type": "int", "default": 10},
}

_SAID = {
    Stage.HELD: ("waits for the hand-over: see CM-OWN-06", "yellow"),
    Stage.FREE: ("adopted", "green"),
    Stage.DONE: ("nothing to adopt", ""),
}


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"])
        call = replace(call, params={"max_failures": None, **call.params})  # as without that option, which says nothing here
        with self.observing(call, mesh) as observation:
            plan, stages = self._plan(call, mesh, observation)
            outcome = self._act(call, mesh, plan, stages, observation)
            return replace(outcome, requests=requests(observation))

    def _plan(self, call: Call, mesh: Mesh, observation: Observation) -> tuple[Plan, Mapping[str, Stage]]:
        if call.params["state"] == "handed_back":
            return plan_hand_back(mesh, observation.facts, call.now), {}
        adoption = plan_adopt(mesh, observation.facts, call.now, handed_over=call.params["handed_over"])
        return adoption.plan, adoption.stages

    def _act(self, call: Call, mesh: Mesh, plan: Plan, stages: Mapping[str, Stage], observation: Observation) -> Outcome:
        silent = failure_findings(observation.failures.values(), Severity.BLOCKING)
        findings: tuple[Finding, ...] = ordered((*silent, *plan.problems))
        extra = {"stages": {host: stage.value for host, stage in stages.items()}}
        self.show(findings_lines(findings))
        self.so_far = replace(self.so_far, findings=findings, extra=extra, error=refusal(findings, NOTHING_WRITTEN))
        if self.so_far.error:
            return self.so_far
        self.announce(call, plan, observation)
        if call.check_mode or self.apply(call, mesh, plan, observation):
            return self.so_far
        self.show(Line(f"  {host}: {_SAID[stage][0]}", _SAID[stage][1]) for host, stage in stages.items())
        return self._measured(mesh, observation)

    def _measured(self, mesh: Mesh, observation: Observation) -> Outcome:
        """The links as they are now; nothing is waited for, as nothing of them was changed."""
        readers = read_all(observation, mesh)
        status = build_status(mesh, observation.facts, observation.failures, readers, now=datetime.now(UTC))
        self.show(status_lines(mesh.binding.name, status))
        return replace(self.so_far, status=status)
