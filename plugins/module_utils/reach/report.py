# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Report of a reach: what a run returns, what a gate refuses, and the contents of files. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Any, Final, TypeVar

from ..base.tables import count
from ..items.scene import Scene
from ..policies.evaluate.verdict import PolicyOutcome
from ..policies.workload_index import WorkloadIndex
from .difference import ChangeKind, ReachChange, changes_between
from .flows import ChangeRow, FlowRow, change_rows, flow_rows
from .matrix import Grain, Matrix, matrix_by_namespace, matrix_lines_by_workload
from .outsiders import OutsiderRow, outsider_rows
from .reach import Reach
from .scope import ReachScope, check_ends
from .workload_set import SetKind, WorkloadSets, numbers_of, workload_sets

ROWS: Final = 200
"""Rows of each list in the result of a run; files have all of them."""

CELLS: Final = 2_000
"""Cells of the matrix in the result of a run."""

_T = TypeVar("_T")


class Gate(StrEnum):
    """Result on which a run can be made to fail."""

    WORLD = "world"  # an outsider reaches a workload
    ALLOWED = "allowed"  # a source of the scope reaches a destination of the scope
    UNKNOWN = "unknown"  # it is not known whether one does
    GAINED = "gained"  # the plan allows what is not allowed now
    LOST = "lost"  # the plan denies what is not denied now


