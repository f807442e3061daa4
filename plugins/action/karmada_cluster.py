# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action karmada_cluster: makes clusters members of Karmada, renews their tokens, or lets them leave."""

from __future__ import annotations

from ..module_utils.base.errors import InvalidInput
from ..module_utils.members.parse import parse_members
from ..module_utils.pipeline.members import MembersRun, run_members
from ..module_utils.pipeline.options import MembersOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import plain, require_hosts


class ActionModule(MeshAction):
    """Action karmada_cluster: makes clusters members of Karmada, renews their tokens, or lets them leave."""

    def execute(self, call: Call) -> Outcome:
        """Join, renew or let leave, as ``state`` says."""
        require_hosts(call.play)
        options = MembersOptions.of(call.params)
        request = parse_members(plain(call.params["fleet"]), call.play.inventory, options.clusters)
        strangers = sorted(set(options.abandon) - {member.name for member in request.members})
        if strangers:
            raise InvalidInput(
                f"abandon names {', '.join(strangers)}, which this run does not let leave.", remedy="Name them in clusters too."
            )
        if options.abandon and options.state != "absent":
            raise InvalidInput("abandon is for state=absent.", remedy="Leave it out.")
        return run_members(
            MembersRun(
                request=request,
                options=options,
                who=call.play,
                ports=call.ports,
                now=call.now,
                check_mode=call.check_mode,
                diff=call.diff,
            )
        )
