# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of each custom resource, from a mesh_result: the engine's rows, as the CRDs have them. Pure: the time is passed in.

Conditions keep their lastTransitionTime while their status is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import Meaning, meaning_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.fabric import BindingRow, fabric_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.kinds import BY_KIND, ROWS
from ..runs.dry_runs import DRY_RUN_FAILED
from ..runs.runner import RUNNER_FAILED, RunResult
from ..source.bounds import QUOTA_EXCEEDED
from ..source.resources import generation_of
from ..source.status_patch import Status
from ..source.stored import Stored
from ..statuses.measured import TEXT, advised_status, measured_status, status_before, valid_reason
from .request import MESH_NOT_FOUND, Wait

GOOD: Final = (*(row.good for row in ROWS if row.good), "Degraded")


def status_of_result(stored: Stored, result: Mapping[str, Any], now: datetime) -> Status | None:
    """Return the status of one object from a ``mesh_result``; None if it has none for it.

    If the mesh has none because a finding stopped the run, the status reports the findings, and keeps the values measured earlier.
    """
    return status_by_meaning(stored, result, meaning_of(result), now)


def status_by_meaning(stored: Stored, result: Mapping[str, Any], meaning: Meaning, now: datetime) -> Status | None:
    """Return the same. ``meaning``: that of the result, which is found once for all objects."""
    row = BY_KIND[stored.key.kind]
    found = jmespath.search(row.status, result)
    if isinstance(found, list):
        found = next((entry for entry in found if isinstance(entry, Mapping) and entry.get("name") == stored.key.name), None)
    if isinstance(found, Mapping):
        return advised_status(stored, measured_status(stored, found, now), result, now)
    if not meaning.blocked:
        return None
    if row.listed:  # a refused item has a row of its own: the finding that stopped the run is about the mesh
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"Nothing is written for the mesh: {meaning.blocked}", now)
    reason = RUNNER_FAILED if meaning.failed else "PrerequisiteNotMet"
    return advised_status(stored, _unmeasured(stored, "Error", reason, meaning.blocked, now), result, now)


def status_of_waiting(stored: Stored, wait: Wait, now: datetime) -> Status:
    """Return the status while there is no run: items wait for their mesh for any reason, and are in error if there is none."""
    if wait.reason != MESH_NOT_FOUND and BY_KIND[stored.key.kind].listed:
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"The mesh is not connected: {wait.message}", now, standing=wait.standing)
    return _unmeasured(stored, wait.phase, wait.reason, wait.message, now, standing=wait.standing)


def status_of_refused(stored: Stored, now: datetime) -> Status:
    """Return the status of an object beyond the bounds of its workspace: nothing is done for it, and what it led to before stays."""
    message = f"The workspace has more than {stored.beyond}, the most that the operator takes from one. Nothing is done for this object,"
    return _unmeasured(stored, "Error", QUOTA_EXCEEDED, f"{message} until older ones are deleted or the platform allows more.", now)


def status_of_failed_run(stored: Stored, run: RunResult, now: datetime) -> Status:
    """Return the status after a run without a result: reason RunnerFailed or Timeout, the task's name, never output.

    The phase stays, as Degraded if it was good: objects of earlier runs still exist. After a run that was cancelled no status is written:
    the mesh has its next turn at once, here or with the next leader.
    """
    return _unmeasured(stored, status_before(stored).get("phase") or "Error", run.reason, run.without_result(), now)


def status_of_failed_dry_run(stored: Stored, message: str, now: datetime) -> Status:
    """Return the status after a dry run without a result. The phase stays, as Degraded if it was good: what earlier runs made exists."""
    return _unmeasured(stored, status_before(stored).get("phase") or "Error", DRY_RUN_FAILED, message, now)


def row_of_binding(name: str, binding: Stored | None) -> BindingRow:
    """Return a binding as a Fabric counts it; None: there is none of that name."""
    absent = condition("Ready", False, MESH_NOT_FOUND, f"ClusterMeshBinding {name} does not exist in this namespace")
    status = status_before(binding) if binding else {"phase": "Error", "conditions": [absent]}
    refs = rows_of(binding.obj.get("spec"), "clusterRefs") if binding else ()
    return BindingRow(name=name, clusters=tuple(str(ref.get("name")) for ref in refs), status=status)


def status_of_fabric(stored: Stored, rows: Sequence[BindingRow], now: datetime) -> Status:
    """Return the status of a Fabric, from the bindings that it names."""
    return measured_status(stored, fabric_status(stored.key.name, rows, now=now), now)


def _unmeasured(stored: Stored, phase: str, reason: str, message: str, now: datetime, *, standing: bool = True) -> Status:
    """Return a status without a new measurement. ``standing``: objects of earlier runs exist, so their measured values stay.

    A binding that was in error with the same spec stays so: that nothing can be measured now makes it no better.
    """
    before = status_before(stored)
    kept = before if standing else {}
    degraded = kept.get("phase") in GOOD
    same = before.get("observedGeneration") == generation_of(stored.obj)
    if same and kept.get("phase") == "Error" and not BY_KIND[stored.key.kind].listed:
        phase = "Error"
    text, why = one_line(message, TEXT), valid_reason(reason)
    earlier = {str(entry.get("type")): entry for entry in rows_of(kept, "conditions")}
    conditions = [condition(kind, None, why, text) for kind in earlier if kind not in ("Accepted", "Ready", "Degraded")]
    if BY_KIND[stored.key.kind].listed:
        accepted = earlier.get("Accepted") if same else None
        conditions.insert(0, {**accepted} if accepted else condition("Accepted", False if reason == MESH_NOT_FOUND else None, why, text))
    conditions += [condition("Ready", False, why, text), condition("Degraded", degraded, why, text)]
    return {
        **kept,
        "phase": "Degraded" if degraded else phase,
        "observedGeneration": generation_of(stored.obj),
        "conditions": with_transition_times(conditions, now, rows_of(before, "conditions")),
    }
