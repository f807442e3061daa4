# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_reach: which workloads may communicate by the policies of all clusters, now and after a plan. It writes to no cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from ..module_utils.base.tables import cell
from ..module_utils.findings.finding import Finding, Severity
from ..module_utils.items.planned import ItemVerdict
from ..module_utils.items.scene import Scene
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.pipeline.links import contacts
from ..module_utils.pipeline.options import PARALLEL
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.policies.workload_index import index_workloads
from ..module_utils.reach.matrix import Grain
from ..module_utils.reach.planned_policies import scene_with_planned_policies
from ..module_utils.reach.report import ReachReport, flows_csv, matrix_csv, reach_json, report_of
from ..module_utils.reach.scope import scope_of
from ..module_utils.reconcile.parse import desired_of
from ..module_utils.reconcile.plan import plan_items
from ..module_utils.reconcile.scene import observe_scene
from ..plugin_utils.files import check_places, write_whole
from ..plugin_utils.fitted import Line
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain
from ..plugin_utils.reach_lines import reach_lines
from ..plugin_utils.report import finding_lines

FILES: Final[Mapping[str, Callable[[ReachReport, Grain], bytes]]] = {
    "flows_csv": lambda report, _grain: flows_csv(report),
    "matrix_csv": matrix_csv,
    "json": lambda report, _grain: reach_json(report),
}
"""Option that names a file -> its content."""


class ActionModule(MeshAction):
    """Action mesh_reach: which workloads may communicate by the policies of all clusters, now and after a plan."""

    def execute(self, call: Call) -> Outcome:
        """Observe the policies and the pods of every member, evaluate them, and write the files that the options name."""
        places = check_places({form: os.path.expanduser(call.params[form]) for form in FILES if call.params[form]})
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        scope = scope_of(plain({key: call.params[key] for key in ("source", "destination")}), mesh.clusters)
        with call.run(mesh).observe(PARALLEL) as observation:
            scene = observe_scene(call.ports.read_traffic, observation, mesh, tuple(ItemKind), now=call.now, parallel=PARALLEL)
            planned, left_out, findings = _planned(call, mesh, scene)
            index = index_workloads(scene)
            report = report_of(index, index_workloads(planned) if planned else None, scope, left_out)
            self.show([*reach_lines(report), *finding_lines(findings)])
            for form, path in {} if call.check_mode else places.items():
                write_whole(form, path, FILES[form](report, Grain(call.params["grain"])))
                self.show([Line(f"  written: {cell(path)}")])
            refused = f"The plan leaves out {', '.join(left_out)}." if left_out else ""
            return Outcome(
                findings=(*failure_findings(observation.failures.values(), Severity.ADVISORY), *findings),
                clusters=mesh.clusters,
                **contacts(observation),
                error="; ".join(report.violations(call.params["fail_on"])) or refused,
                extra={"reach": report.to_dict()},
            )


def _planned(call: Call, mesh: Mesh, scene: Scene) -> tuple[Scene | None, tuple[str, ...], tuple[Finding, ...]]:
    """Return the scene with the policies that the intents of the file would write, the intents that are left out, and why.

    The scene is None where the file has no list of intents, or a run would write none of their policies.
    """
    desired = desired_of(call.params["mesh"], mesh, kinds=(ItemKind.INTENT,))
    if not desired.kinds:
        return None, (), ()
    plan = plan_items(desired, scene, waits=False)
    left_out = tuple(str(entry.ref) for entry in plan.items if entry.verdict is not ItemVerdict.ACCEPTED)
    findings = tuple(finding for finding in plan.findings if finding.item in left_out)
    return (scene_with_planned_policies(scene, plan.plan.steps) if plan.plan.steps else None), left_out, findings
