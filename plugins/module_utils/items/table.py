# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What each kind of item can do: one row per kind. Adding a kind is adding a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..exposure.plan import plan_exposures, prune_exposures
from ..exposure.status import exposure_status
from ..findings import Finding
from ..policies.plan import plan_intents, prune_intents
from ..policies.status import intent_status
from ..services.plan import plan_services, prune_services
from ..services.status import service_status
from ..steps import Step
from .desired import Desired, Item
from .kinds import ItemKind
from .planned import ItemPlan
from .scene import Scene


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """Pure functions.

    - ``plan(desired, scene)``: one ItemPlan per item of the kind in ``desired`` (refused ones are the caller's), in their order.
    - ``prune(desired, scene)``: steps that take away what items of the kind made which are no more (``Desired.kept``), and findings.
    - ``status(item, plan, scene, failed)``: the CRD's status without observedGeneration, lastSyncTime and times of conditions, which the
      caller adds. ``scene`` is as it is after the writes; ``failed``: inventory name -> error of this item's writes. Called only for
      items that are ACCEPTED.
    """

    plan: Callable[[Desired, Scene], list[ItemPlan]]
    prune: Callable[[Desired, Scene], tuple[list[Step], list[Finding]]]
    status: Callable[[Item, ItemPlan, Scene, Mapping[str, str]], dict[str, Any]]


ROWS: Final[Mapping[ItemKind, KindRow]] = {
    ItemKind.GLOBAL_SERVICE: KindRow(plan=plan_services, prune=prune_services, status=service_status),
    ItemKind.INTENT: KindRow(plan=plan_intents, prune=prune_intents, status=intent_status),
    ItemKind.EXPOSURE: KindRow(plan=plan_exposures, prune=prune_exposures, status=exposure_status),
}
