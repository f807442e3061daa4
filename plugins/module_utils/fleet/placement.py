# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Placement of a workload: which clusters of the tenant may get it, and the rule that Karmada gets. Pure.

A placement always selects by both labels of the tenant: a tenant's own selector alone would match clusters of other tenants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..base.tables import count
from .models import SCHEDULED, WELL_KNOWN, ClusterRequirement, Fleet, FleetCluster, FleetRequest, FleetWorkload, PlacementPolicy, Spread

EVERY: Final = 10_000  # groups; the scheduler takes a missing maximum for 0, and then selects no cluster (select_clusters_by_region.go)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Clusters that may get a workload, or the reason why there are none.

    :param clusters: in the order of their names.
    :param unconnected: members of them that the mesh of ``requireConnected`` has not Connected, as far as is known.
    :param unknown_mesh: the ClusterMeshBinding of ``requireConnected`` if nothing is known of it. Then no cluster counts as Connected, and
        none as one whose links were lost.
    :param spread: that the clusters have to meet, None for none.
    :param by_name: whether Karmada gets the names, as labels alone do not say it.
    :param reason: CamelCase word for a condition, "" if there are clusters; ``message``: its sentence.
    """

    clusters: tuple[FleetCluster, ...] = ()
    unconnected: frozenset[str] = frozenset()
    unknown_mesh: str = ""
    spread: Spread | None = None
    by_name: bool = False
    reason: str = ""
    message: str = ""

    @property
    def members(self) -> tuple[str, ...]:
        """Names in Karmada."""
        return tuple(cluster.member for cluster in self.clusters)


def candidates(request: FleetRequest, fleet: Fleet, policy: PlacementPolicy) -> Candidates:
    """Return the clusters of the fleet that meet the requirements of the policy, whether or not they are Ready and Connected now."""
    missing = [name for name in fleet.clusters if name not in request.clusters]
    found = [request.clusters[name] for name in sorted(request.clusters) if in_fleet(request.clusters[name], fleet)]
    if not found:
        named = f"; no KubernetesCluster is named {', '.join(missing)}" if missing else ""
        return Candidates(reason="FleetEmpty", message=f"Fleet {fleet.name} has no cluster{named}.")
    fitting = [cluster for cluster in found if all(meets(cluster, requirement) for requirement in policy.requirements)]
    if not fitting:
        return Candidates(reason="NoClusterFits", message=f"No cluster of Fleet {fleet.name} meets the requirements of {policy.name}.")
    unconnected: frozenset[str] = frozenset()
    if policy.connected_in:
        joined = request.connected.get(policy.connected_in, ())
        unconnected = frozenset(cluster.member for cluster in fitting if cluster.name not in joined)
    by_name = bool(fleet.clusters) or bool(policy.connected_in)
    unknown = policy.connected_in if policy.connected_in not in request.connected else ""
    return Candidates(clusters=tuple(fitting), unconnected=unconnected, unknown_mesh=unknown, spread=policy.spread, by_name=by_name)


def chosen(found: Candidates, fleet: Fleet, policy: PlacementPolicy, held: Collection[str], usable: Collection[str]) -> Candidates:
    """Return the candidates that Karmada may choose from in this run.

    A cluster keeps what it has when it is no longer Connected or Ready: only an eviction takes it away, by its rules (evictions.py).

    :param held: members that have a part of the workload and have not been left.
    :param usable: members that may get one now, without those that have been left.
    """
    if not found.clusters:
        return found
    allowed = [cluster for cluster in found.clusters if cluster.member not in found.unconnected or cluster.member in held]
    if not allowed:
        message = f"ClusterMeshBinding {policy.connected_in} has none of the clusters of Fleet {fleet.name} Connected."
        if found.unknown_mesh:
            message = f"{unknown_mesh_sentence(found)}, so none of the clusters of Fleet {fleet.name} is known to be Connected."
        return Candidates(reason="NoConnectedCluster", message=message)
    if policy.spread is None:
        return replace(found, clusters=tuple(allowed))
    by, least, most = policy.spread
    groups = spread_groups(allowed, policy.spread)
    if len(groups) < least:
        message = f"The clusters of Fleet {fleet.name} that {policy.name} allows are in {count(len(groups), by)}; it asks for {least}."
        return Candidates(reason="NoClusterFits", message=message)
    if by in SCHEDULED:
        return replace(found, clusters=tuple(allowed))
    ranks = {value: _rank({cluster.member for cluster in group}, held, usable) for value, group in groups.items()}
    values = sorted(groups, key=lambda value: (*ranks[value], value))[: most or None]
    names = {cluster.name for value in values for cluster in groups[value]}
    return replace(found, clusters=tuple(cluster for cluster in allowed if cluster.name in names), by_name=True)


def unknown_mesh_sentence(found: Candidates) -> str:
    """Return the clause that nothing is known of a mesh."""
    return f"ClusterMeshBinding {found.unknown_mesh} does not exist, or this run was not given what it has Connected"


def _rank(members: set[str], held: Collection[str], usable: Collection[str]) -> tuple[bool, bool]:
    """Return the place of a group: one that has a part already is kept, and of the others those come first that can take one."""
    return members.isdisjoint(held), members.isdisjoint(usable)


def unknown_clusters(
    request: FleetRequest, workload: FleetWorkload, fleet: Fleet | None, policy: PlacementPolicy | None
) -> dict[str, tuple[str, ...]]:
    """Return the names that are those of no KubernetesCluster of the tenant, by the object that has them, as a message names it.

    One that is being deleted is none any more. Without it the workload goes where else it may, so nothing but this tells its owner.
    """
    places = {
        f"Fleet {fleet.name}" if fleet else "": fleet.clusters if fleet else (),
        f"PlacementPolicy {policy.name}" if policy else "": tuple(policy.weights) if policy else (),
        "its own rollout.waves": tuple(name for wave in workload.rollout.waves for name in wave),
    }
    found = {place: tuple(dict.fromkeys(name for name in names if name not in request.clusters)) for place, names in places.items()}
    return {place: names for place, names in found.items() if names}


def spread_groups(clusters: Iterable[FleetCluster], spread: Spread) -> dict[str, list[FleetCluster]]:
    """Return value of the field of the spread -> its clusters. A cluster without a value is in no group."""
    groups: dict[str, list[FleetCluster]] = {}
    for cluster in clusters:
        value = cluster.name if spread.by == "cluster" else getattr(cluster, spread.by)
        if value:
            groups.setdefault(value, []).append(cluster)
    return groups


def in_fleet(cluster: FleetCluster, fleet: Fleet) -> bool:
    """Return whether the fleet names the cluster, or its selector matches."""
    if cluster.name in fleet.clusters:
        return True
    return fleet.selector is not None and all(_meets(cluster.labels, requirement) for requirement in fleet.selector)


def meets(cluster: FleetCluster, requirement: ClusterRequirement) -> bool:
    """Return whether the cluster meets the requirement, as Karmada decides it from the fields and labels of its Cluster."""
    if requirement.key in WELL_KNOWN:
        return _meets({key: getattr(cluster, key) for key in WELL_KNOWN}, requirement)
    return _meets(cluster.labels, requirement)


def placement_of(
    request: FleetRequest, workload: FleetWorkload, fleet: Fleet, policy: PlacementPolicy, found: Candidates, evicted: Collection[str] = ()
) -> dict[str, Any]:
    """Return ``spec.placement`` of the PropagationPolicy.

    :param found: with clusters: an empty list of names means every cluster to Karmada.
    :param evicted: members that the workload has left.
    """
    if not found.clusters:
        raise ValueError("a placement without a cluster would match every cluster")
    affinity = affinity_of(request, fleet, policy, found)
    if evicted:
        affinity["exclude"] = sorted(evicted)
    return {"clusterAffinity": affinity, **_scheduling(workload, policy, found)}


def affinity_of(request: FleetRequest, fleet: Fleet, policy: PlacementPolicy, found: Candidates) -> dict[str, Any]:
    """Return ``clusterAffinity``: Karmada takes the clusters that meet all of its parts (pkg/util/selector.go, ClusterMatches)."""
    labels: dict[str, Any] = {"matchLabels": dict(request.tenant.labels)}
    selector = () if found.by_name else fleet.selector or ()
    own = [*selector, *(requirement for requirement in policy.requirements if requirement.key not in WELL_KNOWN)]
    fields = [requirement for requirement in policy.requirements if requirement.key in WELL_KNOWN]
    if own:
        labels["matchExpressions"] = _expressions(own)
    affinity: dict[str, Any] = {"labelSelector": labels}
    if found.by_name:
        affinity["clusterNames"] = list(found.members)
    if fields:
        affinity["fieldSelector"] = {"matchExpressions": _expressions(fields)}
    return affinity


def _expressions(requirements: Iterable[ClusterRequirement]) -> list[dict[str, Any]]:
    return [
        {"key": requirement.key, "operator": requirement.operator, **({"values": list(requirement.values)} if requirement.values else {})}
        for requirement in requirements
    ]


def _scheduling(workload: FleetWorkload, policy: PlacementPolicy, found: Candidates) -> dict[str, Any]:
    """Return how replicas are divided. Kinds without replicas are never divided: each cluster gets them whole."""
    parts: dict[str, Any] = {}
    if policy.spread is not None:
        parts["spreadConstraints"] = _spread(policy.spread)
    if policy.strategy == "FixedReplicas" or workload.kind == "DaemonSet":
        return {**parts, "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}
    scheduling: dict[str, Any] = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
    weights = {cluster.member: policy.weights[cluster.name] for cluster in found.clusters if cluster.name in policy.weights}
    if weights:
        scheduling["weightPreference"] = {
            "staticWeightList": [
                {"targetCluster": {"clusterNames": [member]}, "weight": weight} for member, weight in sorted(weights.items())
            ]
        }
    else:
        scheduling["weightPreference"] = {"dynamicWeight": "AvailableReplicas"}
    return {**parts, "replicaScheduling": scheduling}


def _spread(spread: Spread) -> list[dict[str, Any]]:
    """Return the constraints. One by cluster is compulsory beside any other (karmada-webhook, validateSpreadConstraint)."""
    by, least, most = spread
    if by == "cluster":
        return [{"spreadByField": "cluster", "minGroups": least, "maxGroups": most or EVERY}]
    of_clusters = {"spreadByField": "cluster", "minGroups": least, "maxGroups": EVERY}
    if by not in SCHEDULED:
        return [of_clusters]
    return [{"spreadByField": by, "minGroups": least, "maxGroups": most or EVERY}, of_clusters]


def _meets(labels: Mapping[str, str], requirement: ClusterRequirement) -> bool:
    present = bool(labels.get(requirement.key)) if requirement.key in WELL_KNOWN else requirement.key in labels
    if requirement.operator == "Exists":
        return present
    if requirement.operator == "DoesNotExist":
        return not present
    inside = present and labels[requirement.key] in requirement.values
    return inside if requirement.operator == "In" else not inside
