# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of each custom resource, from a mesh_result: the engine's rows, as the CRDs have them. Pure: the time is passed in.

Conditions keep their lastTransitionTime while their status is the same; a status that differs only in lastSyncTime is not written
more often than ``SYNC_SECONDS``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError, clause
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.fabric import BindingRow, fabric_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from .bounds import QUOTA_EXCEEDED
from .kinds import BY_KIND
from .request import MESH_NOT_FOUND, Wait
from .resources import generation_of
from .runs import RunResult, RunState
from .status_findings import advised_condition, findings_of, rows_for_status
from .store import Stored

SYNC_SECONDS: Final = 900
DRY_RUN_FAILED: Final = "DryRunFailed"  # reason of conditions

Status = dict[str, Any]

GOOD: Final = ("Connected", "Exported", "Applied", "Exposed", "Degraded")
_TEXT: Final = 1024  # characters of any text; metav1.Condition allows a message 32768
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?")  # as metav1.Condition has it
_HOLDS: Final = {"True": True, "False": False}
# Fields that change while nothing else does, by the field that holds them: times, and counts that follow every pod of a peer.
_PROOF: Final = ("time", "heartbeatAgeSeconds", "oldest", "newest")
_CHANGING: Final = {"lastProof": _PROOF, "nodePaths": ("oldestProbe",), "arrived": ("endpoints", "identities", "services")}


def status_of_result(stored: Stored, result: Mapping[str, Any], now: datetime) -> Status | None:
    """Return the status of one object from a ``mesh_result``; None if it has none for it.

    If the mesh has none because a finding stopped the run, the status reports the findings, and keeps the values measured earlier.
    """
    row = BY_KIND[stored.key.kind]
    found = jmespath.search(row.status, result)
    if isinstance(found, list):
        found = next((entry for entry in found if isinstance(entry, Mapping) and entry.get("name") == stored.key.name), None)
    if isinstance(found, Mapping):
        return advised_status(stored, measured_status(stored, found, now), result, now)
    found = [entry for entry in rows_of(result, "findings") if not entry.get("accepted") and not entry.get("item")]
    blocking = [entry for entry in found if entry.get("severity") == "blocking"]
    if not blocking:
        return None
    summaries = "; ".join(f"{f.get('code')} {f.get('cluster') or ''}: {clause(str(f.get('summary')))}" for f in blocking)
    if row.listed:  # a refused item has a row of its own: the finding that stopped the run is about the mesh
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"Nothing is written for the mesh: {summaries}", now)
    reason = "RunnerFailed" if all(entry.get("code") == MeshError.code for entry in blocking) else "PrerequisiteNotMet"
    return advised_status(stored, _unmeasured(stored, "Error", reason, summaries, now), result, now)


def advised_status(stored: Stored, status: Status, result: Mapping[str, Any], now: datetime) -> Status:
    """Return a status with the findings that are about the object."""
    found = findings_of(stored, result)
    new = advised_condition(found)
    kept = [entry for entry in status["conditions"] if entry["type"] != new["type"]]
    times = with_transition_times([new], now, rows_of(_before(stored), "conditions"))
    rest = {key: value for key, value in status.items() if key not in ("findings", "conditions")}
    listed = rows_for_status(found)
    return {**rest, **({"findings": listed} if listed else {}), "conditions": [*kept, *times]}


def status_of_waiting(stored: Stored, wait: Wait, now: datetime) -> Status:
    """Return the status while no play runs: items wait for their mesh for any reason, and are in error if there is none."""
    if wait.reason != MESH_NOT_FOUND and BY_KIND[stored.key.kind].listed:
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"The mesh is not connected: {wait.message}", now, standing=wait.standing)
    return _unmeasured(stored, wait.phase, wait.reason, wait.message, now, standing=wait.standing)


def status_of_refused(stored: Stored, now: datetime) -> Status:
    """Return the status of an object beyond the bounds of its workspace: nothing is done for it, and what it led to before stays."""
    message = f"The workspace has more than {stored.beyond}, the most that the operator takes from one. Nothing is done for this object,"
    return _unmeasured(
        stored, "Error", QUOTA_EXCEEDED, f"{message} until older ones are deleted or whoever runs the operator allows more.", now
    )


def status_of_failed_run(stored: Stored, run: RunResult, now: datetime) -> Status:
    """Return the status after a run without a result: reason RunnerFailed or Timeout, the task's name, never output.

    The phase stays, as Degraded if it was good: objects of earlier plays still exist. After a run that was cancelled no status is written:
    the mesh has its next turn at once, here or with the next leader.
    """
    reason = "Timeout" if run.state is RunState.TIMEOUT else "RunnerFailed"
    task = one_line(run.last_task, 200)
    message = f"The run ended without a result, {f'in task {task!r}' if task else 'before its first task'}. It is tried again."
    return _unmeasured(stored, _before(stored).get("phase") or "Error", reason, message, now)


