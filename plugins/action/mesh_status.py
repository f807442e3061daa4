# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_status: what the readers of every cluster say of its peers, measured now."""

from __future__ import annotations

from ..module_utils.findings import Severity
from ..module_utils.observe import observe
from ..module_utils.status import build_status
from ..plugin_utils.engine import PARALLEL, read_all, requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, failure_findings
from ..plugin_utils.play import accesses, mesh_of
from ..plugin_utils.report import behind, findings_lines, status_lines, verdict
from ..plugin_utils.spec import MESH, REPORT, Spec

_SPEC: Spec = {**MESH, **REPORT, "expected": {"type": "str", "choices": ["Connected", "any"], "default": "any"}}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"])
        with observe(accesses(call.play, mesh.clusters), parallel=PARALLEL) as observation:
            readers = read_all(observation, mesh)
            status = build_status(mesh, observation.facts, observation.failures, readers, now=call.now)
            findings = failure_findings(observation.failures.values(), Severity.BLOCKING)
            self.show([*findings_lines(findings), *status_lines(mesh.binding.name, status)])
            unmet = call.params["expected"] != "any" and status["phase"] != call.params["expected"]
            return Outcome(
                findings=findings,
                status=status,
                clusters=mesh.clusters,
                requests=requests(observation),
                error=f"{verdict(mesh.binding.name, status)}; expected {call.params['expected']}. {behind(status)}" if unmet else "",
            )
