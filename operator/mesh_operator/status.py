# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From a mesh_result to the status of each custom resource: the engine's rows, as the CRDs have them. Pure: the time is passed in.

Conditions keep their lastTransitionTime while their status is the same; a status that differs in nothing but lastSyncTime is not written
more often than ``SYNC_SECONDS``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.errors import MeshError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fabric import BindingRow, fabric_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.conditions import condition, with_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.objects import time_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status import rows_of

from .kinds import BY_KIND
from .request import MESH_NOT_FOUND, Held
from .runs import RunResult, RunState
from .store import Stored

SYNC_SECONDS: Final = 900

Status = dict[str, Any]

_GOOD: Final = ("Connected", "Exported", "Applied", "Exposed", "Degraded")
_TEXT: Final = 1024  # characters of any text; metav1.Condition allows a message 32768
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?")  # as metav1.Condition has it
_HOLDS: Final = {"True": True, "False": False}
_TIMES: Final = ("time", "heartbeatAgeSeconds", "oldest", "newest")  # of a last proof


def status_of_result(stored: Stored, result: Mapping[str, Any], now: datetime) -> Status | None:
    """The status of one object out of a ``mesh_result``; None when it has none for it.

    Where the mesh has none because a finding stopped the run, the findings are told, and what was measured before stays."""
    row = BY_KIND[stored.key.kind]
    found = jmespath.search(row.status, result)
    if isinstance(found, list):
        found = next((entry for entry in found if isinstance(entry, Mapping) and entry.get("name") == stored.key.name), None)
    if isinstance(found, Mapping):
        return _measured(stored, found, now)
    found = [entry for entry in rows_of(result, "findings") if not entry.get("accepted") and not entry.get("item")]
    blocking = [entry for entry in found if entry.get("severity") == "blocking"]
    if not blocking:
        return None
    told = "; ".join(f"{entry.get('code')} {entry.get('cluster') or ''}: {entry.get('summary')}" for entry in blocking)
    if row.listed:  # an item that is refused has a row: what stopped the run is about the mesh
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"The mesh is not carried out: {told}", now)
    reason = "RunnerFailed" if all(entry.get("code") == MeshError.code for entry in blocking) else "PrerequisiteNotMet"
    return _unmeasured(stored, "Error", reason, told, now)


def status_of_held(stored: Stored, held: Held, now: datetime) -> Status:
    """Items wait for their mesh, whatever it waits for; they are in error where there is none."""
    if held.reason != MESH_NOT_FOUND and BY_KIND[stored.key.kind].listed:
        return _unmeasured(stored, "Pending", "MeshNotConnected", f"The mesh is not connected: {held.message}", now, standing=held.standing)
    return _unmeasured(stored, held.phase, held.reason, held.message, now, standing=held.standing)


def status_of_failed_run(stored: Stored, run: RunResult, now: datetime) -> Status:
    """A run without a result: reason RunnerFailed (or Timeout, Canceled), the task's name, never output. The phase before stays, as
    Degraded where it was good: what was carried out is still there."""
    reason = {RunState.TIMEOUT: "Timeout", RunState.CANCELED: "Canceled"}.get(run.state, "RunnerFailed")
    task = one_line(run.last_task, 200)
    message = f"The run ended without a result, {f'in task {task!r}' if task else 'before its first task'}. It is tried again."
    return _unmeasured(stored, _before(stored).get("phase") or "Error", reason, message, now)


def status_of_fabric(stored: Stored, bindings: Mapping[str, Stored | None], now: datetime) -> Status:
    """Rolled up from the statuses of the bindings that it names; None: there is none of that name."""
    rows = []
    for name, binding in bindings.items():
        absent = condition("Ready", False, MESH_NOT_FOUND, f"ClusterMeshBinding {name} does not exist in this namespace")
        status = _before(binding) if binding else {"phase": "Error", "conditions": [absent]}
        refs = rows_of(binding.obj.get("spec"), "clusterRefs") if binding else ()
        rows.append(BindingRow(name=name, clusters=tuple(str(ref.get("name")) for ref in refs), status=status))
    return _measured(stored, fabric_status(stored.key.name, rows, now=now), now)


