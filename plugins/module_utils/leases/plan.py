# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lease registry as part of a plan: its content after connecting or disconnecting, and the write that updates a member's copy. Pure.

A copy is written only over the version that was read, and holds all leases of all copies: a lease that another writer adds meanwhile makes
the write fail instead of being lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ..mesh.binding.model import Binding, Mesh
from ..mesh.endpoints.etcd_config import valid_cluster_name
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.objects import labels_of_new_object, made_by_bindings
from ..plan.steps import NOW, ApiWrite, Step
from .agreement import is_certain, mesh_registry, readable_copies, unwitnessed
from .plan_tombstones import take_back_reason, without_tombstones
from .registry import (
    KEY,
    MAX_ID,
    Lease,
    LeaseState,
    Registry,
    covers,
    lease_of,
    may_be_written,
    registry_name,
    with_released,
    with_tombstones,
)
from .tombstones import returning_members

CONNECT_WAVE: Final = 0  # before everything: a name and an id are recorded before any peer dials them
DISCONNECT_WAVE: Final = 4  # after everything: a lease ends after its links
FAREWELL_WAVE: Final = 5  # in former members, after everything of theirs


@dataclass(frozen=True, kw_only=True)
class LeasePlan:
    """What a connection does about the leases, and what the plan of the links has to know of them."""

    names: Mapping[str, str]  # inventory name -> cluster name of members that have an active lease in the copy of any member
    steps: tuple[Step, ...]
    departing: Mapping[str, ClusterFacts]  # by inventory name; former members from which everything of the binding is withdrawn


def plan_leases(
    mesh: Mesh, facts: Mapping[str, ClusterFacts], members: Mapping[str, ClusterFacts], former: Mapping[str, ClusterFacts] | None = None
) -> LeasePlan:
    """Plan the writes of the leases for a connection.

    :param members: those that can be linked; the copies of the others stay as they are.
    :param former: former members that answered. One that is a member under another inventory name does not depart: what is written there is
        in use.
    """
    answered = mesh.members_in(facts)
    uids = {cluster.uid for cluster in answered.values()}
    departing = {host: c for host, c in (former or {}).items() if host not in mesh.clusters and c.uid not in uids}
    copies = copies_after(mesh, answered, registry_after_connect(mesh, facts, former))
    steps = registry_steps(mesh, members.values(), copies, wave=CONNECT_WAVE, why=take_back_reason(returning_members(mesh, facts)))
    removals = (registry_step(mesh, cluster, None, wave=FAREWELL_WAVE) for cluster in departing.values())
    return LeasePlan(
        names=leased_names(mesh, members), steps=(*steps, *(step for step in removals if step is not None)), departing=departing
    )


def registry_after_connect(mesh: Mesh, facts: Mapping[str, ClusterFacts], former: Collection[str] | None = None) -> Registry:
    """Return the registry once the members are connected: names and ids in use are active leases, those of former members are released.

    Members that did not answer keep the leases that they have; facts of clusters outside the mesh are ignored.

    :param former: former members that answered; the other former members get a tombstone. None: all former members left in order.
    """
    members = mesh.members_in(facts)
    registry = mesh_registry(mesh, members)
    gone = {lease.host for lease in registry.leases if lease.state is LeaseState.ACTIVE} - set(mesh.clusters)
    # A former member with the uid of a member is the same cluster under another inventory name: its old lease ends in order, no tombstone.
    uids = {cluster.uid for cluster in members.values() if cluster.uid}
    moved = {lease.host for lease in registry.leases if lease.host in gone and lease.state is LeaseState.ACTIVE and lease.uid in uids}
    silent = gone - moved - set(gone if former is None else former)
    ended = with_tombstones(with_released(registry, gone - silent), silent)
    return with_active_leases(without_tombstones(ended, returning_members(mesh, members)), members.values())


