# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Deletions that are held back because their replacement may be missing: which items are unsettled, and what is kept for them. Pure.

An item that is refused, waits, or finds no place may have been meant as the replacement of an item that left the file: a renamed item
with a typing error. Nothing can be read from such an item for certain, so nothing of its kind is pruned (docs/decisions/0037).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..findings.finding import Finding
from ..findings.wording import finding, listed
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..plan.steps import Step
from .planned import ItemPlan, ItemVerdict

KEPT: Final = "CM-ITEM-05"
"""Code of the finding about objects that are kept because their replacement may be missing."""

_STATES: Final = {ItemVerdict.REFUSED: "is refused", ItemVerdict.WAITING: "waits for the mesh to be connected"}
_UNPLACED: Final = "finds no place in any cluster"


def is_unsettled(plan: ItemPlan) -> bool:
    """Return whether the run cannot write what the item asks for, so that the item may still want objects of removed items."""
    return plan.verdict is not ItemVerdict.ACCEPTED or plan.unplaced


def kept_findings(kind: ItemKind, held_back: Iterable[Step], unsettled: Sequence[ItemPlan]) -> list[Finding]:
    """Return a finding for each removed item whose deletions, ``held_back``, are not carried out because of the items ``unsettled``."""
    objects: dict[str, dict[str, list[str]]] = {}
    for step in held_back:
        objects.setdefault(step.item, {}).setdefault(step.cluster, []).append(step.object)
    found = []
    for item, by_cluster in objects.items():
        name = item.partition("/")[2]
        found.append(
            kept_finding(
                item,
                by_cluster,
                summary=f"{kind.crd} {name} is not in the file any more, but its objects are kept: {_reason(kind, unsettled)}",
                fix=f"Correct {_names(unsettled)} and run again: the run then prunes what no item asks for. "
                f"To prune it now, take {_names(unsettled)} out of the file.",
            )
        )
    return found


def left_findings(kind: ItemKind, held_back: Iterable[Step], refused: Sequence[ItemPlan]) -> list[Finding]:
    """Return a finding for each item whose objects stay in clusters that left the mesh, because of the items ``refused``."""
    objects: dict[str, dict[str, list[str]]] = {}
    for step in held_back:
        objects.setdefault(step.item, {}).setdefault(step.cluster, []).append(step.object)
    return [
        kept_finding(
            item,
            by_cluster,
            summary=f"{listed(by_cluster)} left the mesh, but objects of {kind.crd} {item.partition('/')[2]} are kept there: "
            f"{_names(refused)} {'is' if len(refused) == 1 else 'are'} refused, and may still ask for them",
            fix=f"Correct {_names(refused)}, or take it out of the file, and run again with {listed(by_cluster)} in cilium_mesh_former.",
        )
        for item, by_cluster in objects.items()
    ]


def former_rules_finding(ref: ItemRef, held_back: Iterable[Step], unsettled: Sequence[ItemPlan]) -> Finding:
    """Return the finding about former rules of an item that stay beside its new ones because of the items ``unsettled``.

    :param held_back: the steps by which the rules would cease.
    """
    objects: dict[str, list[str]] = {}
    for step in held_back:
        objects.setdefault(step.cluster, []).append(step.object)
    state = _STATES.get(unsettled[0].verdict, _UNPLACED)
    kept = f"{ref.kind.crd} {unsettled[0].ref.name} {state}, and objects that are kept for it may be restricted by them"
    return kept_finding(
        str(ref),
        objects,
        summary=f"{ref.kind.crd} {ref.name} is written, but its former rules stay beside the new ones: {kept}",
        fix=f"Correct {_names(unsettled)} and run again, or take {_names(unsettled)} out of the file: the former rules then cease.",
    )


def kept_finding(item: str, objects: Mapping[str, Sequence[str]], *, summary: str, fix: str) -> Finding:
    """Return the finding about kept objects of one item.

    :param item: the item that made them, as text.
    :param objects: inventory name -> the objects there.
    """
    hosts = list(objects)
    evidence = tuple(f"{host}: {entry}" for host, entries in objects.items() for entry in entries)
    return finding(KEPT, cluster=hosts[0], others=tuple(hosts[1:]), item=item, summary=summary, evidence=evidence, fix=fix)


def former_objects_finding(ref: ItemRef, objects: Mapping[str, Sequence[str]], missing: Mapping[str, str]) -> Finding:
    """Return the finding about objects that an item no longer asks for, while its new ones cannot be written everywhere.

    :param missing: inventory name -> why nothing is written there.
    """
    return kept_finding(
        str(ref),
        objects,
        summary=f"{ref.kind.crd} {ref.name} is not written in {listed(missing)}, so its former objects are kept",
        fix=f"Resolve this and run again, or leave {listed(missing)} out of its clusters: "
        + "; ".join(f"{host}: {why}" for host, why in missing.items()),
    )


def _reason(kind: ItemKind, unsettled: Sequence[ItemPlan]) -> str:
    """Return text such as ``ConnectivityIntent fe-to-nginx is refused, and may replace it``."""
    first = unsettled[0]
    state = _STATES.get(first.verdict, _UNPLACED)
    if len(unsettled) == 1:
        return f"{kind.crd} {first.ref.name} {state}, and may replace it"
    return f"{len(unsettled)} items of the kind are refused, wait, or find no place, and may replace it, {kind.crd} {first.ref.name} first"


def _names(unsettled: Sequence[ItemPlan]) -> str:
    return listed(str(plan.ref) for plan in unsettled)
