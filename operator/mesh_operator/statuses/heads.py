# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Heads of results: what the operator reads of the result of a mesh or of a fleet besides the statuses that come in parts. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import FleetKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import REVISIONS_LATER
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import decides
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from .findings import LEFT_OUT, Finding

ROWS: Final = 1_000  # findings of no item, and rows of what is withheld
SNAPSHOTS: Final = 4 * 1024 * 1024  # bytes of new revisions in one answer; one revision has less than an object of etcd, 1.5 MiB
_KEPT: Final = ("schema", "changed", "requeueSeconds")
_OF_FLEETS: Final = (*_KEPT, "global_services", "metrics", "leaving")  # they grow with objects of a workspace, whose number is bounded

Head = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Function that returns the head of a result."""


def head_of_mesh(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mesh itself, and what the findings mean for it."""
    head = {key: result[key] for key in _KEPT if key in result}
    head["status"] = {"binding": (result.get("status") or {}).get("binding")}
    return head | _found(result)


def head_of_fleet(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objects with their phases, what is to be made for them, and new revisions, as many as fit.

    A list that lacks in the result lacks here too: it says that nothing could be read.
    """
    head = {key: result[key] for key in _OF_FLEETS if key in result}
    head |= {kind.reported: [_short(row) for row in rows_of(result, kind.reported)] for kind in FleetKind if kind.reported in result}
    if "revisions" in result:
        new, size = rows_of(result, "revisions"), 0
        head["revisions"] = []
        for row in new:
            size += len(json.dumps(row))
            if head["revisions"] and size > SNAPSHOTS:
                break
            head["revisions"].append(row)
        left = len(new) - len(head["revisions"]) + int(result.get(REVISIONS_LATER) or 0)
        head |= {REVISIONS_LATER: left} if left else {}
    return head | _found(result)


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of an object with its name, its phase and the numbers of its revisions, each where the row has it."""
    short: dict[str, Any] = {key: row[key] for key in ("name", "phase") if key in row}
    if isinstance(status := row.get("status"), Mapping):
        short["status"] = {"phase": status["phase"]} if "phase" in status else {}
        if "revisions" in status:
            short["status"]["revisions"] = [{"number": revision.get("number")} for revision in rows_of(status, "revisions")]
    return short


def _found(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the findings of no item, what those of items mean for the whole, and what is withheld."""
    found: dict[str, Any] = {key: list(_kept(rows_of(result, key), key)) for key in ("findings", "advice") if key in result}
    left_out = max((sum(not row.get("item") for row in rows_of(result, key)) - ROWS for key in found), default=0)
    if left_out > 0:
        found[LEFT_OUT] = left_out
    if result.get("withheld"):
        found["withheld"] = list(result["withheld"])[:ROWS]
    return found


def _kept(rows: Iterable[Finding], key: str) -> Iterator[Finding]:
    """Yield the first ROWS findings of no item and, of ``findings``, what those of items mean for the whole, in their order.

    That is one for each item, code and severity, as meaning_of reads no more.
    """
    own, seen = 0, set[tuple[str, str, Any]]()
    for row in rows:
        named = (str(row.get("item") or ""), str(row.get("code")), row.get("severity"))
        if not named[0]:
            own += 1
            if own <= ROWS:
                yield row
        elif key == "findings" and decides(row) and named not in seen:
            seen.add(named)
            yield {"code": named[1], "severity": named[2], "item": named[0], "summary": one_line(row.get("summary"), 256)}
