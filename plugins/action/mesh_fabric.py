# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_fabric: reports the status of a fabric, from bindings measured now or from given statuses. It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.base.tables import text
from ..module_utils.findings.finding import Severity, ordered
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.observe import Observation
from ..module_utils.pipeline.links import contacts, missing_package
from ..module_utils.pipeline.options import Options
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.pipeline.participants import check_breadth, participating_members
from ..module_utils.pipeline.run import measure
from ..module_utils.pipeline.shown import FindingsMade
from ..module_utils.status.fabric import BindingRow, age_findings, fabric_status, identity_findings
from ..plugin_utils.fabric_lines import fabric_lines, fabric_verdict
from ..plugin_utils.fabric_spec import fabric_of
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.shown_lines import lines_of


class ActionModule(MeshAction):
    """Action mesh_fabric: reports the status of several bindings as one."""

    def execute(self, call: Call) -> Outcome:
        """Measure the bindings whose status is not given, and summarise all."""
        check_breadth(Options.of(call.params))
        fabric = fabric_of(call.play, call.params["fabric"], call.params["statuses"])
        hosts = dict.fromkeys(host for mesh in fabric.meshes for host in participating_members(call.play, mesh))
        with call.ports.observe(call.play.access(tuple(hosts)), parallel=call.params["parallel"]) as observation:
            measured = [self._measure(call, mesh, observation) for mesh in fabric.meshes]
            rows = fabric.in_order([*fabric.known, *measured])
            status = fabric_status(fabric.name, rows, now=call.ports.now())
            silent = failure_findings(observation.failures.values(), Severity.BLOCKING)
            findings = ordered((*silent, *identity_findings(fabric.meshes, observation.facts), *age_findings(rows, call.now)))
            missing = missing_package(call.params["proof"]) if measured else ()
            call.ports.show(FindingsMade(findings))
            self.show([*(line for shown in missing for line in lines_of(shown, {})), *fabric_lines(status)])
            unmet = call.params["expected"] != "any" and status["phase"] != "Connected"
            return Outcome(
                findings=findings,
                status=status,
                clusters=tuple(dict.fromkeys(host for row in rows for host in row.clusters)),
                **contacts(observation),
                error=f"{fabric_verdict(status)}; expected {call.params['expected']}. {_reason(status)}" if unmet else "",
                extra={"bindings": {row.name: row.status for row in rows}},
            )

    def _measure(self, call: Call, mesh: Mesh, whole: Observation) -> BindingRow:
        """Measure one binding as mesh_status does, from the common observation."""
        part = _part_of(whole, mesh)
        status = measure(call.ports, mesh, part, call.params["proof"])
        whole.unread_links.update(part.unread_links)
        return BindingRow(name=mesh.binding.name, clusters=mesh.clusters, status=status)


def _part_of(whole: Observation, mesh: Mesh) -> Observation:
    """Return the part of the observation that is about members of ``mesh``; connections stay with the whole, which closes them."""
    hosts = frozenset(mesh.clusters)
    return Observation(
        facts={host: facts for host, facts in whole.facts.items() if host in hosts},
        failures={host: failure for host, failure in whole.failures.items() if host in hosts},
        secrets=whole.secrets,
        clusters={host: cluster for host, cluster in whole.clusters.items() if host in hosts},
        parallel=whole.parallel,
    )


def _reason(status: Mapping[str, Any]) -> str:
    late = [f"{row['name']} is {row['phase']}: {text(row['message'])}." for row in status["bindings"] if row["phase"] != "Connected"]
    return " ".join(late[:3]) or "It has no binding."
