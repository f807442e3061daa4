# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_publish: what the actions of a play returned, as the statistic ``mesh_result``.

It takes names of variables, and not their values: a value in an argument is looked at as a template, text by text, which for the result of
a thousand items takes seconds (docs/decisions/0028).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ..module_utils.run_result import mesh_result
from ..plugin_utils.play import plain
from ..plugin_utils.spec import Spec

STATISTIC = "mesh_result"

_SPEC: Spec = {
    "links": {"type": "list", "elements": "str", "default": []},
    "items": {"type": "list", "elements": "str", "default": []},
    "items_first": {"type": "bool", "default": False},
    "both": {"type": "bool", "default": False},
    "fabric": {"type": "bool", "default": False},
    "more_findings": {"type": "list", "elements": "dict", "default": []},
    "keys": {"type": "list", "elements": "str", "default": []},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        validation = ArgumentSpecValidator(_SPEC).validate(plain(self._task.args))
        if validation.error_messages:
            return {"failed": True, "msg": "; ".join(validation.error_messages)}
        params = validation.validated_parameters
        links, items = (_first(task_vars or {}, params[option]) for option in ("links", "items"))
        result = mesh_result(links, items, items_first=params["items_first"], both=params["both"], more=params["more_findings"])
        if params["fabric"]:
            result["status"] |= {"fabric": result["status"]["binding"], "binding": None}
        result |= {key: links.get(key) for key in params["keys"]}
        # As ansible.builtin.set_stats returns it. https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/plugins/action/set_stats.py
        published = {"data": {STATISTIC: result}, "per_host": False, "aggregate": False}
        return {"changed": False, "hash": result["plan"]["hash"], "ansible_stats": published}


def _first(variables: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The first of the registered results that holds something. Results are data: nothing in them is a template."""
    for name in names:
        value = variables.get(name)
        if isinstance(value, Mapping) and value and not value.get("skipped"):
            return dict(plain(value))
    return {}
