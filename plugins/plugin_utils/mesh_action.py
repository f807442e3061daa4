# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of the actions: it passes a task's arguments and the play's hosts to the engine and returns an ``Outcome`` as the task's result.

One task is for the whole mesh: it runs once, on the controller, however many hosts the play has. No exception leaves ``run``: ansible-core
2.19 prints the texts of a whole chain of exceptions in spite of ``no_log``, and exceptions of libraries may quote a kubeconfig or an API
answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.base.errors import Defect, InvalidInput, MeshError
from ..module_utils.base.input_problems import sentence
from ..module_utils.base.redact import one_line
from ..module_utils.findings.catalogue import IMPACT_CODES
from ..module_utils.findings.finding import Finding, Severity, ordered
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.pipeline.outcome import Interrupted, Outcome, changes_sentence, finding_of
from ..module_utils.pipeline.ports import Ports, real_ports
from ..module_utils.pipeline.run import Run
from ..module_utils.pipeline.shown import FindingsMade, ItemsMeasured, Shown, Waiting, WritesBegin
from ..module_utils.report.failure import lead_of
from .failure_lines import failure_name
from .fitted import Line, fitted
from .option_words import Spec
from .play import Play, plain, play_of
from .result_file import check_result_files
from .secret_kubeconfigs import SecretKubeconfigs
from .shown_lines import Formats, lines_of
from .signals import stopped_by_signals
from .spec import option_problems, spec_of, unknown_options
from .stdout import is_redrawn, prints_for_people, width_of_terminal
from .structured_text import NotStructured, structured
from .variables import OTHERS, unknown_variables

