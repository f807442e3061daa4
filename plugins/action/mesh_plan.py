# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_plan: what connecting or disconnecting would write, with a hash by which it can be approved. It writes to no cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..module_utils.columns import cell
from ..module_utils.plan_report import plan_json, plan_markdown, plan_text
from ..plugin_utils.engine import requests
from ..plugin_utils.execution import PLANNING, PlanAction, leaving_clusters
from ..plugin_utils.files import write_whole
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome
from ..plugin_utils.play import mesh_of
from ..plugin_utils.report import Line
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "plan_text": plan_text,
    "plan_json": plan_json,
    "plan_markdown": plan_markdown,
}

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    **PLANNING,
    "purpose": {"type": "str", "choices": ["connect", "disconnect"], "default": "connect"},
    **{form: {"type": "str", "default": ""} for form in FORMS},
}


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        purpose = call.params["purpose"]
        leaving = leaving_clusters(mesh, call.params, purpose, "purpose=disconnect", call.play)
        with self.observing(call, mesh) as observation:
            plan = self.decide(call, mesh, leaving, purpose, observation)
            self.so_far = replace(self.so_far, requests=requests(observation))
            if plan is None:
                return self.so_far
            self.announce(call, plan, observation)
        written = [] if call.check_mode else self._write(call, self.so_far.plan or {})
        return replace(self.so_far, changed=False, extra={"files": written})

    def _write(self, call: Call, plan: Mapping[str, Any]) -> list[str]:
        paths = {form: call.params[form] for form in FORMS if call.params[form]}
        for form, path in paths.items():
            write_whole(form, path, FORMS[form](plan).encode())
            self.show([Line(f"  written: {cell(path)}")])
        return list(paths.values())
