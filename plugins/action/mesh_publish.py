# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_publish: publishes the results of the actions of a play as the statistic ``mesh_result``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase

from ..module_utils.base.clocks import real_clocks
from ..module_utils.base.errors import InvalidInput
from ..module_utils.metrics.textfile import RunOutcome
from ..module_utils.pipeline.outcome import changes_sentence
from ..module_utils.report.failure import failure_of
from ..module_utils.report.junit_result import junit_of_result
from ..module_utils.report.mesh_result import mesh_result
from ..module_utils.report.result_document import RunEnd, document, error_of
from ..plugin_utils.files import write_whole
from ..plugin_utils.metrics_file import write_metrics
from ..plugin_utils.play import plain
from ..plugin_utils.registered import first_result
from ..plugin_utils.result_file import FILES, RESULT_FILE, places_of
from ..plugin_utils.spec import spec_of
from ..plugin_utils.statistic import statistic_of
from ..plugin_utils.structured_text import mapping_of

STATISTIC = "mesh_result"
OWNER_ONLY: Final = 0o600
"""The mode of the files: they tell names, addresses and policies of every cluster."""


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
        params, given = validation.validated_parameters, task_vars or {}
        if params["check_places"]:
            return _check_files(params)
        links, items = (first_result(given, params[option]) for option in ("links", "items"))
        if params["tasks"]:
            links = _other_result(given, params["tasks"], ended=params["ended"])
        further = [run for name in params["more"] if (run := first_result(given, [name]))]
        result = mesh_result(links, items, *further, whole=params["whole"])
        if params["fabric"]:
            result["status"] |= {"fabric": result["status"]["binding"], "binding": None}
        result |= {key: links.get(key) for key in params["keys"]}
        runs = [run for run in (links, items, *further) if run]
        broken = self._write_metrics(params, result, runs)
        # As ansible.builtin.set_stats returns it. https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/plugins/action/set_stats.py
        published = {"data": {STATISTIC: statistic_of(result, given)}, "per_host": False, "aggregate": False}
        left_out = result["plan"].get("notCarriedOut", [])
        changes = len(result["plan"]["steps"])
        judged = changes_sentence(changes) if params["fail_on_changes"] and self._task.check_mode else ""
        end = RunEnd(
            playbook=params["playbook"],
            mesh=self._name_of_mesh(given),
            time=real_clocks().now(),
            check_mode=bool(self._task.check_mode),
            error=error_of(runs, ended=params["ended"], judged=judged),
        )
        return {
            "changed": False,
            "hash": result["plan"]["hash"],
            "changes": changes,
            "not_carried_out": left_out,
            "judged": judged,
            "ansible_stats": published,
            **_write(params, result, end, judges_changes=_judges_changes(params, end, changes)),
            **({"failed": True, "msg": broken} if broken else {}),
        }

    def _name_of_mesh(self, variables: Mapping[str, Any]) -> str:
        """Return the name of the binding that ``cilium_mesh`` has; "" where it has none, or cannot be templated.

        Only the binding is templated where it can be: beside it stand thousands of items.
        """
        mesh = variables.get("cilium_mesh")
        try:
            if isinstance(mesh, Mapping):
                binding = self._templar.template(mesh.get("binding"))
            else:
                binding = mapping_of(self._templar.template(mesh)).get("binding")
        except Exception:  # a template may raise anything, and the actions have said so
            return ""
        return str(mapping_of(binding).get("name") or "")

    def _write_metrics(self, params: Mapping[str, Any], result: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
        """Write the textfile that ``metrics_file`` names, also in check mode, as no cluster is changed by that. Returns an error, or ""."""
        if not params["metrics_file"]:
            return ""
        outcome = RunOutcome(
            mesh=params["metrics_mesh"],
            run=params["metrics_run"],
            now=real_clocks().now(),
            success=bool(runs) and not any(failure_of(run) for run in runs),
            carried_out=not self._task.check_mode,
            withdraws=params["metrics_state"] != "measured",
            absent=params["metrics_state"] == "absent",
        )
        try:
            write_metrics("metrics_file", params["metrics_file"], result, outcome)
        except InvalidInput as error:
            return str(error)
        return ""


def _check_files(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a failure if a file cannot be written."""
    try:
        places_of(_paths(params))
    except InvalidInput as error:
        return _failure(error)
    return {"changed": False}


def _write(params: Mapping[str, Any], result: Mapping[str, Any], end: RunEnd, *, judges_changes: bool) -> dict[str, Any]:
    """Write the files that the task names. Return the task's failure if that fails; if the run has failed already, a warning."""
    try:
        for variable, place in places_of(_paths(params)).items():
            content = document(result, end) if variable == RESULT_FILE else junit_of_result(result, end, judges_changes=judges_changes)
            write_whole(variable, place, content, mode=OWNER_ONLY)
    except InvalidInput as error:
        return {"warnings": [str(error)]} if end.error else _failure(error)
    return {}


def _judges_changes(params: Mapping[str, Any], end: RunEnd, changes: int) -> bool:
    """Return whether the run failed because there is something to write. The playbook plan judges that without check mode too."""
    return bool(params["fail_on_changes"] and changes and changes_sentence(changes) in end.error)


def _paths(params: Mapping[str, Any]) -> dict[str, str]:
    """Return variable -> path, "" where the task names none."""
    return {variable: params[option] or "" for option, variable in FILES.items()}


def _failure(error: InvalidInput) -> dict[str, Any]:
    return {"failed": True, "msg": f"{error.code}: {error}"}


def _other_result(variables: Mapping[str, Any], names: Sequence[str], *, ended: bool) -> dict[str, Any]:
    """Return a result of what modules of other collections did: whether something changed. None of them is asked for findings."""
    results = [variables[name] for name in names if isinstance(variables.get(name), Mapping)]
    changed = any(bool(result.get("changed")) for result in results)
    return {"changed": changed, **({"findings": []} if ended else {})}