MESSAGE_LIMIT = 2000
_LINE_UP = "\x1b[1A"  # ECMA-48, CUU
_OPTIONS = (
    "See ansible-doc of this module for its options, and docs/variables.md for the variables that set them. No cluster was contacted."
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of an action. ``now`` is the aware time in UTC at which it began; the engine itself never reads a clock."""

    params: Mapping[str, Any]
    play: Play
    ports: Ports
    now: datetime
    check_mode: bool
    diff: bool

    def run(self, mesh: Mesh) -> Run:
        """Return the run for a mesh, with the ports and the modes of this call."""
        return Run(mesh=mesh, who=self.play, ports=self.ports, now=self.now, check_mode=self.check_mode, diff=self.diff)


class MeshAction(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Base of the actions, which implement ``execute``."""

    SPEC: ClassVar[Spec] = {}
    """Options of the module that has the name of the action's file."""
    FORMATS: ClassVar[Formats] = {}
    """Lines of the values that only runs of this action show."""

    TRANSFERS_FILES = False
    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False
    PLANS_ONLY: ClassVar[bool] = False
    """Whether the action never writes to a cluster, so that it counts changes without check mode too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.SPEC = spec_of(cls.__module__.rpartition(".")[2]) or cls.SPEC

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Validate the arguments, call ``execute``, and return its outcome as Ansible's result. Raises nothing but what a signal does."""
        self._quiet = self._drawn = False
        self._kept: list[FindingsMade | ItemsMeasured | WritesBegin] = []
        try:
            if self._task.async_val:
                raise InvalidInput("This action runs on the controller as one step; it cannot be asynchronous.", remedy="Remove async.")
            play = play_of(task_vars or {}, self._decrypted, SecretKubeconfigs(self._decrypted), self._environment())
            self._refuse_unknown_variables(task_vars or {}, play)
            check_result_files(task_vars or {}, self._template)
            params = self._params(task_vars or {})
            self._quiet = not params.get("report", True)
            with stopped_by_signals():
                outcome = self._judge_changes(params, self.execute(self._call(params, play)))
        except Interrupted as stopped:
            outcome = _failed(stopped.outcome, stopped.error)
        except Exception as error:  # see the docstring of this file
            outcome = _failed(Outcome(), error)
        result = outcome.to_result()
        self._redraw("")
        self._show_kept(lead_of(result) if result.get("failed") else None)
        if result.get("failed") and _fails_later(self._task):
            self.show([Line(f"Failed: {failure_name([result]) or 'the end of the run says why'}", "red")])
        return result

    def execute(self, call: Call) -> Outcome:
        """Carry out the action. A ``Recorder`` keeps the outcome for the report if an error comes after a write.

        :raises MeshError: when nothing can be done.
        :raises Interrupted: when an error ended the run; it has the outcome so far.
        """
        raise NotImplementedError

    def show(self, lines: Iterable[Line]) -> None:
        """Print lines to the terminal, unless ``report`` is false, or another program reads what is printed (``prints_for_people``).

        The default callback prints results as JSON, and only those of failed tasks.
        """
        if self._quiet or not prints_for_people():
            return
        display, width = Display(), width_of_terminal()
        self._redraw("")
        for line in lines:
            for text in fitted(line, width):
                display.display(text, color=line.colour or None)

    def _show_value(self, shown: Shown) -> None:
        """Print what a run shows. Where mesh_end fails in place of this task, findings to act on, and items, are kept for the end.

        mesh_end prints the finding for which the run failed, and only then is it known which one that is. Who loses access by the writes
        is said at once.
        """
        if not _fails_later(self._task):
            self._print(shown)
        elif isinstance(shown, ItemsMeasured):
            self._kept.append(shown)
        elif isinstance(shown, FindingsMade):
            self._kept.append(replace(shown, findings=[finding for finding in shown.findings if _is_to_act_on(finding)]))
            self._print(replace(shown, findings=[finding for finding in shown.findings if not _is_to_act_on(finding)]))
        elif isinstance(shown, WritesBegin):
            self._kept.append(shown)
            self._print(shown)
        else:
            self._print(shown)

    def _redraw(self, text: str) -> None:
        """Write the last line of the terminal anew, where it was written so before or now is; "" removes it.

        The cursor waits below the line, where Ansible prints that the user interrupted it.
        """
        if not text and not self._drawn:
            return
        room = (width_of_terminal() or 1) - 1
        back = _LINE_UP if self._drawn else ""
        Display().display(f"{back}\r{text[:room]:{room}}" + ("" if text else "\r"), newline=bool(text))
        self._drawn = bool(text)

    def _show_kept(self, lead: Mapping[str, Any] | None) -> None:
        """Print what was kept, the findings together and the worst first, without the one that mesh_end prints."""
        begin = next((place for place, shown in enumerate(self._kept) if isinstance(shown, WritesBegin)), 0)
        for part, when in ((self._kept[:begin], "from before the writes"), (self._kept[begin:], "")):
            made = [shown for shown in part if isinstance(shown, FindingsMade) and shown.findings]
            found = ordered(finding for shown in made for finding in shown.findings)
            others = [_without_advice_of(lead, finding) for finding in found if finding.to_dict() != lead]
            beside = f"beside {lead['code']} at the end" if lead and len(others) < len(found) else ""
            which = ", ".join(filter(None, (when, beside)))
            self._print(FindingsMade(others, brief=all(shown.brief for shown in made), which=which))
        for shown in self._kept:
            if isinstance(shown, ItemsMeasured):
                others = [_without_advice_of(lead, finding) for finding in shown.findings if finding.to_dict() != lead]
                self._print(replace(shown, findings=others))

    def _print(self, shown: Shown) -> None:
        if isinstance(shown, Waiting) and is_redrawn() and not self._quiet:
            self._redraw(shown.state)
        else:
            self.show(lines_of(shown, self.FORMATS, whole=Display().verbosity > 0))

    def _judge_changes(self, params: Mapping[str, Any], outcome: Outcome) -> Outcome:
        """Return the outcome, failed if ``fail_on_changes`` asks for that and there is something to write."""
        if outcome.error or not params.get("fail_on_changes") or not (self._task.check_mode or self.PLANS_ONLY):
            return outcome
        return replace(outcome, error=changes_sentence(len((outcome.plan or {}).get("steps") or ())))

    def _call(self, params: Mapping[str, Any], play: Play) -> Call:
        ports = real_ports(self._show_value)
        return Call(
            params=params,
            play=play,
            ports=ports,
            now=ports.now(),
            check_mode=bool(self._task.check_mode),
            diff=bool(self._task.diff),
        )

    def _environment(self) -> Mapping[str, str]:
        """Return the environment with that of the task, as modules see it: of play, block and task, in this order."""
        given = getattr(self._task, "environment", None) or ()
        found: dict[str, str] = dict(os.environ)
        for entry in (given,) if isinstance(given, Mapping) else given:
            if isinstance(entry, Mapping):
                found.update({str(name): str(value) for name, value in plain(self._template(entry)).items()})
        return found

    def _refuse_unknown_variables(self, task_vars: Mapping[str, Any], play: Play) -> None:
        """Refuse variables that are named like the collection's and are not known: a misspelled one would be without effect.

        :raises InvalidInput: when there is one; it names every one and what was probably meant.
        """
        others = task_vars.get(OTHERS) and plain(self._template(task_vars[OTHERS]))
        found = unknown_variables(task_vars, play.own_variables(), others)
        if found:
            raise InvalidInput(
                sentence(found),
                remedy=f"Correct the names; docs/variables.md lists every variable. Name those that belong to others in {OTHERS}. "
                "No cluster was contacted.",
            )

    def _decrypted(self, path: str) -> str:
        return str(self._loader.get_text_file_contents(path))

    def _template(self, value: Any) -> Any:
        return self._templar.template(value)

    def _params(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        given = self._structured(plain(self._task.args), task_vars)
        validation = ArgumentSpecValidator(self.SPEC).validate(given)
        unknown = [entry for entry in validation.errors if isinstance(entry, UnsupportedError)]
        if unknown:
            raise unknown_options(given, self.SPEC)
        if validation.error_messages:
            raise InvalidInput(sentence(validation.error_messages), remedy=_OPTIONS)
        params = dict(validation.validated_parameters)
        problems = option_problems(type(self).__module__.rpartition(".")[2], self.SPEC, params, task_vars)
        if problems:
            raise InvalidInput(sentence(problems), remedy="No cluster was contacted.")
        return params

    def _structured(self, given: Mapping[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with mappings and lists where they were given as a text of YAML. An empty text says nothing."""
        found, problems = dict(given), list[str]()
        for name, option in self.SPEC.items():
            text, kind = given.get(name), option.get("type")
            if not isinstance(text, str) or kind not in ("dict", "list"):
                continue
            try:
                found[name] = structured(text, kind, option.get("elements", ""))
            except NotStructured as error:
                problems.append(f"{'cilium_mesh' if name == 'mesh' and 'cilium_mesh' in task_vars else name} {error}")
            if found[name] is None:
                del found[name]
        if problems:
            raise InvalidInput(sentence(problems), remedy=_OPTIONS)
        return found


def _fails_later(task: Any) -> bool:
    """Return whether the task has ``failed_when: false``, as those of roles and playbooks, behind which mesh_end fails."""
    return list(task.failed_when) == [False]


def _is_to_act_on(finding: Finding) -> bool:
    """Return whether a finding can wait for the end: what the writes do to traffic is said before the first of them."""
    wanting = not finding.accepted and finding.severity in (Severity.BLOCKING, Severity.REMEDIABLE)
    return wanting and finding.code not in IMPACT_CODES


def _without_advice_of(lead: Mapping[str, Any] | None, finding: Finding) -> Finding:
    """Return the finding without what was read and the fix, if mesh_end prints them for another cluster."""
    same = lead is not None and (finding.code, finding.evidence, finding.fix) == (lead["code"], lead["evidence"], lead["fix"])
    return replace(finding, evidence="", fix="") if same else finding


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    """Return the outcome with the error as a finding. The text of an error that is not of the engine is withheld."""
    finding = finding_of(error if isinstance(error, MeshError) else Defect.of(error))
    text = _printable(str(error)) if isinstance(error, MeshError) else finding.summary
    return replace(outcome, findings=(*outcome.findings, finding), error=f"{finding.code}: {text}")


def _printable(message: str) -> str:
    """Return the message without control characters; its lines keep their indentation, as they may be lines to copy."""
    found = [line[: len(line) - len(line.lstrip(" "))] + one_line(line, MESSAGE_LIMIT) for line in message.splitlines()]
    text = "\n".join(line.rstrip() for line in found)
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 3]}..."
