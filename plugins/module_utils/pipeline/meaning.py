# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a ``mesh_result`` means for the one that asked for the run: wait, come again, keep, or go on. Pure.

Callers outside the engine, such as the operator, ask this and know no code of a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.errors import ClusterError, KeptBack, LockHeld, LockLost, MeshError, clause
from ..status.links import rows_of

RETRY_SECONDS: Final = 15.0
"""Seconds after which a run that met another one at the lock of the mesh is tried again."""

_ANOTHER_RUN: Final = (LockHeld.code, LockLost.code)
_MET: Final = "Another run is at work on the mesh."
_REQUESTS: Final = ClusterError.code.rpartition("-")[0]  # family of the findings about requests to API servers
_ASSIGNING: Final = "CM-LEASE-15"  # an assignment of a name and an id is not finished (checks/leases.py)


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What the findings of a ``mesh_result`` say to its reader.

    Items are named KIND/NAME as findings name them; "" stands for the mesh itself.
    """

    waiting: str = ""
    """Sentence about the other run that this one met; "" if it met none. Nothing was written: come again after RETRY_SECONDS."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Item that left -> the first sentence that says why its objects are kept, for all items of which some are."""
    unclean: frozenset[str] = frozenset()
    """Items of which objects may be left: something blocked, a request failed, or objects are kept."""
    blocked: str = ""
    """Clauses of the findings about the mesh that block and are not accepted; "" if there is none."""
    failed: bool = False
    """Whether all of these say that the run itself failed, and nothing about the clusters."""
    assigning: tuple[str, ...] = ()
    """Clusters whose assignment of a name and an id goes on, if nothing else blocks the mesh."""


def meaning_of(result: Mapping[str, Any] | None) -> Meaning:
    """Return what a ``mesh_result`` means. Its rows may have any shape: what is no finding counts for nothing.

    :param result: None where a run ended without one, which means nothing of all this.
    """
    rows = rows_of(result, "findings")
    blocking = [row for row in rows if row.get("severity") == "blocking"]
    own = [row for row in blocking if not row.get("accepted") and not row.get("item")]
    left = [str(row.get("item") or "") for row in blocking]
    return Meaning(
        waiting=next((_summary(row) or _MET for row in rows if row.get("code") in _ANOTHER_RUN), ""),
        held={str(row.get("item") or ""): _summary(row) for row in reversed(rows) if row.get("code") == KeptBack.code},
        unclean=frozenset([*left, *(str(row.get("item") or "") for row in rows if _is_undone(str(row.get("code"))))]),
        blocked="; ".join(f"{row.get('code')} {row.get('cluster') or ''}: {clause(_summary(row))}" for row in own),
        failed=bool(own) and all(row.get("code") == MeshError.code for row in own),
        assigning=tuple(str(row.get("cluster")) for row in own) if all(row.get("code") == _ASSIGNING for row in own) else (),
    )


def decides(row: Mapping[str, Any]) -> bool:
    """Return whether a finding that is about an item counts for a result's meaning; the first of each item, code and severity is enough."""
    return row.get("severity") == "blocking" or row.get("code") in _ANOTHER_RUN or _is_undone(str(row.get("code")))


def _is_undone(code: str) -> bool:
    """Return whether a finding of this code says that something was not carried out: a request failed, or objects are kept."""
    return code == KeptBack.code or code.startswith(f"{_REQUESTS}-")


def _summary(row: Mapping[str, Any]) -> str:
    return str(row.get("summary") or "")
