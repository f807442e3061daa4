# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The rehearsal of every member and every pair of links of a large mesh: no server, no request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns

ROUNDS: Final = 3
SECONDS: Final = 10.0
SIZES: Final = ((10, 1000, 4), (50, 1000, 4), (50, 1000, 50))
"""Clusters, services, and clusters with backends of each service. The second one has the target."""


def measure(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per size: of several processes the quickest, with the largest peak of all of them."""
    rows = []
    for size in SIZES:
        say(f"rehearsal of {size[0]} clusters with {size[1]} services in {size[2]} of them each")
        runs = [measured("rehearsal_run", *(str(number) for number in size)) for _ in range(ROUNDS)]
        best = min(runs, key=lambda run: float(sum(run["seconds"].values())))
        rows.append({**best, "peak": max(run["peak"] for run in runs)})
    return rows


def targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    """Of 50 clusters with 1,000 services."""
    row = rows[1]
    return [Target(f"rehearsal of {row['clusters']} clusters with {row['services']} services, CPU s", _seconds(row), SECONDS)]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    head = ("rehearsal, full mesh", "clusters", "services", "in clusters", "losses", "CPU s", "peak MB")
    body = [
        (
            "members and links",
            str(row["clusters"]),
            str(row["services"]),
            str(row["exporters"]),
            str(row["losses"]),
            f"{_seconds(row):.2f}",
            f"{row['peak'] / 1e6:.0f}",
        )
        for row in rows
    ]
    return columns([head, *body])


def _seconds(row: dict[str, Any]) -> float:
    return float(sum(row["seconds"].values()))
