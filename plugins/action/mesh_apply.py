# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_apply: applies exactly the plan that was approved, or refuses and says what has changed since.

It plans anew. The stored plan of an earlier run is compared with the new plan, and never applied itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.pipeline.connect import connect
from ..module_utils.pipeline.options import ConnectOptions
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.plan.stored import StoredPlan, stored_plan
from ..plugin_utils.files import read_json
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain


class ActionModule(MeshAction):
    """Action mesh_apply: applies exactly the plan that was approved."""

    def execute(self, call: Call) -> Outcome:
        """Apply the approved plan if planning anew gives the same hash."""
        approved = _approved_plan(call.params)
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        options = ConnectOptions.of({**call.params, **approved.parameters})
        return connect(call.run(mesh), options, "purpose=disconnect", approved=approved)


def _approved_plan(params: Mapping[str, Any]) -> StoredPlan:
    given = plain(params["plan"])
    return stored_plan(params["hash"], (read_json(given) if isinstance(given, str) else given) if given else None)