@dataclass(frozen=True)
class ReachReport:
    """Reach now and after the plan, and the scope that the question is about."""

    now: Reach
    planned: Reach | None  # None: no plan, or one that writes no policy
    scope: ReachScope
    refused: tuple[str, ...] = ()  # items of the plan that are not carried out

    @property
    def sets(self) -> WorkloadSets:
        """Sets of both reaches."""
        return self.now.sets

    @cached_property
    def changes(self) -> tuple[ChangeRow, ...]:
        """Everything that the plan changes within the scope."""
        if self.planned is None:
            return ()
        found: tuple[ReachChange, ...] = changes_between(self.now, self.planned)
        return tuple(change_rows(self.planned, found, self.scope))

    @cached_property
    def outsiders(self) -> tuple[OutsiderRow, ...]:
        """What outsiders reach, or perhaps reach, now; first what a Service publishes."""
        return tuple(sorted(outsider_rows(self.now, self.scope), key=lambda row: not row.published))

    @cached_property
    def matrix(self) -> Matrix:
        """Matrix by namespace, now."""
        return matrix_by_namespace(self.now, self.scope)

    @cached_property
    def unread(self) -> tuple[str, ...]:
        """Members of which nothing is known."""
        return tuple(entry.host for entry in self.sets if entry.kind is SetKind.UNREAD)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the answer does not cover, in sentences."""
        scene = self.sets.index.scene
        found = [f"Nothing is known of {host}: {_why(scene, host)}" for host in self.unread]
        found += [f"{host} does not say which pods run in the network of their node; those are shown as pods." for host in self._mixed]
        found += [f"The NetworkPolicies of {host} could not be read: {unread}" for host, unread in self._unread_policies]
        return tuple(found)

    @property
    def _mixed(self) -> tuple[str, ...]:
        return tuple(host for host in self.sets.index.mixed if host not in self.unread)

    @property
    def _unread_policies(self) -> list[tuple[str, str]]:
        scene = self.sets.index.scene
        rows = ((host, scene.traffic[host].could_not_read("networkpolicies")) for host in scene.hosts)
        return [(host, unread.message) for host, unread in rows if unread is not None]

    def flows(self) -> Iterator[FlowRow]:
        """Yield the flows within the scope, now. Denied ones are left out where the question names no end: they are the rest."""
        return flow_rows(self.now, self.scope, denied=self.scope.named)

    def outcomes(self) -> Mapping[str, int]:
        """Return pairs of workloads within the scope by what they have in common: all, some, none, unknown."""
        sums = {"all": 0, "some": 0, "none": 0, "unknown": 0}
        for cell in self.matrix.cells.values():
            sums["all"] += cell.allowed
            sums["some"] += cell.partly
            sums["unknown"] += cell.unknown
            sums["none"] += cell.pairs - cell.allowed - cell.partly - cell.unknown
        return sums

    def violations(self, gates: Collection[str]) -> list[str]:
        """Return a sentence for each gate that is not passed. What is not known passes no gate."""
        found = []
        for gate in (entry for entry in Gate if entry.value in gates):
            first = next(self._against(gate), None)
            if first is not None:
                found.append(f"{gate.value}: {first}")
        if gates and self.unread:
            found.append(f"nothing is known of {', '.join(self.unread)}, so no gate is passed")
        if self.refused and {Gate.GAINED.value, Gate.LOST.value} & set(gates):
            found.append(f"the plan leaves out {', '.join(self.refused[:5])}, so its difference is not the whole one")
        return found

    def _against(self, gate: Gate) -> Iterator[str]:
        if gate in (Gate.GAINED, Gate.LOST):
            wanted = (ChangeKind(gate.value), ChangeKind.UNSURE)
            yield from (f"{row.kind.value}: {flow_text(row.flow)}" for row in self.changes if row.kind in wanted)
        elif gate is Gate.WORLD:
            yield from (flow_text(row.flow) for row in self.outsiders)
        else:
            verdicts = (PolicyOutcome.ALLOWED, PolicyOutcome.UNKNOWN) if gate is Gate.ALLOWED else (PolicyOutcome.UNKNOWN,)
            pods = self.sets.workloads
            for number in numbers_of(self.scope.destinations(self.sets) & pods):
                cells = [cell for cell in self.now.cells[number] if cell.sources & self.scope.sources(self.sets) & pods]
                if any(outcome in verdicts for cell in cells for outcome, _ports in cell.ports.each()):
                    rows = flow_rows(self.now, self.scope, sources=self.scope.sources(self.sets) & pods, destinations=1 << number)
                    yield from (flow_text(row) for row in rows if row.verdict in verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as results have it. Long lists are cut, and ``leftOut`` counts what is missing; files have everything."""
        flows = _first(self.flows(), ROWS + 1)
        more = len(flows) > ROWS
        flows = flows[:ROWS]
        cells = [
            {"from": self.matrix.rows[row].name, "to": self.matrix.columns[column].name, **cell.to_dict()}
            for (row, column), cell in islice(self.matrix.cells.items(), CELLS)
        ]
        return {
            "workloads": self.sets.weight(self.sets.workloads),
            "distinct": self.sets.workloads.bit_count(),
            "pairs": dict(self.outcomes()),
            "matrix": cells,
            "flows": [row.to_dict() for row in flows],
            "outsiders": [row.to_dict() for row in self.outsiders[:ROWS]],
            "planned": self.planned is not None,
            "changes": [row.to_dict() for row in self.changes[:ROWS]],
            "notCarriedOut": list(self.refused),
            "notes": list(self.notes),
            "leftOut": {
                "matrix": len(self.matrix.cells) - len(cells),
                "flows": more,
                "outsiders": max(0, len(self.outsiders) - ROWS),
                "changes": max(0, len(self.changes) - ROWS),
            },
        }


def report_of(index: WorkloadIndex, planned: WorkloadIndex | None, scope: ReachScope, refused: Iterable[str] = ()) -> ReachReport:
    """Return the report.

    :param planned: the index of the same pods with the policies after the plan; None without a plan.
    :raises InvalidInput: an end of the scope names nothing that exists.
    """
    sets = workload_sets(index, *([planned] if planned else []))
    check_ends(scope, sets)
    return ReachReport(Reach.of(sets), Reach.of(sets.seen_by(planned)) if planned else None, scope, tuple(refused))


def flow_text(row: FlowRow) -> str:
    """Return ``shop in c1 (web) -> shop in c2 (db): TCP 5432 allowed (CiliumNetworkPolicy shop/db in c2)``."""
    by = ", ".join(row.policies) or ("no policy" if row.verdict is PolicyOutcome.ALLOWED else "; ".join(row.reasons))
    return f"{row.source} -> {row.destination}: {row.ports} {row.verdict.value} ({by})"


