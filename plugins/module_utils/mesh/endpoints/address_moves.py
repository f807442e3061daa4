# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hold-down of addresses: how often a peer's new address may restart the pods that dial it, and the record of when it did.

Before Cilium 1.20 a peer's addresses stand in the pod template of its readers, so that each change restarts them: of a DaemonSet, the
agents of the whole cluster. A load balancer whose address flaps, or an owner who changes it at will, must not do that again and again
(docs/decisions/0050). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ...base.json_fields import parse_time
from ...base.json_reader import NotJson, load_json

FIRST_HOLD: Final = timedelta(minutes=30)
"""Time after a first move in which there is no second one. It doubles with each further move within ``WINDOW``."""

WINDOW: Final = timedelta(hours=24)
CLOCKS: Final = timedelta(minutes=5)  # by which clocks of machines that run this may differ
MOST_TIMES: Final = 8  # moves of one name that are kept; six in a window are as many as the hold-down lets through
MOST_NAMES: Final = 511  # as many clusters as a mesh can have

Moves = Mapping[str, tuple[datetime, ...]]
"""Cluster name of a peer -> when its entries changed in a pod template, aware, UTC, the oldest first."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Reason why the addresses of a peer that are in use stay. ``until``: None: until the new ones are proven."""

    addresses: tuple[str, ...]  # those that the peer reports now
    until: datetime | None = None


def held_until(times: tuple[datetime, ...], now: datetime) -> datetime | None:
    """Return the end of the hold-down after moves at ``times``; None if a further one may be made now.

    Times in the future are left out, but for those of a clock that is a little ahead.
    """
    recent = [min(time, now) for time in times if now - WINDOW < time < now + CLOCKS]
    if not recent:
        return None
    until = max(recent) + min(FIRST_HOLD * 2 ** (len(recent) - 1), WINDOW)
    return until if until > now else None


def read_moves(text: str) -> dict[str, tuple[datetime, ...]]:
    """Return the moves that an annotation records. One that is not valid records none: the cluster's owner harms himself alone."""
    try:
        data = load_json(text)
    except NotJson:
        return {}
    found: dict[str, tuple[datetime, ...]] = {}
    for name, times in list(data.items())[:MOST_NAMES] if isinstance(data, dict) else ():
        parsed = [parse_time(time) for time in times[-MOST_TIMES:] if isinstance(time, str)] if isinstance(times, list) else []
        known = sorted(time.astimezone(UTC) for time in parsed if time is not None)
        if known:
            found[name] = tuple(known)
    return found


def write_moves(times: Mapping[str, tuple[str, ...]]) -> str:
    """Format cluster name -> times (RFC 3339) as the text of the annotation; "" if there are none."""
    data = {name: list(texts[-MOST_TIMES:]) for name, texts in sorted(times.items()) if texts}
    return json.dumps(data, separators=(",", ":")) if data else ""


def updated_moves(before: Moves, peers: Collection[str], moved: Collection[str], now: str) -> dict[str, tuple[str, ...]]:
    """Return the times after a write: of the ``peers``, which stay, with ``now`` added for those that ``moved``, by cluster name.

    :param now: time of the write, or what stands for it in a plan.
    """
    found = {name: tuple(time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times) for name, times in before.items() if name in peers}
    return found | {name: (*found.get(name, ()), now) for name in sorted(moved)}
