# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_verify: is the mesh fit to be connected or taken apart, or each cluster fit to be meshed?"""

from __future__ import annotations

from ..module_utils.checks import run_checks
from ..module_utils.findings import CheckContext, Finding, Scope, registered
from ..module_utils.model import Mesh
from ..module_utils.observe import observe
from ..plugin_utils.engine import PARALLEL, context_of, judge_and_plan, requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, refusal
from ..plugin_utils.play import accesses, lone_clusters, mesh_of
from ..plugin_utils.report import Line, findings_lines
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    "purpose": {"type": "str", "choices": ["connect", "disconnect", "cluster"], "default": "connect"},
    "fail_on": {"type": "str", "choices": ["blocking", "never"], "default": "blocking"},
}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        purpose = call.params["purpose"]
        members = lone_clusters if purpose == "cluster" else mesh_of
        mesh = members(call.play, call.params["mesh"])
        with observe(accesses(call.play, mesh.clusters), parallel=PARALLEL) as observation:
            findings = _findings(context_of(observation, mesh, call.params, call.now), purpose)
            self.show(findings_lines(findings) or [_fit(mesh, purpose)])
            error = refusal(findings, "see the findings.") if call.params["fail_on"] == "blocking" else ""
            return Outcome(findings=findings, clusters=mesh.clusters, requests=requests(observation), error=error)


def _findings(context: CheckContext, purpose: str) -> tuple[Finding, ...]:
    if purpose == "connect":
        return judge_and_plan(context)[0]
    if purpose == "disconnect":
        return run_checks(context, "disconnect")
    return tuple(finding for finding in run_checks(context, "verify") if _of_one_cluster(finding))


def _of_one_cluster(finding: Finding) -> bool:
    """Findings outside the registry are clusters that did not answer."""
    check = registered().get(finding.code)
    return check is None or check.scope is Scope.CLUSTER


def _fit(mesh: Mesh, purpose: str) -> Line:
    what = "each by itself" if purpose == "cluster" else f"to {purpose} as mesh {mesh.binding.name}"
    return Line(f"No findings: {', '.join(mesh.clusters)}, {what}", "green")
