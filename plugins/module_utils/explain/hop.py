# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops of an explanation, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class HopVerdict(StrEnum):
    """Verdict on a hop. UNKNOWN is never a guess in either direction."""

    OK = "ok"  # no obstacle here, as far as the API shows
    BROKEN = "broken"  # this alone keeps A from B
    UNKNOWN = "unknown"  # the API does not show it
    SKIPPED = "skipped"  # the path does not use it


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Verdict on one hop. ``evidence`` has a line for each fact that was read; ``fix`` says what to do about a broken hop."""

    name: str  # source, namespace, service, backend, link, identity, egress policy, ingress policy, node port, network
    answer: HopVerdict
    cluster: str = ""  # inventory name of the cluster that was read
    summary: str
    evidence: tuple[str, ...] = ()
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the hop as results have it."""
        return {
            "hop": self.name,
            "verdict": self.answer.value,
            "cluster": self.cluster,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "fix": self.fix,
        }


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """All hops in the order of the path, and their result."""

    hops: tuple[Hop, ...]

    @property
    def answer(self) -> HopVerdict:
        """BROKEN when one hop is; OK only when every hop that is not skipped is known to be OK."""
        answers = {hop.answer for hop in self.hops}
        return next((answer for answer in (HopVerdict.BROKEN, HopVerdict.UNKNOWN) if answer in answers), HopVerdict.OK)

    @property
    def summary(self) -> str:
        """One sentence: the first hop that is broken, or the hops that are unknown."""
        broken = [hop for hop in self.hops if hop.answer is HopVerdict.BROKEN]
        if broken:
            more = f" ({len(broken) - 1} more broken)" if len(broken) > 1 else ""
            return f"No: {broken[0].name}: {broken[0].summary}{more}"
        unknown = [hop.name for hop in self.hops if hop.answer is HopVerdict.UNKNOWN]
        if unknown:
            return f"Nothing that was read is in the way; not known: {', '.join(dict.fromkeys(unknown))}"
        return "Nothing is in the way"

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as results have it."""
        return {"verdict": self.answer.value, "summary": self.summary, "hops": [hop.to_dict() for hop in self.hops]}
