# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_status: what the readers of every cluster say of its peers, and the last proof of every link, measured now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from ..module_utils.findings import Severity
from ..module_utils.observe import observe
from ..module_utils.registry import registry_name
from ..module_utils.status import build_status, earlier_binding
from ..plugin_utils.engine import PARALLEL, not_seen, read_all, requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, failure_findings
from ..plugin_utils.play import accesses, asked, left_out, mesh_of, plain
from ..plugin_utils.proving import PROOF, controller_proofs, missing_lines, prove_all
from ..plugin_utils.report import behind, findings_lines, status_lines, verdict
from ..plugin_utils.spec import MESH, PREVIOUS, REPORT, Spec

_SPEC: Spec = {**MESH, **REPORT, **PROOF, **PREVIOUS, "expected": {"type": "str", "choices": ["Connected", "any"], "default": "any"}}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        members = accesses(call.play, asked(call.play, mesh))
        with observe(members, parallel=PARALLEL, registry=registry_name(mesh.binding)) as observation:
            mode = call.params["proof"]
            readers = read_all(observation, mesh) if mode == "none" else prove_all(observation, mesh)
            proofs = controller_proofs(observation, mesh, mode)
            now = datetime.now(UTC)  # reading takes seconds, and the age of a heartbeat counts from its end
            before = earlier_binding(plain(call.params["previous_status"]))
            silent = not_seen(observation, mesh)
            status = build_status(mesh, observation.facts, silent, readers, now=now, proofs=proofs, previous=before)
            findings = failure_findings(observation.failures.values(), Severity.BLOCKING)
            self.show([*findings_lines(findings), *missing_lines(mode), *status_lines(mesh.binding.name, status)])
            met = status["phase"] == "Connected"
            if left_out(call.play, mesh) and not findings:
                met = _as_far_as_asked(status, observation.facts)
            unmet = call.params["expected"] != "any" and not met
            return Outcome(
                findings=findings,
                status=status,
                clusters=mesh.clusters,
                requests=requests(observation),
                error=f"{verdict(mesh.binding.name, status)}; expected {call.params['expected']}. {_why(status)}" if unmet else "",
            )


def _why(status: Mapping[str, Any]) -> str:
    """The links that are not ready; where all are, what makes the phase another one all the same."""
    return behind(status) or next((f"{row['message']}." for row in status["conditions"] if row["type"] == "Ready"), "")


def _as_far_as_asked(status: Mapping[str, Any], members: Collection[str]) -> bool:
    """With a limit the phase is never Connected. The links between the members that were asked count; of a lone one, all its links."""
    links = [link for link in status["links"] if link["cluster"] in members]
    among = [link for link in links if link["peer"] in members] or links
    return bool(among) and all(link["ready"] for link in among)
