# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fleet_workload: brings the workloads of a tenant to its clusters by Karmada, wave by wave, or removes them."""

from __future__ import annotations

from dataclasses import replace

from ..module_utils.fleet.parse import parse_fleet
from ..module_utils.pipeline.fleet import FleetRun, run_fleet
from ..module_utils.pipeline.options import FleetOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import plain, require_hosts
from ..plugin_utils.workloads_lines import FORMATS


class ActionModule(MeshAction):
    """Action fleet_workload: brings the workloads of a tenant to its clusters by Karmada, wave by wave, or removes them."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Write what the variable asks for, and wait until it is there."""
        require_hosts(call.play)
        options = FleetOptions.of(call.params)
        given = parse_fleet(plain(call.params["fleet"]), call.play.inventory)
        absent = options.state == "absent"
        request = replace(given.request, workloads={}, refused=()) if absent else given.request
        return run_fleet(
            FleetRun(
                request=request,
                karmada=given.karmada,
                options=options,
                who=call.play,
                ports=call.ports,
                now=call.now,
                check_mode=call.check_mode,
                diff=call.diff,
                previous=call.params["previous_status"],
            )
        )
