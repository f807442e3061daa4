# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Status of every item of the file, in the shape of its CRD, with its name; and the time of the next run. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ..base.conditions import condition, timestamp, with_transition_times
from ..items.desired import Desired, Refused
from ..items.item import Item
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..probe.outcome import Reachability
from .kinds import ROWS, KindRow
from .plan import ItemsPlan

Row = dict[str, Any]
Rows = dict[str, list[Row]]

CHECK_INTERVAL: Final = 300  # seconds; the mesh check interval of the kcp provider that this collection takes over from
WAITING_AGAIN: Final = 30
DEGRADED_AGAIN: Final = 60
GOING_ON_AGAIN: Final = 15
GOOD: Final = frozenset(kind.good for kind in ItemKind)
GOING_ON: Final = frozenset(kind.going_on for kind in ItemKind)


@dataclass(frozen=True, kw_only=True)
class Course:
    """Results of the writes. ``failed``: item -> inventory name -> error; ``probes``: name of an intent -> result of its probe."""

    failed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    probes: Mapping[str, Reachability] = field(default_factory=dict)


def item_rows(
    desired: Desired,
    decided: ItemsPlan,
    scene: Scene,
    course: Course,
    *,
    now: datetime,
    previous: Mapping[str, Any] | None = None,
    rows: Mapping[ItemKind, KindRow] | None = None,
) -> Rows:
    """Return ``{globalServices: [...], connectivityIntents: [...], exposedServices: [...]}``, a row per item, in file order.

    :param scene: the scene after the writes.
    :param previous: the rows of an earlier run: conditions that have not changed keep their time.
    """
    items: dict[ItemRef, Item] = {ItemRef(kind, item.name): item for kind in desired.kinds for item in desired.of(kind)}
    refused = {entry.ref: entry for entry in desired.refused}
    found: Rows = {kind.value: [] for kind in ItemKind}
    before = earlier_rows(previous)
    for plan in decided.items:
        wanted = items.get(plan.ref) or refused[plan.ref]
        status = _status(wanted, plan, scene, course, rows or ROWS)
        found[plan.ref.kind.value].append(_row(plan.ref, wanted.generation, status, before.get(plan.ref, {}), now))
    return found


def _status(wanted: Item | Refused, plan: ItemPlan, scene: Scene, course: Course, rows: Mapping[ItemKind, KindRow]) -> Row:
    if isinstance(wanted, Refused) or plan.verdict is ItemVerdict.REFUSED:
        return _unmet("Error", False, plan.reason, plan.reason, plan.message)
    if plan.verdict is ItemVerdict.WAITING:
        message = f"{scene.binding.name} is not connected (phase {scene.phase or 'not known'})"
        if scene.phase == "Error":  # the binding itself may be Degraded, as its links stay while a finding blocks it
            message = f"nothing is carried out for {scene.binding.name} now, as it is in error, or a finding blocks it"
        return _unmet("Pending", True, plan.reason, "MeshNotConnected", message)
    failed = course.failed.get(str(plan.ref), {})
    status = _with_failures(rows[plan.ref.kind].status(wanted, plan, scene, failed), failed)
    probe = course.probes.get(plan.ref.name) if plan.ref.kind is ItemKind.INTENT else None
    return _with_probe(status, probe) if probe else status


def _unmet(phase: str, accepted: bool, reason: str, why: str, message: str) -> Row:
    """Return the status of an item for which nothing was written."""
    said = "" if accepted else message
    conditions = [condition("Accepted", accepted, reason, said), condition("Ready", False, why, message)]
    return {"phase": phase, "conditions": conditions}


def _with_failures(status: Row, failed: Mapping[str, str]) -> Row:
    """Return the status with failed writes: such an item is never Ready, whatever its kind's own builder returns."""
    if not failed:
        return status
    phase = status["phase"] if status["phase"] in ("Degraded", "Error") else "Degraded"
    message = "; ".join(f"{host}: {text}" for host, text in sorted(failed.items()))
    kept = {entry["type"]: entry for entry in status.get("conditions", ())}
    for kind, bad in (("Degraded", "True"), ("Ready", "False")):
        if kept.get(kind, {}).get("status") != bad:
            kept[kind] = condition(kind, bad == "True", "WriteFailed", message)
    return {**status, "phase": phase, "conditions": list(kept.values())}


def _with_probe(status: Row, probe: Reachability) -> Row:
    """Return the status with the probe. The condition Reachable comes before Ready, which sums up."""
    others = [entry for entry in status.get("conditions", ()) if entry["type"] != "Reachable"]
    place = next((n for n, entry in enumerate(others) if entry["type"] == "Ready"), len(others))
    return {**status, "probeStatus": probe.to_dict(), "conditions": [*others[:place], probe.condition(), *others[place:]]}


def _row(ref: ItemRef, generation: int, status: Row, before: Mapping[str, Any], now: datetime) -> Row:
    rest = {key: value for key, value in status.items() if key not in ("phase", "conditions")}
    seen = {"observedGeneration": generation} if generation else {}
    earlier = before.get("conditions")
    listed: Sequence[Any] = earlier if isinstance(earlier, list) else ()
    conditions = with_transition_times(status["conditions"], now, [entry for entry in listed if isinstance(entry, Mapping)])
    return {"name": ref.name, "phase": status["phase"], **seen, "lastSyncTime": timestamp(now), **rest, "conditions": conditions}


def earlier_rows(previous: Mapping[str, Any] | None) -> dict[ItemRef, Mapping[str, Any]]:
    """Return the earlier rows by item. They come from outside: a row of another shape counts as none, and of two the first one counts."""
    found: dict[ItemRef, Mapping[str, Any]] = {}
    for kind in ItemKind:
        rows: Any = (previous or {}).get(kind.value)
        for row in rows if isinstance(rows, (list, tuple)) else ():
            if isinstance(row, Mapping) and isinstance(name := row.get("name"), str):
                found.setdefault(ItemRef(kind, name), row)
    return found


def requeue_seconds(desired: Desired, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> int:
    """Return the seconds after which the next run makes sense.

    It is soon where a write is in progress, and as often as failover and probes need.
    """
    phases = {str(row["phase"]) for entries in rows.values() for row in entries}
    intervals = (ROWS[kind].interval(item) for kind in desired.kinds for item in desired.of(kind))
    found = [CHECK_INTERVAL, *(seconds for seconds in intervals if seconds is not None)]
    found += [WAITING_AGAIN] if "Pending" in phases else []
    found += [DEGRADED_AGAIN] if phases & {"Degraded", "Error"} else []
    found += [GOING_ON_AGAIN] if phases & GOING_ON else []
    return max(1, min(found))
