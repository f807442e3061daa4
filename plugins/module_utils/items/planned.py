# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What planning one item comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ..findings import Finding
from ..steps import Step
from .kinds import ItemKind, ItemRef

PRUNE_WAVES: Final = {ItemKind.EXPOSURE: 10, ItemKind.INTENT: 11, ItemKind.GLOBAL_SERVICE: 12}
WAVES: Final = {ItemKind.GLOBAL_SERVICE: 13, ItemKind.INTENT: 14, ItemKind.EXPOSURE: 15}
"""What items made is taken away in reverse order of its making, and before anything new is made: a name may be used again."""


class Verdict(StrEnum):
    """May the item be carried out?"""

    ACCEPTED = "accepted"
    REFUSED = "refused"  # Accepted=False: nothing is written, what was written before stays
    WAITING = "waiting"  # accepted, but the binding is not connected; nothing is written, what was written before stays


@dataclass(frozen=True, kw_only=True)
class ItemPlan:
    """One item: whether it is accepted, what is to be written, what has to be said.

    ``reason`` is a CamelCase reason of the condition Accepted, ``message`` one sentence. ``detail`` is what the kind's own status builder
    needs; nobody else looks into it. Steps carry the item's name (``Step.item``), and so do findings (``Finding.item``).
    """

    ref: ItemRef
    verdict: Verdict = Verdict.ACCEPTED
    reason: str = "SpecValid"
    message: str = ""
    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()
    detail: Any = field(default=None, compare=False)