def flows_csv(report: ReachReport) -> bytes:
    """Return the flows and every change as CSV: a line for the sources of one namespace, a destination, a verdict and ports."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    ends = [f"{end}_{part}" for end in ("source", "destination") for part in ("kind", "cluster", "namespace", "workloads")]
    out.writerow(["change", "before", *ends, "verdict", "ports", "policies", "reasons"])
    for row in report.flows():
        out.writerow(["", "", *_flow_fields(row)])
    for change in report.changes:
        out.writerow([change.kind.value, change.before.value, *_flow_fields(change.flow)])
    return text.getvalue().encode()


def _flow_fields(row: FlowRow) -> list[str]:
    ends = [
        field
        for place in (row.source, row.destination)
        for field in (place.kind.value, place.cluster, place.namespace, " ".join(place.workloads) or place.shown)
    ]
    return [*ends, row.verdict.value, str(row.ports), "; ".join(row.policies), "; ".join(row.reasons)]


def matrix_csv(report: ReachReport, grain: Grain) -> bytes:
    """Return the matrix as CSV: a line for each source, a column for each destination."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    if grain is Grain.WORKLOAD:
        columns, rows = matrix_lines_by_workload(report.now, report.scope)
        out.writerow(["from / to", *columns])
        for name, cells in rows:
            out.writerow([name, *cells])
    else:
        matrix = report.matrix
        out.writerow(["from / to", *(column.name for column in matrix.columns)])
        for line, row in enumerate(matrix.rows):
            out.writerow([row.name, *(str(matrix.cells[line, place]) for place in range(len(matrix.columns)))])
    return text.getvalue().encode()


def reach_json(report: ReachReport) -> bytes:
    """Return the whole report as JSON. Sets are numbered, and flows name them by number, so that thousands of workloads stay small."""
    sets = [
        {
            "number": e.number,
            "kind": e.kind.value,
            "cluster": e.host,
            "namespace": e.namespace,
            "workloads": list(e.workloads),
            "pods": e.pods,
        }
        | ({"name": e.shown} if e.shown else {})
        for e in report.sets
    ]
    wanted = report.scope.sources(report.sets)
    flows = [
        {
            "destination": number,
            "sources": list(numbers_of(group.sources)),
            "verdict": outcome.value,
            "ports": ports.to_list(),
            "policies": list(group.policies),
            "reasons": list(group.reasons),
        }
        for number in numbers_of(report.scope.destinations(report.sets))
        for cell in report.now.cells[number]
        if cell.sources & wanted
        for outcome, ports in cell.ports.each()
        for group in report.now.explained(replace(cell, sources=cell.sources & wanted), number, outcome)
    ]
    found = {
        **report.to_dict(),
        "schema": 1,
        "sets": sets,
        "flows": flows,
        "outsiders": [row.to_dict() for row in report.outsiders],
        "changes": [row.to_dict() for row in report.changes],
    }
    found["leftOut"] = {**found["leftOut"], "flows": False, "outsiders": 0, "changes": 0}
    return (json.dumps(found, separators=(",", ":")) + "\n").encode()


def summary_of(report: ReachReport) -> str:
    """Return one sentence: how many pairs of workloads reach each other."""
    sums = report.outcomes()
    workloads = count(report.sets.weight(report.sets.workloads), "workload")
    text = f"{workloads}; pairs: {sums['all']} on all ports, {sums['some']} on some, {sums['none']} on none, {sums['unknown']} unknown"
    return f"{text}; the plan changes {count(len(report.changes), 'row')}" if report.planned is not None else text


def _first(rows: Iterable[_T], most: int) -> list[_T]:
    return list(islice(rows, most))


def _why(scene: Scene, host: str) -> str:
    if host in scene.failures:
        return scene.failures[host].message
    unread = scene.traffic[host].could_not_read("pods") if host in scene.traffic else None
    return unread.message if unread else "it was not observed."
