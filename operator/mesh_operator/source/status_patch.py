# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What of a status has to be written: whether it says something new, and the merge patch that says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time

SYNC_SECONDS: Final = 900  # a status that differs only in lastSyncTime is not written more often

Status = dict[str, Any]

# Fields that change while nothing else does, by the field that holds them: times, and counts that follow every pod of a peer.
_PROOF: Final = ("time", "heartbeatAgeSeconds", "oldest", "newest")
_CHANGING: Final = {"lastProof": _PROOF, "nodePaths": ("oldestProbe",), "arrived": ("endpoints", "identities", "services")}


def worth_writing(before: Mapping[str, Any] | None, after: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a status has to be written: it changed, or the last sync is old enough to be renewed."""
    if before is None or _essence(before) != _essence(after):
        return True
    last, fresh = (parse_time(str(status.get("lastSyncTime"))) for status in (before, after))
    return fresh not in (None, last) and (last is None or (now - last).total_seconds() >= SYNC_SECONDS)


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Status:
    """Return the merge patch that turns ``before`` into ``after``: removed keys are null, in nested mappings too."""
    both = [key for key, new in after.items() if isinstance(new, Mapping) and isinstance(before.get(key), Mapping)]
    return {**dict.fromkeys(before.keys() - after.keys()), **after, **{key: patch_of(before[key], after[key]) for key in both}}


def _essence(value: Any, inside: str = "") -> Any:
    """Return a status without what changes although nothing else does."""
    if isinstance(value, Mapping):
        ignored = ("lastSyncTime", *_CHANGING.get(inside, ()))
        return {key: _essence(entry, key) for key, entry in value.items() if key not in ignored and entry is not None}
    return [_essence(entry) for entry in value] if isinstance(value, (list, tuple)) else value
