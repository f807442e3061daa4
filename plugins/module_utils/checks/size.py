# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of the size of a mesh against the limits of Cilium, with every member of the binding connected, also those that join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..envelope.cluster_size import size_of
from ..envelope.limits import LIMITS, Bound
from ..envelope.usage import LimitUsage, usages
from ..findings.wording import listed
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check

NEAR: Final = 80
"""Percent of a limit from which a finding advises on it."""

_OTHERS: Final = frozenset({Bound.SECRET, Bound.LOAD_BALANCER, Bound.KVSTORE})
"""Limits that these checks leave out: the planner measures the Secret it would write (CM-CERT-12), and the others need the Services."""


@check("CM-SIZE-01")
def limits_are_kept(context: CheckContext) -> Iterator[Flaw]:
    """Report limits that the mesh exceeds once its members are connected."""
    for bound, found in _by_bound(context).items():
        over = [usage for usage in found if usage.used is not None and usage.used > usage.most]
        if over:
            yield _size_flaw(bound, over, "is exceeded")


@check("CM-SIZE-02")
def limits_are_far(context: CheckContext) -> Iterator[Flaw]:
    """Report limits of which the mesh uses most."""
    for bound, found in _by_bound(context).items():
        near = [usage for usage in found if usage.used is not None and usage.used <= usage.most and (usage.percent or 0) >= NEAR]
        if near:
            yield _size_flaw(bound, near, "is nearly reached")


def _by_bound(context: CheckContext) -> dict[Bound, list[LimitUsage]]:
    sizes = {facts.host: size_of(facts, context.sizes.get(facts.host), None) for facts in members(context)}
    found: dict[Bound, list[LimitUsage]] = {}
    for usage in usages(sizes, context.mesh.peers):
        if usage.bound not in _OTHERS:
            found.setdefault(usage.bound, []).append(usage)
    return found


def _size_flaw(bound: Bound, found: Sequence[LimitUsage], state: str) -> Flaw:
    limit = LIMITS[bound]
    return Flaw(
        hosts=[usage.cluster for usage in found],
        summary=f"With all members connected, a limit {state} in {listed(usage.cluster for usage in found)}: {limit.title}; beyond it "
        f"{limit.consequence}",
        evidence="; ".join(f"{usage.cluster}: {usage.used} of {usage.most} ({usage.percent} %)" for usage in found[:10])
        + f". Source of the limit: {limit.source}",
        fix=limit.remedy,
    )