def worth_writing(before: Mapping[str, Any] | None, after: Mapping[str, Any], now: datetime) -> bool:
    """Is there something to tell, or is it time to say that all is as it was?"""
    if before is None or _essence(before) != _essence(after):
        return True
    last, fresh = (time_of(str(status.get("lastSyncTime"))) for status in (before, after))
    return fresh not in (None, last) and (last is None or (now - last).total_seconds() >= SYNC_SECONDS)


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Status:
    """The merge patch that makes ``after`` of ``before``: what is gone is named as null, in mappings within mappings too."""
    both = [key for key, new in after.items() if isinstance(new, Mapping) and isinstance(before.get(key), Mapping)]
    return {**dict.fromkeys(before.keys() - after.keys()), **after, **{key: patch_of(before[key], after[key]) for key in both}}


def _measured(stored: Stored, row: Mapping[str, Any], now: datetime) -> Status:
    rows = {str(entry.get("type")): entry for entry in rows_of(row, "conditions")}
    conditions = [
        condition(kind, _HOLDS.get(str(entry.get("status"))), _reason(entry.get("reason")), one_line(entry.get("message"), _TEXT))
        for kind, entry in rows.items()
        if _REASON.fullmatch(kind)
    ]
    status = _clean({key: value for key, value in row.items() if key not in ("name", "conditions")})
    times = with_times(conditions, now, rows_of(_before(stored), "conditions"))
    return {"observedGeneration": _generation(stored), **status, "conditions": times}


def _unmeasured(stored: Stored, phase: str, reason: str, message: str, now: datetime, *, standing: bool = True) -> Status:
    """Nothing was carried out or measured just now. ``standing``: what was before is still there, and so is what is known of it."""
    before = _before(stored)
    kept = before if standing else {}
    degraded = kept.get("phase") in _GOOD
    text, why = one_line(message, _TEXT), _reason(reason)
    earlier = {str(entry.get("type")): entry for entry in rows_of(kept, "conditions")}
    conditions = [condition(kind, None, why, text) for kind in earlier if kind not in ("Accepted", "Ready", "Degraded")]
    if BY_KIND[stored.key.kind].listed:
        same = earlier.get("Accepted") if before.get("observedGeneration") == _generation(stored) else None
        conditions.insert(0, {**same} if same else condition("Accepted", False if reason == MESH_NOT_FOUND else None, why, text))
    conditions += [condition("Ready", False, why, text), condition("Degraded", degraded, why, text)]
    return {
        **kept,
        "phase": "Degraded" if degraded else phase,
        "observedGeneration": _generation(stored),
        "conditions": with_times(conditions, now, rows_of(before, "conditions")),
    }


def _clean(value: Any) -> Any:
    """Every text short, on one line and without secrets; null is left out, as most of a CRD does not allow it."""
    if isinstance(value, Mapping):
        return {str(key): _clean(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)):
        return [_clean(entry) for entry in value if entry is not None]
    return one_line(value, _TEXT) if isinstance(value, str) else value


def _essence(value: Any, inside: str = "") -> Any:
    """Without the times at which the same was seen once more."""
    if isinstance(value, Mapping):
        seen = ("lastSyncTime", *(_TIMES if inside == "lastProof" else ()))
        return {key: _essence(entry, key) for key, entry in value.items() if key not in seen and entry is not None}
    return [_essence(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _reason(value: Any) -> str:
    return value if isinstance(value, str) and _REASON.fullmatch(value) else "Unspecified"


def _before(stored: Stored) -> Mapping[str, Any]:
    return stored.obj.get("status") or {}


def _generation(stored: Stored) -> int:
    return int(stored.obj["metadata"].get("generation") or 0)
