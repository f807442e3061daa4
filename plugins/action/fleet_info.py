# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fleet_info: reports the workloads of a tenant, and what a run would change. It writes nothing."""

from __future__ import annotations

from ..module_utils.fleet.parse import parse_fleet
from ..module_utils.pipeline.fleet import FleetRun, read_fleet
from ..module_utils.pipeline.options import FleetOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import plain, require_hosts
from ..plugin_utils.workloads_lines import FORMATS


class ActionModule(MeshAction):
    """Action fleet_info: reports the workloads of a tenant, and what a run would change."""

    FORMATS = FORMATS
    PLANS_ONLY = True

    def execute(self, call: Call) -> Outcome:
        """Read everything, and report it."""
        require_hosts(call.play)
        given = parse_fleet(plain(call.params["fleet"]), call.play.inventory)
        run = FleetRun(
            request=given.request,
            karmada=given.karmada,
            options=FleetOptions.of(call.params),
            who=call.play,
            ports=call.ports,
            now=call.now,
            diff=call.diff,
        )
        return read_fleet(run)
