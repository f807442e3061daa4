# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""In which clusters an item has its objects, and to which of them its name leads.

With ``primary`` and ``standby`` one cluster serves: the first in order that can. The decision looks at the clusters as they are and at
nothing else: there is no memory that could be lost, and the same clusters give the same answer. What keeps it from going to and fro is that
a cluster takes over again only when it could serve at once, with an address and ready endpoints, and until then the one before goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..items.models import ExposedService
from ..items.scene import Scene
from .doors import Siblings
from .look import Look, State, look_at, remote_endpoints
from .names import order_of


@dataclass(frozen=True, kw_only=True)
class Decision:
    """``wanted``: clusters with an object. ``serving``: those to which the hostname leads. ``left_alone``: nothing is changed there."""

    item: ExposedService
    looks: Mapping[str, Look]
    wanted: frozenset[str]
    serving: frozenset[str]
    left_alone: frozenset[str]

    @cached_property
    def order(self) -> tuple[str, ...]:
        return order_of(self.item)

    def role(self, host: str) -> str:
        """``active``, ``primary`` or ``standby``."""
        if not self.item.primary:
            return "active"
        return "primary" if host == self.item.primary else "standby"


def decide(item: ExposedService, siblings: Siblings, scene: Scene) -> Decision:
    """Where ``item`` is exposed, as the clusters are now."""
    looks = {host: look_at(item, siblings, host, scene) for host in order_of(item)}
    if not item.source_ranges:
        return Decision(item=item, looks=looks, wanted=frozenset(), serving=frozenset(), left_alone=frozenset())
    if item.primary:
        return _one_of(item, looks, scene)
    wanted = frozenset(host for host, look in looks.items() if look.enforcement is not None)
    remote = remote_endpoints(looks, wanted, scene)
    told = {host: _with_remote(look, remote.get(host, 0)) for host, look in looks.items()}
    left = frozenset(host for host, look in looks.items() if look.state is State.UNFIT)
    return Decision(item=item, looks=told, wanted=wanted, serving=wanted, left_alone=left)


def _with_remote(look: Look, remote: int) -> Look:
    """Endpoints of others are endpoints: who has an address and those answers."""
    state = State.WELL if look.state is State.EMPTY and remote and look.standing.addresses else look.state
    return replace(look, remote=remote, state=state)


def _one_of(item: ExposedService, looks: Mapping[str, Look], scene: Scene) -> Decision:
    order = order_of(item)
    leader = _leader(order, looks, scene)
    wanted = {item.primary} if looks[item.primary].enforcement is not None else set()  # its address stays, for the way back
    serving = leader
    left = {item.primary} if looks[item.primary].state is State.UNFIT else set()
    if leader:
        wanted.add(leader)
        if looks[leader].state is not State.WELL and item.exposure != "NodePort":  # a node port is there with its Service
            serving = _until_then(order, looks, leader) or leader
            wanted.add(serving)
    else:  # nobody can: nothing is gained by taking away what there is
        held = [host for host in order if looks[host].there is not None]
        wanted |= {host for host in held if looks[host].enforcement is not None}
        left |= {host for host in held if looks[host].enforcement is None}
        named = [host for host in held if looks[host].named and host in wanted]
        serving = named[0] if named else item.primary if item.primary in wanted else ""
    return Decision(
        item=item,
        looks=looks,
        wanted=frozenset(wanted),
        serving=frozenset({serving} if serving else ()),
        left_alone=frozenset(left),
    )


def _leader(order: Sequence[str], looks: Mapping[str, Look], scene: Scene) -> str:
    """The first that can serve or is about to. One that the mesh has lost only when all of them are: then the mesh is broken, not it."""
    able = [host for host in order if looks[host].state in (State.WELL, State.STARTING)]
    held = [host for host in able if not _lost(host, scene)]
    return next(iter(held or able), "")


def _until_then(order: Iterable[str], looks: Mapping[str, Look], leader: str) -> str:
    """Who serves until ``leader`` has an address; "" when nobody can."""
    return next((host for host in order if host != leader and looks[host].state is State.WELL), "")


def _lost(host: str, scene: Scene) -> bool:
    """Does no link of any other member that answers lead to it? Links that nobody measured are not lost."""
    others = [other for other in scene.hosts if other != host and scene.mesh.linked(other, host)]
    return host in scene.dead or (bool(others) and all((other, host) in scene.link_errors for other in others))
