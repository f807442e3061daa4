# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Table of the global services of a mesh as they are: where their backends are, and which clusters' clients use them.

It is made once for all losses. The entries of a cluster are found by the peer that is lost, since a full mesh of 50 clusters has 1,225
pairs, and each may have 1,000 services.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..items.desired import Desired
from ..items.models import Failover, GlobalService
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.facts.traffic import Key, ObjectFacts
from ..mesh.versions.lost_peer import Seconds, delays, kept_for
from ..mesh.versions.minors import reader_version
from ..services.annotations import AFFINITY, affinity_of
from ..services.assignment import assign_services
from ..services.failover_findings import cache_ttl
from ..services.index import index_of
from ..services.mcs import is_exported
from ..services.mesh_view import MeshView

SERVICE: Final = "Service"
IMPORT: Final = "ServiceImport"


@dataclass(frozen=True, kw_only=True, eq=False)
class ServiceRow:
    """One global service.

    ``ready``: ready endpoints by the clusters in which it is global. ``exporters``: those that offer them to others. ``consumers``:
    affinity by the clusters whose clients may use backends of others.
    """

    kind: str  # Service, or ServiceImport for MCS-API
    key: Key
    ready: Mapping[str, int]
    exporters: Mapping[str, int]
    consumers: Mapping[str, str]
    contract: Failover | None = None
    contract_hosts: frozenset[str] = frozenset()

    @property
    def shown(self) -> str:
        """Name of the service for messages, e.g. ``shop/web``."""
        return f"{self.key[0]}/{self.key[1]}"


class Signature(NamedTuple):
    """Everything about a consumer's backends that decides what a loss does there; many entries have the same."""

    affinity: str
    local: int
    remote: int  # ready ones of other clusters, those of lost links among them
    frozen: int  # of ``remote``: those of peers whose link does not work today
    detect_within: int | None  # of the failover contract; None without one


@dataclass(frozen=True, kw_only=True, eq=False)
class ServiceUse:
    """One service as clients of one cluster use it."""

    row: ServiceRow
    host: str
    signature: Signature


@dataclass(frozen=True, kw_only=True)
class ServiceTable:
    """All global services with at least one ready backend, and how long each cluster keeps those of a lost peer.

    ``by_peer``: (cluster, peer) -> entries of the cluster that use backends of the peer, each with their number. ``dropped``: seconds after
    the loss at which the cluster drops them by itself; None for never.
    """

    rows: tuple[ServiceRow, ...]
    by_peer: Mapping[tuple[str, str], tuple[tuple[ServiceUse, int], ...]]
    by_host: Mapping[str, tuple[ServiceRow, ...]]  # rows with ready backends in the cluster
    dropped: Mapping[str, Seconds | None]
    broken: Mapping[str, frozenset[str]] = field(default_factory=dict)  # cluster -> peers to which its link does not work today


def table_of(scene: Scene, desired: Desired) -> ServiceTable:
    """Return the table of a scene. ``desired`` says which services have a failover contract."""
    rows = tuple(row for row in (*_service_rows(scene, desired), *_import_rows(scene)) if sum(row.ready.values()))
    broken: dict[str, set[str]] = {host: set() for host in scene.hosts}
    for local, peer in scene.link_errors:
        if local in broken:
            broken[local].add(peer)
    by_peer: dict[tuple[str, str], list[tuple[ServiceUse, int]]] = {}
    by_host: dict[str, list[ServiceRow]] = {}
    for row in rows:
        for host, ready in row.ready.items():
            if ready:
                by_host.setdefault(host, []).append(row)
        for host, affinity in row.consumers.items():
            seen = {peer: ready for peer, ready in row.exporters.items() if peer != host and scene.mesh.linked(host, peer)}
            if not seen:
                continue
            # The contract goes by peers that are among its targets (services/failover.py, may_have_exported).
            covered = row.contract is not None and row.contract_hosts >= {host, *seen}
            detect = row.contract.detect_within if row.contract and covered else None
            frozen = sum(ready for peer, ready in seen.items() if peer in broken[host])
            signature = Signature(affinity, row.ready.get(host, 0), sum(seen.values()), frozen, detect)
            entry = ServiceUse(row=row, host=host, signature=signature)
            for peer, ready in seen.items():
                by_peer.setdefault((host, peer), []).append((entry, ready))
    return ServiceTable(
        rows=rows,
        by_peer={pair: tuple(entries) for pair, entries in by_peer.items()},
        by_host={host: tuple(found) for host, found in by_host.items()},
        dropped={host: _dropped(scene, host) for host in scene.hosts},
        broken={host: frozenset(peers) for host, peers in broken.items()},
    )


