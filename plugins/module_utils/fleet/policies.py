# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The PropagationPolicies that workloads become, without a Karmada that could be asked. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from ..mesh.binding.fleet_kinds import FleetKind
from ..plan.steps import ApiWrite
from .facts import TenantFacts
from .models import FleetRequest
from .names import DOMAIN
from .plan import plan_fleet


class Translation(NamedTuple):
    """Policies in the order of the workloads, and why others have none: name -> sentence."""

    policies: tuple[dict[str, Any], ...]
    without: dict[str, str]


def propagation_policies(request: FleetRequest, now: datetime) -> Translation:
    """Return the policies as the first rollout of each workload writes them, without the annotations by which this project keeps its state.

    :param now: aware, UTC; no policy has it.
    """
    planned = plan_fleet(request, TenantFacts(now=now), "karmada")
    without = {entry.name: "; ".join(entry.problems) for entry in request.refused if entry.kind == FleetKind.WORKLOAD}
    without |= {name: decision.message for name, decision in planned.decisions.items() if decision.target is None}
    bodies = [step.action.body for step in planned.plan.steps if isinstance(step.action, ApiWrite) and step.action.body is not None]
    found = [body for body in bodies if body.get("kind") == "PropagationPolicy"]
    return Translation(tuple(_plain(dict(body)) for body in found), without)


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(body["metadata"])
    kept = {key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(f"{DOMAIN}/")}
    return {**body, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}
