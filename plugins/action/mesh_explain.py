# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_explain: explains whether a source can reach a destination, with a verdict for each hop. It writes nothing."""

from __future__ import annotations

from ..module_utils.explain.hop import Answer
from ..module_utils.explain.inputs import ExplainInputs, pods_of, read_identities
from ..module_utils.explain.question import question_of
from ..module_utils.explain.trace import trace_path
from ..module_utils.findings.finding import Severity
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.pipeline.links import requests
from ..module_utils.pipeline.options import PARALLEL
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.pipeline.run import measure
from ..module_utils.reconcile.scene import link_rows, observe_scene
from ..plugin_utils.explain_lines import explain_lines
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain
from ..plugin_utils.spec import spec_of


class ActionModule(MeshAction):
    """Action mesh_explain: explains whether one workload can reach another, hop by hop."""

    SPEC = spec_of("mesh_explain")

    def execute(self, call: Call) -> Outcome:
        """Explain the path from ``source`` to ``target``."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        question = question_of(plain({key: call.params[key] for key in ("source", "target", "port", "protocol")}), mesh.clusters)
        with call.run(mesh).observe(PARALLEL) as observation:
            status = measure(call.ports, mesh, observation, call.params["proof"])
            scene = observe_scene(observation, mesh, tuple(ItemKind), now=call.now, binding_status=status, parallel=PARALLEL)
            traffic = scene.traffic.get(question.source.cluster)
            pods = {question.source.cluster: pods_of(traffic, question.source)} if traffic else {}
            identities, unread = read_identities(observation.clusters, pods)
            inputs = ExplainInputs(scene=scene, links=link_rows(status), identities=identities, unread_identities=unread)
            explanation = trace_path(question, inputs)
            self.show(explain_lines(question, explanation))
            unmet = call.params["expected"] == "not_broken" and explanation.answer is Answer.BROKEN
            return Outcome(
                findings=failure_findings(observation.failures.values(), Severity.ADVISORY),
                clusters=mesh.clusters,
                requests=requests(observation),
                error=explanation.summary if unmet else "",
                extra={"explanation": explanation.to_dict()},
            )
