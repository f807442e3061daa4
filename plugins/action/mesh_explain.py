# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_explain: why can A not reach B? It reads, and writes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from ..module_utils.explain.hop import Answer
from ..module_utils.explain.observe import read_identities
from ..module_utils.explain.question import question_of
from ..module_utils.explain.seen import Seen, pods_of
from ..module_utils.explain.walk import walk
from ..module_utils.findings import Severity
from ..module_utils.items.kinds import ItemKind
from ..module_utils.items.observe_scene import links_of, observe_scene
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.registry import registry_name
from ..module_utils.status import build_status
from ..plugin_utils.engine import PARALLEL, not_seen, read_all, requests
from ..plugin_utils.explain_lines import explain_lines
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, failure_findings
from ..plugin_utils.play import accesses, asked, mesh_of, plain
from ..plugin_utils.proving import PROOF, controller_proofs, prove_all
from ..plugin_utils.spec import MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **REPORT,
    **PROOF,
    "source": {"type": "dict", "required": True},
    "target": {"type": "dict", "required": True},
    "port": {"type": "str", "required": True},
    "protocol": {"type": "str", "choices": ["TCP", "UDP", "SCTP"], "default": "TCP"},
    "expected": {"type": "str", "choices": ["not_broken", "any"], "default": "any"},
}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        question = question_of(plain({key: call.params[key] for key in ("source", "target", "port", "protocol")}), mesh.clusters)
        members = accesses(call.play, asked(call.play, mesh))
        with observe(members, parallel=PARALLEL, registry=registry_name(mesh.binding)) as observation:
            status = self._measure(call, mesh, observation)
            scene = observe_scene(observation, mesh, tuple(ItemKind), now=call.now, binding_status=status, parallel=PARALLEL)
            traffic = scene.traffic.get(question.source.cluster)
            pods = {question.source.cluster: pods_of(traffic, question.source)} if traffic else {}
            identities, unread = read_identities(observation.clusters, pods)
            seen = Seen(scene=scene, links=links_of(status), identities=identities, unread_identities=unread)
            explanation = walk(question, seen)
            self.show(explain_lines(question, explanation))
            unmet = call.params["expected"] == "not_broken" and explanation.answer is Answer.BROKEN
            return Outcome(
                findings=failure_findings(observation.failures.values(), Severity.ADVISORY),
                clusters=mesh.clusters,
                requests=requests(observation),
                error=explanation.summary if unmet else "",
                extra={"explanation": explanation.to_dict()},
            )

    def _measure(self, call: Call, mesh: Mesh, observation: Observation) -> dict[str, object]:
        """The state of all links, as mesh_status measures it."""
        mode = call.params["proof"]
        readers = read_all(observation, mesh) if mode == "none" else prove_all(observation, mesh)
        proofs = controller_proofs(observation, mesh, mode)
        return build_status(mesh, observation.facts, not_seen(observation, mesh), readers, now=datetime.now(UTC), proofs=proofs)
