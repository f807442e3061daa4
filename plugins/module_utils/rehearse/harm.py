# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Harms that a loss does, as users name them in ``fail_on``. The order is the order by which losses are ranked."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from ..base.errors import InvalidInput
from ..base.input_problems import clip, sentence, suggest


class Harm(StrEnum):
    """Harms of a loss, the gravest first."""

    SERVICE = "service-without-backend"  # no ready backend of a global service remains in any member
    EXPOSURE = "exposure-without-cluster"  # no cluster remains that can answer for an exposed service
    CLIENTS = "clients-without-backend"  # clients of a cluster have no backend that answers, although other clusters may have some
    DEAD = "dead-backends"  # clients are sent to backends that do not answer, beside others that do
    KEPT = "kept-for-ever"  # Cilium never drops backends of the lost peer to which clients are sent
    CONTRACT = "contract-not-met"  # no remaining cluster has the endpoints that a failover contract asks for
    FROZEN = "frozen-backends"  # clients are sent to backends of which no change arrives any more
    MAJORITY = "leases-without-majority"  # no cluster name and id can be assigned or released
    ROLL = "roll-stalls"  # a CA roll that is under way stays in its stage
    RENEWAL = "renewal-stalls"  # a certificate that is due cannot be renewed
    APPROVAL = "approval-stalls"  # a plan that waits for an approval does not apply any more


OUTAGE: Final = frozenset({Harm.SERVICE, Harm.EXPOSURE, Harm.CLIENTS})
DEGRADED: Final = frozenset({Harm.DEAD, Harm.KEPT, Harm.CONTRACT, Harm.FROZEN})


class Verdict(StrEnum):
    """Worst that a loss does."""

    OUTAGE = "outage"  # something that works today does not work any more
    DEGRADED = "degraded"  # everything still works, for some connections or with old data
    STALLED = "stalled"  # traffic is not touched; changes of the mesh wait
    UNKNOWN = "unknown"  # no harm is known, and nothing is known of a member that the loss concerns
    NONE = "none"


def verdict_of(harms: Sequence[Harm], *, known: bool = True) -> Verdict:
    """Return the verdict on a loss with these harms.

    :param known: whether something is known of every member that the loss concerns.
    """
    if OUTAGE & set(harms):
        return Verdict.OUTAGE
    if DEGRADED & set(harms):
        return Verdict.DEGRADED
    if harms:
        return Verdict.STALLED
    return Verdict.NONE if known else Verdict.UNKNOWN


def harms_of(names: Sequence[str]) -> tuple[Harm, ...]:
    """Parse the option ``fail_on``.

    :raises InvalidInput: when a name is no harm.
    """
    known = tuple(harm.value for harm in Harm)
    wrong = [f"{clip(str(name))}: unknown; {suggest(str(name), known, 'the harms are')}" for name in names if str(name) not in known]
    if wrong:
        raise InvalidInput(f"fail_on: {sentence(wrong)}", remedy="No cluster was contacted.")
    return tuple(harm for harm in Harm if harm.value in {str(name) for name in names})
