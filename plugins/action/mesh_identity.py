# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_identity: reports the cluster name and id of each member, or assigns them to clusters that were never meshed.

A cluster that is or was in a mesh is never renumbered: it is refused with a recipe, and nothing is written to any cluster.
"""

from __future__ import annotations

from ..module_utils.pipeline.identity import assign_identities
from ..module_utils.pipeline.options import IdentityOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.identity_requests import identity_requests
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of


class ActionModule(MeshAction):
    """Action mesh_identity: reports or assigns cluster names and ids."""

    def execute(self, call: Call) -> Outcome:
        """Report the names and ids of the members, or assign them, as ``identity_policy`` says."""
        requests = identity_requests(call.params["names"])
        mesh = mesh_of(call.play, call.params["mesh"])
        return assign_identities(call.run(mesh), IdentityOptions.of(call.params), requests)
