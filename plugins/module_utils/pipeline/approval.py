# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Approval of a plan of items: its hash, and the names of the items that it does not carry out (docs/decisions/0037)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ..base.errors import InvalidInput
from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..items.planned import ItemPlan
from ..mesh.binding.item_kinds import ItemRef

UNNAMED: Final = "CM-PLAN-02"


def check_names(option: str, named: Iterable[str], *more: str) -> None:
    """Check that every entry of an option is the name of an item, or one of ``more``.

    :raises InvalidInput: when one is not.
    """
    wrong = [entry for entry in named if ItemRef.parse(entry) is None and entry not in more]
    if wrong:
        raise InvalidInput(
            f"{option} has {listed(repr(entry) for entry in wrong)}, which names no item.",
            remedy="Write KIND/NAME, for example connectivityIntents/frontend-to-backend.",
        )


def unnamed_finding(left_out: Iterable[ItemPlan], named: Collection[str]) -> Finding | None:
    """Return the finding about items that are refused or wait and that the approval does not name; None if it names all of them."""
    unnamed = [plan for plan in left_out if str(plan.ref) not in named]
    if not unnamed:
        return None
    refs = [str(plan.ref) for plan in unnamed]
    return finding(
        UNNAMED,
        summary=f"the plan does not carry out {listed(refs)}, and the approval does not name {'it' if len(refs) == 1 else 'them'}",
        evidence=tuple(f"{plan.ref}: {plan.verdict.value}{f': {plan.message}' if plan.message else ''}" for plan in unnamed),
        fix="Correct these items and approve the new plan. To approve the plan without them, name every item that is refused or waits "
        "in approve_refused (playbook mesh: cilium_mesh_approve_refused).",
    )
