# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rehearsals of losses, ranked by harm, and the gate that a pipeline sets with ``fail_on``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from ..base.tables import count
from ..items.desired import Desired
from ..items.scene import Scene
from .exposure_losses import ExposureLoss, ExposureLosses, Fate
from .harm import Harm, Verdict, verdict_of
from .loss import Loss
from .notice import Notice, notices
from .service_losses import ServiceLoss, ServiceLosses, ServiceTally
from .service_table import table_of
from .stalls import Stall, StallInputs

ROWS_LISTED: Final = 1000
"""Rows of services in a result, for the gravest losses first: those of 1,225 pairs of clusters would be tens of megabytes."""
NAMED: Final = 3


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What one loss does. ``services`` are listed for the gravest losses; ``omitted`` is the number of rows that are not.

    ``unknown``: members that the loss concerns and of which nothing is known.
    """

    loss: Loss
    tally: ServiceTally
    exposures: tuple[ExposureLoss, ...] = ()
    stalls: tuple[Stall, ...] = ()
    noticed: tuple[Notice, ...] = ()
    services: tuple[ServiceLoss, ...] = ()
    omitted: int = 0
    returns_until: str = ""
    unknown: tuple[str, ...] = ()

    @cached_property
    def numbers(self) -> Mapping[Harm, int]:
        """How often the loss does each harm, of those that it does; the gravest first."""
        tally = self.tally
        found = {
            Harm.SERVICE: len(tally.lost),
            Harm.EXPOSURE: sum(entry.fate is Fate.WITHOUT for entry in self.exposures),
            Harm.CLIENTS: tally.cut + tally.cut_later,
            Harm.DEAD: tally.dead,
            Harm.KEPT: tally.kept,
            Harm.CONTRACT: len(tally.unmet),
            Harm.FROZEN: tally.frozen,
            **{harm: sum(stall.harm is harm for stall in self.stalls) for harm in (Harm.MAJORITY, Harm.ROLL, Harm.RENEWAL, Harm.APPROVAL)},
        }
        return {harm: found[harm] for harm in Harm if found[harm]}

    @property
    def verdict(self) -> Verdict:
        """Worst that the loss does."""
        return verdict_of(tuple(self.numbers), known=not self.unknown)

    @property
    def summary(self) -> str:
        """One sentence: what the loss does, the gravest first."""
        found = self._phrases()
        if self.unknown:
            return "; ".join((*found, f"nothing is known of {_named(self.unknown)}"))
        return "; ".join(found) or "no global service, exposed service or change of the mesh is touched"

    def to_dict(self) -> dict[str, Any]:
        """Return the rehearsal as results have it."""
        return {
            **self.loss.to_dict(),
            "verdict": self.verdict.value,
            "harms": {harm.value: number for harm, number in self.numbers.items()},
            "summary": self.summary,
            "servicesWithoutBackend": list(self.tally.lost),
            "sums": self.tally.to_dict(),
            "services": [entry.to_dict() for entry in self.services],
            "servicesOmitted": self.omitted,
            "exposures": [entry.to_dict() for entry in self.exposures],
            "stalls": [entry.to_dict() for entry in self.stalls],
            "noticed": [entry.to_dict() for entry in self.noticed],
            "returnsUntil": self.returns_until,
        }

    def _phrases(self) -> list[str]:
        tally, found = self.tally, []
        if tally.lost:
            found.append(f"{_of(len(tally.lost), 'service')} without a backend ({_named(tally.lost)})")
        without = [entry.item.name for entry in self.exposures if entry.fate is Fate.WITHOUT]
        if without:
            found.append(f"{_of(len(without), 'exposed service')} without a cluster ({_named(without)})")
        for number, words in (
            (tally.cut, "clients without a backend that answers"),
            (tally.cut_later, "clients without a backend once Cilium drops the old ones"),
            (tally.dead, "clients sent to dead backends, too"),
            (tally.frozen, "clients of backends of which no change arrives"),
        ):
            if number:
                found.append(f"{words}: {count(number, 'time')}")
        if tally.kept:
            found.append(f"of these kept for ever: {tally.kept}")
        if tally.unmet:
            found.append(f"{_of(len(tally.unmet), 'failover contract')} not met ({_named(tally.unmet)})")
        moved = [f"{e.item.name} to {_named(e.after)}" for e in self.exposures if e.fate is Fate.MOVES]
        if moved:
            found.append(f"exposed services move: {_named(moved)}")
        return [*found, *(stall.text for stall in self.stalls)]


@dataclass(frozen=True, kw_only=True)
class RehearsalInputs:
    """Everything that rehearsals are made of."""

    scene: Scene
    desired: Desired
    stalls: StallInputs
    mesh_check: int  # seconds between two runs of the operator for a connected mesh


@dataclass(frozen=True, kw_only=True)
class Rehearsals:
    """All rehearsals, the gravest first. ``unknown``: members of which nothing is known, with the reason."""

    ranked: tuple[Rehearsal, ...]
    services: int  # global services with a ready backend today, in the members that answered
    unknown: Mapping[str, str] = field(default_factory=dict)

    def failing(self, fail_on: Iterable[Harm]) -> tuple[Rehearsal, ...]:
        """Return the rehearsals that have a harm which the gate names."""
        wanted = frozenset(fail_on)
        return tuple(entry for entry in self.ranked if wanted & entry.numbers.keys())

    def gate(self, fail_on: Sequence[Harm]) -> str:
        """Return the sentence with which the gate fails; "" if it holds.

        A gate does not hold on half of the facts: members that are silent fail it.
        """
        if not fail_on:
            return ""
        found = self.failing(fail_on)
        names = ", ".join(harm.value for harm in fail_on)
        if found:
            worst = [f"{entry.loss.name}: {_numbers(entry, fail_on)}" for entry in found[:NAMED]]
            more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
            return f"{len(found)} of {_of(len(self.ranked), 'loss', 'losses')} would do what fail_on names: {'; '.join(worst)}{more}."
        if self.unknown:
            return f"fail_on ({names}) cannot be answered: nothing is known of {_named(tuple(self.unknown))}."
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the rehearsals as results have them."""
        verdicts = [entry.verdict for entry in self.ranked]
        return {
            "services": self.services,
            "verdicts": {verdict.value: verdicts.count(verdict) for verdict in Verdict},
            "losses": [entry.to_dict() for entry in self.ranked],
            "unknown": [{"cluster": host, "reason": reason} for host, reason in self.unknown.items()],
        }


