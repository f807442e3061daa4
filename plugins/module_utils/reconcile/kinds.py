# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Functions of each kind of item: one row per kind. Its data stands in mesh/binding/item_kinds.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.input_problems import Problems
from ..exposure.parse import parse_exposed_service
from ..exposure.plan import plan_exposures, prune_exposures
from ..exposure.status import exposure_brief, exposure_status, lacking_clusters
from ..findings.finding import Finding
from ..items.desired import Desired
from ..items.item import Item
from ..items.planned import ItemPlan
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..plan.steps import Step
from ..policies.parse import parse_intent
from ..policies.plan import plan_intents, prune_intents
from ..policies.status import intent_brief, intent_interval, intent_status, lacking_destinations
from ..services.parse import parse_global_service
from ..services.plan import plan_services, prune_services
from ..services.status import lacking_targets, service_brief, service_interval, service_status


def _not_sooner(_item: Item) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """Functions of one kind. All are pure.

    - ``parse(problems, name, spec, members)``: the item; None, or a problem added: it is refused. ``spec`` is the item's mapping without
      ``name``, ``meshRef`` and ``parse.METADATA``; paths of problems begin there, e.g. ``ports[0].port``.
    - ``plan(desired, scene)``: one ItemPlan per item of the kind in ``desired`` (refused ones are the caller's), in their order.
    - ``prune(desired, scene)``: steps that take away what items of the kind made which are no more (``Desired.kept``), and findings.
    - ``status(item, plan, scene, failed)``: the CRD's status without observedGeneration, lastSyncTime and times of conditions, which the
      caller adds. ``scene`` is the one after the writes; ``failed``: inventory name -> error of this item's writes. Called only for
      items that are ACCEPTED.
    - ``lacking(item, plan, scene, failed)``: the clusters that keep the item from being as asked; none where no single one does.
    - ``brief(status)``: the status in a few words for a table; "" if there is nothing to say.
    - ``interval(item)``: seconds after which what it asks for has to be checked again; None: not sooner than the mesh.
    """

    parse: Callable[[Problems, str, Mapping[str, Any], tuple[str, ...]], Item | None]
    plan: Callable[[Desired, Scene], list[ItemPlan]]
    prune: Callable[[Desired, Scene], tuple[list[Step], list[Finding]]]
    status: Callable[[Item, ItemPlan, Scene, Mapping[str, str]], dict[str, Any]]
    lacking: Callable[[Item, ItemPlan, Scene, Mapping[str, str]], frozenset[str]]
    brief: Callable[[Mapping[str, Any]], str]
    interval: Callable[[Item], int | None] = _not_sooner


ROWS: Final[Mapping[ItemKind, KindRow]] = {
    ItemKind.GLOBAL_SERVICE: KindRow(
        parse=parse_global_service,
        plan=plan_services,
        prune=prune_services,
        status=service_status,
        lacking=lacking_targets,
        brief=service_brief,
        interval=service_interval,
    ),
    ItemKind.INTENT: KindRow(
        parse=parse_intent,
        plan=plan_intents,
        prune=prune_intents,
        status=intent_status,
        lacking=lacking_destinations,
        brief=intent_brief,
        interval=intent_interval,
    ),
    ItemKind.EXPOSURE: KindRow(
        parse=parse_exposed_service,
        plan=plan_exposures,
        prune=prune_exposures,
        status=exposure_status,
        lacking=lacking_clusters,
        brief=exposure_brief,
    ),
}
