# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scene on which items are planned, from an observation and the state of the links; and the scene again, after writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ..items.owned import owning_item
from ..items.scene import Scene
from ..leases.agreement import mesh_registry
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, ObserveFailure
from ..mesh.facts.traffic import TrafficFacts
from ..mesh.link_stage import LinkStage
from ..mesh.ownership.objects import remembered_by_members
from ..observe import Observation
from ..observe.traffic import ReadTraffic
from ..services.record import record_key

NOT_ASKED: Final = "not contacted: --limit, or the hosts pattern of the play, leaves it out"


def observe_scene(
    read_traffic: ReadTraffic,
    observation: Observation,
    mesh: Mesh,
    kinds: Collection[ItemKind],
    *,
    now: datetime,
    binding_status: Mapping[str, Any] | None = None,
    parallel: int = 10,
) -> Scene:
    """Return everything that planning items of ``kinds`` may use. Reads over the open connections of ``observation``.

    A member whose services or policies cannot be read counts as one that does not answer; its failure says why.

    :param binding_status: ``status.binding``, as this run measured it; None: not measured, and no item waits for it.
    """
    members = {host: cluster for host, cluster in observation.clusters.items() if host in mesh.clusters}
    traffic, unread = read_traffic(members, kinds, parallel=parallel)
    facts = mesh.members_in(observation.facts)
    failures = {**silent_members(observation, mesh), **unread}
    scene = Scene(mesh=mesh, now=now, facts=facts, traffic=traffic, failures=failures, names=cluster_names_of(mesh, facts))
    return with_links(scene, observation, binding_status)


def with_links(scene: Scene, observation: Observation, binding_status: Mapping[str, Any] | None) -> Scene:
    """Return ``scene`` with the state of the links that ``status.binding`` has; None: not measured."""
    links = link_rows(binding_status)
    return replace(
        scene,
        phase=phase_of(binding_status, scene.mesh, scene.traffic),
        dead=dead_members(links, observation.failures, scene.facts),
        link_errors={(a, b): f"{row.get('stage')}: {row.get('error')}" for (a, b), row in links.items() if not row.get("ready")},
    )


def phase_of(binding_status: Mapping[str, Any] | None, mesh: Mesh, traffic: Mapping[str, TrafficFacts]) -> str:
    """Return the phase of the binding for items.

    Without an earlier status, a binding in which no link works is Connecting, as if it were new (status.build_status). But items are
    carried out only in a connected mesh: where some were, it was connected and broke. So it is Degraded, and failover need not wait just
    when it is needed.
    """
    phase = str((binding_status or {}).get("phase") or "")
    if phase != "Connecting":
        return phase
    key = record_key(mesh.binding)
    carried_out = any(key in entry.annotations or owning_item(mesh.binding, entry) for facts in traffic.values() for entry in facts.owned)
    return "Degraded" if carried_out else phase


def observe_again(
    read_traffic: ReadTraffic,
    scene: Scene,
    observation: Observation,
    kinds: Collection[ItemKind],
    hosts: Collection[str],
    *,
    parallel: int,
) -> Scene:
    """Return ``scene`` with a new read of ``hosts``, in which the run wrote."""
    wanted = {host: observation.clusters[host] for host in scene.hosts if host in hosts}
    traffic, failures = read_traffic(wanted, kinds, parallel=parallel)
    kept = {host: entry for host, entry in scene.traffic.items() if host not in failures}
    return replace(scene, traffic={**kept, **traffic}, failures={**scene.failures, **failures})


def silent_members(observation: Observation, mesh: Mesh) -> dict[str, ObserveFailure]:
    """Return the members of which nothing is known, each with the reason: no answer, or left out of the play."""
    quiet = (host for host in mesh.clusters if host not in observation.facts)
    unasked = {host: ObserveFailure(host=host, code="CM-TOPO-02", message=NOT_ASKED) for host in quiet}
    return {**unasked, **{host: failure for host, failure in observation.failures.items() if host in mesh.clusters}}


def cluster_names_of(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Return inventory name -> cluster-name: as the member has it, else as the registry or its peers do. Unknown ones are absent."""
    registry = mesh_registry(mesh, facts)
    remembered = remembered_by_members(mesh, facts)
    found: dict[str, str] = {}
    for host in mesh.clusters:
        lease = registry.active(host)
        own = facts[host].name if host in facts else ""
        name = own or (lease.name if lease else "") or remembered.get(host, "")
        if name:
            found[host] = name
    return found


def link_rows(binding_status: Mapping[str, Any] | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return (cluster, peer) -> its row of ``links``. The status may come from outside: rows of another shape are left out."""
    rows: Any = (binding_status or {}).get("links")
    listed: Sequence[Any] = rows if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)) else ()
    return {(str(row.get("cluster")), str(row.get("peer"))): row for row in listed if isinstance(row, Mapping)}


def as_if_connected(binding_status: Mapping[str, Any], answered: Collection[str]) -> dict[str, Any]:
    """Return the status with every link between members that answered as ready.

    With it, a run plans before the links exist what it will write once they do. Links to members that did not answer stay as they are:
    connecting does not restore those.
    """
    links = [
        {**row, "ready": True, "error": ""} if row.get("cluster") in answered and row.get("peer") in answered else row
        for row in link_rows(binding_status).values()
    ]
    return {**binding_status, "phase": "Connected", "links": links}


def dead_members(
    links: Mapping[tuple[str, str], Mapping[str, Any]], failures: Mapping[str, ObserveFailure], facts: Mapping[str, ClusterFacts]
) -> frozenset[str]:
    """Return members that do not answer, and to which no link of a member that answers works.

    A link whose state is unknown (stage ``unknown``) proves nothing. kvstoremesh alone notices a silent peer only after up to 130 s; so
    a run that measures links, and has a silent member, opens new connections.
    """

    def broken(row: Mapping[str, Any]) -> bool:
        unknown = row.get("stage") in (LinkStage.UNKNOWN.value, LinkStage.NOT_ASKED.value)
        return not row.get("ready") and (not unknown or row.get("proof") == "refuted")

    found = set()
    for host in failures:
        towards = [row for (cluster, peer), row in links.items() if peer == host and cluster in facts]
        if towards and all(broken(row) for row in towards):
            found.add(host)
    return frozenset(found)
