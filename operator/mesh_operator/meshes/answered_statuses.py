# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses that a run or dry run of a mesh gives to its objects, one at a time: those of items as a confined child made them. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.meaning import meaning_of

from ..base.keys import ObjectKey
from ..runs.item_parts import ItemParts
from ..source.resources import ref_of
from ..source.status_patch import Status
from ..source.stored import Stored
from .status import status_by_meaning


def answered_statuses(
    objects: Iterable[Stored], result: Mapping[str, Any], items: ItemParts, now: datetime, shown: Container[ObjectKey] = ()
) -> Iterator[tuple[Stored, Status | None]]:
    """Yield objects with their statuses; None: it has that status, or the result has none for it.

    :param result: the head of a ``mesh_result``.
    :param items: the rest of it.
    :param shown: objects that were given another status meanwhile. One that is said to have its status gets it again.
    """
    meaning = meaning_of(result)
    for stored in objects:
        ref = ref_of(stored)
        if ref in items.unchanged:
            yield stored, dict(stored.obj.get("status") or {}) if stored.key in shown else None
        else:
            status = items.get(ref)
            yield stored, status_by_meaning(stored, result, meaning, now) if status is None else status
