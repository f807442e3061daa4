# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_connect: connects or disconnects the clusters of a mesh, from one observation of all of them.

Every write is decided before the first one is made. If any finding blocks, nothing is written to any cluster.
"""

from __future__ import annotations

from ..module_utils.pipeline.connect import connect
from ..module_utils.pipeline.options import ConnectOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of


class ActionModule(MeshAction):
    """Action mesh_connect: connects or disconnects the clusters of a mesh."""

    def execute(self, call: Call) -> Outcome:
        """Connect or disconnect, as ``state`` says."""
        leaving = call.params["state"] == "absent"
        mesh = mesh_of(call.play, call.params["mesh"], limited=True, leaving=leaving)
        purpose = "disconnect" if leaving else "connect"
        return connect(call.run(mesh), ConnectOptions.of(call.params, purpose=purpose), "state=absent")
