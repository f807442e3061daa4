# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The clusters that a tenant wants as members of Karmada, and the choices of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..fleet.names import LABEL_LENGTH, Tenant, member_name
from ..mesh.binding.fleet_kinds import FleetKind


@dataclass(frozen=True, kw_only=True)
class Member:
    """KubernetesCluster that is, or is to be, a member of Karmada."""

    tenant: Tenant
    name: str
    host: str  # inventory name of the cluster
    provider: str = ""
    region: str = ""
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # the tenant's own
    spec: Mapping[str, Any] = field(default_factory=dict)  # of the KubernetesCluster, for the management plane

    @property
    def member(self) -> str:
        """Name in Karmada, and in the management plane."""
        return member_name(self.tenant, self.name)

    @property
    def item(self) -> str:
        """Name in plans and findings."""
        return f"{FleetKind.CLUSTER.referred}/{self.name}"

    @property
    def own_labels(self) -> dict[str, str]:
        """Labels by which an object is known as made for this member. A name too long for a label is in ``NAME_ANNOTATION`` alone."""
        return self.tenant.labels_of(self.name) if self.fits else self.tenant.labels

    @property
    def fits(self) -> bool:
        """Whether the name can be the value of a label."""
        return len(self.name) <= LABEL_LENGTH

    @property
    def all_labels(self) -> dict[str, str]:
        """Labels of the member in Karmada: the tenant's own, and those by which it is known."""
        return {**self.labels, **self.own_labels}


@dataclass(frozen=True, kw_only=True)
class MemberRequest:
    """Clusters of one tenant, the Karmada that has them, and the management plane that makes them ("": none)."""

    tenant: Tenant
    karmada: str  # inventory name
    management: str = ""  # inventory name
    management_namespace: str = "default"
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TokenRules:
    """How long the tokens of Karmada in a member live, and how long before their end they are renewed, in seconds."""

    lifetime: int = 8760 * 3600
    renew_before: int = 720 * 3600
