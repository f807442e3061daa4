# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of the mesh that wait while members are gone: leases, a CA roll, renewals of certificates, and plans to be approved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..items.scene import Scene
from ..leases.agreement import mesh_registry
from ..leases.quorum import voters
from ..mesh.trust.ca_roll import roll_of
from .harm import Harm
from .loss import Loss

NAMED: Final = 4


class WaitingPlan(NamedTuple):
    """Plan of the links that has steps now and may wait for an approval."""

    hash: str
    steps: int
    clusters: frozenset[str]  # whose steps it has, or on whose facts it relies


class Stall(NamedTuple):
    """One change that waits: the harm, and why in one sentence."""

    harm: Harm
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the row as results have it."""
        return {"harm": self.harm.value, "summary": self.text}


@dataclass(frozen=True, kw_only=True)
class StallInputs:
    """Facts about changes of the mesh, worked out once for all losses.

    ``electorate``: members whose copies of the lease registry decide; ``pairs``: rows of the trust report (ca/report.py).
    """

    members: tuple[str, ...]
    answering: frozenset[str]
    electorate: tuple[str, ...]
    rolling: Mapping[str, str] = field(default_factory=dict)  # member -> stage of this binding's roll
    pairs: Sequence[Mapping[str, Any]] = ()
    waiting: WaitingPlan | None = None

    def stalls(self, loss: Loss) -> tuple[Stall, ...]:
        """Return what waits while the members of the loss are gone. Links alone hold up nothing: every run asks the API servers."""
        if not loss.members:
            return ()
        found = [*self._leases(loss), *self._roll(loss), *self._renewals(loss), *self._approval(loss)]
        return tuple(found)

    def returns_until(self, loss: Loss) -> str:
        """Return the time until which all links to the lost members come back by themselves: the first end of a certificate. "" unknown."""
        ends = [str(row["expires"]) for row in self.pairs if row.get("expires") and _touches(row, loss)]
        return min(ends, default="")

    def _leases(self, loss: Loss) -> list[Stall]:
        able = [host for host in self.electorate if host in self.answering]
        left = [host for host in able if host not in loss.members]
        size = len(self.electorate)
        if 2 * len(able) <= size or 2 * len(left) > size:
            return []
        text = f"{len(left)} of {size} members that have a say would answer: no name and id can be assigned, and no lease can be released"
        return [Stall(Harm.MAJORITY, text)]

    def _roll(self, loss: Loss) -> list[Stall]:
        if not self.rolling:
            return []
        stages = ", ".join(sorted(set(self.rolling.values())))
        return [Stall(Harm.ROLL, f"the CA roll of {_listed(sorted(self.rolling))} stays in stage {stages}, as it needs every member")]

    def _renewals(self, loss: Loss) -> list[Stall]:
        due = [f"{row['cluster']} -> {row['peer']}" for row in self.pairs if row.get("due") and _touches(row, loss)]
        return [Stall(Harm.RENEWAL, f"certificates that are due cannot be renewed: {_listed(due)}")] if due else []

    def _approval(self, loss: Loss) -> list[Stall]:
        waiting = self.waiting
        if waiting is None or not waiting.clusters & loss.members:
            return []
        text = (
            f"plan {waiting.hash[:12]} ({waiting.steps} steps) relies on {_listed(sorted(waiting.clusters & loss.members))}: an approval "
        )
        return [Stall(Harm.APPROVAL, text + "of it does not apply any more (CM-PLAN-01)")]


def stall_inputs(scene: Scene, pairs: Sequence[Mapping[str, Any]], waiting: WaitingPlan | None) -> StallInputs:
    """Return the inputs from a scene; ``pairs`` and ``waiting`` need more than a scene and come from the caller."""
    registry = mesh_registry(scene.mesh, scene.facts)
    established = [host for host, facts in scene.facts.items() if facts.name and facts.id]
    rolls = {host: roll for host, facts in scene.facts.items() if (roll := roll_of(facts.ca)) is not None}
    return StallInputs(
        members=scene.mesh.clusters,
        answering=frozenset(scene.facts),
        electorate=voters(registry, {*established, *(set(scene.mesh.clusters) - set(scene.facts))}, scene.mesh.clusters),
        rolling={host: roll.stage.value for host, roll in rolls.items() if roll.owner == scene.binding.owner},
        pairs=tuple(pairs),
        waiting=waiting,
    )


def _touches(row: Mapping[str, Any], loss: Loss) -> bool:
    return row.get("cluster") in loss.members or row.get("peer") in loss.members


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
