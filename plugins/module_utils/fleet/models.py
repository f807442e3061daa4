# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a tenant asks for: clusters, fleets, placement policies and workloads, as parsed (fleet/parse.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .names import Tenant

WELL_KNOWN: Final = ("provider", "region", "zone")
"""Keys of requirements that are fields of a Cluster; all others are labels (Karmada: FieldSelector of ClusterAffinity)."""


SCHEDULED: Final = ("cluster", "region")
"""Fields by which Karmada's scheduler spreads; it takes any other field of a constraint without an error, and ignores it
(pkg/scheduler/core/spreadconstraint/select_clusters.go). The groups of the others are chosen here (placement.py)."""


class ClusterRequirement(NamedTuple):
    """One requirement on clusters. ``operator``: In, NotIn, Exists or DoesNotExist; the last two have no values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetCluster:
    """KubernetesCluster of the tenant. ``member``: its name in Karmada."""

    name: str
    member: str
    labels: Mapping[str, str] = field(default_factory=dict)  # the tenant's own
    provider: str = ""
    region: str = ""
    zone: str = ""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Clusters that are named, and those that meet all of ``selector``. Without a selector, ``selector`` is None."""

    name: str
    clusters: tuple[str, ...] = ()
    selector: tuple[ClusterRequirement, ...] | None = None


class Spread(NamedTuple):
    """Spread over groups of clusters: ``by`` is cluster, region, zone or provider. ``most`` 0: any number."""

    by: str
    least: int
    most: int


@dataclass(frozen=True, kw_only=True)
class Migration:
    """When a workload leaves a cluster without being asked to. Times in seconds."""

    auto: bool = False
    dwell: int = 300  # a cluster has to be not Ready, or Ready again, for so long
    unhealthy: int = 300  # a workload has to be unhealthy in a cluster for so long
    min_available_percent: int = 50
    max_evictions: int = 1


@dataclass(frozen=True, kw_only=True)
class PlacementPolicy:
    """Where the workloads of a fleet go. ``weights``: by KubernetesCluster; {} divides by available replicas."""

    name: str
    strategy: str  # Weighted, Spread or FixedReplicas
    requirements: tuple[ClusterRequirement, ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    spread: Spread | None = None
    connected_in: str = ""  # ClusterMeshBinding whose connected clusters alone are used
    migration: Migration = field(default_factory=Migration)

    @property
    def is_chosen_by_karmada(self) -> bool:
        """Whether the scheduler of Karmada leaves out some of the clusters that it is given."""
        return self.spread is not None and self.spread.by in SCHEDULED and bool(self.spread.most)


EVERYWHERE: Final = PlacementPolicy(name="", strategy="FixedReplicas")
"""Placement of a workload that names no policy: all replicas in every cluster of its fleet."""


@dataclass(frozen=True, kw_only=True)
class RolloutRules:
    """How a change goes out. Without waves and batch size it goes to all clusters at once. Times in seconds."""

    waves: tuple[tuple[str, ...], ...] = ()  # names of KubernetesClusters
    batch_size: int = 0
    max_unavailable: int | str | None = None  # of the workload's own update in a cluster
    pause: int = 0
    deadline: int = 600
    paused: bool = False


class Operation(NamedTuple):
    """What is done once per ``id``: Restart, Rollback to a revision, Evict from a KubernetesCluster, or Return to it."""

    kind: str
    id: str
    to_revision: int = 0
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class FleetWorkload:
    """Workload of the tenant. ``template``, ``service`` and ``resources`` have the form of the CRD, checked and with its defaults."""

    name: str
    fleet: str
    placement: str = ""
    kind: str = "Deployment"  # or StatefulSet, DaemonSet
    replicas: int = 1
    template: Mapping[str, Any]
    service: Mapping[str, Any] | None = None
    resources: tuple[Mapping[str, Any], ...] = ()
    rollout: RolloutRules = field(default_factory=RolloutRules)
    history_limit: int = 10
    operation: Operation | None = None
    hold: bool | None = None  # pause or resume by hand; None: as it is
    generation: int = 0


class RefusedObject(NamedTuple):
    """Object whose spec is not valid. It concerns itself and what refers to it."""

    kind: str
    name: str
    problems: tuple[str, ...]
    generation: int = 0


@dataclass(frozen=True, kw_only=True)
class FleetRequest:
    """All that one tenant asks for.

    :param workloads: None: nothing is said of workloads, and none is deleted.
    :param keep_others: whether workloads that are not in ``workloads`` stay.
    :param connected: ClusterMeshBinding -> names of KubernetesClusters that it has Connected.
    :param taken_services: GlobalServices of the namespace that no workload made; none is written in their place.
    :param max_evictions: clusters that all workloads together may have left because of their state; 0: any number.
    :param operator: identity of the operator that asks, "" for a playbook: the mark by which it finds what it made (fleet/orphans.py).
    """

    tenant: Tenant
    clusters: Mapping[str, FleetCluster] = field(default_factory=dict)
    fleets: Mapping[str, Fleet] = field(default_factory=dict)
    policies: Mapping[str, PlacementPolicy] = field(default_factory=dict)
    workloads: Mapping[str, FleetWorkload] | None = None
    refused: tuple[RefusedObject, ...] = ()
    connected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taken_services: frozenset[str] = frozenset()
    max_evictions: int = 0
    operator: str = ""
    keep_others: bool = False
