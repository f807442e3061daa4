# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Conditions and phases of items, as the CRDs have them. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> dict[str, Any]:
    """One condition without a time. ``holds`` None is Unknown. ``reason`` is CamelCase."""
    status = "Unknown" if holds is None else str(holds)
    return {"type": kind, "status": status, "reason": reason, "message": message}


def with_times(conditions: Sequence[dict[str, Any]], now: datetime, before: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """With ``lastTransitionTime``: that of ``before``, which comes from outside, where the status of the condition has not changed."""
    earlier = {kind: entry for entry in before if isinstance(kind := entry.get("type"), str)}
    found = []
    for entry in conditions:
        last = earlier.get(entry["type"], {})
        same = last.get("status") == entry["status"] and isinstance(last.get("lastTransitionTime"), str) and last["lastTransitionTime"]
        found.append({**entry, "lastTransitionTime": last["lastTransitionTime"] if same else timestamp(now)})
    return found


def timestamp(now: datetime) -> str:
    """RFC 3339, UTC, whole seconds: the form of Kubernetes."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
