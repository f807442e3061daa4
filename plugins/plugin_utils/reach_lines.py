# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A reach as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..module_utils.base.tables import cell, table, text
from ..module_utils.policies.evaluate.verdict import PolicyOutcome
from ..module_utils.reach.difference import ChangeKind
from ..module_utils.reach.flows import ReachPlace
from ..module_utils.reach.matrix import Access, Matrix
from ..module_utils.reach.report import ReachReport, flow_text, summary_of
from ..module_utils.reach.workload_set import SetKind
from .fitted import Line

ROWS_SHOWN: Final = 20  # of each list; files and the result have more
COLUMNS_SHOWN: Final = 40  # of the matrix; a column is two characters wide
FLOWS_SHOWN: Final = 40

_COLOURS: Final = {PolicyOutcome.ALLOWED: "green", PolicyOutcome.DENIED: "red", PolicyOutcome.UNKNOWN: "yellow"}
_CHANGES: Final = {ChangeKind.GAINED: "yellow", ChangeKind.LOST: "red", ChangeKind.UNSURE: "yellow"}


def reach_lines(report: ReachReport) -> list[Line]:
    """Return the matrix by namespace, what outsiders reach, what the plan changes, and the sum."""
    lines = _matrix_lines(report.matrix)
    lines += _flow_lines(report)
    outside = [Line(f"  {text(_published(flow_text(row.flow), row.published))}", "yellow") for row in report.outsiders[:ROWS_SHOWN]]
    lines += _section("What outsiders reach, or perhaps reach:", outside, len(report.outsiders), "No outsider reaches any of them.")
    if report.planned is not None:
        changes = [
            Line(f"  {row.kind.value:<6}  {text(flow_text(row.flow))}; now {row.before.value}", _CHANGES[row.kind])
            for row in report.changes[:ROWS_SHOWN]
        ]
        lines += _section("What the plan changes:", changes, len(report.changes), "The plan changes nothing of this.")
    lines += [Line(text(note), "yellow") for note in report.notes]
    if report.refused:
        lines.append(Line(text(f"Not part of the plan, as they are refused or wait: {', '.join(report.refused)}"), "red"))
    return [*lines, Line(summary_of(report))]


def _published(flow: str, services: Sequence[str]) -> str:
    return f"{flow}; published by {', '.join(services)}" if services else f"{flow}; no Service publishes it"


def _matrix_lines(matrix: Matrix) -> list[Line]:
    """Return a letter for each cell. Columns are numbered as the rows are where both are the same."""
    if not matrix.rows or not matrix.columns:
        return [Line("There is no workload.")]
    shown = matrix.columns[:COLUMNS_SHOWN]
    heads = [("from", *(str(number) for number in range(1, len(shown) + 1)))]
    rows = [
        (cell(row.name), *(matrix.cells[line, place].access.letter for place in range(len(shown))))
        for line, row in enumerate(matrix.rows[:COLUMNS_SHOWN])
    ]
    lines = [Line("Who reaches which destination (A all ports, s some, . none, ? unknown):")]
    lines += [Line(f"  {entry}") for entry in table([*heads, *rows])]
    lines += [Line(f"  to {number}: {cell(column.name)}") for number, column in enumerate(shown, 1)]
    left = len(matrix.rows) * len(matrix.columns) - len(rows) * len(shown)
    return [*lines, Line(f"  and {left} more cells; a file has all of them", "yellow")] if left else lines


def _flow_lines(report: ReachReport) -> list[Line]:
    """Return the flows of the cells that are neither A nor ".", or all flows where the question names an end."""
    matrix = report.matrix
    mixed = {
        (matrix.rows[row].name, matrix.columns[column].name)
        for (row, column), entry in matrix.cells.items()
        if entry.access in (Access.SOME, Access.UNKNOWN)
    }
    if not report.scope.named and not mixed:
        return []
    found: list[Line] = []
    for flow in report.flows():
        if report.scope.named or (_line_name(flow.source), _line_name(flow.destination)) in mixed:
            found.append(Line(f"  {text(flow_text(flow))}", _COLOURS[flow.verdict]))
        if len(found) > FLOWS_SHOWN:
            return [Line("Flows:"), *found[:FLOWS_SHOWN], Line("  and more; a file has all of them", "yellow")]
    return [Line("Flows:"), *found] if found else []


def _line_name(place: ReachPlace) -> str:
    return f"{place.cluster}/{place.namespace}" if place.kind is SetKind.WORKLOADS else place.shown


def _section(head: str, lines: list[Line], every: int, otherwise: str) -> list[Line]:
    if not every:
        return [Line(otherwise)]
    more = every - len(lines)
    return [Line(head), *lines, *([Line(f"  and {more} more; a file has all of them", "yellow")] if more else [])]
