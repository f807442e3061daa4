# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads of a fleet, as lines for the terminal. Pure: data in, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..module_utils.base.tables import table, text
from ..module_utils.pipeline.shown import WorkloadsMeasured
from .fitted import Line
from .items_lines import colour_of
from .shown_lines import Formats


def workloads_lines(name: str, rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line per workload, and below it one per cluster where something is not as wanted.

    :param rows: ``{name, status}``, the status in the form of the custom resource.
    """
    lines = [Line(f"Workloads of {name}:" if rows else f"Workloads of {name}: none")]
    heads = [_workload_row(entry["name"], entry["status"]) for entry in rows]
    for entry, head in zip(rows, table(heads), strict=True):
        status = entry["status"]
        lines.append(Line(f"  {head}", colour_of(status["phase"])))
        lines += [
            Line(f"      {part['clusterName']}: {text(part['message'])}", "yellow")
            for part in status.get("placements", ())
            if part.get("message")
        ]
    return lines


def _workload_row(name: str, status: Mapping[str, Any]) -> tuple[str, ...]:
    rollout = status.get("rollout", {})
    ready: Mapping[str, Any] = next((entry for entry in status["conditions"] if entry["type"] == "Ready"), {})
    wave = f" {rollout['wave']}/{rollout['of']}" if rollout.get("of") else ""
    revision = status.get("updatedRevision", "-")
    rest = str(rollout.get("message", "")).removeprefix(f"Revision {revision} is rolled out.").strip()  # pauses and rollbacks
    return (
        name,
        status["phase"],
        f"{status.get('readyReplicas', 0)}/{status.get('replicas', 0)} ready",
        f"revision {revision}",
        f"{rollout.get('phase', '-')}{wave}",
        str(ready.get("message") or rest),
    )


FORMATS: Final[Formats] = {WorkloadsMeasured: lambda shown, _whole: workloads_lines(shown.name, shown.rows)}
