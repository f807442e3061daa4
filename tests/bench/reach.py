# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reach of 2,000 workloads over three clusters, with the difference to a plan and every file, and the forecast of an upgrade: no server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns

WORKLOADS: Final = 2000
ROUNDS: Final = 2
SECONDS, BYTES = 20.0, 500e6
KINDS: Final = {
    "open": "no policy",
    "spaces": "a policy for each namespace",
    "named": "a policy for each workload",
    "upgrade": "the same, forecast of an upgrade by one minor",
}


def measure(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per kind of policies: of several processes the quickest, with the largest peak of all of them."""
    rows = []
    for kind, title in KINDS.items():
        say(f"reach of {WORKLOADS} workloads, {title}")
        runs = [measured("reach_run", kind, str(WORKLOADS + 1)) for _ in range(ROUNDS)]
        best = min(runs, key=lambda run: float(run["cpu"]))
        rows.append({**best, "peak": max(run["peak"] for run in runs)})
    return rows


def targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    """Of the policies that distinguish every workload."""
    worst, upgrade = (next(row for row in rows if row["kind"] == kind) for kind in ("named", "upgrade"))
    return [
        Target(f"upgrade check of {WORKLOADS} workloads, each with a policy, CPU s", upgrade["cpu"], SECONDS),
        Target(f"reach of {WORKLOADS} workloads, each with a policy, CPU s", worst["cpu"], SECONDS),
        Target(f"reach of {WORKLOADS} workloads, each with a policy, peak MB", worst["peak"] / 1e6, BYTES / 1e6),
    ]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    head = ("reach over 3 clusters", "workloads", "distinct", "CPU s", "of it", "peak MB")
    body = [
        (
            KINDS[row["kind"]],
            str(row["workloads"]),
            str(row["distinct"]),
            f"{row['cpu']:.1f}",
            ", ".join(f"{name} {seconds:.1f}" for name, seconds in row["seconds"].items()),
            f"{row['peak'] / 1e6:.0f}",
        )
        for row in rows
    ]
    return columns([head, *body])
