# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_apply: carries out exactly the plan that was approved, or refuses and says what has changed since.

It plans afresh. What an earlier run wrote down is only compared with the fresh plan, never carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..module_utils.findings import Finding, Severity
from ..module_utils.plan import Plan
from ..module_utils.plan_changes import plan_changes
from ..module_utils.plan_report import SHORT_HASH
from ..module_utils.stored_plan import StoredPlan, stored_plan
from ..plugin_utils.engine import requests
from ..plugin_utils.execution import NOTHING_WRITTEN, PLANNING, WAITING, PlanAction, leaving_clusters
from ..plugin_utils.files import read_json
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome
from ..plugin_utils.play import mesh_of, plain
from ..plugin_utils.report import findings_lines
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

PLAN_CHANGED = "CM-PLAN-01"

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    **PLANNING,
    **WAITING,
    "hash": {"type": "str", "default": ""},
    "plan": {"type": "raw"},
    "purpose": {"type": "str", "choices": ["connect", "disconnect"], "default": "connect"},
}


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        approved = _approved(call.params)
        call = replace(call, params={**call.params, **approved.parameters})
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        purpose = call.params["purpose"]
        leaving = leaving_clusters(mesh, call.params, purpose, "purpose=disconnect", call.play)
        with self.observing(call, mesh) as observation:
            plan = self.decide(call, mesh, leaving, purpose, observation)
            self.so_far = replace(self.so_far, requests=requests(observation))
            if plan is None:
                return self.so_far
            self.announce(call, plan, observation)
            if not approved.is_the_same_as(plan.hash):
                return self._refuse(approved, plan)
            outcome = self.so_far if call.check_mode else self.carry_out(call, mesh, leaving, purpose, plan, observation)
            return replace(outcome, requests=requests(observation))

    def _refuse(self, approved: StoredPlan, plan: Plan) -> Outcome:
        finding = _changed(approved, plan.hash, self.so_far.plan or {})
        self.show(findings_lines([finding]))
        error = f"{PLAN_CHANGED}: {finding.summary}; {NOTHING_WRITTEN} {finding.evidence}"
        return replace(self.so_far, changed=False, findings=(finding, *self.so_far.findings), error=error.replace("\n", "; "))


def _approved(params: Mapping[str, Any]) -> StoredPlan:
    given = plain(params["plan"])
    return stored_plan(params["hash"], (read_json(given) if isinstance(given, str) else given) if given else None)


def _changed(approved: StoredPlan, fresh: str, data: Mapping[str, Any]) -> Finding:
    if approved.data:
        evidence = "\n".join(plan_changes(approved.data, data))
    else:
        evidence = "What has changed can be told when the plan is given with its hash."
    was, now = approved.hash[:SHORT_HASH], fresh[:SHORT_HASH]
    return Finding(
        code=PLAN_CHANGED,
        severity=Severity.BLOCKING,
        summary=f"plan {was}, which was approved, is no longer what has to be done; that is now plan {now}",
        evidence=evidence,
        fix=f"look at the fresh plan, and apply it with hash {now}",
    )
