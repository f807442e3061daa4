# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rows of the kinds that the operator knows. The collection's are in mesh/binding/item_kinds.py and fleet_kinds.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jmespath

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import FleetKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind

GROUP: Final = "networking.edge-portal.eu"
VERSION: Final = "v1alpha1"
FLEET_GROUP: Final = "platform.edge-portal.eu"

BINDING: Final = "ClusterMeshBinding"
SERVICE: Final = ItemKind.GLOBAL_SERVICE.crd
INTENT: Final = ItemKind.INTENT.crd
EXPOSURE: Final = ItemKind.EXPOSURE.crd
FABRIC: Final = "Fabric"
CLUSTER: Final = FleetKind.CLUSTER.value
FLEET: Final = FleetKind.FLEET.value
POLICY: Final = FleetKind.POLICY.value
WORKLOAD: Final = FleetKind.WORKLOAD.value
REVISION: Final = "FleetWorkloadRevision"
METRICS: Final = "ClusterMetrics"


@dataclass(frozen=True, kw_only=True)
class ResourceKind:
    """Kind of custom resource.

    ``bindings`` and ``status`` are JMESPath expressions: over the object, the bindings of its namespace that it belongs to; over
    a ``mesh_result``, its status (a list: the row with its name). ``units``: kinds of the units that a change of it concerns (UNITS); the
    first one has its status.
    """

    kind: str
    plural: str
    bindings: str = ""
    status: str = ""
    listed: str = ""  # its list in the variable cilium_mesh; "": it is no item
    playbook: str = ""  # "": it is carried out with other kinds, or computed from others' statuses, in process
    going_on: str = ""  # phase while a run is at work for a new spec
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


def _item(kind: ItemKind) -> ResourceKind:
    return ResourceKind(
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


def _of_fleets(kind: FleetKind, plural: str, *, units: tuple[str, ...], playbook: str = "", status: str = "") -> ResourceKind:
    return ResourceKind(
        kind=kind.value,
        plural=plural,
        group=FLEET_GROUP,
        listed=kind.referred,
        status=kind.reported + status,
        playbook=playbook,
        good=kind.good,
        unknown=kind.unknown,
        units=units,
    )


_CLUSTER: Final = _of_fleets(
    FleetKind.CLUSTER,
    "kubernetesclusters",
    units=(CLUSTER, WORKLOAD),
    playbook="fleet_clusters",
    status="[].{name: name, memberName: member, phase: phase, conditions: conditions, kubernetesVersion: kubernetesVersion, nodes: nodes}",
)

ROWS: Final = (
    ResourceKind(
        kind=BINDING,
        plural="clustermeshbindings",
        bindings="metadata.name",
        status="status.binding",
        playbook="mesh",
        going_on="Connecting",
        good="Connected",
    ),
    *(_item(kind) for kind in ItemKind),
    ResourceKind(kind=FABRIC, plural="fabrics", bindings="spec.meshRefs[].name"),
    _CLUSTER,
)
"""Kinds of meshes, as the export edge-portal-networking has them: KubernetesClusters by a claim."""

FLEET_ROWS: Final = (
    _CLUSTER,
    _of_fleets(FleetKind.FLEET, "fleets", units=(WORKLOAD,)),
    _of_fleets(FleetKind.POLICY, "placementpolicies", units=(WORKLOAD,)),
    _of_fleets(FleetKind.WORKLOAD, "fleetworkloads", units=(WORKLOAD,), playbook="fleet", status="[].merge(status, {name: name})"),
    ResourceKind(kind=REVISION, plural="fleetworkloadrevisions", group=FLEET_GROUP),
    ResourceKind(kind=METRICS, plural="clustermetrics", group=FLEET_GROUP),
)
"""Kinds of fleets, as the export edge-portal-fleet has them. Those without a unit are the operator's answers."""

BY_KIND: Final = {row.kind: row for row in (*ROWS, *FLEET_ROWS)}
ITEMS: Final = tuple(row for row in ROWS if row.listed and row.group == GROUP)


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """Unit of work of the fleet side: all objects of one kind of a namespace, with what they refer to.

    ``absent``: whether the objects that are being deleted have a run of their own; else they are left out of the run for the others.
    """

    of: FleetKind
    prefix: str  # of the variables of its role
    absent: bool = False

    @property
    def kind(self) -> str:
        """Kind of the objects."""
        return self.of.value

    @property
    def playbook(self) -> str:
        """Playbook that carries it out."""
        return BY_KIND[self.kind].playbook

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds whose statuses its result has."""
        return tuple(row.kind for row in FLEET_ROWS if row.units[:1] == (self.kind,))


UNITS: Final = {
    unit.kind: unit
    for unit in (
        UnitRow(of=FleetKind.CLUSTER, prefix="fleet_cluster", absent=True),
        UnitRow(of=FleetKind.WORKLOAD, prefix="fleet_workload"),
    )
}
