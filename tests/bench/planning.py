# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pure stages for meshes of up to 255 clusters: no server, no request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.bench.child import measured
from tests.bench.table import Target, columns

SIZES: Final = (50, 255)
ROUNDS: Final = 3
SECONDS, BYTES = 2.0, 300e6
KINDS: Final = {"plan": "first plan", "again": "plan of a mesh that is connected", "checks": "checks"}


def measure(say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per kind and size: of several processes the quickest, with the largest peak of all of them."""
    rows = []
    for kind in KINDS:
        for size in SIZES:
            if kind == "again" and size > min(SIZES):
                continue  # to play the writes of 255 clusters takes a minute, to no further use
            say(f"{KINDS[kind]}, {size} clusters")
            runs = [measured("planning_run", kind, str(size)) for _ in range(ROUNDS)]
            best = min(runs, key=lambda run: float(sum(run["seconds"].values())))
            rows.append({**best, "peak": max(run["peak"] for run in runs)})
    return rows


def targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    """Of the first plan of the largest mesh, hash and data included."""
    largest = next(row for row in rows if row["kind"] == "plan" and row["clusters"] == max(SIZES))
    return [
        Target(f"planning alone for {max(SIZES)} clusters, CPU s", _seconds(largest), SECONDS),
        Target(f"planning alone for {max(SIZES)} clusters, peak MB", largest["peak"] / 1e6, BYTES / 1e6),
    ]


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """The table for people."""
    head = ("stage alone, full mesh, own CAs", "clusters", "links", "steps", "CPU s", "of it", "peak MB")
    body = [
        (
            KINDS[row["kind"]],
            str(row["clusters"]),
            str(row["links"]),
            str(row.get("steps", "")),
            f"{_seconds(row):.2f}",
            ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["seconds"].items()),
            f"{row['peak'] / 1e6:.0f}",
        )
        for row in rows
    ]
    return columns([head, *body])


def _seconds(row: dict[str, Any]) -> float:
    return float(sum(row["seconds"].values()))
