# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kinds of objects of fleets with what is known of each, one row each: engine, screens, metrics and operator read it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PENDING: Final = "Pending"
ERROR: Final = "Error"
"""Phase of an object that is not carried out, or not any more, until it is changed."""

PROGRESSING: Final = "Progressing"
"""Phase of a workload that is on its way to what is asked."""

ROLLOUT_PHASES: Final = ("Complete", "Preparing", "Rolling", "Paused", "Stalled")
"""Phases of the rollout of a workload."""


class FleetKind(StrEnum):
    """Kind of an object of fleets. The value is that of its custom resource."""

    CLUSTER = "KubernetesCluster"
    FLEET = "Fleet"
    POLICY = "PlacementPolicy"
    WORKLOAD = "FleetWorkload"

    @property
    def listed(self) -> str:
        """Key of its list in the variable ``fleet``."""
        return _TRAITS[self].listed

    @property
    def reported(self) -> str:
        """Key of its rows in ``mesh_result``."""
        return _TRAITS[self].reported

    @property
    def referred(self) -> str:
        """First part of a reference to one of them in findings and steps, which its name follows."""
        return _TRAITS[self].referred

    @property
    def phases(self) -> tuple[str, ...]:
        """Phases of its status, from the worst to the one when it is as asked."""
        return _TRAITS[self].phases

    @property
    def good(self) -> str:
        """Phase when it is as asked."""
        return self.phases[-1]

    @property
    def awaited(self) -> frozenset[str]:
        """Phases that time alone may end."""
        return frozenset(self.phases) - {self.good, ERROR}

    @property
    def unknown(self) -> str:
        """Phase while nothing can be read of one that was good; "" of a kind of which nothing is read."""
        return _TRAITS[self].unknown


@dataclass(frozen=True, kw_only=True)
class _Traits:
    """Data of one kind, as the properties of FleetKind say."""

    listed: str
    reported: str
    referred: str
    phases: tuple[str, ...]
    unknown: str = ""


_TRAITS: Final = {
    FleetKind.CLUSTER: _Traits(
        listed="clusters",
        reported="clusters",
        referred="clusters",
        phases=(ERROR, "Deleting", PENDING, "Provisioning", "Joining", "Ready"),
        unknown=ERROR,
    ),
    FleetKind.FLEET: _Traits(
        listed="fleets", reported="fleets", referred="fleets", phases=(ERROR, "Degraded", PENDING, "Ready"), unknown="Degraded"
    ),
    FleetKind.POLICY: _Traits(
        listed="placementPolicies", reported="placement_policies", referred="placementPolicies", phases=(ERROR, "Accepted")
    ),
    FleetKind.WORKLOAD: _Traits(
        listed="workloads",
        reported="workloads",
        referred="fleetWorkloads",
        phases=(ERROR, "Degraded", PENDING, "Progressing", "Available"),
        unknown="Degraded",
    ),
}
