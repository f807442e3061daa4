# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_facts: what the mesh's parts in each cluster look like, as data without secrets."""

from __future__ import annotations

from typing import Any

from ..module_utils.facts import ClusterFacts, as_data
from ..module_utils.findings import Severity
from ..module_utils.observe import observe
from ..plugin_utils.engine import PARALLEL, requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, count, failure_findings
from ..plugin_utils.play import accesses, lone_clusters
from ..plugin_utils.spec import MESH


class ActionModule(MeshAction):
    SPEC = MESH

    def execute(self, call: Call) -> Outcome:
        clusters = lone_clusters(call.play, call.params["mesh"]).clusters
        with observe(accesses(call.play, clusters), parallel=PARALLEL) as observation:
            failures = observation.failures
            silent = ", ".join(host for host in clusters if host in failures)
            return Outcome(
                findings=failure_findings(failures.values(), Severity.BLOCKING),
                clusters=clusters,
                requests=requests(observation),
                error=f"{count(len(failures), 'cluster')} could not be observed: {silent}." if failures else "",
                extra={"clusters": {host: _data(facts) for host, facts in observation.facts.items()}},
            )


def _data(facts: ClusterFacts) -> dict[str, Any]:
    return {**as_data(facts), "name": facts.name, "id": facts.id}