def leased_names(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Return inventory name -> cluster name of the members that have an active lease in the copy of any member that answered."""
    registry = mesh_registry(mesh, mesh.members_in(facts))
    leases = {host: registry.active(host) for host in mesh.clusters}
    return {host: lease.name for host, lease in leases.items() if lease is not None}


def with_active_leases(registry: Registry, clusters: Collection[ClusterFacts]) -> Registry:
    """Return the registry with the names and ids that these clusters run as active leases.

    Clusters without a valid name and id are left out.
    """
    changed: list[Lease] = []
    for cluster in clusters:
        if valid_cluster_name(cluster.name) and 0 < (cluster.id or 0) <= MAX_ID:
            changed.extend(_adopt(registry, cluster))
    return registry.with_leases(changed) if changed else registry


def _adopt(registry: Registry, cluster: ClusterFacts) -> list[Lease]:
    running, known = lease_of(cluster), registry.active(cluster.host)
    others = [
        replace(lease, state=LeaseState.RELEASED, since=NOW, serial=lease.next_serial)
        for lease in registry.leases
        if lease.host == cluster.host and lease.key != running.key and lease.state in (LeaseState.ACTIVE, LeaseState.RESERVED)
    ]
    if known is None or known.key != running.key:
        return [*others, replace(running, serial=registry.serial(cluster.host) + 1)]
    if known.uid == running.uid and covers(known.pod_cidrs, running.pod_cidrs):
        running = replace(running, pod_cidrs=known.pod_cidrs)  # ranges only grow while a lease lasts: a removed node changes nothing
    running = replace(running, ca=running.ca or known.ca, serial=known.serial)
    return [*others, replace(running, serial=known.next_serial)] if running != known else others


def registry_after_disconnect(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: Collection[str]) -> Registry:
    """Return the registry without ``leaving``: a cluster that answered has left in order, one that did not leaves a tombstone."""
    registry = mesh_registry(mesh, facts)
    return with_tombstones(
        with_released(registry, [host for host in leaving if host in facts]), [host for host in leaving if host not in facts]
    )


def copies_after(mesh: Mesh, facts: Mapping[str, ClusterFacts], after: Registry) -> dict[str, Registry]:
    """Return what the copy of each cluster in ``facts`` is to be: ``after``.

    Where too few copies of a larger mesh can be read to tell which is wrong, what one of them holds alone stays in it, and in it alone:
    nothing that is true gets lost, and nothing that is made up spreads.
    """
    copies = readable_copies(mesh, facts)
    if is_certain(len(copies), len(mesh.clusters)):
        return dict.fromkeys(facts, after)
    whole = mesh_registry(mesh, facts)
    alone = {host: unwitnessed(copy, whole) for host, copy in copies.items()}
    return {host: after.with_leases(alone[host]) if alone.get(host) else after for host in facts}


def registry_steps(mesh: Mesh, clusters: Iterable[ClusterFacts], after: Mapping[str, Registry], *, wave: int, why: str = "") -> list[Step]:
    """Return the writes that make the copies in ``clusters`` equal to ``after`` (by inventory name), as ``registry_step``."""
    made = (registry_step(mesh, cluster, after[cluster.host], wave=wave, why=why) for cluster in clusters)
    return [step for step in made if step is not None]


def registry_step(mesh: Mesh, cluster: ClusterFacts, after: Registry | None, *, wave: int, why: str = "") -> Step | None:
    """Return the write that makes the copy in ``cluster`` equal to ``after``.

    Returns None if it is equal already, or if the ConfigMap is not this binding's.

    :param after: None removes the copy, with the ConfigMap if no other writer has anything in it.
    """
    facts = cluster.registry
    text = after.text if after is not None else ""
    if (after is not None and facts.text == text) or not may_be_written(facts, mesh.binding):
        return None
    if after is None:
        return _removal(mesh.binding, cluster, wave) if facts.present else None
    why = why or "record the leases of names and ids"
    make = partial(Step, wave=wave, cluster=cluster.host, object=_object(mesh.binding, cluster), why=why)
    if not facts.present:
        # Server-side apply and not POST: its right to create can be limited to one name. If another writer creates the ConfigMap first,
        # the API server refuses the apply where the two texts differ, because that writer owns the key.
        action = ApiWrite(method="apply", path=_path(mesh.binding, cluster), body=body_of_new(mesh.binding, cluster.namespace, text))
        return make(verb="create", undo="playbook edge_portal.cilium_mesh.disconnect deletes it", action=action)
    body = {"metadata": {"resourceVersion": facts.resource_version}, "data": {KEY: text}}
    return make(
        verb="patch",
        undo="every other member keeps a copy; leases are never reverted by hand",
        action=ApiWrite(method="merge", path=_path(mesh.binding, cluster), body=body),
    )


def body_of_new(binding: Binding, namespace: str, text: str | None) -> dict[str, Any]:
    """Return the ConfigMap of a member that has none yet; without the key if ``text`` is None."""
    metadata = {"name": registry_name(binding), "namespace": namespace, "labels": labels_of_new_object(binding)}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return body if text is None else {**body, "data": {KEY: text}}


def registry_path(binding: Binding, namespace: str) -> str:
    """Return the API path of the ConfigMap."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{registry_name(binding)}"


def _removal(binding: Binding, cluster: ClusterFacts, wave: int) -> Step | None:
    facts = cluster.registry
    make = partial(Step, wave=wave, cluster=cluster.host, object=_object(binding, cluster))
    undo = "playbook edge_portal.cilium_mesh.connect writes it again"
    if made_by_bindings(facts.managers, facts.labels):
        body: dict[str, Any] = {"metadata": {"uid": facts.uid, "resourceVersion": facts.resource_version}}
        action = ApiWrite(method="delete", path=_path(binding, cluster), body=body)
        return make(verb="delete", why="the cluster is in no mesh of this binding any more", undo=undo, action=action)
    if not facts.text:
        return None
    body = {"metadata": {"resourceVersion": facts.resource_version}, "data": {KEY: None}}
    action = ApiWrite(method="merge", path=_path(binding, cluster), body=body)
    return make(verb="patch", why="remove the leases; another writer has data in this ConfigMap", undo=undo, action=action)


def _path(binding: Binding, cluster: ClusterFacts) -> str:
    return registry_path(binding, cluster.namespace)


def _object(binding: Binding, cluster: ClusterFacts) -> str:
    return f"ConfigMap {cluster.namespace}/{registry_name(binding)}"
