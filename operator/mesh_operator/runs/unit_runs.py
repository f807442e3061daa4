# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Runs and dry runs of a unit of work as the log and the metrics have them, of meshes and fleets alike."""

from __future__ import annotations

from logging import WARNING

from ..base.cancel import Cancel
from ..base.keys import UnitKey
from ..base.log import log
from ..base.serve import Metrics
from .dry_runs import DRY_RUN_FAILED, DryRunFailed
from .runner import RUNNER_FAILED, Runner, RunRequest, RunResult, RunState


def run_unit(key: UnitKey, request: RunRequest, cancel: Cancel, *, runner: Runner, metrics: Metrics) -> RunResult:
    """Run a playbook for a unit to its end, its timeout or ``cancel``; measure and log it."""
    with metrics.running():
        run = runner.run(request, cancel)
    log(
        "run_ended",
        workspace=key.workspace,
        namespace=key.namespace,
        name=key.name,
        state=run.state.value,
        seconds=run.seconds,
        reason=run.error,
    )
    if run.mesh_result is None and run.state is not RunState.CANCELED:
        metrics.errors.labels(RUNNER_FAILED).inc()
    return run


def note_failed_dry_run(key: UnitKey, failed: DryRunFailed, metrics: Metrics) -> None:
    """Log and count a dry run of a unit that failed. No run follows: it would read the same without limits."""
    why = f"{failed.cause.value} {failed.detail}".strip()
    log("dry_run_failed", level=WARNING, workspace=key.workspace, namespace=key.namespace, name=key.name, reason=why)
    metrics.errors.labels(DRY_RUN_FAILED).inc()
