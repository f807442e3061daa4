# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_explain: explains whether a source can reach a destination, with a verdict for each hop. It writes nothing."""

from __future__ import annotations

from dataclasses import replace

from ..module_utils.base.errors import ClusterError
from ..module_utils.explain.hop import HopVerdict
from ..module_utils.explain.inputs import ExplainInputs, identity_of, identity_reads, pods_of
from ..module_utils.explain.question import QuestionSide, question_of
from ..module_utils.explain.trace import trace_path
from ..module_utils.findings.finding import Severity
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.observe import Observation
from ..module_utils.pipeline.links import contacts
from ..module_utils.pipeline.options import PARALLEL
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.pipeline.ports import Ports
from ..module_utils.pipeline.run import measure
from ..module_utils.reconcile.scene import link_rows, observe_scene
from ..plugin_utils.explain_lines import explain_lines
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain


class ActionModule(MeshAction):
    """Action mesh_explain: explains whether one workload can reach another, hop by hop."""

    def execute(self, call: Call) -> Outcome:
        """Explain the path from ``source`` to ``target``."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        question = question_of(plain({key: call.params[key] for key in ("source", "target", "port", "protocol")}), mesh.clusters)
        with call.run(mesh).observe(PARALLEL) as observation:
            status = measure(call.ports, mesh, observation, call.params["proof"])
            read, kinds = call.ports.read_traffic, tuple(ItemKind)
            scene = observe_scene(read, observation, mesh, kinds, now=call.now, binding_status=status, parallel=PARALLEL)
            inputs = _with_identities(call.ports, ExplainInputs(scene=scene, links=link_rows(status)), observation, question.source)
            explanation = trace_path(question, inputs)
            self.show(explain_lines(question, explanation))
            unmet = call.params["expected"] == "not_broken" and explanation.answer is HopVerdict.BROKEN
            return Outcome(
                findings=failure_findings(observation.failures.values(), Severity.ADVISORY),
                clusters=mesh.clusters,
                **contacts(observation),
                error=explanation.summary if unmet else "",
                extra={"explanation": explanation.to_dict()},
            )


def _with_identities(ports: Ports, inputs: ExplainInputs, observation: Observation, source: QuestionSide) -> ExplainInputs:
    """Return the inputs with the identities of the source's pods, or with the reason why they could not be read."""
    host, traffic = source.cluster, inputs.traffic(source.cluster)
    if traffic is None:
        return inputs
    try:
        found = ports.read(observation, host, identity_reads(pods_of(traffic, source)))
    except ClusterError as error:
        return replace(inputs, unread_identities={host: error.clause})
    return replace(inputs, identities={(host, *pod): identity_of(answer) for pod, answer in found.items()})