def status_of_failed_dry_run(stored: Stored, message: str, now: datetime) -> Status:
    """Return the status after a dry run without a result. The phase stays, as Degraded if it was good: what earlier plays made exists."""
    return _unmeasured(stored, _before(stored).get("phase") or "Error", DRY_RUN_FAILED, message, now)


def status_of_fabric(stored: Stored, bindings: Mapping[str, Stored | None], now: datetime) -> Status:
    """Return the status of a Fabric, from those of the bindings that it names; None: there is none of that name."""
    rows = []
    for name, binding in bindings.items():
        absent = condition("Ready", False, MESH_NOT_FOUND, f"ClusterMeshBinding {name} does not exist in this namespace")
        status = _before(binding) if binding else {"phase": "Error", "conditions": [absent]}
        refs = rows_of(binding.obj.get("spec"), "clusterRefs") if binding else ()
        rows.append(BindingRow(name=name, clusters=tuple(str(ref.get("name")) for ref in refs), status=status))
    return measured_status(stored, fabric_status(stored.key.name, rows, now=now), now)


def worth_writing(before: Mapping[str, Any] | None, after: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a status has to be written: it changed, or the last sync is old enough to be renewed."""
    if before is None or _essence(before) != _essence(after):
        return True
    last, fresh = (parse_time(str(status.get("lastSyncTime"))) for status in (before, after))
    return fresh not in (None, last) and (last is None or (now - last).total_seconds() >= SYNC_SECONDS)


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Status:
    """Return the merge patch that turns ``before`` into ``after``: removed keys are null, in nested mappings too."""
    both = [key for key, new in after.items() if isinstance(new, Mapping) and isinstance(before.get(key), Mapping)]
    return {**dict.fromkeys(before.keys() - after.keys()), **after, **{key: patch_of(before[key], after[key]) for key in both}}


def measured_status(stored: Stored, row: Mapping[str, Any], now: datetime) -> Status:
    """Return a row of a result as a status: with short texts, valid reasons of conditions, and the times of their transitions."""
    rows = {str(entry.get("type")): entry for entry in rows_of(row, "conditions")}
    conditions = [
        condition(kind, _HOLDS.get(str(entry.get("status"))), _reason(entry.get("reason")), one_line(entry.get("message"), _TEXT))
        for kind, entry in rows.items()
        if _REASON.fullmatch(kind)
    ]
    status = _clean({key: value for key, value in row.items() if key not in ("name", "conditions")})
    times = with_transition_times(conditions, now, rows_of(_before(stored), "conditions"))
    return {"observedGeneration": generation_of(stored.obj), **status, "conditions": times}


def _unmeasured(stored: Stored, phase: str, reason: str, message: str, now: datetime, *, standing: bool = True) -> Status:
    """Return a status without a new measurement. ``standing``: objects of earlier plays exist, so their measured values stay."""
    before = _before(stored)
    kept = before if standing else {}
    degraded = kept.get("phase") in GOOD
    text, why = one_line(message, _TEXT), _reason(reason)
    earlier = {str(entry.get("type")): entry for entry in rows_of(kept, "conditions")}
    conditions = [condition(kind, None, why, text) for kind in earlier if kind not in ("Accepted", "Ready", "Degraded")]
    if BY_KIND[stored.key.kind].listed:
        same = earlier.get("Accepted") if before.get("observedGeneration") == generation_of(stored.obj) else None
        conditions.insert(0, {**same} if same else condition("Accepted", False if reason == MESH_NOT_FOUND else None, why, text))
    conditions += [condition("Ready", False, why, text), condition("Degraded", degraded, why, text)]
    return {
        **kept,
        "phase": "Degraded" if degraded else phase,
        "observedGeneration": generation_of(stored.obj),
        "conditions": with_transition_times(conditions, now, rows_of(before, "conditions")),
    }


def _clean(value: Any) -> Any:
    """Return a value with every text short, on one line and without secrets; null is left out, as most of a CRD does not allow it."""
    if isinstance(value, Mapping):
        kept = {str(key): entry for key, entry in value.items() if entry is not None}
        return {key: entry if key == "hash" and _is_digest(entry) else _clean(entry) for key, entry in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(entry) for entry in value if entry is not None]
    return one_line(value, _TEXT) if isinstance(value, str) else value


def _is_digest(value: Any) -> bool:
    """Return whether a value is a SHA-256 digest, as revisions have it. Elsewhere so many digits may be a secret, and are not shown."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _essence(value: Any, inside: str = "") -> Any:
    """Return a status without what changes although nothing else does."""
    if isinstance(value, Mapping):
        ignored = ("lastSyncTime", *_CHANGING.get(inside, ()))
        return {key: _essence(entry, key) for key, entry in value.items() if key not in ignored and entry is not None}
    return [_essence(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _reason(value: Any) -> str:
    return value if isinstance(value, str) and _REASON.fullmatch(value) else "Unspecified"


def _before(stored: Stored) -> Mapping[str, Any]:
    return stored.obj.get("status") or {}
