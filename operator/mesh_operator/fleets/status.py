# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of the custom resources of fleets, from a ``mesh_result`` or from what kept a run from having one.

Pure: the time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import clause
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import ERROR, PENDING, FleetKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.kinds import BY_KIND
from ..runs.item_parts import ItemParts
from ..source.bounds import QUOTA_EXCEEDED
from ..source.resources import generation_of, ref_of
from ..source.status_patch import Status
from ..source.stored import Stored
from .request import KARMADA, PLANE

DELETING: Final = "Deleting"
QUEUED: Final = "Queued"
_UNAVAILABLE: Final = {KARMADA: "KarmadaUnavailable", PLANE: "ManagementPlaneUnavailable"}
_CALLED: Final = {"KarmadaUnavailable": "Karmada", "ManagementPlaneUnavailable": "The management plane"}
_KEPT: Final = ("Accepted", "Advised")  # conditions that do not depend on what is read from the clusters
_TEXT: Final = 1024  # characters of a message


def fleet_statuses(
    objects: Iterable[Stored], result: Mapping[str, Any], items: ItemParts, now: datetime
) -> Iterator[tuple[Stored, Status | None]]:
    """Yield objects with the statuses that a run or dry run gives them; None: it has that status, or the result says nothing about it.

    :param result: the head of the result.
    :param items: the rest of it.
    """
    reason, message = failure_of(result)
    reported = {(kind, row.get("name")) for kind in FleetKind for row in rows_of(result, kind.reported)}
    for stored in objects:
        if (stored.key.kind, stored.key.name) in reported or not reason:
            yield stored, items.get(ref_of(stored))
        else:
            yield stored, interrupted_status(stored, reason, message, now)


def failure_of(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a run has no rows, as the reason of a condition and a sentence for a tenant; ("", "") if nothing went wrong.

    Addresses and errors of the platform's servers are none of a tenant's business: they are in ``cause_of``, for the log.
    """
    first = _first_failure(result)
    if first is None:
        return "", ""
    kept = "Nothing is changed, and nothing is deleted."
    if (reason := _UNAVAILABLE.get(str(first.get("cluster")))) is not None:
        return reason, f"{_CALLED[reason]} cannot be used ({first.get('code')}). {kept}"
    return "RunFailed", one_line(f"{first.get('code')}: {clause(str(first.get('summary')))}. {kept}", _TEXT)


def cause_of(result: Mapping[str, Any]) -> str:
    """Return why a run has no rows, for the platform's log."""
    first = _first_failure(result) or {}
    return one_line(f"{first.get('code')} {first.get('cluster') or ''}: {first.get('summary')}", _TEXT)


def _first_failure(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = [row for row in rows_of(result, "findings") if not row.get("item")]
    return next((row for row in found if row.get("cluster") in _UNAVAILABLE), found[0] if found else None)


def interrupted_status(stored: Stored, reason: str, message: str, now: datetime) -> Status | None:
    """Return the status while nothing can be read: what was measured before stays, and its conditions are Unknown.

    None of a kind that is about nothing that could be read.
    """
    return None if not BY_KIND[stored.key.kind].unknown else _interrupted(stored, reason, message, now)


def _interrupted(stored: Stored, reason: str, message: str, now: datetime) -> Status:
    before = _before(stored)
    row, text = BY_KIND[stored.key.kind], one_line(message, _TEXT)
    earlier = rows_of(before, "conditions")
    kept = [{**entry} for entry in earlier if entry.get("type") in _KEPT]
    unknown = [condition(str(e.get("type")), None, reason, text) for e in earlier if e.get("type") not in (*_KEPT, "Ready")]
    conditions = [*kept, *unknown, condition("Ready", False, reason, text)]
    phase = row.unknown if before.get("phase") == row.good and row.unknown else before.get("phase") or PENDING
    return _status(stored, {**before, "phase": phase}, conditions, now)


def first_fleet_status(stored: Stored, now: datetime) -> Status | None:
    """Return the status of an object without one, before its first turn; None for a kind that has no such phase."""
    if stored.beyond:
        return refused_status(stored, now)
    if PENDING not in FleetKind(stored.key.kind).phases:
        return None
    waits = condition("Ready", False, QUEUED, "The object waits for its first turn.")
    return _status(stored, {"phase": PENDING}, [condition("Accepted", None, QUEUED), waits], now)


def refused_status(stored: Stored, now: datetime) -> Status:
    """Return the status of an object beyond the bounds of its workspace. What it led to before stays."""
    message = (
        f"The workspace has more than {stored.beyond}, the most that the operator takes from one. Nothing is done for this object, until "
        "older ones are deleted or the platform allows more."
    )
    return _interrupted(stored, QUOTA_EXCEEDED, message, now) | {"phase": ERROR}


def leaving_status(stored: Stored, message: str, now: datetime) -> Status:
    """Return the status of an object that is being deleted, while something of it is left."""
    before = _before(stored)
    conditions = [{**entry} for entry in rows_of(before, "conditions") if entry.get("type") != "Ready"]
    ready = condition("Ready", False, DELETING, one_line(message, _TEXT))
    return _status(stored, {**before, "phase": before.get("phase") or PENDING}, [*conditions, ready], now)


def _status(stored: Stored, status: Mapping[str, Any], conditions: list[dict[str, Any]], now: datetime) -> Status:
    times = with_transition_times(conditions, now, rows_of(_before(stored), "conditions"))
    return {**status, "observedGeneration": generation_of(stored.obj), "conditions": times}


def _before(stored: Stored) -> Mapping[str, Any]:
    return stored.obj.get("status") or {}
