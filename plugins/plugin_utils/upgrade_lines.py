# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The forecast of an upgrade as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from typing import Final

from ..module_utils.base.tables import cell, count, text
from ..module_utils.upgrade.effect import Need
from ..module_utils.upgrade.report import UpgradeReport
from ..module_utils.upgrade.steps import StepKind, UpgradeStep
from .fitted import Line

STEPS_SHOWN: Final = 60  # of a large mesh; the result and the file have all of them
COMMANDS_SHOWN: Final = 8
_COLOURS: Final = {StepKind.PREPARE: "yellow", StepKind.UPGRADE: "", StepKind.CONNECT: "yellow", StepKind.VERIFY: ""}


def upgrade_lines(report: UpgradeReport) -> list[Line]:
    """Return where the members are, the ordered steps, what happens by itself, and the sum."""
    found = report.forecast
    lines = [Line(f"{cell(host)}: Cilium {minor}") for host, minor in found.minors.items()]
    lines += [Line(text(f"{host}: {why} It has no part in the steps."), "yellow") for host, why in found.unknown.items()]
    lines += [
        Line(f"{cell(one)} and {cell(other)} are more than one minor apart now; the first steps bring them together", "yellow")
        for one, other in found.skewed
    ]
    if not found.hops:
        return [*lines, Line(f"Every member runs Cilium {found.target}: there is nothing to upgrade", "green")]
    lines.append(Line(f"To Cilium {found.target}, in {count(len(found.hops), 'hop')}; linked members stay within one minor:"))
    for step in report.steps[:STEPS_SHOWN]:
        lines += _step_lines(step)
    more = len(report.steps) - STEPS_SHOWN
    lines += [Line(f"  and {count(more, 'more step')}; the file and the result have all of them", "yellow")] if more > 0 else []
    lines += _by_itself(report)
    for hop in found.hops:
        lines += [
            Line(f"  {cell(hop.hop.host)} after {hop.hop.after}: {entry.severity.value} {entry.code}  {text(entry.summary)}", "yellow")
            for entry in hop.findings
        ]
    return [*lines, Line(report.summary, "yellow" if report.must_prepare else "green")]


def _step_lines(step: UpgradeStep) -> list[Line]:
    head = f"  {step.number:>3}  {cell(step.cluster)}  {step.hop}  {step.kind.value:<8}  {text(step.text)}"
    lines = [Line(head, _COLOURS[step.kind])]
    lines += [Line(f"         {text(line)}") for line in step.commands[:COMMANDS_SHOWN]]
    more = len(step.commands) - COMMANDS_SHOWN
    lines += [Line(f"         and {count(more, 'more line')}")] if more > 0 else []
    return [*lines, Line(f"         restarts {text(', '.join(step.restarts))}")] if step.restarts else lines


def _by_itself(report: UpgradeReport) -> list[Line]:
    found = [effect for effect in report.forecast.effects if effect.need in (Need.NOTHING, Need.WITH)]
    lines: list[Line] = []
    for effect in found:
        lines.append(Line(f"  {cell(effect.cluster)}  {text(effect.summary)}"))
        lines += [Line(f"      read: {text(line)}") for line in effect.evidence]
        lines += [Line(f"      {text(line)}") for line in effect.commands]
    return [Line("What changes by itself, and what the values above keep:"), *lines] if lines else []
