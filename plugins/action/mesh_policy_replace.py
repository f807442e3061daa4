# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_policy_replace: deletes policies of a provider that connectivity intents replace, if nothing opens by that."""

from __future__ import annotations

from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.pipeline.options import ItemsOptions
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.pipeline.replaced_policies import delete_replaced_policies
from ..module_utils.reconcile.parse import desired_of
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of


class ActionModule(MeshAction):
    """Action mesh_policy_replace: deletes policies of a provider that connectivity intents replace."""

    def execute(self, call: Call) -> Outcome:
        """Judge the policies, and delete them if none is in doubt."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        desired = desired_of(call.params["mesh"], mesh, kinds=tuple(ItemKind))
        # In check mode no earlier task connected the mesh. After a deletion that failed no further wave is begun: its policy may allow
        # what a policy of that wave denies.
        options = ItemsOptions.of(call.params, max_failures=0)
        return delete_replaced_policies(call.run(mesh), options, desired, call.params["policies"], call.params["managers"])
