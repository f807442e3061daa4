# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The registry of leases as part of a plan: what it says after connecting or disconnecting, and the write that brings a copy there. Pure.

A copy is written only over the version that was read, and holds all that any copy held: a lease that somebody else adds meanwhile makes
the write fail instead of being lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from .facts import ClusterFacts
from .model import Binding, Mesh
from .ownership import labels_of_new_object, made_by_bindings
from .peers import valid_cluster_name
from .plan_tombstones import without_tombstones
from .registry import (
    KEY,
    MAX_ID,
    Lease,
    LeaseState,
    Registry,
    covers,
    dead,
    lease_of,
    may_be_written,
    mesh_registry,
    registry_name,
    released,
)
from .steps import NOW, ApiWrite, Step
from .tombstones import returns

CONNECT_WAVE: Final = 0  # before everything: a name and an id are on record before anybody dials them
DISCONNECT_WAVE: Final = 4  # after everything: a lease ends when its links have


def after_connect(mesh: Mesh, facts: Mapping[str, ClusterFacts], left: Collection[str] | None = None) -> Registry:
    """The registry once the members are connected: what runs is adopted, and who is no member any more has left.

    Members that did not answer keep the leases that they have; facts of clusters outside the mesh are ignored.
    :param left: those who are no members any more and answered; the others of them leave a tombstone. None: all have left in order.
    """
    members = {host: facts[host] for host in mesh.clusters if host in facts}
    registry = mesh_registry(mesh, members)
    gone = {lease.host for lease in registry.leases if lease.state is LeaseState.ACTIVE} - set(mesh.clusters)
    # Under another inventory name it is still there: its old lease ends in order, and nobody is locked out.
    there = {cluster.uid for cluster in members.values() if cluster.uid}
    moved = {lease.host for lease in registry.leases if lease.host in gone and lease.state is LeaseState.ACTIVE and lease.uid in there}
    silent = gone - moved - set(gone if left is None else left)
    ended = dead(released(registry, gone - silent), silent)
    return adopted(without_tombstones(ended, returns(mesh, members)), members.values())


def leased_names(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster name of the members that any member which answered has on record as active."""
    registry = mesh_registry(mesh, {host: facts[host] for host in mesh.clusters if host in facts})
    leases = {host: registry.active(host) for host in mesh.clusters}
    return {host: lease.name for host, lease in leases.items() if lease is not None}


def adopted(registry: Registry, clusters: Collection[ClusterFacts]) -> Registry:
    """The registry with what these clusters run as their active leases; clusters without a valid name and id are left out."""
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
        if lease.host == cluster.host and lease.key != running.key and lease.state in (LeaseState.ACTIVE, LeaseState.CLAIMED)
    ]
    if known is None or known.key != running.key:
        return [*others, replace(running, serial=registry.serial(cluster.host) + 1)]
    if known.uid == running.uid and covers(known.pod_cidrs, running.pod_cidrs):
        running = replace(running, pod_cidrs=known.pod_cidrs)  # ranges only grow while a lease lasts: a node that goes is no news
    running = replace(running, ca=running.ca or known.ca, serial=known.serial)
    return [*others, replace(running, serial=known.next_serial)] if running != known else others


def after_disconnect(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: Collection[str]) -> Registry:
    """The registry of those that stay: who answered has left in order, who did not leaves a tombstone."""
    registry = mesh_registry(mesh, facts)
    return dead(released(registry, [host for host in leaving if host in facts]), [host for host in leaving if host not in facts])


def registry_step(mesh: Mesh, cluster: ClusterFacts, after: Registry | None, *, wave: int, why: str = "") -> Step | None:
    """The write that makes the copy in ``cluster`` say ``after``; None when it does, or when the ConfigMap is not this binding's.

    :param after: None takes the copy away, with the ConfigMap if nobody else has anything in it.
    """
    facts = cluster.registry
    text = after.text if after is not None else ""
    if (after is not None and facts.text == text) or not may_be_written(facts, mesh.binding):
        return None
    if after is None:
        return _removal(mesh.binding, cluster, wave) if facts.present else None
    why = why or "keep who holds which name and id"
    make = partial(Step, wave=wave, cluster=cluster.host, object=_object(mesh.binding, cluster), why=why)
    if not facts.present:
        # Server-side apply and not POST: its right to create can be limited to one name. If somebody creates it first, the API server
        # refuses where the two texts differ, as the key is then another writer's.
        action = ApiWrite(method="apply", path=_path(mesh.binding, cluster), body=body_of_new(mesh.binding, cluster.namespace, text))
        return make(verb="create", undo="playbook edge_portal.cilium_mesh.disconnect takes it away", action=action)
    body = {"metadata": {"resourceVersion": facts.resource_version}, "data": {KEY: text}}
    return make(
        verb="patch",
        undo="every other member keeps a copy; leases are never taken back by hand",
        action=ApiWrite(method="merge", path=_path(mesh.binding, cluster), body=body),
    )


def body_of_new(binding: Binding, namespace: str, text: str | None) -> dict[str, Any]:
    """The ConfigMap of a member that has none yet; without the key when ``text`` is None."""
    metadata = {"name": registry_name(binding), "namespace": namespace, "labels": labels_of_new_object(binding)}
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return body if text is None else {**body, "data": {KEY: text}}


def registry_path(binding: Binding, namespace: str) -> str:
    """API path of the ConfigMap."""
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
    return make(verb="patch", why="take the leases out; somebody else has something in this ConfigMap", undo=undo, action=action)


def _path(binding: Binding, cluster: ClusterFacts) -> str:
    return registry_path(binding, cluster.namespace)


def _object(binding: Binding, cluster: ClusterFacts) -> str:
    return f"ConfigMap {cluster.namespace}/{registry_name(binding)}"
