# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo, out of what the tenants saw and what was looked for afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tests.demo.verdict import Verdict
from tests.demo_operator.follow import GONE, Change
from tests.demo_operator.scene import TENANTS, WANTED

HURT, OTHER = TENANTS  # whose link is cut, and who must not notice
_BINDING = "ClusterMeshBinding"


@dataclass(kw_only=True)
class Seen:
    """All that the verdict is made of. Times as in ``history``, and infinite before they have come."""

    history: Sequence[Change] = ()
    links: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By tenant: how many links the kvstoremesh processes themselves call ready, and how many there are to be."""
    strangers: int | None = None  # objects in a tenant's clusters that say they are another workspace's
    cut: float = inf
    healed: float = inf
    deleted: float = inf
    left: Sequence[str] | None = None  # what remains, a line each; None: it was not read


def judge(seen: Seen) -> Verdict:
    """Each part is reported as it was seen."""
    parts = [*(_reached(seen, tenant) for tenant in TENANTS), _apart(seen), _cut(seen), _healed(seen), _gone(seen)]
    return Verdict(good=all(part[0] for part in parts), text="; ".join(part[1] for part in parts if part[1]))


def _reached(seen: Seen, tenant: str) -> tuple[bool, str]:
    last = _last(seen.history, tenant, end=seen.cut)
    ready, wanted = seen.links.get(tenant, (0, 0))
    good = last == WANTED and ready == wanted > 0
    return good, f"{tenant}: {', '.join(last.get(kind) or f'no {kind}' for kind in WANTED)} ({ready}/{wanted} links ready)"


def _apart(seen: Seen) -> tuple[bool, str]:
    return seen.strangers == 0, f"{seen.strangers} objects in the other's clusters" if seen.strangers else ""


def _cut(seen: Seen) -> tuple[bool, str]:
    if seen.cut == inf:
        return False, "no link was cut"
    during = [change for change in seen.history if seen.cut < change.at <= seen.healed]
    hurt = [change.phase for change in during if (change.tenant, change.kind) == (HURT, _BINDING)]
    other = [change.phase for change in during if change.tenant == OTHER]
    text = ", ".join(f"{tenant} {' then '.join(phases) or 'unchanged'}" for tenant, phases in ((HURT, hurt), (OTHER, other)))
    return hurt == ["Degraded"] and not other, f"link of {HURT} cut: {text}"


def _healed(seen: Seen) -> tuple[bool, str]:
    if seen.healed == inf:
        return False, ""
    phase = _last(seen.history, HURT, end=seen.deleted).get(_BINDING)
    return phase == WANTED[_BINDING], f"healed: {phase}"


def _gone(seen: Seen) -> tuple[bool, str]:
    if seen.left is None:
        return False, ""
    stayed = sum(_last(seen.history, tenant).get(kind) != GONE for tenant in TENANTS for kind in WANTED)
    rest = len(seen.left) + stayed
    return rest == 0, f"deleted: {rest} things left" if rest else "deleted: nothing left"


def _last(history: Sequence[Change], tenant: str, end: float = inf) -> Mapping[str, str]:
    """The last phase of each kind until then."""
    return {change.kind: change.phase for change in history if change.tenant == tenant and change.at <= end}
