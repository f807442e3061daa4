# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_envelope: says how large a mesh is, how much is left to each limit, and what one more cluster does. It writes nothing."""

from __future__ import annotations

from ..module_utils.pipeline.envelope import measure_envelope
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.envelope_lines import FORMATS
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain


class ActionModule(MeshAction):
    """Action mesh_envelope: works out the envelope of a mesh."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Work out the envelope of the members that take part."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        one_more = {key: value for key, value in (plain(call.params["one_more"]) or {}).items() if value is not None}
        return measure_envelope(call.run(mesh), one_more, call.params["fail_at"])
