# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of the items of a mesh, or of the objects of a fleet, made in the confined child that has the result. Pure.

Each that has to be written is one part. What is left of the result is its head (heads.py). Both are bounded, whatever a mesh has: what does
not fit is counted or comes later (docs/decisions/0065).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.keys import ObjectKey
from ..base.kinds import BY_KIND, ITEMS
from ..source.resources import ref_of
from ..source.status_patch import Status, worth_writing
from ..source.stored import Stored
from .findings import Finding
from .heads import Head
from .measured import measured_status, with_findings

FLEET_OBJECTS: Final = "fleet_objects"  # variable of a run for a fleet: its objects, as objects_of reads them
SAID: Final = "items"  # key of the head: what is said of the items together
LARGEST: Final = 512 * 1024  # bytes of a part
VALUES: Final = 16_000  # commas and brackets of a part; an item of 255 clusters has 5,000
WHOLE: Final = 16 * 1024 * 1024  # bytes of all parts of one answer: some 700 services or 1,500 intents of 64 clusters, all of which are new
MOST: Final = 5_000  # parts
_NEVER_LEFT_OUT: Final = frozenset({"phase", "observedGeneration", "lastSyncTime", "conditions", "findings"})
_ROOM: Final = 1024  # bytes of a part beside its status: the message around it, and the name of the item
_MARKS: Final = (",", "[", "{")

Part = dict[str, Any]


def items_of(cilium_mesh: Mapping[str, Any], previous: Mapping[str, Any]) -> Iterator[Stored]:
    """Yield the items of a request (meshes/request.py), with their generations and the statuses that they have."""
    for row in ITEMS:
        before = {entry.get("name"): entry for entry in rows_of(previous, row.listed)}
        for entry in rows_of(cilium_mesh, row.listed):
            name = str(entry.get("name"))
            status = {key: value for key, value in before.get(name, {}).items() if key != "name"}
            obj = {"metadata": {"name": name, "generation": entry.get("generation")}, "status": status}
            yield Stored(key=ObjectKey(row.kind, "", "", name), obj=obj, url="")


def objects_of(entries: Iterable[Mapping[str, Any]]) -> Iterator[Stored]:
    """Yield the objects of a request for a fleet (fleets/request.py), each of which is ``{kind, name, generation, status}``."""
    for entry in entries:
        obj = {"metadata": {"name": entry["name"], "generation": entry["generation"]}, "status": entry["status"]}
        yield Stored(key=ObjectKey(entry["kind"], "", "", entry["name"]), obj=obj, url="")


def statuses_of_items(
    result: Mapping[str, Any], items: Iterable[Stored], now: datetime, head: Head
) -> Generator[Part, None, dict[str, Any]]:
    """Yield ``{item, status}`` for each item whose status has to be written, and return the head of the result.

    The key SAID of the head has ``parts``, their number; ``unchanged``, the items that have their status already; and ``later``, the number
    of those that have to wait since the parts would have more than WHOLE bytes. Those wait whose last status is the newest.

    :param result: a ``mesh_result``, or as much of it as a dry run has.
    :param head: returns what is left of it.
    """
    items = sorted(items, key=lambda item: _written(item.obj["status"]))
    rows = {kind: _rows(result, kind) for kind in {stored.key.kind for stored in items}}
    about = defaultdict[str, list[Finding]](list)
    for finding in rows_of(result, "advice") or rows_of(result, "findings"):
        about[str(finding.get("item") or "")].append(finding)
    unchanged, parts, later, size = list[str](), 0, 0, 0
    for stored in items:
        row, ref, before = rows[stored.key.kind].get(stored.key.name), ref_of(stored), stored.obj["status"]
        if row is None:
            continue
        status = with_findings(stored, measured_status(stored, row, now), about[ref], now)
        if before and not worth_writing(before, status, now):
            unchanged.append(ref)
            continue
        part = {"item": ref, "status": fitting(status)}
        length = _size(part)[0]
        if parts == MOST or size + length + _ROOM > WHOLE:
            later += 1
            continue
        parts, size = parts + 1, size + length + _ROOM
        yield part
    return {**head(result), SAID: {"parts": parts, "unchanged": unchanged, "later": later}}


def _written(status: Mapping[str, Any]) -> str:
    """Return when a status was written at the earliest, "" for none: kinds of fleets have no lastSyncTime, but times of transitions."""
    transitions = (str(row.get("lastTransitionTime") or "") for row in rows_of(status, "conditions"))
    return str(status.get("lastSyncTime") or max(transitions, default=""))


def _rows(result: Mapping[str, Any], kind: str) -> dict[Any, Mapping[str, Any]]:
    """Return the statuses of the objects of a kind by their names."""
    found = jmespath.search(BY_KIND[kind].status, result)
    return {row.get("name"): row for row in found if isinstance(row, Mapping)} if isinstance(found, list) else {}


def fitting(status: Status) -> Status:
    """Return a status that fits into one part. Where it does not, its largest fields are left out, and the condition Advised says which."""
    left_out = list[str]()
    while not _fits(status):
        sizes = {key: len(json.dumps(value)) for key, value in status.items() if key not in _NEVER_LEFT_OUT}
        if not sizes:
            break
        left_out.append(max(sizes, key=lambda key: sizes[key]))
        status = {key: value for key, value in status.items() if key != left_out[-1]}
    if not left_out:
        return status
    said = f"Left out of this status, as they are too large for it: {', '.join(sorted(left_out))}."
    rows = [
        {**row, "message": " ".join(filter(None, (row.get("message"), said)))} if row["type"] == "Advised" else row
        for row in status["conditions"]
    ]
    return {**status, "conditions": rows}


def _fits(status: Status) -> bool:
    size, values = _size(status)
    return size + _ROOM <= LARGEST and values + _ROOM <= VALUES


def _size(value: Any) -> tuple[int, int]:
    """Return the bytes and the values of JSON, as the operator counts them (runs/confined/messages.py)."""
    text = json.dumps(value)
    return len(text), sum(text.count(mark) for mark in _MARKS)
