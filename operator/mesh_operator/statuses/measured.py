# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Row of a result as a status: short texts, valid reasons of conditions, times of transitions, findings about the object. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import condition, with_transition_times
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.kinds import BY_KIND
from ..source.resources import generation_of
from ..source.status_patch import Status
from ..source.stored import Stored
from .findings import LEFT_OUT, Finding, advised_condition, findings_of, rows_for_status

TEXT: Final = 1024  # characters of any text; metav1.Condition allows a message 32768
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?")  # as metav1.Condition has it
_HOLDS: Final = {"True": True, "False": False}


def measured_status(stored: Stored, row: Mapping[str, Any], now: datetime) -> Status:
    """Return a row of a result as a status: with short texts, valid reasons of conditions, and the times of their transitions."""
    rows = {str(entry.get("type")): entry for entry in rows_of(row, "conditions")}
    conditions = [
        condition(kind, _HOLDS.get(str(entry.get("status"))), valid_reason(entry.get("reason")), one_line(entry.get("message"), TEXT))
        for kind, entry in rows.items()
        if _REASON.fullmatch(kind)
    ]
    status = _clean({key: value for key, value in row.items() if key not in ("name", "conditions")})
    times = with_transition_times(conditions, now, rows_of(status_before(stored), "conditions"))
    return {"observedGeneration": generation_of(stored.obj), **status, "conditions": times}


def advised_status(stored: Stored, status: Status, result: Mapping[str, Any], now: datetime) -> Status:
    """Return a status with the findings of a result that are about the object."""
    left_out = 0 if BY_KIND[stored.key.kind].listed else int(result.get(LEFT_OUT) or 0)
    return with_findings(stored, status, findings_of(stored, result), now, left_out)


def with_findings(stored: Stored, status: Status, found: Sequence[Finding], now: datetime, left_out: int = 0) -> Status:
    """Return a status with the findings that are about the object. ``left_out``: how many there are beside these."""
    new = advised_condition(found, left_out)
    kept = [entry for entry in status["conditions"] if entry["type"] != new["type"]]
    times = with_transition_times([new], now, rows_of(status_before(stored), "conditions"))
    rest = {key: value for key, value in status.items() if key not in ("findings", "conditions")}
    listed = rows_for_status(found)
    return {**rest, **({"findings": listed} if listed else {}), "conditions": [*kept, *times]}


def valid_reason(value: Any) -> str:
    """Return a reason as a condition may have it."""
    return value if isinstance(value, str) and _REASON.fullmatch(value) else "Unspecified"


def status_before(stored: Stored) -> Mapping[str, Any]:
    """Return the status that an object has."""
    return stored.obj.get("status") or {}


def _clean(value: Any) -> Any:
    """Return a value with every text short, on one line and without secrets; null is left out, as most of a CRD does not allow it."""
    if isinstance(value, Mapping):
        kept = {str(key): entry for key, entry in value.items() if entry is not None}
        return {key: entry if key == "hash" and _is_digest(entry) else _clean(entry) for key, entry in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(entry) for entry in value if entry is not None]
    return one_line(value, TEXT) if isinstance(value, str) else value


def _is_digest(value: Any) -> bool:
    """Return whether a value is a SHA-256 digest, as revisions have it. Elsewhere so many digits may be a secret, and are not shown."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None
