# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_info: returns the facts of each cluster, as data without secrets."""

from __future__ import annotations

from typing import Any

from ..module_utils.base.tables import count
from ..module_utils.findings.finding import Severity
from ..module_utils.mesh.facts.cluster import ClusterFacts, as_data
from ..module_utils.pipeline.links import contacts
from ..module_utils.pipeline.options import PARALLEL
from ..module_utils.pipeline.outcome import Outcome, failure_findings
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import lone_clusters


class ActionModule(MeshAction):
    """Action mesh_info: returns the facts of each cluster, without secrets."""

    def execute(self, call: Call) -> Outcome:
        """Observe each cluster of the play and return its facts."""
        clusters = lone_clusters(call.play, call.params["mesh"]).clusters
        with call.ports.observe(call.play.access(clusters), parallel=PARALLEL) as observation:
            failures = observation.failures
            silent = ", ".join(host for host in clusters if host in failures)
            return Outcome(
                findings=failure_findings(failures.values(), Severity.BLOCKING),
                clusters=clusters,
                **contacts(observation),
                error=f"{count(len(failures), 'cluster')} could not be observed: {silent}." if failures else "",
                extra={"clusters": {host: _data(facts) for host, facts in observation.facts.items()}},
            )


def _data(facts: ClusterFacts) -> dict[str, Any]:
    return {**as_data(facts), "name": facts.name, "id": facts.id}
