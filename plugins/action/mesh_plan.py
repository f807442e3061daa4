# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_plan: plans a connection or a disconnection, with a hash by which it can be approved. It writes to no cluster."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..module_utils.base.tables import cell
from ..module_utils.pipeline.connect import plan_only
from ..module_utils.pipeline.options import ConnectOptions
from ..module_utils.pipeline.outcome import Outcome, Recorder
from ..module_utils.report.plan import SHORT_HASH, plan_json, plan_markdown, plan_text
from ..plugin_utils.files import check_places, write_whole
from ..plugin_utils.fitted import WHOLE, Line
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of

FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "plan_text": plan_text,
    "plan_json": plan_json,
    "plan_markdown": plan_markdown,
}


class ActionModule(MeshAction):
    """Action mesh_plan: plans a connection or a disconnection and writes to no cluster."""

    PLANS_ONLY = True

    def execute(self, call: Call) -> Outcome:
        """Plan, and write the plan to the files that the options name."""
        check_places({form: os.path.expanduser(call.params[form]) for form in FORMS if call.params[form]})
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        outcome = plan_only(call.run(mesh), ConnectOptions.of(call.params), "purpose=disconnect")
        if outcome.error:
            return outcome
        plan = outcome.plan or {}
        with Recorder(outcome):
            files = [] if call.check_mode else self._write_files(call, plan)
        if plan.get("steps"):
            self.show([Line(f"  next: {_command(call, plan['hash'])}", hang=WHOLE)])
        return replace(outcome, extra={"files": files})

    def _write_files(self, call: Call, plan: Mapping[str, Any]) -> list[str]:
        paths = {form: call.params[form] for form in FORMS if call.params[form]}
        for form, path in paths.items():
            write_whole(form, path, FORMS[form](plan).encode())
            self.show([Line(f"  written: {cell(path)}")])
        return list(paths.values())


def _command(call: Call, digits: str) -> str:
    """Return the command that applies the plan; the dots stand for the inventory and the variables of this run."""
    plan, purpose = call.params["plan_json"], call.params["purpose"]
    if plan and not call.check_mode:
        plain_path = shlex.quote(plan) == plan
        given = f"cilium_mesh_plan={plan}" if plain_path else shlex.quote(json.dumps({"cilium_mesh_plan": plan}))
    else:
        given = f"cilium_mesh_plan_hash={digits[:SHORT_HASH]}{'' if purpose == 'connect' else f' -e cilium_mesh_purpose={purpose}'}"
    return f"ansible-playbook ... edge_portal.cilium_mesh.apply -e {given}"
