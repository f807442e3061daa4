# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_adopt: adopts a mesh that Helm, the cilium CLI or another tool made, or hands it back. No link drops.

Field managers and labels change, and no value. While a tool still renders the objects, adoption only prepares them, and a finding says how
to stop the tool: that is no failure, and the next run goes on.
"""

from __future__ import annotations

from ..module_utils.pipeline.adopt import adopt, hand_back
from ..module_utils.pipeline.options import ConnectOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of


class ActionModule(MeshAction):
    """Action mesh_adopt: adopts a mesh that another tool made, or hands it back."""

    def execute(self, call: Call) -> Outcome:
        """Adopt the mesh, or hand it back, as ``state`` says."""
        run, options = call.run(mesh_of(call.play, call.params["mesh"])), ConnectOptions.of(call.params)
        if call.params["state"] == "handed_back":
            return hand_back(run, options)
        return adopt(run, options, handed_over=call.params["handed_over"])
