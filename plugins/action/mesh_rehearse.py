# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_rehearse: says what happens to services, exposures and changes when members or links are lost. It writes nothing."""

from __future__ import annotations

from ..module_utils.base.errors import InvalidInput
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.pipeline.rehearse import KINDS, rehearse_losses
from ..module_utils.reconcile.parse import desired_of
from ..module_utils.rehearse.harm import harms_of
from ..module_utils.rehearse.loss import LossKind, each_loss, named_losses
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain
from ..plugin_utils.rehearsal_lines import FORMATS


class ActionModule(MeshAction):
    """Action mesh_rehearse: rehearses losses of members, links and networks."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Rehearse the losses that are named, and each single one of the kinds that are asked for."""
        params = call.params
        fail_on = harms_of(params["fail_on"])
        mesh = mesh_of(call.play, params["mesh"], limited=True)
        desired = desired_of(params["mesh"], mesh, kinds=KINDS)
        named = named_losses(plain(params["losses"]), mesh)
        kinds = params["each"] if params["each"] is not None else [] if named else [LossKind.MEMBERS, LossKind.LINKS]
        losses = (*named, *each_loss(mesh, [LossKind(kind) for kind in kinds]))
        if not losses:  # a gate over nothing would always hold
            raise InvalidInput("There is nothing to rehearse: each and losses name no loss.", remedy="Name some. No cluster was contacted.")
        return rehearse_losses(call.run(mesh), desired, losses, fail_on=fail_on, proof=params["proof"])
