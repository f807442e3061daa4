# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Since when the policy of an intent is as it is. A flow that is older says nothing about it. Pure."""

from __future__ import annotations

from datetime import datetime

from ..items.facts import ObjectFacts
from ..items.kinds import ItemKind, ItemRef
from ..items.owned import item_of
from ..items.scene import Scene
from ..observe.objects import time_of


def policies_of(name: str, scene: Scene, host: str) -> tuple[ObjectFacts, ...]:
    """What the intent made in a cluster."""
    ref = ItemRef(ItemKind.INTENT, name)
    return tuple(entry for entry in scene.traffic[host].policies if item_of(scene.binding, entry) == ref)


def last_change(policies: tuple[ObjectFacts, ...]) -> datetime | None:
    """The newest change of any of them; None when there is none, or when one does not tell."""
    times = [time_of(max(entry.changed, entry.created)) for entry in policies]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None
