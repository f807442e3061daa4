# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of the items of a mesh, made in the confined child that has the result: one part for each that has to be written. Pure.

What is left of the result, its head, has the mesh itself and what its findings mean. Both are bounded, whatever a mesh has: what does not
fit is counted or comes later (docs/decisions/0065).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import decides
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.keys import ObjectKey
from ..base.kinds import ITEMS
from ..source.resources import ref_of
from ..source.status_patch import Status, worth_writing
from ..source.stored import Stored
from .findings import LEFT_OUT, Finding
from .measured import measured_status, with_findings

SAID: Final = "items"  # key of the head: what is said of the items together
LARGEST: Final = 512 * 1024  # bytes of a part
VALUES: Final = 16_000  # commas and brackets of a part; an item of 255 clusters has 5,000
WHOLE: Final = 16 * 1024 * 1024  # bytes of all parts of one answer: some 700 services or 1,500 intents of 64 clusters, all of which are new
MOST: Final = 5_000  # parts
ROWS: Final = 1_000  # findings of no item, and rows of what is withheld
_KEPT: Final = ("schema", "changed", "requeueSeconds")
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


def statuses_of_items(result: Mapping[str, Any], items: Iterable[Stored], now: datetime) -> Generator[Part, None, dict[str, Any]]:
    """Yield ``{item, status}`` for each item whose status has to be written, and return the head of the result.

    The key SAID of the head has ``parts``, their number; ``unchanged``, the items that have their status already; and ``later``, the number
    of those that have to wait since the parts would have more than WHOLE bytes. Those wait whose last status is the newest.

    :param result: a ``mesh_result``, or as much of it as a dry run has.
    """
    rows = {row.kind: {entry.get("name"): entry for entry in rows_of(result.get("status"), row.listed)} for row in ITEMS}
    about = defaultdict[str, list[Finding]](list)
    for finding in rows_of(result, "advice") or rows_of(result, "findings"):
        about[str(finding.get("item") or "")].append(finding)
    unchanged, parts, later, size = list[str](), 0, 0, 0
    for stored in sorted(items, key=lambda item: str(item.obj["status"].get("lastSyncTime") or "")):
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
    return {**_head(result), SAID: {"parts": parts, "unchanged": unchanged, "later": later}}


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


def _head(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of a result without its items."""
    head = {key: result[key] for key in _KEPT if key in result}
    head["status"] = {"binding": (result.get("status") or {}).get("binding")}
    left_out = 0
    for key in ("findings", "advice"):
        if key in result:
            own = [row for row in rows_of(result, key) if not row.get("item")]
            left_out = max(left_out, len(own) - ROWS)
            head[key] = [*own[:ROWS], *(_of_items(rows_of(result, key)) if key == "findings" else ())]
    if left_out > 0:
        head[LEFT_OUT] = left_out
    if result.get("withheld"):
        head["withheld"] = list(result["withheld"])[:ROWS]
    return head


def _of_items(rows: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    """Yield what findings of items mean for the mesh, once for each item and code."""
    seen = set[tuple[str, str]]()
    for row in rows:
        named = (str(row.get("item") or ""), str(row.get("code")))
        if named[0] and decides(row) and named not in seen:
            seen.add(named)
            yield {"code": named[1], "severity": row.get("severity"), "item": named[0], "summary": one_line(row.get("summary"), 256)}
