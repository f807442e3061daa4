# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Conditions and phases of items, as the CRDs have them. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..observe.objects import time_of


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> dict[str, Any]:
    """One condition without a time. ``holds`` None is Unknown. ``reason`` is CamelCase."""
    status = "Unknown" if holds is None else str(holds)
    return {"type": kind, "status": status, "reason": reason, "message": message}


def with_times(conditions: Sequence[dict[str, Any]], now: datetime, before: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """With ``lastTransitionTime``: that of ``before``, which comes from outside, where the status of the condition has not changed."""
    earlier = {kind: entry for entry in before if isinstance(kind := entry.get("type"), str)}
    found = []
    for entry in conditions:
        last = earlier.get(entry["type"], {})
        since = last.get("lastTransitionTime") if last.get("status") == entry["status"] else None
        kept = since if isinstance(since, str) and time_of(since) else timestamp(now)
        found.append({**entry, "lastTransitionTime": kept})
    return found


def timestamp(now: datetime) -> str:
    """RFC 3339, UTC, whole seconds: the form of Kubernetes."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
