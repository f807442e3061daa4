# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_end: fails if an action before it failed, with a message of at most twelve lines instead of a result as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleAction
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..plugin_utils.failure_lines import failure_name, failure_text
from ..plugin_utils.play import plain
from ..plugin_utils.registered import first_result
from ..plugin_utils.spec import spec_of
from ..plugin_utils.stdout import prints_for_people, width_of_terminal


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Action mesh_end: ends a run, in failure if one of its actions failed."""

    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the variables that approve the plan, if the play can be approved.

        :raises AnsibleAction: when an action failed, or the changes were judged. ansible-core prints its text, and the result as JSON.
        """
        validation = ArgumentSpecValidator(spec_of("mesh_end")).validate(plain(self._task.args))
        if validation.error_messages:
            return {"failed": True, "msg": "; ".join(validation.error_messages)}
        params, given = validation.validated_parameters, task_vars or {}
        groups = (params["links"], params["items"], *([name] for name in params["more"]))
        results = [run for names in groups if (run := first_result(given, names))]
        published = first_result(given, [params["published"]]) if params["published"] else {}
        approval = _approval(published) if params["approvable"] and self._task.check_mode else ""
        people = prints_for_people()
        if approval and people:
            Display().display(approval, color="yellow")
        width, whole = width_of_terminal() if people else None, Display().verbosity > 0
        text = failure_text(results, judged=str(published.get("judged") or ""), width=width, whole=whole)
        if text:
            # With them ansible-core prints where this task stands, and its YAML, where there is nothing to correct.
            self._task._ds = None
            raise AnsibleAction(text, result={"failed": True, "msg": (failure_name(results) or "see above") if people else text})
        return {"changed": False, **({"msg": approval} if approval else {})}


def _approval(published: Mapping[str, Any]) -> str:
    """Return the variables that approve the plan of a check; "" without a plan. No hash alone approves one that leaves items out."""
    if not published.get("hash"):
        return ""
    left_out = published["not_carried_out"]
    named = f" leaves items out: only with -e '{json.dumps({'cilium_mesh_approve_refused': left_out})}'" if left_out else ""
    return f"cilium_mesh_hash={published['hash']}{named}"
