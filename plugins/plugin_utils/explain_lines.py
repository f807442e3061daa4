# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An explanation as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from typing import Final

from ..module_utils.base.tables import cell, text
from ..module_utils.explain.hop import Explanation, Hop, HopVerdict
from ..module_utils.explain.question import Question
from .fitted import Line

_COLOURS: Final = {HopVerdict.OK: "green", HopVerdict.BROKEN: "red", HopVerdict.UNKNOWN: "yellow", HopVerdict.SKIPPED: ""}


def explain_lines(question: Question, explanation: Explanation) -> list[Line]:
    """Return the question, a row per hop with its evidence below, and the answer."""
    lines = [Line(f"Can {cell(str(question.source))} reach {cell(str(question.target))} on {cell(question.shown_port)}?")]
    width = max(len(hop.name) for hop in explanation.hops)
    where = max(len(cell(hop.cluster)) for hop in explanation.hops)
    for hop in explanation.hops:
        head = f"  {hop.answer.value:<7}  {hop.name:<{width}}  {cell(hop.cluster):<{where}}  {text(hop.summary)}"
        lines.append(Line(head, _COLOURS[hop.answer]))
        lines += _evidence_lines(hop)
    lines.append(Line(text(explanation.summary), _COLOURS[explanation.answer]))
    return lines


def _evidence_lines(hop: Hop) -> list[Line]:
    read = [Line(f"           read: {text(entry)}") for entry in hop.evidence]
    return [*read, Line(f"           fix:  {text(hop.fix)}")] if hop.fix else read
