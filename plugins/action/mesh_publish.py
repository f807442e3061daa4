# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_publish: publishes the results of the actions of a play as the statistic ``mesh_result``.

It takes names of variables, and not their values: Ansible reads every text of an argument as a template, which takes seconds for the result
of a thousand items (docs/decisions/0028).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ..module_utils.report.mesh_result import mesh_result
from ..plugin_utils.play import plain
from ..plugin_utils.spec import spec_of

STATISTIC = "mesh_result"


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Action mesh_publish: publishes the statistic ``mesh_result``."""

    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``mesh_result`` as a statistic, hash and number of steps of its plan, and the items that an approval has to name."""
        validation = ArgumentSpecValidator(spec_of("mesh_publish")).validate(plain(self._task.args))
        if validation.error_messages:
            return {"failed": True, "msg": "; ".join(validation.error_messages)}
        params = validation.validated_parameters
        links, items = (_first_result(task_vars or {}, params[option]) for option in ("links", "items"))
        result = mesh_result(links, items, items_first=params["items_first"], both=params["both"], more=params["more_findings"])
        if params["fabric"]:
            result["status"] |= {"fabric": result["status"]["binding"], "binding": None}
        result |= {key: links.get(key) for key in params["keys"]}
        # As ansible.builtin.set_stats returns it. https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/plugins/action/set_stats.py
        published = {"data": {STATISTIC: result}, "per_host": False, "aggregate": False}
        left_out = result["plan"].get("notCarriedOut", [])
        return {
            "changed": False,
            "hash": result["plan"]["hash"],
            "changes": len(result["plan"]["steps"]),
            "not_carried_out": left_out,
            "ansible_stats": published,
        }


def _first_result(variables: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the first registered result that is not empty and was not skipped; {} without one.

    Texts lose Ansible's tags, so that nothing in a result is read as a template.
    """
    for name in names:
        value = variables.get(name)
        if isinstance(value, Mapping) and value and not value.get("skipped"):
            return dict(plain(value))
    return {}
