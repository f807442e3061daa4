# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Many resources: how long after a restart the operator is quiet, and what it costs while nothing changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final

from tests.bench.operator_cost import Meter
from tests.bench.operator_world import Bench, Site
from tests.bench.table import Target, columns
from tests.testing.operator_process import OperatorProcess

MESHES: Final = 20
RESTART, STEADY = 500, 1000  # resources, bindings among them
WINDOW: Final = 300.0  # seconds: the operator's default check interval, so that every mesh is observed once
QUIET_SECONDS, CORE_PERCENT, RSS = 60.0, 25.0, 250.0  # seconds, percent of one core, MB
_CALM: Final = 5.0  # seconds that nothing happens in what is called quiet
_LIMIT: Final = 1800.0
_AT_ONCE: Final = 4
_RUNS: Final = "mesh_operator_run_seconds_count"


def measure(bench: Bench, say: Callable[[str], None], window: float = WINDOW) -> dict[str, Any]:
    """A row for a restart with each number of resources, and one for a while in which nothing changes."""
    meshes, rows = len(bench.sites), []
    with bench.operator() as operator:
        say(f"{meshes} bindings")
        for site in bench.sites:
            site.bind()
        say(f"all connected after {bench.wait(bench.sites, operator):.0f} s")
    for count, more in pairwise((meshes, RESTART, STEADY, 0)):
        with bench.operator() as operator:
            rows.append(_restart(operator, count, meshes, say))
            if more:
                say(f"{more - count} resources more")
                _fill(bench, more)
                say(f"all carried out after {bench.wait(bench.sites, operator):.0f} s")
            else:
                rows.append(_steady(operator, count, window, say))
    return {"meshes": meshes, "rows": rows}


def targets(found: dict[str, Any]) -> list[Target]:
    rows = {(row["what"], row["resources"]): row for row in found["rows"]}
    restart, steady = rows["restart to quiet", RESTART], rows["nothing changes", STEADY]
    return [
        Target(f"operator: restart to quiet with {RESTART} resources, s", restart["seconds"], QUIET_SECONDS),
        Target(f"operator: nothing changes in {STEADY} resources, % of a core", 100 * steady["cpu"] / steady["seconds"], CORE_PERCENT),
        Target(f"operator: nothing changes in {STEADY} resources, peak memory with children, MB", steady["peak"] / 1e6, RSS),
    ]


def as_text(found: dict[str, Any]) -> str:
    """The table for people, and what of it is per mesh and per item."""
    head = ("", "bindings", "resources", "seconds", "CPU s", "reconciles", "runs", "peak MB", "with children MB")
    body = [
        (
            row["what"],
            str(found["meshes"]),
            str(row["resources"]),
            f"{row['seconds']:.1f}",
            f"{row['cpu']:.1f}",
            f"{row['reconciles']:.0f}",
            f"{row['runs']:.0f}",
            f"{row['own'] / 1e6:.0f}",
            f"{row['peak'] / 1e6:.0f}",
        )
        for row in found["rows"]
    ]
    return columns([head, *body])


def _fill(bench: Bench, count: int) -> None:
    """Items until there are so many resources, as many in each mesh."""
    each = (count - len(bench.sites)) // len(bench.sites)

    def fill(site: Site) -> None:
        while site.items < each:
            site.ask()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fill, bench.sites))


def _restart(operator: OperatorProcess, count: int, meshes: int, say: Callable[[str], None]) -> dict[str, Any]:
    """From the start of the process until every mesh was observed and nothing is left to do."""
    began = time.monotonic()
    with Meter(operator.process.pid) as meter:
        last, before = began, dict[str, float]()
        while time.monotonic() < last + _CALM or turns_of(before) < meshes:
            now, figures = time.monotonic(), operator.metrics()
            if not figures or is_busy(figures) or turns_of(figures) != turns_of(before):
                last = now
            before = figures
            assert now < began + _LIMIT, f"after {_LIMIT:g} s the operator is not quiet\n{operator.output()}"
            time.sleep(0.25)
    say(f"restart with {count} resources: quiet after {last - began:.1f} s")
    return _row("restart to quiet", count, last - began, meter, {}, before)


def _steady(operator: OperatorProcess, count: int, window: float, say: Callable[[str], None]) -> dict[str, Any]:
    say(f"{window:g} s in which nothing changes")
    before, began = operator.metrics(), time.monotonic()
    with Meter(operator.process.pid) as meter:
        time.sleep(window)
    return _row("nothing changes", count, time.monotonic() - began, meter, before, operator.metrics())


def _row(what: str, count: int, seconds: float, meter: Meter, before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
    return {
        "what": what,
        "resources": count,
        "seconds": seconds,
        "cpu": meter.cpu,
        "reconciles": turns_of(after) - turns_of(before),
        "runs": after.get(_RUNS, 0) - before.get(_RUNS, 0),
        "own": meter.own_peak,
        "peak": meter.peak,
    }


def turns_of(figures: dict[str, float]) -> float:
    """Turns of all units since the operator started."""
    return sum(value for name, value in figures.items() if name.startswith("mesh_operator_reconciles_total"))


def is_busy(figures: dict[str, float]) -> bool:
    """Whether the operator is at work, or has work that is due."""
    return any(figures[f"mesh_operator_{name}"] for name in ("queue_length", "reconciles_in_progress", "runs_in_progress"))
