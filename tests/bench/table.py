# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Figures of a benchmark: medians, ratios and targets, as text or as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.demo.play import Run


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of run. Seconds are medians, ``peak`` the maximum in bytes; ratios are to the first kind; ``target`` is for walls."""

    title: str
    runs: int
    wall: float
    cpu: float
    peak: int
    wall_ratio: float
    cpu_ratio: float
    target: float | None


def rows(measured: Mapping[str, Sequence[Run]], targets: Mapping[str, float]) -> tuple[Row, ...]:
    """A row per kind of run, in the order of ``measured``; the first one is what the others are compared with."""
    base = next(iter(measured.values()))
    base_wall, base_cpu = median(run.wall for run in base), median(run.cpu for run in base)
    return tuple(
        Row(
            title=title,
            runs=len(runs),
            wall=median(run.wall for run in runs),
            cpu=median(run.cpu for run in runs),
            peak=max(run.peak for run in runs),
            wall_ratio=median(run.wall for run in runs) / base_wall,
            cpu_ratio=median(run.cpu for run in runs) / base_cpu,
            target=targets.get(title),
        )
        for title, runs in measured.items()
    )


def as_text(table: Sequence[Row], requests: Mapping[str, Mapping[str, int]], limit: int) -> str:
    """The tables for people. ``requests``: kind of run -> cluster -> API requests; ``limit``: the target for each of them."""
    width = max(len(row.title) for row in table)
    lines = [f"{'':{width}}  runs  wall s   CPU s  peak MB  wall ratio  CPU ratio  target"]
    for row in table:
        target = "" if row.target is None else f"<= {row.target:g}x  {_met(row.wall_ratio <= row.target)}"
        lines.append(
            f"{row.title:{width}}  {row.runs:4d}  {row.wall:6.2f}  {row.cpu:6.2f}  {row.peak / 1e6:7.0f}"
            f"  {row.wall_ratio:9.2f}x  {row.cpu_ratio:8.2f}x  {target}".rstrip()
        )
    lines += ["", f"API requests{'':{max(0, width - 12)}}  per cluster (target <= {limit})"]
    for title, clusters in requests.items():
        each = ", ".join(f"{name} {count}" for name, count in sorted(clusters.items()))
        lines.append(f"{title:{width}}  {each}  {_met(max(clusters.values(), default=0) <= limit)}")
    return "\n".join(lines)


def as_data(table: Sequence[Row], requests: Mapping[str, Mapping[str, int]], limit: int) -> dict[str, Any]:
    """The same for programs."""
    return {"rows": [vars(row) for row in table], "requests": {k: dict(v) for k, v in requests.items()}, "requestsTarget": limit}


def _met(met: bool) -> str:
    return "met" if met else "MISSED"


@dataclass(frozen=True)
class Target:
    """A figure and what it is to be at most."""

    title: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def targets_text(targets: Sequence[Target]) -> str:
    """A line per target; told, never enforced."""
    return columns([("target", "measured", "at most", ""), *((t.title, f"{t.value:.4g}", f"{t.limit:g}", _met(t.met)) for t in targets)])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text: the first column to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in rows)