def rehearse(inputs: RehearsalInputs, losses: Sequence[Loss], *, rows: int = ROWS_LISTED) -> Rehearsals:
    """Rehearse each loss alone, from the scene as it is.

    :param rows: how many rows of services are listed, for the gravest losses first.
    """
    scene = inputs.scene
    table = table_of(scene, inputs.desired)
    services, exposures = ServiceLosses(table, scene), ExposureLosses(scene, inputs.desired)
    found = [
        Rehearsal(
            loss=loss,
            tally=services.tally(loss),
            exposures=exposures.judge(loss),
            stalls=inputs.stalls.stalls(loss),
            returns_until=inputs.stalls.returns_until(loss) if loss.members else "",
            unknown=tuple(host for host in scene.silent if loss.concerns(host)),
        )
        for loss in losses
    ]
    ranked = sorted(found, key=lambda entry: [*(-entry.numbers.get(harm, 0) for harm in Harm), not entry.unknown])
    detailed = []
    left = rows
    for entry in ranked:
        rows_of = services.details(entry.loss) if left > 0 else ()
        listed = rows_of[:left]
        left -= len(listed)
        omitted = len(rows_of) - len(listed) if rows_of else services.touched(entry.loss)
        contracts = services.detect_times(entry.loss)
        noticed = notices(entry.loss, scene, contracts, inputs.mesh_check)
        detailed.append(replace(entry, services=listed, omitted=omitted, noticed=noticed))
    unknown = {host: failure.clause for host in scene.silent if (failure := scene.failures.get(host)) is not None}
    return Rehearsals(ranked=tuple(detailed), services=len(table.rows), unknown=unknown)


def _numbers(entry: Rehearsal, fail_on: Sequence[Harm]) -> str:
    return ", ".join(f"{harm.value} ({entry.numbers[harm]})" for harm in fail_on if harm in entry.numbers)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _of(number: int, noun: str, many: str = "") -> str:
    return f"{number} {many}" if many and number != 1 else count(number, noun)
