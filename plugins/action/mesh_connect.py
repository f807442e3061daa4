# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_connect: makes clusters one mesh, or takes them out of it, on one observation of all of them.

Every write is decided before the first one is made; a blocking finding anywhere means that nothing is written anywhere.
"""

from __future__ import annotations

from dataclasses import replace

from ..plugin_utils.engine import requests
from ..plugin_utils.execution import PLANNING, WAITING, PlanAction, leaving_clusters
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome
from ..plugin_utils.play import mesh_of
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    **PLANNING,
    **WAITING,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        purpose = "disconnect" if call.params["state"] == "absent" else "connect"
        leaving = leaving_clusters(mesh, call.params, purpose, "state=absent", call.play)
        with self.observing(call, mesh) as observation:
            plan = self.decide(call, mesh, leaving, purpose, observation)
            if plan is None:
                return replace(self.so_far, requests=requests(observation))
            self.announce(call, plan, observation)
            outcome = self.so_far if call.check_mode else self.carry_out(call, mesh, leaving, purpose, plan, observation)
            return replace(outcome, requests=requests(observation))
