# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Requests for runs for the fleet of one namespace, built from its custom resources: one for the clusters, one for the workloads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import text
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.management import plane_spec
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.fleet_kinds import FleetKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import connected_clusters

from ..base.keys import FleetKey
from ..base.kinds import BINDING, CLUSTER, UNITS, WORKLOAD, UnitRow
from ..credentials.management_plane import NotUsable, Usable
from ..source.resources import finalizers_of, generation_of
from ..source.stored import Stored, TenantObjects
from ..statuses.item_statuses import FLEET_OBJECTS

KARMADA: Final = "Karmada"
PLANE: Final = "ManagementPlane"
"""Inventory names of the two control planes. Names of clusters have no capitals, so none is one of these."""

ABANDON: Final = "platform.edge-portal.eu/abandon"
"""Annotation of an object that is being deleted: let it go although its cluster, or Karmada, does not answer."""

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Planes:
    """Kubeconfigs of Karmada and, if clusters are made by it, of the management plane, with the namespace of its Clusters.

    ``operator``: the mark of what this operator makes in Karmada (module_utils/fleet/orphans.py). ``max_evictions``: see FleetRequest.
    """

    karmada: Json = field(repr=False)
    management: Json | None = field(default=None, repr=False)
    namespace: str = "default"
    operator: str = ""
    max_evictions: int = 0


@dataclass(frozen=True, kw_only=True)
class UnitRequest:
    """Request for a run for one unit. ``choices``: options of its module. ``objects``: those that it is about.

    ``answered``: those whose statuses its result has, with these and what they refer to.
    ``waiting``: names of clusters without credentials so far. A run that finds one ready meanwhile says that it cannot be reached.
    """

    key: FleetKey
    unit: UnitRow
    fleet: Json
    hosts: Mapping[str, Json] = field(repr=False)  # with credentials
    choices: Json = field(default_factory=dict)
    objects: tuple[Stored, ...] = ()
    answered: tuple[Stored, ...] = ()
    absent: bool = False  # the objects are to leave
    waiting: frozenset[str] = frozenset()

    @property
    def variables(self) -> dict[str, Any]:
        """Variables of the playbook besides its hosts."""
        own = {"wait": False, "report": False, **self.choices}
        return {"fleet": self.fleet, FLEET_OBJECTS: self.entries, **{f"{self.unit.prefix}_{name}": value for name, value in own.items()}}

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Objects whose statuses the result has, as statuses/item_statuses.py reads them."""
        return [
            {"kind": one.key.kind, "name": one.key.name, "generation": generation_of(one.obj), "status": one.obj.get("status") or {}}
            for one in self.answered
        ]

    @property
    def owner(self) -> str:
        """Name of the run for folders and logs, without a tenant's text."""
        return sha256("\0".join(self.key).encode()).hexdigest()[:12]


def wanted_of(tenant: TenantObjects, kind: str) -> tuple[Stored, ...]:
    """Return the objects of a kind that are not being deleted. One that is missing stays wanted: missing is not deleted."""
    return tuple(stored for stored in tenant.of(kind) if not stored.deleting and not stored.beyond)


def going_of(tenant: TenantObjects, kind: str) -> tuple[Stored, ...]:
    """Return the objects of a kind that are being deleted and not gone yet."""
    return tuple(stored for stored in tenant.of(kind) if stored.deleting and stored.missing_since is None)


