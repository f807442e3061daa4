# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects that the operator itself makes for a tenant: FleetWorkloadRevisions, ClusterMetrics and GlobalServices.

They are answers: what they say stands in Karmada or in another object, so one that was changed or deleted is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.writes import service_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import rows_of

from ..base.api import MANAGER, Api
from ..base.keys import ObjectKey
from ..base.kinds import BINDING, BY_KIND, CLUSTER, METRICS, REVISION, SERVICE, VERSION, WORKLOAD
from ..source.status_patch import patch_of
from ..source.store import Store
from ..source.stored import Stored, TenantObjects

RENEWAL: Final = 60.0  # seconds between two writes of metrics that changed
FOR_WORKLOAD: Final = "platform.edge-portal.eu/fleet-workload"
"""Annotation of a GlobalService that the operator made for a FleetWorkload."""


@dataclass(frozen=True)
class ObjectToMake:
    """Object to make. ``owner``: with which it goes."""

    kind: str
    name: str
    owner: Stored
    body: Mapping[str, Any]
    url: str


class FleetAnswers:
    """Writer of these objects. Thread-safe for different tenants.

    :param api_at: returns the client for the URL of a virtual workspace.
    """

    def __init__(self, store: Store, api_at: Callable[[str], Api]) -> None:
        self._store, self._api_at = store, api_at

    def known_revisions(self, tenant: TenantObjects) -> list[str]:
        """Return the names of the revisions that the tenant sees."""
        return [stored.key.name for stored in tenant.of(REVISION) if stored.missing_since is None]

    def publish_workloads(self, tenant: TenantObjects, result: Mapping[str, Any]) -> list[str]:
        """Make revisions and GlobalServices as a result of a dry run says, and remove those that nothing needs any more.

        Returns names of workloads whose GlobalService cannot be made: no ClusterMeshBinding of that name is known.

        :raises ClusterError: when kcp does not answer, or refuses.
        """
        owners = {stored.key.name: stored for stored in tenant.of(WORKLOAD) if stored.missing_since is None}
        self._make(self._revision(owners[row["workload"]], row) for row in rows_of(result, "revisions") if row.get("workload") in owners)
        # A workload without a list of revisions was not read, or is not valid: nothing is known of its revisions.
        listed = {
            row["name"]: {f"{row['name']}-r{revision.get('number')}" for revision in rows_of(row["status"], "revisions")}
            for row in rows_of(result, "workloads")
            if isinstance(row.get("status"), Mapping) and "revisions" in row["status"]
        }
        known = [stored for stored in tenant.of(REVISION) if stored.missing_since is None]
        of = {stored.key: str((stored.obj.get("spec") or {}).get("workload")) for stored in known}
        self._remove(
            stored
            for stored in known
            if of[stored.key] not in owners or stored.key.name not in listed.get(of[stored.key], {stored.key.name})
        )
        return self._publish_services(tenant, owners, result)

    def publish_metrics(self, tenant: TenantObjects, result: Mapping[str, Any]) -> None:
        """Make or renew the ClusterMetrics of the clusters of a result, and remove those of clusters that are gone.

        :raises ClusterError: when kcp does not answer, or refuses.
        """
        owners = {stored.key.name: stored for stored in tenant.of(CLUSTER) if stored.missing_since is None}
        known = {stored.key.name: stored for stored in tenant.of(METRICS) if stored.missing_since is None}
        for row in rows_of(result, "metrics"):
            name = str(row.get("name"))
            if name not in owners:
                continue
            status = {key: value for key, value in row.items() if key != "name"}
            if name not in known:
                self._make([ObjectToMake(METRICS, name, owners[name], {}, owners[name].url)])
            if name not in known or _is_due(known[name].obj.get("status") or {}, status):
                path = f"{_collection(owners[name], METRICS)}/{name}/status"
                before = (known[name].obj.get("status") or {}) if name in known else {}
                self._api_at(owners[name].url).merge_patch(path, {"status": patch_of(before, status)}, manager=MANAGER)
        self._remove(stored for name, stored in known.items() if name not in owners)

    def _publish_services(self, tenant: TenantObjects, owners: Mapping[str, Stored], result: Mapping[str, Any]) -> list[str]:
        unmade = list[str]()
        for row in rows_of(result, "global_services"):
            name, owner = str(row.get("name")), owners.get(str((row.get("selector") or {}).get("name")))
            mesh = str((row.get("meshRef") or {}).get("name"))
            binding = self._find(tenant, BINDING, mesh)
            if owner is None:
                continue
            if binding is None:
                unmade.append(owner.key.name)
                continue
            spec = {key: value for key, value in row.items() if key != "name"}
            known = self._find(tenant, SERVICE, name)
            if known is None:
                self._make([ObjectToMake(SERVICE, name, owner, {"spec": spec}, binding.url)])
            elif _annotations(known).get(FOR_WORKLOAD) == owner.key.name and {**(known.obj.get("spec") or {}), **spec} != known.obj.get(
                "spec"
            ):
                self._api_at(known.url).merge_patch(f"{_collection(known, SERVICE)}/{name}", {"spec": spec}, manager=MANAGER)
        own = [stored for stored in self._services(tenant) if _is_made(stored)]
        # A workload that still asks for it keeps it, also while its spec is not valid or Karmada cannot be read.
        asking = {name for name, stored in owners.items() if not stored.deleting and _asks_for_service(stored)}
        self._remove(stored for stored in own if _annotations(stored)[FOR_WORKLOAD] not in asking and not stored.deleting)
        return unmade

    def taken_services(self, tenant: TenantObjects) -> list[str]:
        """Return the names of the GlobalServices of the namespace that are the tenant's own."""
        return sorted(stored.key.name for stored in self._services(tenant) if not _is_made(stored))

    def _services(self, tenant: TenantObjects) -> list[Stored]:
        return [stored for stored in self._store.of_kind(SERVICE) if stored.key[1:3] == (tenant.workspace, tenant.namespace)]

    def _find(self, tenant: TenantObjects, kind: str, name: str) -> Stored | None:
        found = self._store.get(ObjectKey(kind, tenant.workspace, tenant.namespace, name))
        return found if found is not None and found.missing_since is None else None

    def _revision(self, owner: Stored, row: Mapping[str, Any]) -> ObjectToMake:
        spec = {key: row[key] for key in ("workload", "number", "hash", "snapshot")}
        return ObjectToMake(REVISION, str(row["name"]), owner, {"spec": spec}, owner.url)

    def _make(self, answers: Iterable[ObjectToMake]) -> None:
        for answer in answers:
            owner, row = answer.owner, BY_KIND[answer.kind]
            metadata: dict[str, Any] = {"name": answer.name, "namespace": owner.key.namespace}
            if answer.kind == SERVICE:
                metadata["annotations"] = {FOR_WORKLOAD: owner.key.name}
            else:
                who = {"apiVersion": f"{BY_KIND[owner.key.kind].group}/{VERSION}", "kind": owner.key.kind, "name": owner.key.name}
                metadata["ownerReferences"] = [{**who, "uid": owner.uid}]
            body = {"apiVersion": f"{row.group}/{VERSION}", "kind": answer.kind, "metadata": metadata, **answer.body}
            try:
                self._api_at(answer.url).create(_collection(owner, answer.kind), body, manager=MANAGER)
            except WriteConflict:  # it was made meanwhile, and the watch brings it
                continue

    def _remove(self, objects: Iterable[Stored]) -> None:
        for stored in objects:
            self._api_at(stored.url).delete(f"{_collection(stored, stored.key.kind)}/{stored.key.name}", uid=stored.uid)


def _asks_for_service(stored: Stored) -> bool:
    service = (stored.obj.get("spec") or {}).get("service")
    return isinstance(service, Mapping) and bool(service.get("global"))


def _is_made(stored: Stored) -> bool:
    """Return whether a GlobalService was made for the workload after which it is named."""
    return service_name(str(_annotations(stored).get(FOR_WORKLOAD))) == stored.key.name


def _is_due(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether figures have to be written: there are new ones, or some changed and the last write is not of this minute."""
    changed = {k: v for k, v in before.items() if k != "time"} != {k: v for k, v in after.items() if k != "time"}
    last = parse_time(str(before.get("time")))
    return bool(after.keys() - before.keys()) or (changed and (last is None or (datetime.now(UTC) - last).total_seconds() >= RENEWAL))


def _annotations(stored: Stored) -> Mapping[str, Any]:
    return stored.obj["metadata"].get("annotations") or {}


def _collection(stored: Stored, kind: str) -> str:
    return BY_KIND[kind].collection(stored.key.workspace, stored.key.namespace)
