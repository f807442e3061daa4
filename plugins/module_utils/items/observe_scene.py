# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An observation and the state of the links -> the scene that items are planned on; and the scene again, after writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ..facts import ClusterFacts, ObserveFailure
from ..model import Mesh
from ..observe import Observation
from ..observe.traffic import read_all_traffic
from ..ownership import remembered_by_members
from ..registry import mesh_registry
from ..services.record import record_key
from ..status import Stage
from .facts import TrafficFacts
from .kinds import ItemKind
from .owned import item_of
from .scene import Scene

NOT_ASKED: Final = "not asked: --limit, or the hosts pattern of the play, leaves it out"


def observe_scene(
    observation: Observation,
    mesh: Mesh,
    kinds: Collection[ItemKind],
    *,
    now: datetime,
    binding_status: Mapping[str, Any] | None = None,
    parallel: int = 10,
) -> Scene:
    """Everything that planning items of ``kinds`` may know. Reads over the open connections of ``observation``.

    A member whose services or policies cannot be read is as silent as one that does not answer; its failure says why.
    :param binding_status: ``status.binding``, measured just now; None: not measured, and no item waits for it.
    """
    members = {host: cluster for host, cluster in observation.clusters.items() if host in mesh.clusters}
    traffic, unread = read_all_traffic(members, kinds, parallel=parallel)
    facts = {host: observation.facts[host] for host in mesh.clusters if host in observation.facts}
    links = links_of(binding_status)
    return Scene(
        mesh=mesh,
        now=now,
        facts=facts,
        traffic=traffic,
        failures={**silent_members(observation, mesh), **unread},
        names=names_of(mesh, facts),
        phase=phase_of(binding_status, mesh, traffic),
        dead=dead_members(links, observation.failures, facts),
        link_errors={(a, b): f"{row.get('stage')}: {row.get('error')}" for (a, b), row in links.items() if not row.get("ready")},
    )


def phase_of(binding_status: Mapping[str, Any] | None, mesh: Mesh, traffic: Mapping[str, TrafficFacts]) -> str:
    """Phase of the binding. One in which no link works is Connecting as if it were new, when nobody gives the status before
    (status.build_status). But items are carried out only in a mesh that is connected: where some were, it was connected and broke. So it is
    Degraded, and failover need not wait just when it is needed."""
    phase = str((binding_status or {}).get("phase") or "")
    if phase != "Connecting":
        return phase
    key = record_key(mesh.binding)
    carried_out = any(key in entry.annotations or item_of(mesh.binding, entry) for there in traffic.values() for entry in there.owned)
    return "Degraded" if carried_out else phase


def observe_again(scene: Scene, observation: Observation, kinds: Collection[ItemKind], hosts: Collection[str], *, parallel: int) -> Scene:
    """``scene`` with what ``hosts``, in which something was written, hold now."""
    wanted = {host: observation.clusters[host] for host in scene.hosts if host in hosts}
    traffic, failures = read_all_traffic(wanted, kinds, parallel=parallel)
    kept = {host: entry for host, entry in scene.traffic.items() if host not in failures}
    return replace(scene, traffic={**kept, **traffic}, failures={**scene.failures, **failures})


def silent_members(observation: Observation, mesh: Mesh) -> dict[str, ObserveFailure]:
    """Members of which nothing is known, each with the reason: those that did not answer, and those that were not asked."""
    quiet = (host for host in mesh.clusters if host not in observation.facts)
    unasked = {host: ObserveFailure(host=host, code="CM-TOPO-02", message=NOT_ASKED) for host in quiet}
    return {**unasked, **{host: failure for host, failure in observation.failures.items() if host in mesh.clusters}}


def names_of(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster-name: a member's own word, else what the registry or its peers hold. One that nobody knows is absent."""
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


def links_of(binding_status: Mapping[str, Any] | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    """(cluster, peer) -> its row of ``links``. The status may come from outside: what has not its shape is left out."""
    rows: Any = (binding_status or {}).get("links")
    listed: Sequence[Any] = rows if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)) else ()
    return {(str(row.get("cluster")), str(row.get("peer"))): row for row in listed if isinstance(row, Mapping)}


def as_if_connected(binding_status: Mapping[str, Any], answered: Collection[str]) -> dict[str, Any]:
    """The status with every link between members that answered as ready: to plan, before they are linked, what is planned once they are.

    Links to members that did not answer stay as they are: connecting does not bring those back.
    """
    links = [
        {**row, "ready": True, "error": ""} if row.get("cluster") in answered and row.get("peer") in answered else row
        for row in links_of(binding_status).values()
    ]
    return {**binding_status, "phase": "Connected", "links": links}


def dead_members(
    links: Mapping[tuple[str, str], Mapping[str, Any]], failures: Mapping[str, ObserveFailure], facts: Mapping[str, ClusterFacts]
) -> frozenset[str]:
    """Members that do not answer, and to which no link of a member that answers works.

    A link of which nobody could tell anything (stage ``unknown``) proves nothing. kvstoremesh alone notices a silent peer only after 100 s;
    so whoever measures, and has a silent member, opens new connections.
    """

    def broken(row: Mapping[str, Any]) -> bool:
        return not row.get("ready") and (row.get("stage") != Stage.UNKNOWN.value or row.get("proof") == "refuted")

    found = set()
    for host in failures:
        towards = [row for (cluster, peer), row in links.items() if peer == host and cluster in facts]
        if towards and all(broken(row) for row in towards):
            found.add(host)
    return frozenset(found)
