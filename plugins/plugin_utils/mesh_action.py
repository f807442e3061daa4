# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bridge from Ansible to the engine: a task's arguments and the play's hosts go in, an ``Outcome`` comes out as the task's result.

One task stands for the whole mesh: it runs once, in the controller, however many hosts the play has. No exception leaves ``run``:
ansible-core 2.19 prints the text of a whole exception chain in spite of ``no_log``, and a foreign exception may quote a kubeconfig or an
API answer.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.errors import Defect, InvalidInput, MeshError
from ..module_utils.redact import one_line
from .outcome import Outcome, finding_of
from .play import Play, plain, play_of
from .report import Line
from .spec import Spec

MESSAGE_LIMIT = 2000


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of an action. ``now`` is aware UTC; the engine itself never looks at a clock."""

    params: Mapping[str, Any]
    play: Play
    now: datetime
    check_mode: bool
    diff: bool


class MeshAction(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Base of the actions: they declare ``SPEC`` and implement ``execute``."""

    SPEC: ClassVar[Spec] = {}

    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        self.so_far = Outcome()
        self._quiet = False
        try:
            if self._task.async_val:
                raise InvalidInput("This action runs on the controller as one step; it cannot be asynchronous.", remedy="Remove async.")
            params = self._params()
            self._quiet = not params.get("report", True)
            outcome = self.execute(self._call(params, task_vars or {}))
        except MeshError as error:
            finding = finding_of(error)
            text = f"{finding.code}: {one_line(str(error), MESSAGE_LIMIT)}"
            outcome = replace(self.so_far, findings=(*self.so_far.findings, finding), error=text)
        except Exception as error:  # the rim: see above
            finding = finding_of(_unexpected(error))
            outcome = replace(self.so_far, findings=(*self.so_far.findings, finding), error=f"{finding.code}: {finding.summary}")
        return outcome.to_result()

    def execute(self, call: Call) -> Outcome:
        """Do the work. Raise MeshError for what cannot be done at all; after a write keep ``self.so_far`` true: a failure reports it."""
        raise NotImplementedError

    def show(self, lines: Iterable[Line]) -> None:
        """Print for a person, unless ``report`` is false. The default callback would print the same as JSON, and only of a failed task."""
        if self._quiet:
            return
        display = Display()
        for line in lines:
            display.display(line.text, color=line.colour or None)

    def _call(self, params: Mapping[str, Any], task_vars: Mapping[str, Any]) -> Call:
        return Call(
            params=params,
            play=play_of(task_vars),
            now=datetime.now(UTC),
            check_mode=bool(self._task.check_mode),
            diff=bool(self._task.diff),
        )

    def _params(self) -> dict[str, Any]:
        validation = ArgumentSpecValidator(self.SPEC).validate(plain(self._task.args))
        if validation.error_messages:
            raise InvalidInput("; ".join(validation.error_messages) + ".", remedy="See ansible-doc of this module for its options.")
        return dict(validation.validated_parameters)


def _unexpected(error: BaseException) -> Defect:
    """Names the class and the place, never the text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return Defect(
        f"Unexpected {type(error).__name__}{place}. This is a defect of edge_portal.cilium_mesh; please report this line. "
        "Its text is withheld, as it might hold values of Secrets."
    )
