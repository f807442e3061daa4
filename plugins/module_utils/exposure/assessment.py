# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Assessment of one item in one cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from ..base.json_fields import parse_time
from ..items.models import ExposedService
from ..items.owned import owning_item
from ..items.scene import Scene
from ..mesh.facts.traffic import ObjectFacts
from ..mesh.versions.cilium_config import replaces_kube_proxy
from ..services.annotations import is_global, is_shared
from ..services.endpoints import endpoint_counts
from .addresses import AddressStatus, address_status
from .competing_services import CompetingServices
from .enforcement import Enforcement, enforcement
from .gateway_fitness import why_no_gateway
from .issues import ExposureIssue
from .names import DNS_ANNOTATION, main_path, route_path
from .target import ExposureTarget, find_target, system_service_issue

PATIENCE: Final = timedelta(minutes=5)
"""Time within which an address is expected; after it a finding says so, and a standby takes over.

Load balancers of clouds have one within three minutes as a rule.
"""


class State(StrEnum):
    """State of the item in a cluster. The value is the reason of conditions."""

    SILENT = "NoAnswer"  # the cluster was not observed
    UNFIT = "NotPossible"  # the Service, its port or the class is missing, for example; ``Assessment.trouble`` says which
    EMPTY = "NoReadyEndpoints"
    STARTING = "AddressPending"  # not created yet, or without an address yet
    LATE = "AddressOverdue"  # without an address for longer than ``PATIENCE``, or its controller has refused
    WELL = "Exposed"  # address and endpoints


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """State of one item in one cluster.

    ``trouble`` is set only with UNFIT; ``target`` and ``enforcement`` in every state other than that and SILENT.
    """

    host: str
    state: State
    trouble: ExposureIssue | None = None
    target: ExposureTarget | None = None
    enforcement: Enforcement | None = None
    observed: ObjectFacts | None = None  # our object that gets the address
    named: bool = False  # names lead here: it has the annotation for DNS, the Gateway its route
    standing: AddressStatus = field(default_factory=AddressStatus)
    ready: int = 0  # endpoints of the Service in this cluster
    remote: int = 0  # those of other clusters that answer here too


def assess(item: ExposedService, siblings: CompetingServices, host: str, scene: Scene) -> Assessment:
    """Return the assessment of ``item`` in ``host``."""
    if host not in scene.hosts:
        return Assessment(host=host, state=State.SILENT)
    facts, traffic = scene.facts[host], scene.traffic[host]
    found = traffic.by_path.get(main_path(scene.binding, item))
    observed = found if found is not None and owning_item(scene.binding, found) == item.ref else None
    named = observed is not None and (DNS_ANNOTATION in observed.annotations or route_path(scene.binding, item) in traffic.by_path)
    target = find_target(item, traffic)
    if isinstance(target, ExposureIssue):
        return Assessment(host=host, state=State.UNFIT, trouble=target, observed=observed, named=named)
    trouble = system_service_issue(target, facts)
    if trouble is None and item.exposure == "Gateway":
        trouble = why_no_gateway(item, target, facts, traffic)
    means = trouble or enforcement(item, target, facts, traffic, siblings.competitors(item, host, scene))
    ready = endpoint_counts(traffic, target.service.key).ready
    if isinstance(means, ExposureIssue):
        return Assessment(host=host, state=State.UNFIT, trouble=means, target=target, observed=observed, named=named, ready=ready)
    standing = address_status(item, observed, facts, traffic, means.versions)
    return Assessment(
        host=host,
        state=_state(observed, standing, ready, scene.now),
        target=target,
        enforcement=means,
        observed=observed,
        named=named,
        standing=standing,
        ready=ready,
    )


def remote_endpoints(assessments: Mapping[str, Assessment], wanted: frozenset[str], scene: Scene) -> dict[str, int]:
    """Return the ready endpoints of other clusters that answer for each cluster, by inventory name.

    Both sides have to be global, the other one shared; with kube-proxy, clients from outside reach the cluster's own endpoints alone.
    """
    shares: dict[str, int] = {}
    takes: list[str] = []
    for host in wanted:
        assessment = assessments[host]
        if assessment.target is None or assessment.enforcement is None or assessment.enforcement.by_policy:
            continue
        given = assessment.target.service.annotations
        if is_shared(given):
            shares[host] = assessment.ready
        if is_global(given) and replaces_kube_proxy(scene.facts[host]):
            takes.append(host)
    return {host: sum(ready for other, ready in shares.items() if other != host) for host in takes}


def _state(observed: ObjectFacts | None, standing: AddressStatus, ready: int, now: datetime) -> State:
    if not ready:
        return State.EMPTY
    if standing.addresses:
        return State.WELL
    return State.LATE if observed is not None and (standing.rejected or _overdue(observed, now)) else State.STARTING


def _overdue(observed: ObjectFacts, now: datetime) -> bool:
    made = parse_time(observed.created)
    return made is None or now - made > PATIENCE
