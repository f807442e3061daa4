# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Conditions and timestamps in the form of the CRDs.

Pure: callers pass the current time in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from .json_fields import parse_time


def condition(kind: str, holds: bool | None, reason: str, message: str = "") -> dict[str, Any]:
    """Return a Kubernetes condition without ``lastTransitionTime``.

    :param kind: the ``type`` of the condition.
    :param holds: its ``status``; None stands for Unknown.
    :param reason: a CamelCase word.
    """
    status = "Unknown" if holds is None else str(holds)
    return {"type": kind, "status": status, "reason": reason, "message": message}


def with_transition_times(
    conditions: Sequence[dict[str, Any]], now: datetime, before: Iterable[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return ``conditions`` with ``lastTransitionTime`` set.

    :param before: conditions of the status written earlier, not trusted. A condition whose status did not change keeps its time, if valid.
    """
    earlier = {kind: entry for entry in before if isinstance(kind := entry.get("type"), str)}
    found = []
    for entry in conditions:
        last = earlier.get(entry["type"], {})
        since = last.get("lastTransitionTime") if last.get("status") == entry["status"] else None
        kept = since if isinstance(since, str) and parse_time(since) else timestamp(now)
        found.append({**entry, "lastTransitionTime": kept})
    return found


def timestamp(now: datetime) -> str:
    """Format an aware time as RFC 3339 in UTC with whole seconds, as Kubernetes does."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
