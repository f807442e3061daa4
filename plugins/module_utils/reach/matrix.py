# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Matrix of a reach: one row for each source and one column for each destination, by namespace or by workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from .port_set import ALL, NONE, PortSet
from .reach import PortVerdicts, Reach
from .scope import ReachScope
from .workload_set import SetKind, WorkloadSet, bits_of, numbers_of


class Grain(StrEnum):
    """What a row of the matrix is."""

    NAMESPACE = "namespace"
    WORKLOAD = "workload"


class Access(StrEnum):
    """What all flows from a row to a column have in common."""

    ALL = "all"  # every pair on every port
    SOME = "some"  # some pairs, or some ports
    NONE = "none"
    UNKNOWN = "unknown"  # nothing is allowed for sure, and something is unknown

    @property
    def letter(self) -> str:
        """Letter of the cell in a table."""
        return {Access.ALL: "A", Access.SOME: "s", Access.NONE: ".", Access.UNKNOWN: "?"}[self]


@dataclass(frozen=True)
class MatrixCell:
    """Flows from a row to a column, as pairs of workloads. ``ports`` are allowed for at least one pair."""

    pairs: int
    allowed: int  # pairs with every port allowed
    partly: int  # pairs with some ports allowed
    unknown: int  # pairs without an allowed port, and with unknown ones
    ports: PortSet

    @property
    def access(self) -> Access:
        """What the pairs have in common."""
        if self.allowed == self.pairs:
            return Access.ALL
        if self.allowed or self.partly:
            return Access.SOME
        return Access.UNKNOWN if self.unknown else Access.NONE

    def __str__(self) -> str:
        """Text such as ``all``, ``none``, ``TCP 80``, ``3 of 12 pairs: TCP 80``."""
        reaching = self.allowed + self.partly
        if self.access is not Access.SOME:
            return self.access.value
        return str(self.ports) if reaching == self.pairs else f"{reaching} of {self.pairs} pairs: {self.ports}"

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as results have it."""
        return {
            "access": self.access.value,
            "pairs": self.pairs,
            "allowed": self.allowed,
            "partly": self.partly,
            "unknown": self.unknown,
            "denied": self.pairs - self.allowed - self.partly - self.unknown,
            "ports": str(self.ports),
        }


@dataclass(frozen=True)
class MatrixLine:
    """Row or column of the matrix: its name, and the bits of the sets that it joins."""

    name: str
    bits: int
    weight: int


@dataclass(frozen=True)
class Matrix:
    """Rows, columns and cells; a cell by the places of its row and its column."""

    rows: tuple[MatrixLine, ...]
    columns: tuple[MatrixLine, ...]
    cells: Mapping[tuple[int, int], MatrixCell]


_NOTHING: Final = MatrixCell(0, 0, 0, 0, NONE)


def matrix_by_namespace(reach: Reach, scope: ReachScope) -> Matrix:
    """Return the matrix of the scope, by cluster and namespace; outsiders, nodes and unread members are rows and columns of their own."""
    rows, columns = _lines(reach, scope.sources(reach.sets)), _lines(reach, scope.destinations(reach.sets))
    sets = reach.sets
    cells: dict[tuple[int, int], MatrixCell] = {}
    for place, column in enumerate(columns):
        found: dict[int, dict[int, tuple[PortVerdicts, int]]] = {}  # by the place of the row and the identity of the ports
        for number in numbers_of(column.bits):
            weight = sets[number].weight
            for cell in reach.cells[number]:
                for line, row in enumerate(rows):
                    bits = cell.sources & row.bits
                    if bits:
                        by_ports = found.setdefault(line, {})
                        pairs = by_ports[id(cell.ports)][1] if id(cell.ports) in by_ports else 0
                        by_ports[id(cell.ports)] = cell.ports, pairs + sets.weight(bits) * weight
        for line, parts in found.items():
            cells[line, place] = _joined(list(parts.values()))
    return Matrix(rows, columns, cells)


def matrix_lines_by_workload(reach: Reach, scope: ReachScope) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the names of the columns, and for each row its name and its cells as texts.

    Sets have one text for all of their workloads; so 2,000 workloads need no more than the pairs of their sets.
    """
    sets = reach.sets
    sources, destinations = scope.sources(sets), scope.destinations(sets)
    columns = [(name, number) for number in numbers_of(destinations) for name in _names(sets[number], scope.destination.workloads)]
    texts: dict[PortVerdicts, str] = {}
    by_source: dict[int, dict[int, str]] = {number: {} for number in numbers_of(sources)}
    for number in numbers_of(destinations):
        for cell in reach.cells[number]:
            shown = texts.get(cell.ports)
            if shown is None:
                shown = texts[cell.ports] = _ports_text(cell.ports)
            for source in numbers_of(cell.sources & sources):
                by_source[source][number] = shown
    rows = []
    for source, row in by_source.items():
        cells = [row[number] for _name, number in columns]
        rows += [(name, cells) for name in _names(sets[source], scope.source.workloads)]
    return [name for name, _number in columns], rows


def _names(entry: WorkloadSet, chosen: Any) -> list[str]:
    if entry.kind is not SetKind.WORKLOADS:
        return [entry.shown]
    return [f"{entry.host}/{entry.namespace}/{name}" for name in chosen(entry)]


def _ports_text(ports: PortVerdicts) -> str:
    if ports.allowed == ALL:
        return "all"
    if ports.denied == ALL:
        return "none"
    if ports.unknown == ALL:
        return "unknown"
    texts = [str(ports.allowed)] if ports.allowed else []
    return "; ".join([*texts, *([f"unknown: {ports.unknown}"] if ports.unknown else [])])


def _lines(reach: Reach, bits: int) -> tuple[MatrixLine, ...]:
    found: dict[str, list[int]] = {}
    for number in numbers_of(bits):
        entry = reach.sets[number]
        name = f"{entry.host}/{entry.namespace}" if entry.kind is SetKind.WORKLOADS else entry.shown
        found.setdefault(name, []).append(number)
    lines = [(name, bits_of(numbers)) for name, numbers in found.items()]
    return tuple(MatrixLine(name, part, reach.sets.weight(part)) for name, part in lines)


def _joined(parts: list[tuple[PortVerdicts, int]]) -> MatrixCell:
    pairs = allowed = partly = unknown = 0
    ports: dict[PortSet, None] = {}
    for found, count in parts:
        pairs += count
        if found.allowed == ALL:
            allowed += count
        elif found.allowed:
            partly += count
        elif found.unknown:
            unknown += count
        if found.allowed:
            ports[found.allowed] = None
    union = NONE
    for entry in ports:
        union = ALL if ALL in (union, entry) else union | entry
    return MatrixCell(pairs, allowed, partly, unknown, union)
