# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator knows of the kinds, one row each. The kinds of items are those of the collection (mesh/item_kinds.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.item_kinds import ItemKind

GROUP: Final = "networking.edge-portal.eu"
VERSION: Final = "v1alpha1"
FLEET_GROUP: Final = "platform.edge-portal.eu"

BINDING: Final = "ClusterMeshBinding"
SERVICE: Final = ItemKind.GLOBAL_SERVICE.crd
INTENT: Final = ItemKind.INTENT.crd
EXPOSURE: Final = ItemKind.EXPOSURE.crd
FABRIC: Final = "Fabric"
CLUSTER: Final = "KubernetesCluster"
FLEET: Final = "Fleet"
POLICY: Final = "PlacementPolicy"
WORKLOAD: Final = "FleetWorkload"
REVISION: Final = "FleetWorkloadRevision"
METRICS: Final = "ClusterMetrics"


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """Kind of custom resource.

    ``bindings`` and ``status`` are JMESPath expressions: over the object, the bindings of its namespace that it belongs to; over
    a ``mesh_result``, its status (a list: the row with its name). ``units``: kinds of the units that a change of it concerns (UNITS).
    """

    kind: str
    plural: str
    bindings: str = ""
    status: str = ""
    listed: str = ""  # its list in the variable cilium_mesh; "": it is no item
    playbook: str = ""  # "": its status is computed from others' statuses, in process
    going_on: str = ""  # phase while a play is at work for a new spec
    good: str = ""  # phase when all is as asked
    unknown: str = ""  # phase while nothing can be read of an object that was good
    units: tuple[str, ...] = ()
    by_age: bool = False  # the object that was made first wins: a run gets its creationTimestamp as createdAt
    group: str = GROUP

    @property
    def finalizer(self) -> str:
        """Finalizer, set before the first write to any cluster."""
        return f"{self.group}/{self.kind.lower()}-cleanup"

    def collection(self, workspace: str, namespace: str = "") -> str:
        """Return the API path below the URL of a virtual workspace; ``*`` is all workspaces, and only for lists and watches."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"/clusters/{workspace}/apis/{self.group}/{VERSION}{place}/{self.plural}"

    def names_of_bindings(self, obj: dict[str, Any]) -> tuple[str, ...]:
        """Return the bindings in the namespace of ``obj`` that it belongs to."""
        found = jmespath.search(self.bindings, obj) if self.bindings else None
        names = found if isinstance(found, list) else [found]
        return tuple(name for name in names if isinstance(name, str) and name)


def _item(kind: ItemKind) -> KindRow:
    return KindRow(
        kind=kind.crd,
        plural=kind.crd.lower() + "s",
        bindings="spec.meshRef.name",
        status=f"status.{kind.value}",
        listed=kind.value,
        playbook="mesh",
        going_on=kind.going_on,
        good=kind.good,
        by_age=kind.by_age,
    )


_CLUSTER: Final = KindRow(
    kind=CLUSTER,
    plural="kubernetesclusters",
    group=FLEET_GROUP,
    listed="clusters",
    status="clusters[].{name: name, memberName: member, phase: phase, conditions: conditions, "
    "kubernetesVersion: kubernetesVersion, nodes: nodes}",
    playbook="fleet_clusters",
    unknown="Error",
    units=(CLUSTER, WORKLOAD),
)

ROWS: Final = (
    KindRow(
        kind=BINDING,
        plural="clustermeshbindings",
        bindings="metadata.name",
        status="status.binding",
        playbook="mesh",
        going_on="Connecting",
        good="Connected",
    ),
    *(_item(kind) for kind in ItemKind),
    KindRow(kind=FABRIC, plural="fabrics", bindings="spec.meshRefs[].name"),
    _CLUSTER,
)
"""Kinds of meshes, as the export edge-portal-networking has them: KubernetesClusters by a claim."""

FLEET_ROWS: Final = (
    _CLUSTER,
    KindRow(kind=FLEET, plural="fleets", group=FLEET_GROUP, listed="fleets", status="fleets", unknown="Degraded", units=(WORKLOAD,)),
    KindRow(
        kind=POLICY,
        plural="placementpolicies",
        group=FLEET_GROUP,
        listed="placementPolicies",
        status="placement_policies",
        units=(WORKLOAD,),
    ),
    KindRow(
        kind=WORKLOAD,
        plural="fleetworkloads",
        group=FLEET_GROUP,
        listed="fleetWorkloads",
        status="workloads[].merge(status, {name: name})",
        playbook="fleet",
        unknown="Degraded",
        units=(WORKLOAD,),
    ),
    KindRow(kind=REVISION, plural="fleetworkloadrevisions", group=FLEET_GROUP),
    KindRow(kind=METRICS, plural="clustermetrics", group=FLEET_GROUP),
)
"""Kinds of fleets, as the export edge-portal-fleet has them. Those without a unit are the operator's answers."""

BY_KIND: Final = {row.kind: row for row in (*ROWS, *FLEET_ROWS)}
ITEMS: Final = tuple(row for row in ROWS if row.listed and row.group == GROUP)


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """Unit of work of the fleet side: all objects of one kind of a namespace, with what they refer to.

    ``awaited``: phases after which the unit is looked at again soon. ``absent``: whether the objects that are being deleted have a play of
    their own; else they are left out of the play for the others.
    """

    kind: str
    playbook: str
    prefix: str  # of the variables of its role
    awaited: frozenset[str]
    absent: bool = False


UNITS: Final = {
    CLUSTER: UnitRow(
        kind=CLUSTER,
        playbook="fleet_clusters",
        prefix="fleet_cluster",
        awaited=frozenset({"Pending", "Provisioning", "Joining", "Deleting"}),
        absent=True,
    ),
    WORKLOAD: UnitRow(kind=WORKLOAD, playbook="fleet", prefix="fleet_workload", awaited=frozenset({"Pending", "Progressing", "Degraded"})),
}
