# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A fabric as a table for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.base.tables import cell, table, text
from .fitted import Line
from .report import PHASE_COLOURS


def fabric_lines(status: Mapping[str, Any]) -> list[Line]:
    """Return a row per binding, with the reason below if it is not connected, and the verdict.

    :param status: as ``status.fabric.fabric_status`` returns it.
    """
    rows = status["bindings"]
    head = ("binding", "phase", "clusters", "links ready", "oldest proof", "measured")
    texts = table([head, *(_row(row) for row in rows)])
    lines = [Line(f"Fabric {cell(status['name'])}"), Line(f"  {texts[0]}")]
    for row, shown in zip(rows, texts[1:], strict=True):
        lines.append(Line(f"  {shown}", PHASE_COLOURS.get(row["phase"], "")))
        lines += [Line(f"      why: {text(row['message'])}")] if row["message"] else []
    return [*lines, Line(fabric_verdict(status), PHASE_COLOURS.get(status["phase"], ""))]


def fabric_verdict(status: Mapping[str, Any]) -> str:
    """Return ``europe: Degraded (1/2 bindings, 4/5 clusters, 7/8 links ready)``."""
    bindings, clusters, links = (status["counts"][key] for key in ("bindings", "clusters", "links"))
    return (
        f"{cell(status['name'])}: {status['phase']} ({bindings['connected']}/{bindings['total']} bindings, "
        f"{clusters['connected']}/{clusters['total']} clusters, {links['ready']}/{links['total']} links ready)"
    )


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    clusters, links, proof = row["clusters"], row["links"], row["lastProof"]
    missing = f", {proof['missing']} never" if proof["oldest"] and proof["missing"] else ""
    return (
        row["name"],
        row["phase"],
        f"{clusters['connected']}/{clusters['total']}",
        f"{links['ready']}/{links['total']}",
        f"{proof['oldest'] or '-'}{missing}",
        row["lastSyncTime"] or "-",
    )
