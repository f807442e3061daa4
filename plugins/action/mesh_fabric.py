# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_fabric: the state of a named set of bindings, measured now or made of statuses that are known already. It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..module_utils.columns import text
from ..module_utils.fabric import BindingRow, age_findings, fabric_status, identity_findings
from ..module_utils.findings import Severity, ordered
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.status import build_status
from ..plugin_utils.engine import not_seen, read_all, requests
from ..plugin_utils.fabric_lines import fabric_lines, fabric_verdict
from ..plugin_utils.fabric_spec import fabric_of
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, failure_findings
from ..plugin_utils.participants import check_breadth
from ..plugin_utils.play import accesses, asked
from ..plugin_utils.proving import PROOF, controller_proofs, missing_lines, prove_all
from ..plugin_utils.report import findings_lines
from ..plugin_utils.spec import REPORT, Spec

_SPEC: Spec = {
    **REPORT,
    **PROOF,
    "fabric": {"type": "dict", "required": True},
    "statuses": {"type": "dict", "default": {}},
    "expected": {"type": "str", "choices": ["Connected", "any"], "default": "any"},
    "parallel": {"type": "int", "default": 10},
}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        check_breadth({**call.params, "max_failures": None})
        fabric = fabric_of(call.play, call.params["fabric"], call.params["statuses"])
        hosts = dict.fromkeys(host for mesh in fabric.meshes for host in asked(call.play, mesh))
        with observe(accesses(call.play, tuple(hosts)), parallel=call.params["parallel"]) as observation:
            measured = [self._measure(call, mesh, observation) for mesh in fabric.meshes]
            rows = fabric.in_order([*fabric.known, *measured])
            status = fabric_status(fabric.name, rows, now=datetime.now(UTC))
            silent = failure_findings(observation.failures.values(), Severity.BLOCKING)
            findings = ordered((*silent, *identity_findings(fabric.meshes, observation.facts), *age_findings(rows, call.now)))
            self.show([*findings_lines(findings), *(missing_lines(call.params["proof"]) if measured else ()), *fabric_lines(status)])
            unmet = call.params["expected"] != "any" and status["phase"] != "Connected"
            return Outcome(
                findings=findings,
                status=status,
                clusters=tuple(dict.fromkeys(host for row in rows for host in row.clusters)),
                requests=requests(observation),
                error=f"{fabric_verdict(status)}; expected {call.params['expected']}. {_why(status)}" if unmet else "",
                extra={"bindings": {row.name: row.status for row in rows}},
            )

    def _measure(self, call: Call, mesh: Mesh, everybody: Observation) -> BindingRow:
        """As mesh_status does, on the one observation of all."""
        observation = _part(everybody, mesh)
        mode = call.params["proof"]
        readers = read_all(observation, mesh) if mode == "none" else prove_all(observation, mesh)
        proofs = controller_proofs(observation, mesh, mode)
        silent = not_seen(observation, mesh)
        status = build_status(mesh, observation.facts, silent, readers, now=datetime.now(UTC), proofs=proofs)
        return BindingRow(name=mesh.binding.name, clusters=mesh.clusters, status=status)


def _part(everybody: Observation, mesh: Mesh) -> Observation:
    """What of the observation belongs to ``mesh``; connections are those of the whole, which closes them."""
    hosts = frozenset(mesh.clusters)
    return Observation(
        facts={host: facts for host, facts in everybody.facts.items() if host in hosts},
        failures={host: failure for host, failure in everybody.failures.items() if host in hosts},
        secrets=everybody.secrets,
        clusters={host: cluster for host, cluster in everybody.clusters.items() if host in hosts},
        parallel=everybody.parallel,
    )


def _why(status: Mapping[str, Any]) -> str:
    late = [f"{row['name']} is {row['phase']}: {text(row['message'])}." for row in status["bindings"] if row["phase"] != "Connected"]
    return " ".join(late[:3]) or "It has no binding."
