# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_upgrade_check: what an upgrade of Cilium changes in the mesh, hop by hop, and the steps of it. It writes to no cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ..module_utils.base.tables import cell
from ..module_utils.findings.finding import Finding, Severity
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.mesh.facts.cluster import ClusterFacts
from ..module_utils.pipeline.judgement import context_of, judge_and_plan
from ..module_utils.pipeline.links import contacts
from ..module_utils.pipeline.options import PARALLEL, ConnectOptions
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.plan.steps import Plan
from ..module_utils.reconcile.scene import observe_scene
from ..module_utils.upgrade.forecast import NothingKnown, forecast, values_of
from ..module_utils.upgrade.report import UpgradeReport, upgrade_json
from ..plugin_utils.files import check_places, write_whole
from ..plugin_utils.fitted import Line
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain
from ..plugin_utils.upgrade_lines import upgrade_lines


class ActionModule(MeshAction):
    """Action mesh_upgrade_check: what an upgrade of Cilium changes in the mesh, hop by hop, and the steps of it."""

    def execute(self, call: Call) -> Outcome:
        """Observe every member, and apply the rules of the next minors to its facts."""
        places = check_places({"json": os.path.expanduser(call.params["json"])} if call.params["json"] else {})
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        options, values = ConnectOptions(), values_of(plain(call.params["values"]))
        with call.run(mesh).observe(PARALLEL) as observation:
            scene = observe_scene(call.ports.read_traffic, observation, mesh, (ItemKind.INTENT,), now=call.now, parallel=PARALLEL)
            context = context_of(call.ports, observation, mesh, options, call.now)

            def plan_of(facts: Mapping[str, ClusterFacts]) -> tuple[tuple[Finding, ...], Plan | None]:
                return judge_and_plan(replace(context, decisions=context.decisions.with_facts(facts)), options)

            found = Outcome(
                findings=failure_findings(observation.failures.values(), Severity.ADVISORY),
                clusters=mesh.clusters,
                **contacts(observation),
            )
            try:
                report = UpgradeReport(forecast(scene, call.params["target"] or "", plan_of, values))
            except NothingKnown as error:  # the findings say of each member what to do
                return replace(found, error=str(error))
            self.show(upgrade_lines(report))
            for form, path in {} if call.check_mode else places.items():
                write_whole(form, path, upgrade_json(report))
                self.show([Line(f"  written: {cell(path)}")])
            return replace(found, error="; ".join(report.violations(call.params["fail_on"])), extra={"upgrade": report.to_dict()})
