# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items that a run accepted and that are not as asked after it: what the exit status is decided by. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ..items.desired import Desired
from ..items.planned import ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from .kinds import ROWS
from .plan import ItemsPlan
from .status import Course, Rows

ENDED: Final = ("Error", "Degraded")
"""Phases of an item that is not as asked, and that waiting does not help."""

WAITING: Final = "Pending"
"""Phase of an item that waits, or that is closed because its author names no client; only the first keeps a cluster from being as asked."""


def unmet_items(
    desired: Desired,
    decided: ItemsPlan,
    scene: Scene,
    course: Course,
    rows: Rows,
    *,
    to_come: Collection[tuple[str, str]] = (),
) -> Iterator[tuple[ItemRef, str]]:
    """Yield each item that is accepted and not as asked, with its phase, in the order of the plan.

    Left out are items with a failed write, and items that only members keep from being as asked that did not answer: whether a run may do
    without these, ``max_failures`` says.

    :param rows: the rows of ``item_rows`` for the same arguments.
    :param to_come: (item, inventory name) of what check mode would have written: there nothing can be said yet.
    """
    phases = {ItemRef(ItemKind(kind), str(row["name"])): str(row["phase"]) for kind, entries in rows.items() for row in entries}
    items = {ItemRef(kind, item.name): item for kind in desired.kinds for item in desired.of(kind)}
    for plan in decided.items:
        phase = phases[plan.ref]
        if plan.verdict is not ItemVerdict.ACCEPTED or str(plan.ref) in course.failed or phase not in (*ENDED, WAITING):
            continue
        lacking = ROWS[plan.ref.kind].lacking(items[plan.ref], plan, scene, {})
        known = {host for host in lacking if host not in scene.silent and (str(plan.ref), host) not in to_come}
        if known or (not lacking and phase in ENDED):
            yield plan.ref, phase
