# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses on the way: of a new object before its first turn, during a run for it, and while what it led to is removed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import meaning_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.kinds import BINDING, BY_KIND
from ..source.resources import generation_of, refs_of
from ..source.status_patch import Status
from ..source.stored import MeshObjects, Stored
from .request import MESH_NOT_FOUND, Wait, entry_of, place_of
from .status import GOOD, status_of_refused, status_of_waiting

ITS_TURN: Final = "Queued"
DELETING: Final = "Deleting"
MESH_DELETING: Final = "MeshDeleting"
PROGRESSING: Final = "Progressing"
ASSIGNING: Final = "AssigningIdentities"
_TEXT: Final = 1024  # characters of a message


def first_status_of(stored: Stored, mesh: MeshObjects, now: datetime) -> Status:
    """Return the status of an object that has none yet: whether its spec is valid, and that it waits for its turn."""
    if stored.beyond:
        return status_of_refused(stored, now)
    if mesh.binding is None:
        message = f"ClusterMeshBinding {mesh.key.name} does not exist in this namespace"
        return status_of_waiting(stored, Wait(phase="Error", reason=MESH_NOT_FOUND, message=message), now)
    problems = _problems_of(stored, mesh, mesh.binding)
    if problems:
        text = one_line("; ".join(problems), _TEXT)
        rows = [condition("Accepted", False, "SpecInvalid", text), condition("Ready", False, "SpecInvalid", text)]
        return _status(stored, "Error", rows, now)
    message = "The spec is valid. The object waits for its first turn."
    rows = [
        condition("Accepted", True, "SpecValid"),
        condition("Ready", False, ITS_TURN, message),
        condition("Degraded", False, ITS_TURN, message),
    ]
    return _status(stored, "Pending", rows, now)


def _problems_of(stored: Stored, mesh: MeshObjects, binding: Stored) -> Sequence[str]:
    """Return what is wrong with the spec of a binding or an item, in words; () if nothing is."""
    raw: dict[str, Any] = {"binding": {**entry_of(binding), **place_of(mesh.key)}}
    try:
        parsed = parse(raw, refs_of(mesh))
        if stored.key.kind == BINDING:
            return ()
        listed = BY_KIND[stored.key.kind].listed
        refused = desired_of({**raw, listed: [entry_of(stored)]}, parsed).refused
    except InvalidInput as error:  # of a binding that is not valid, nothing can be said about an item
        return (str(error),) if stored.key.kind == BINDING else ()
    return [problem for entry in refused for problem in entry.problems]


def while_assigning(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of a run that assigns names and ids, with a binding on its way if nothing but the end of that is missing."""
    clusters = ", ".join(meaning_of(result).assigning)
    if not clusters:
        return result
    message = f"Workloads of Cilium restart with the name and id that they were assigned: {clusters}"
    rows = [condition(kind, False, ASSIGNING, message) for kind in ("MeshConnected", "Ready", "Degraded")]
    return {**result, "status": {**result["status"], "binding": {"phase": "Connecting", "conditions": rows}}}


def status_during_run(stored: Stored, now: datetime, *, anew: bool = False) -> Status | None:
    """Return the status of an object for which a run is at work; None if the run changes nothing that the status is about.

    A binding that was good keeps its phase, since its links stay in force, and has the condition Progressing. An item whose spec is new
    goes to the phase on the way, with what was measured for the spec before.

    :param anew: the run may remove a part of what the status is about, although the spec is the same.
    """
    before, generation = stored.obj.get("status") or {}, generation_of(stored.obj)
    row, was_good = BY_KIND[stored.key.kind], before.get("phase") in GOOD
    if was_good and before.get("observedGeneration") == generation and not anew:
        return None
    message = "A run is at work to make the clusters what the spec says."
    if was_good and stored.key.kind == BINDING:
        kept = [dict(entry) for entry in rows_of(before, "conditions") if entry.get("type") != PROGRESSING]
        rows = [*kept, condition(PROGRESSING, True, row.going_on, message)]
        return {**before, "conditions": with_transition_times(rows, now, rows_of(before, "conditions"))}
    earlier = {str(entry.get("type")): entry for entry in rows_of(before, "conditions")}
    accepted = earlier.get("Accepted") if before.get("observedGeneration") == generation else None
    rows = [dict(accepted) if accepted else condition("Accepted", None, row.going_on, message)]
    rows += [condition(kind, None, row.going_on, message) for kind in earlier if kind not in ("Accepted", "Ready", "Degraded", PROGRESSING)]
    rows += [condition("Ready", False, row.going_on, message), condition("Degraded", False, row.going_on, message)]
    return _status(stored, row.going_on, rows, now, kept=before)


def status_of_removal(stored: Stored, now: datetime) -> Status:
    """Return the status of an object while what it led to is removed: it is being deleted itself, or its binding is."""
    reason, message = DELETING, "What it led to in the clusters is being removed."
    if not stored.deleting:
        reason, message = MESH_DELETING, f"The ClusterMeshBinding is being deleted. {message}"
    rows = [condition("Ready", False, reason, message), condition("Degraded", False, reason, message)]
    rows = [condition("Accepted", None, reason, message), *rows] if BY_KIND[stored.key.kind].listed else rows
    return _status(stored, "Pending", rows, now)


def _status(stored: Stored, phase: str, rows: Sequence[dict[str, Any]], now: datetime, kept: Mapping[str, Any] | None = None) -> Status:
    times = with_transition_times(rows, now, rows_of(stored.obj.get("status"), "conditions"))
    return {**(kept or {}), "phase": phase, "observedGeneration": generation_of(stored.obj), "conditions": times}
