# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Failover contract of a GlobalService: the affinity and ``shared`` of a Service in each cluster. Pure.

Cilium itself has two states: with affinity Local remote backends are used when no local one is active (1.16: segregateBackends in
pkg/service/service.go, pkg/maps/lbmap/lbmap.go; from 1.18: pkg/clustermesh/selectbackends.go), and backends of a lost peer stay
unchanged. The contract adds numbers: a cluster with fewer than ``minLocalReady`` backends has failed over. It uses those of all
clusters beside its own (affinity None), and its own are not offered to others while one of them has enough (``shared`` false). It
is back at ``minLocalReady`` plus ``hysteresis``.

The decision has no memory: that a cluster has failed over is written on its Service (``FAILED_OVER_ANNOTATION``). So two controllers,
or one that was restarted, decide alike, and deciding again after writing changes nothing.
"""

from __future__ import annotations

from ..items.models import Failover, GlobalService
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.facts.traffic import Key
from .annotations import FAILED_OVER_ANNOTATION, Choice, is_global
from .endpoints import endpoint_counts


def decide(service: GlobalService, key: Key, scene: Scene) -> dict[str, Choice]:
    """Return the choice for every target whose traffic is known, by inventory name; {} without a contract.

    ``key`` is (namespace, name). Deciding again after the choices were written gives the same choices. Between the two thresholds
    nothing changes.
    """
    contract = service.failover
    if contract is None:
        return {}
    ready = ready_of(service, key, scene)
    over = {host: _failed_over(contract, number, has_failed_over(scene, host, key)) for host, number in ready.items()}
    offers = frozenset(host for host in ready if not over[host] and _offers(service, key, scene, host))
    return {host: _choice(service, key, scene, host, over[host], offers, _counted(contract, ready[host], over[host])) for host in ready}


def ready_of(service: GlobalService, key: Key, scene: Scene) -> dict[str, int]:
    """Return the ready endpoints of each target itself, by inventory name; of targets whose traffic is known."""
    return {host: endpoint_counts(scene.traffic[host], key).ready for host in scene.hosts if host in service.targets}


def has_failed_over(scene: Scene, host: str, key: Key) -> bool:
    """Return whether the cluster had failed over at the last write."""
    service = scene.traffic[host].services.get(key)
    return service is not None and service.annotations.get(FAILED_OVER_ANNOTATION) == "true"


def lost_peers(service: GlobalService, key: Key, scene: Scene, host: str) -> tuple[str, ...]:
    """Return peers whose backends ``host`` may still hold although it receives no updates of them."""
    return tuple(
        peer
        for peer in scene.mesh.clusters
        if peer != host
        and scene.mesh.linked(host, peer)
        and (peer in scene.dead or (host, peer) in scene.link_errors)
        and may_have_exported(service, key, scene, peer)
    )


def may_have_exported(service: GlobalService, key: Key, scene: Scene, peer: str) -> bool:
    """Return whether a peer may have exported backends to others.

    The present annotation says little: after a link broke, no change of it arrives. The answer must not depend on anything that carrying
    out the item changes, or deciding again would give another result.
    """
    known = scene.traffic.get(peer)
    if known is None:
        return peer in service.targets
    exported = known.services.get(key)
    if exported is None or owning_item(scene.binding, exported) is not None:
        return False  # what an item made here is a stub, without backends of its own
    return peer in service.targets or is_global(exported.annotations)


def _failed_over(contract: Failover, ready: int, before: bool) -> bool:
    return ready < contract.min_local_ready + (contract.hysteresis if before else 0)


def _offers(service: GlobalService, key: Key, scene: Scene, host: str) -> bool:
    """Return whether every member that is linked to the cluster can use its backends.

    Only then may the few backends of another cluster be withheld from them.
    """
    is_connected = host not in scene.dead and not any(peer == host for _local, peer in scene.link_errors)
    return is_connected and service.shared is not False and may_have_exported(service, key, scene, host)


def _others_are_served(service: GlobalService, scene: Scene, host: str, offers: frozenset[str]) -> bool:
    """Return whether each client of ``host`` has enough backends in its own or a linked cluster."""
    linked = scene.mesh.linked
    clients = [other for other in service.targets if other != host and linked(other, host)]
    return bool(offers) and all(client in offers or any(linked(client, offer) for offer in offers) for client in clients)


def _choice(service: GlobalService, key: Key, scene: Scene, host: str, over: bool, offers: frozenset[str], counted: str) -> Choice:
    base = service.affinity or "Local"
    lost = lost_peers(service, key, scene, host)
    affinity, why = base, [counted]
    if lost:
        affinity = "Local"
        why.append(f"{', '.join(lost)} cannot be reached, so its clients use the backends that are ready here first")
    elif over:
        # With Remote the few are used only when there is no remote one: None would give them more to do, not less.
        affinity = "Remote" if base == "Remote" else "None"
    withheld = over and _others_are_served(service, scene, host, offers)
    if withheld:
        why.append(f"others are served by {', '.join(sorted(offers))}")
    shared = service.shared is not False and not withheld
    return Choice(shared=shared, affinity=affinity, reason="; ".join(why), failed_over=over)


def _counted(contract: Failover, ready: int, over: bool) -> str:
    least, back = contract.min_local_ready, contract.min_local_ready + contract.hysteresis
    if not over:
        return f"{ready} ready, at least {least}"
    return f"{ready} ready, fewer than {least}" if ready < least else f"{ready} ready, back at {back}"
