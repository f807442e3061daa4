# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_status: measures every link of a mesh now, from the status of its readers and by new proofs. It writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..module_utils.findings.finding import Finding, Severity
from ..module_utils.pipeline.links import contacts, missing_package
from ..module_utils.pipeline.options import MEASURED_AT_ONCE
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..module_utils.pipeline.participants import left_out
from ..module_utils.pipeline.run import measure
from ..module_utils.pipeline.shown import FindingsMade, LinksMeasured
from ..module_utils.report.sentences import verdict
from ..module_utils.status.link_findings import late_findings, late_sentence
from ..module_utils.status.links import earlier_binding, unwritten_links
from ..module_utils.status.node_paths import node_findings
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of


class ActionModule(MeshAction):
    """Action mesh_status: measures the links of a mesh and reports its status."""

    def execute(self, call: Call) -> Outcome:
        """Measure every link between members that take part."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        with call.run(mesh).observe(MEASURED_AT_ONCE, links_only=True) as observation:
            before = earlier_binding(call.params["previous_status"])
            status = measure(call.ports, mesh, observation, call.params["proof"], previous=before)
            failed = failure_findings(observation.failures.values(), Severity.BLOCKING)
            findings = (*failed, *node_findings(status, observation.facts))
            call.ports.show(FindingsMade(findings, brief=True))
            for sentence in missing_package(call.params["proof"]):
                call.ports.show(sentence)
            call.ports.show(LinksMeasured(mesh.binding.name, status))
            met = status["phase"] == "Connected"
            if left_out(call.play, mesh) and not failed:
                met = _observed_links_ready(status, observation.facts)
            unmet = call.params["expected"] != "any" and not met
            # Links of a member that does not answer are as it is.
            late = late_findings(status["links"], unwritten_links(mesh, observation.facts)) if unmet and not failed else ()
            call.ports.show(FindingsMade(late, brief=True))
            return Outcome(
                findings=(*findings, *late),
                status=status,
                clusters=mesh.clusters,
                **contacts(observation),
                error=_error(f"{verdict(mesh.binding.name, status)}; expected {call.params['expected']}.", status, late) if unmet else "",
            )


def _error(said: str, status: Mapping[str, Any], late: Sequence[Finding]) -> str:
    """Return why the run failed: by links, or, if all of them are ready or none could be asked, by the condition Ready."""
    if late:
        return late_sentence(late, said)
    return " ".join([said, *(f"{row['message']}." for row in status["conditions"] if row["type"] == "Ready")])


def _observed_links_ready(status: Mapping[str, Any], members: Collection[str]) -> bool:
    """Return whether the links between the observed members are ready; of a single member, all its links.

    For runs with a limit, in which the phase is never Connected.
    """
    links = [link for link in status["links"] if link["cluster"] in members]
    among = [link for link in links if link["peer"] in members] or links
    return bool(among) and all(link["ready"] for link in among)