def requests_of(
    key: FleetKey,
    tenant: TenantObjects,
    planes: Planes,
    clusters: Mapping[str, Usable | NotUsable],
    *,
    deadline: float,
    connected: Mapping[str, Sequence[str]],
    taken: Sequence[str] = (),
) -> list[UnitRequest]:
    """Return the requests of a unit, in their order: first what leaves, then what is wanted.

    :param clusters: with credentials, by name; of a request for workloads none.
    :param deadline: seconds after which a cluster that does not answer leaves without being cleaned.
    :param connected: ClusterMeshBinding of the namespace -> clusters that it has connected.
    :param taken: GlobalServices of the namespace that were made for no workload.
    """
    unit = UNITS[key.name]
    wanted, going = wanted_of(tenant, unit.kind), going_of(tenant, unit.kind)
    head: dict[str, Any] = {"workspace": key.workspace, "namespace": key.namespace, "karmada": KARMADA}
    hosts: dict[str, Json] = {KARMADA: {"cilium_mesh_kubeconfig": dict(planes.karmada)}}
    if unit.kind == WORKLOAD:
        lists = {FleetKind(kind).listed: [_entry(stored) for stored in wanted_of(tenant, kind)] for kind in unit.kinds}
        members = [_cluster(stored) for stored in wanted_of(tenant, CLUSTER)]
        found = {"connected": {name: list(names) for name, names in connected.items()}, "takenGlobalServices": list(taken)}
        fleet = {**head, "clusters": members, **lists, **found, "maxEvictions": planes.max_evictions, "operator": planes.operator}
        answered = (*(stored for kind in unit.kinds for stored in wanted_of(tenant, kind)), *going)
        return [UnitRequest(key=key, unit=unit, fleet=fleet, hosts=hosts, objects=wanted, answered=answered)]
    if planes.management is not None:
        head |= {"managementPlane": PLANE, "managementNamespace": planes.namespace}
        hosts[PLANE] = {"cilium_mesh_kubeconfig": dict(planes.management)}
    hosts |= {name: _variables(entry) for name, entry in clusters.items()}
    waiting = frozenset(name for name, entry in clusters.items() if isinstance(entry, NotUsable) and not entry.fatal)
    requests = []
    for objects, absent in ((going, True), (wanted, False)):
        if not objects:
            continue
        names = {stored.key.name for stored in objects}
        own = {name: hosts[name] for name in hosts if name in names or name in (KARMADA, PLANE)}
        fleet = {**head, "clusters": [{**_cluster(stored), "spec": plane_spec(_spec(stored))} for stored in objects]}
        abandoned = [stored.key.name for stored in objects if abandons(stored)]
        choices = {"state": "absent", "deadline": int(deadline), "abandon": abandoned} if absent else {}
        about: dict[str, Any] = {"objects": objects, "answered": objects, "absent": absent, "waiting": waiting}
        requests.append(UnitRequest(key=key, unit=unit, fleet=fleet, hosts=own, choices=choices, **about))
    return requests


def is_guarded(stored: Stored, finalizer: str) -> bool:
    """Return whether an object has the operator's finalizer, so that something may have been written for it."""
    return finalizer in finalizers_of(stored.obj)


def abandons(stored: Stored) -> bool:
    """Return whether the owner of an object that is being deleted set the annotation ABANDON."""
    return (stored.obj["metadata"].get("annotations") or {}).get(ABANDON) == "true"


def connected_in(bindings: Iterable[Stored]) -> dict[str, list[str]]:
    """Return by binding the clusters that it has connected, as its status says."""
    bindings_known = [stored for stored in bindings if stored.key.kind == BINDING and stored.missing_since is None]
    found = {stored.key.name: connected_by(stored.obj) for stored in bindings_known}
    return {name: list(clusters) for name, clusters in found.items() if clusters is not None}


def connected_by(binding: Mapping[str, Any] | None) -> list[str] | None:
    """Return the clusters that a ClusterMeshBinding has connected, None if it does not exist or is being deleted."""
    if binding is None or text(binding, "metadata", "deletionTimestamp"):
        return None
    return connected_clusters(binding.get("status"))


def _cluster(stored: Stored) -> dict[str, Any]:
    spec = _spec(stored)
    provider = spec.get("providerRef")
    fields = {"provider": provider.get("name") if isinstance(provider, Mapping) else None, "region": spec.get("region")}
    fields |= {"zone": spec.get("zone"), "labels": spec.get("labels")}
    return {"name": stored.key.name, **{key: value for key, value in fields.items() if value}}


def _entry(stored: Stored) -> dict[str, Any]:
    return {**_spec(stored), "name": stored.key.name, "generation": generation_of(stored.obj)}


def _spec(stored: Stored) -> dict[str, Any]:
    spec = stored.obj.get("spec")
    return dict(spec) if isinstance(spec, Mapping) else {}


def _variables(entry: Usable | NotUsable) -> dict[str, Any]:
    if isinstance(entry, NotUsable):
        return {"cilium_mesh_unavailable": entry.message}
    return {"cilium_mesh_kubeconfig": dict(entry.kubeconfig), **entry.variables}
