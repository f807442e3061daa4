# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Placement of an item: the clusters with its objects, and those to which its hostname leads.

With ``primary`` and ``standby`` one cluster serves: the first in order that can. The decision depends on the observed clusters alone:
it has no memory that could be lost, and the same clusters give the same answer. It does not flap, because a cluster takes over again
only when it could serve at once, with an address and ready endpoints, and until then the previous one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..items.models import ExposedService
from ..items.scene import Scene
from .assessment import Assessment, State, assess, remote_endpoints
from .competing_services import CompetingServices
from .names import order_of


@dataclass(frozen=True, kw_only=True)
class PlacementDecision:
    """Placement of one item.

    ``wanted``: clusters with an object. ``serving``: those to which the hostname leads. ``left_alone``: nothing is changed there.
    """

    item: ExposedService
    assessments: Mapping[str, Assessment]
    wanted: frozenset[str]
    serving: frozenset[str]
    left_alone: frozenset[str]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Clusters of the item; the primary first."""
        return order_of(self.item)

    def role(self, host: str) -> str:
        """Return ``active``, ``primary`` or ``standby``."""
        if not self.item.primary:
            return "active"
        return "primary" if host == self.item.primary else "standby"


def decide_placement(item: ExposedService, siblings: CompetingServices, scene: Scene) -> PlacementDecision:
    """Return where ``item`` is exposed, as the clusters are now."""
    assessments = {host: assess(item, siblings, host, scene) for host in order_of(item)}
    if not item.source_ranges:
        return PlacementDecision(item=item, assessments=assessments, wanted=frozenset(), serving=frozenset(), left_alone=frozenset())
    if item.primary:
        return _one_of(item, assessments, scene)
    wanted = frozenset(host for host, assessment in assessments.items() if assessment.enforcement is not None)
    remote = remote_endpoints(assessments, wanted, scene)
    completed = {host: _with_remote(assessment, remote.get(host, 0)) for host, assessment in assessments.items()}
    left = frozenset(host for host, assessment in assessments.items() if assessment.state is State.UNFIT)
    return PlacementDecision(item=item, assessments=completed, wanted=wanted, serving=wanted, left_alone=left)


def _with_remote(assessment: Assessment, remote: int) -> Assessment:
    """Return the assessment with endpoints of other clusters. A cluster with an address and remote endpoints answers."""
    state = State.WELL if assessment.state is State.EMPTY and remote and assessment.standing.addresses else assessment.state
    return replace(assessment, remote=remote, state=state)


def _one_of(item: ExposedService, assessments: Mapping[str, Assessment], scene: Scene) -> PlacementDecision:
    order = order_of(item)
    leader = _leader(order, assessments, scene)
    wanted = {item.primary} if assessments[item.primary].enforcement is not None else set()  # its address stays, for the way back
    serving = leader
    left = {item.primary} if assessments[item.primary].state is State.UNFIT else set()
    if leader:
        wanted.add(leader)
        if assessments[leader].state is not State.WELL and item.exposure != "NodePort":  # a node port is there with its Service
            serving = _until_then(order, assessments, leader) or leader
            wanted.add(serving)
    else:  # no cluster can serve, so removing the present objects gains nothing
        held = [host for host in order if assessments[host].observed is not None]
        wanted |= {host for host in held if assessments[host].enforcement is not None}
        left |= {host for host in held if assessments[host].enforcement is None}
        named = [host for host in held if assessments[host].named and host in wanted]
        serving = named[0] if named else item.primary if item.primary in wanted else ""
    return PlacementDecision(
        item=item,
        assessments=assessments,
        wanted=frozenset(wanted),
        serving=frozenset({serving} if serving else ()),
        left_alone=frozenset(left),
    )


def _leader(order: Sequence[str], assessments: Mapping[str, Assessment], scene: Scene) -> str:
    """Return the first cluster that can serve or is about to.

    A cluster that the mesh has lost counts only when all are lost: then the mesh is broken, not the cluster.
    """
    able = [host for host in order if assessments[host].state in (State.WELL, State.STARTING)]
    held = [host for host in able if not _lost(host, scene)]
    return next(iter(held or able), "")


def _until_then(order: Iterable[str], assessments: Mapping[str, Assessment], leader: str) -> str:
    """Return the cluster that serves until ``leader`` has an address; "" when none can."""
    return next((host for host in order if host != leader and assessments[host].state is State.WELL), "")


def _lost(host: str, scene: Scene) -> bool:
    """Return whether no link of any other member that answers leads to the cluster. Links that were not measured are not lost."""
    others = [other for other in scene.hosts if other != host and scene.mesh.linked(other, host)]
    return host in scene.dead or (bool(others) and all((other, host) in scene.link_errors for other in others))
