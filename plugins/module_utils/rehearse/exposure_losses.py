# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a loss does to exposed services: which cluster answers before it, and which one the next run would let answer after it.

The decision after the loss is the one that a run would make (exposure/placement.py), on a scene without what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ..exposure.assessment import State
from ..exposure.competing_services import CompetingServices
from ..exposure.placement import PlacementDecision, decide_placement
from ..items.desired import Desired
from ..items.models import ExposedService
from ..items.scene import Scene
from ..mesh.facts.cluster import ObserveFailure
from .loss import Loss

REHEARSED: Final = "CM-API-01"
"""Code of the failure that a lost member has in the scene of a rehearsal, as one that does not answer."""


class Fate(StrEnum):
    """What becomes of an exposed service."""

    WITHOUT = "without-cluster"  # no cluster can answer any more
    MOVES = "moves"  # another cluster answers after the next run
    FEWER = "fewer"  # fewer clusters answer than before


@dataclass(frozen=True, kw_only=True)
class ExposureLoss:
    """What a loss does to one exposed service. ``waits``: the cluster that takes over has no address yet."""

    item: ExposedService
    fate: Fate
    before: tuple[str, ...]
    after: tuple[str, ...]
    waits: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {
            "name": self.item.name,
            "namespace": self.item.namespace,
            "service": self.item.service,
            "fate": self.fate.value,
            "servedBy": list(self.before),
            "servedByAfterwards": list(self.after),
            "waitsForAddress": self.waits,
        }


def without(scene: Scene, loss: Loss) -> Scene:
    """Return the scene as a run would observe it after the loss and after every link to what is lost was proven not to work."""
    gone = {host: ObserveFailure(host=host, code=REHEARSED, message="it is gone in this rehearsal") for host in loss.members}
    cut = {*loss.links, *loss.dead}
    errors = {pair: "unreachable: gone in this rehearsal" for pair in scene.mesh.links if pair in cut or pair[1] in loss.members}
    return replace(
        scene,
        facts={host: facts for host, facts in scene.facts.items() if host not in gone},
        traffic={host: traffic for host, traffic in scene.traffic.items() if host not in gone},
        failures={**scene.failures, **gone},
        dead=scene.dead | loss.members,
        link_errors={pair: error for pair, error in {**scene.link_errors, **errors}.items() if pair[0] not in loss.members},
    )


class ExposureLosses:
    """Judge of losses for the exposed services of one scene."""

    def __init__(self, scene: Scene, desired: Desired) -> None:
        self._scene = scene
        self._siblings = CompetingServices.of(desired)
        decided = [(item, decide_placement(item, self._siblings, scene)) for item in desired.each(ExposedService)]
        self._before = [(item, served) for item, decision in decided if (served := _served(decision))]

    def judge(self, loss: Loss) -> tuple[ExposureLoss, ...]:
        """Return the exposed services that a loss touches, the gravest first."""
        if not self._before or not self._may_matter(loss):
            return ()
        after = without(self._scene, loss)
        found = [self._judged(item, before, decide_placement(item, self._siblings, after)) for item, before in self._before]
        order = list(Fate)
        return tuple(sorted((entry for entry in found if entry is not None), key=lambda e: (order.index(e.fate), e.item.name)))

    def _may_matter(self, loss: Loss) -> bool:
        """Return whether a member is gone, or a cluster loses the last link by which others know that it lives."""
        if loss.members:
            return True
        cut = {*loss.links, *loss.dead}
        peers = {peer for _local, peer in cut}
        return any(all((host, peer) in cut or (host, peer) in self._scene.link_errors for host in self._readers(peer)) for peer in peers)

    def _readers(self, peer: str) -> list[str]:
        return [host for host in self._scene.hosts if host != peer and self._scene.mesh.linked(host, peer)]

    def _judged(self, item: ExposedService, before: tuple[str, ...], decision: PlacementDecision) -> ExposureLoss | None:
        after, waits = _serving(decision)
        if after == before:
            return None
        if not after:
            return ExposureLoss(item=item, fate=Fate.WITHOUT, before=before, after=())
        fate = Fate.FEWER if set(after) < set(before) else Fate.MOVES
        return ExposureLoss(item=item, fate=fate, before=before, after=after, waits=waits)


def _served(decision: PlacementDecision) -> tuple[str, ...]:
    """Return the clusters that answer now, in the order of the item."""
    return tuple(host for host in decision.order if host in decision.serving and decision.assessments[host].state is State.WELL)


def _serving(decision: PlacementDecision) -> tuple[tuple[str, ...], bool]:
    """Return the clusters that answer after the next run, and whether they wait for an address."""
    well = _served(decision)
    if well:
        return well, False
    starting = tuple(host for host in decision.order if host in decision.serving and decision.assessments[host].state is State.STARTING)
    return starting, bool(starting)
