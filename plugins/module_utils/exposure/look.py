# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One item in one cluster at one moment: what there is, and how well it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ..checks.wording import replaces_kube_proxy
from ..items.facts import ObjectFacts
from ..items.models import ExposedService
from ..items.owned import item_of
from ..items.scene import Scene
from ..observe.objects import time_of
from ..services.annotations import is_global, is_shared
from ..services.endpoints import counts
from .addresses import Standing, standing_of
from .doors import Siblings
from .enforcement import Enforcement, enforcement
from .gateway_fitness import why_no_gateway
from .names import DNS_ANNOTATION, main_path, ref_of, route_path
from .remarks import Remark
from .target import Target, find_target, of_the_system

PATIENCE: Final = timedelta(minutes=5)
"""How long an address may take. Load balancers of clouds are there within three minutes as a rule; after that it is said, and a standby
takes over."""


class State(StrEnum):
    """How the item stands in a cluster. The value is the reason of conditions."""

    SILENT = "NoAnswer"  # nothing is known of the cluster now
    UNFIT = "NotPossible"  # the Service is not there, the port, the class, ...; ``Look.trouble`` says what
    EMPTY = "NoReadyEndpoints"
    STARTING = "AddressPending"  # it is yet to be made, or has no address yet
    LATE = "AddressOverdue"  # likewise, for longer than ``PATIENCE``, or whoever assigns addresses has refused
    WELL = "Exposed"  # address and endpoints


@dataclass(frozen=True, kw_only=True)
class Look:
    """``trouble`` only when UNFIT; ``target`` and ``enforcement`` whenever the state is neither that nor SILENT."""

    host: str
    state: State
    trouble: Remark | None = None
    target: Target | None = None
    enforcement: Enforcement | None = None
    there: ObjectFacts | None = None  # our object that gets the address
    named: bool = False  # names lead here: it has the annotation for DNS, the Gateway its route
    standing: Standing = field(default_factory=Standing)
    ready: int = 0  # endpoints of the Service in this cluster
    remote: int = 0  # those of other clusters that answer here too


def look_at(item: ExposedService, siblings: Siblings, host: str, scene: Scene) -> Look:
    """How ``item`` stands in ``host``."""
    if host not in scene.hosts:
        return Look(host=host, state=State.SILENT)
    facts, traffic = scene.facts[host], scene.traffic[host]
    found = traffic.by_path.get(main_path(scene.binding, item))
    there = found if found is not None and item_of(scene.binding, found) == ref_of(item) else None
    named = there is not None and (DNS_ANNOTATION in there.annotations or route_path(scene.binding, item) in traffic.by_path)
    target = find_target(item, traffic)
    if isinstance(target, Remark):
        return Look(host=host, state=State.UNFIT, trouble=target, there=there, named=named)
    trouble = of_the_system(target, facts)
    if trouble is None and item.exposure == "Gateway":
        trouble = why_no_gateway(item, target, facts, traffic)
    means = trouble or enforcement(item, target, facts, traffic, siblings.doors(item, host, scene))
    ready = counts(traffic, target.service.key).ready
    if isinstance(means, Remark):
        return Look(host=host, state=State.UNFIT, trouble=means, target=target, there=there, named=named, ready=ready)
    standing = standing_of(item, there, facts, traffic, means.versions)
    return Look(
        host=host,
        state=_state(there, standing, ready, scene.now),
        target=target,
        enforcement=means,
        there=there,
        named=named,
        standing=standing,
        ready=ready,
    )


def remote_endpoints(looks: Mapping[str, Look], wanted: frozenset[str], scene: Scene) -> dict[str, int]:
    """Inventory name -> ready endpoints of other clusters that answer for the one there.

    Both sides have to be global, the other one shared; with kube-proxy, clients from outside are led to the cluster's own endpoints alone.
    """
    shares: dict[str, int] = {}
    takes: list[str] = []
    for host in wanted:
        look = looks[host]
        if look.target is None or look.enforcement is None or look.enforcement.by_policy:
            continue
        given = look.target.service.annotations
        if is_shared(given):
            shares[host] = look.ready
        if is_global(given) and replaces_kube_proxy(scene.facts[host]):
            takes.append(host)
    return {host: sum(ready for other, ready in shares.items() if other != host) for host in takes}


def _state(there: ObjectFacts | None, standing: Standing, ready: int, now: datetime) -> State:
    if not ready:
        return State.EMPTY
    if standing.addresses:
        return State.WELL
    return State.LATE if there is not None and (standing.rejected or _overdue(there, now)) else State.STARTING


def _overdue(there: ObjectFacts, now: datetime) -> bool:
    made = time_of(there.created)
    return made is None or now - made > PATIENCE
