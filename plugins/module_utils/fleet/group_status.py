# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Statuses of Fleets and PlacementPolicies: which clusters a fleet has now, and how many workloads a policy places. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..base.conditions import condition
from ..base.redact import one_line
from ..base.tables import count
from ..findings.wording import listed
from ..mesh.binding.fleet_kinds import ERROR, PENDING, FleetKind
from .facts import TenantFacts
from .models import EVERYWHERE, Fleet, FleetRequest, RefusedObject
from .placement import candidates

READY: Final = FleetKind.FLEET.good
_TEXT: Final = 1024  # characters of a message


def fleet_statuses(request: FleetRequest, facts: TenantFacts) -> list[dict[str, Any]]:
    """Return the status of every Fleet of the tenant with its ``name``, in the form of the CRD, sorted by name."""
    rows = [_fleet_status(request, facts, fleet) for fleet in request.fleets.values()]
    return _sorted([*rows, *_refused(request.refused, FleetKind.FLEET)])


def policy_statuses(request: FleetRequest) -> list[dict[str, Any]]:
    """Return the status of every PlacementPolicy of the tenant with its ``name``, in the form of the CRD, sorted by name."""
    users = [workload.placement for workload in (request.workloads or {}).values()]
    good = [condition("Accepted", True, "Accepted"), condition("Ready", True, "Accepted")]
    rows = [{"name": name, "phase": FleetKind.POLICY.good, "usedBy": users.count(name), "conditions": good} for name in request.policies]
    return _sorted([*rows, *_refused(request.refused, FleetKind.POLICY)])


def _fleet_status(request: FleetRequest, facts: TenantFacts, fleet: Fleet) -> dict[str, Any]:
    found = candidates(request, fleet, EVERYWHERE).clusters
    unready = [cluster.name for cluster in found if cluster.member not in facts.members or not facts.members[cluster.member].ready]
    missing = [name for name in fleet.clusters if name not in request.clusters]
    ready = len(found) - len(unready)
    said = [
        f"Not Ready: {listed(unready)}." if unready else "",
        f"No KubernetesCluster of these names exists: {listed(missing)}." if missing else "",
        "It has no cluster." if not found and not missing else "",
    ]
    message = one_line(" ".join(filter(None, said)), _TEXT)
    reason = "ClustersMissing" if missing else "NoCluster" if not found else "ClustersNotReady"
    whole = bool(found) and not unready and not missing
    return {
        "name": fleet.name,
        "phase": READY if whole else "Degraded" if ready else PENDING,
        "matchedClusters": [cluster.name for cluster in found],
        "readyClusters": ready,
        "totalClusters": len(found),
        "conditions": [
            condition("Accepted", True, "Accepted"),
            condition("Ready", whole, "ClustersReady" if whole else reason, message or f"It has {count(len(found), 'cluster')}."),
        ],
    }


def _refused(refused: Iterable[RefusedObject], kind: str) -> list[dict[str, Any]]:
    rows = []
    for entry in refused:
        if entry.kind == kind:
            message = one_line("; ".join(entry.problems), _TEXT)
            bad = [condition(name, False, "InvalidSpec", message) for name in ("Accepted", "Ready")]
            rows.append({"name": entry.name, "phase": ERROR, "conditions": bad})
    return rows


def _sorted(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return sorted((dict(row) for row in rows), key=lambda row: str(row["name"]))
