# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fleet_rollout: pauses, resumes, restarts, rolls back or moves one workload, or takes its rollout on."""

from __future__ import annotations

from dataclasses import replace

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import suggest
from ..module_utils.fleet.models import FleetWorkload, Operation
from ..module_utils.fleet.parse import parse_fleet
from ..module_utils.mesh.binding.fleet_kinds import FleetKind
from ..module_utils.pipeline.fleet import FleetRun, run_fleet
from ..module_utils.pipeline.options import FleetOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import plain, require_hosts
from ..plugin_utils.workloads_lines import FORMATS


class ActionModule(MeshAction):
    """Action fleet_rollout: pauses, resumes, restarts, rolls back or moves one workload, or takes its rollout on."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Carry out one operation on one workload; the others of the tenant are left as they are."""
        require_hosts(call.play)
        given = parse_fleet(plain(call.params["fleet"]), call.play.inventory)
        workloads = given.request.workloads or {}
        name = call.params["workload"]
        if name not in workloads:
            raise InvalidInput(
                f"workload is {name!r}, which is no valid workload of fleet; {suggest(name, tuple(workloads), 'it has')}.",
                remedy="Name one of fleet.workloads. No cluster was contacted.",
            )
        others = tuple(entry for entry in given.request.refused if entry.kind != FleetKind.WORKLOAD)
        request = replace(given.request, workloads={name: operated(workloads[name], call)}, keep_others=True, refused=others)
        return run_fleet(
            FleetRun(
                request=request,
                karmada=given.karmada,
                options=FleetOptions.of(call.params),
                who=call.play,
                ports=call.ports,
                now=call.now,
                check_mode=call.check_mode,
                diff=call.diff,
            )
        )


def operated(workload: FleetWorkload, call: Call) -> FleetWorkload:
    """Return the workload with the operation that the task asks for.

    :raises InvalidInput: when an option that the operation needs is missing.
    """
    operation, identifier, revision, cluster = (call.params[option] for option in ("operation", "id", "to_revision", "cluster"))
    if operation in ("pause", "resume"):
        return replace(workload, hold=operation == "pause")
    if operation == "advance":
        return workload
    if not identifier:
        raise InvalidInput(
            f"The operation {operation} needs an id, as it is done once per id.", remedy="Set id, for example to the number of the change."
        )
    if operation == "rollback" and not revision:
        raise InvalidInput("The operation rollback needs to_revision.", remedy="Module fleet_info lists the revisions.")
    if operation in ("evict", "return") and not cluster:
        raise InvalidInput(f"The operation {operation} needs cluster.", remedy="Name one of fleet.clusters.")
    return replace(workload, operation=Operation(operation.capitalize(), identifier, revision or 0, cluster))
