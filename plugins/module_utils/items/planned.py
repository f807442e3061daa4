# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plan of one item: its verdict, its steps and findings, and the waves of items."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ..findings.finding import Finding
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..plan.steps import Step

WAVES: Final = {kind: kind.waves[0] for kind in ItemKind if kind.waves[0]}
"""Waves of writes, without those of intents, which follow from what a policy says (items/policy_waves.py)."""

PRUNE_WAVES: Final = {kind: kind.waves[1] for kind in ItemKind if kind.waves[1]}
"""Objects of items are pruned, and leave a cluster, in reverse order of their creation, and after everything is written: what goes may be
replaced by what is new, and no moment may be without both. Names of objects contain their item, so the two do not collide. A policy goes
in the wave after: it may guard the pods of another item's Service too, which goes in the same run."""


class ItemVerdict(StrEnum):
    """Verdict about an item: whether it may be carried out."""

    ACCEPTED = "accepted"
    REFUSED = "refused"  # Accepted=False: nothing is written, existing objects stay
    WAITING = "waiting"  # accepted, but the binding is not connected; nothing is written, existing objects stay


@dataclass(frozen=True, kw_only=True)
class ItemPlan:
    """Plan of one item: whether it is accepted, what to write, and its findings.

    ``reason`` is a CamelCase reason of the condition Accepted, ``message`` one sentence. ``detail`` is input of the kind's own status
    builder and of nothing else. Steps carry the item's name (``Step.item``), and so do findings (``Finding.item``).
    """

    ref: ItemRef
    verdict: ItemVerdict = ItemVerdict.ACCEPTED
    reason: str = "SpecValid"
    message: str = ""
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    unplaced: bool = False  # accepted, but no cluster can take anything of it now
    detail: Any = field(default=None, compare=False)
