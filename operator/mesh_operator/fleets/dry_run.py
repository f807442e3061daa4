# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Question for the dry run of a unit of fleets, and its answer, validated. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import REVISIONS_LATER
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet_dry_run import MEMBER_KEYS, WORKLOAD_KEYS, FleetDryRun

from ..runs.confined.messages import Invalid
from ..runs.dry_runs import InvalidAnswer, is_list
from ..runs.item_parts import ItemParts
from .request import UnitRequest

_ROWS: Final = (*MEMBER_KEYS, *(key for key in WORKLOAD_KEYS if key not in ("leaving", REVISIONS_LATER)))


@dataclass(frozen=True)
class FleetQuestion:
    """Question for the dry run of a request (pipeline/fleet_dry_run.py). ``known_revisions``: those that may lack in the result.

    ``items``: the statuses of its objects, once it is answered.
    """

    request: UnitRequest
    known_revisions: Sequence[str] = ()
    items: ItemParts = field(default_factory=ItemParts)

    @property
    def job(self) -> Mapping[str, Any]:
        """Job of the process."""
        own = {"job": self.request.unit.playbook, "fleet": self.request.fleet, "hosts": self.request.hosts, "choices": self.request.choices}
        return {**own, "known_revisions": list(self.known_revisions), "objects": self.request.entries}

    def read(self, answer: Any) -> FleetDryRun:
        """Return the dry run.

        :raises InvalidAnswer: when the answer has another shape.
        """
        if (valid := fleet_dry_run_of(answer)) is None:
            raise InvalidAnswer
        try:
            self.items.complete(valid.result)
        except Invalid:
            raise InvalidAnswer from None
        return valid


def fleet_dry_run_of(found: Any) -> FleetDryRun | None:
    """Return an answer as a dry run of a fleet; None if it does not have that shape."""
    if not isinstance(found, dict) or found.keys() != {"steps", "result"}:
        return None
    steps, result = found["steps"], found["result"]
    if not (type(steps) is int and steps >= 0 and isinstance(result, dict) and is_list(result.get("findings"), dict)):
        return None
    if not all(is_list(result.get(key, []), dict) for key in _ROWS) or not is_list(result.get("leaving", []), str):
        return None
    if type(result.get(REVISIONS_LATER, 0)) is not int:
        return None
    return FleetDryRun(steps=steps, result=result)