def _dropped(scene: Scene, host: str) -> Seconds | None:
    """Return when the cluster drops the backends of a lost peer. A TTL that is no duration is not relied on."""
    ttl = cache_ttl(scene.facts[host])
    return kept_for(delays(reader_version(scene.facts[host])).either, ttl.seconds if ttl.supported else None)


def _service_rows(scene: Scene, desired: Desired) -> Iterator[ServiceRow]:
    view = MeshView(scene=scene)
    users: dict[Key, list[str]] = {}
    for host in scene.hosts:
        for key, service in scene.traffic[host].services.items():
            if view.uses(host, key) and not _made_for_exposure(scene, service):
                users.setdefault(key, []).append(host)
    contracts = _contracts(scene, desired)
    for key in sorted(users):
        hosts = users[key]
        ready = {host: view.endpoints(host, key).ready for host in hosts}
        contract, targets = contracts.get(key, (None, frozenset()))
        yield ServiceRow(
            kind=SERVICE,
            key=key,
            ready=ready,
            exporters={host: ready[host] for host in hosts if ready[host] and view.exports(host, key)},
            consumers={host: affinity_of(view.annotations_of(host, key)) for host in hosts},
            contract=contract,
            contract_hosts=targets,
        )


def _made_for_exposure(scene: Scene, service: ObjectFacts) -> bool:
    """Return whether an exposed service made it: it is global as the Service that it leads to, and exists where the item is served."""
    owner = owning_item(scene.binding, service)
    return owner is not None and owner.kind is ItemKind.EXPOSURE


def _contracts(scene: Scene, desired: Desired) -> dict[Key, tuple[Failover | None, frozenset[str]]]:
    """Return the contract of each Service with the clusters where it holds; of items that are carried out."""
    if not any(item.failover for item in desired.each(GlobalService)):
        return {}
    assignment = assign_services(desired, scene, index_of(scene))
    return {
        key: (item.failover, frozenset(hosts))
        for item in desired.each(GlobalService)
        if item.failover and not assignment.lost.get(item.name)
        for key, hosts in assignment.won[item.name].items()
    }


def _import_rows(scene: Scene) -> Iterator[ServiceRow]:
    """Yield the services of MCS-API. Cilium merges the exports into one Service derived in each cluster with the ServiceImport."""
    exporters: dict[Key, list[str]] = {}
    for host in scene.hosts:
        for key, export in scene.traffic[host].exports.items():
            if is_exported(export):
                exporters.setdefault(key, []).append(host)
    view = MeshView(scene=scene)
    for key in sorted(exporters):
        ready = {host: view.endpoints(host, key).ready for host in exporters[key]}
        affinity = _exported_affinity(scene.traffic[exporters[key][0]].exports[key].spec)
        yield ServiceRow(
            kind=IMPORT,
            key=key,
            ready=ready,
            exporters={host: number for host, number in ready.items() if number},
            consumers={host: affinity for host in scene.hosts if key in scene.traffic[host].imports},
        )


def _exported_affinity(spec: Mapping[str, Any]) -> str:
    given = spec.get("exportedAnnotations")
    value = str(given.get(AFFINITY, "")).lower() if isinstance(given, Mapping) else ""
    return {"local": "Local", "remote": "Remote"}.get(value, "None")
