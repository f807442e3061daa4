# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One hop on the way from A to B, and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Answer(StrEnum):
    """What is known of a hop. UNKNOWN is never a guess in either direction."""

    OK = "ok"  # nothing here is in the way, as far as the API tells
    BROKEN = "broken"  # this alone keeps A from B
    UNKNOWN = "unknown"  # it cannot be told from here
    SKIPPED = "skipped"  # the way does not lead over it


@dataclass(frozen=True, kw_only=True)
class Hop:
    """A verdict on one hop. ``evidence`` is what was read, a line each; ``fix`` what to do about a broken one."""

    name: str  # source, namespace, service, backend, link, identity, egress policy, ingress policy, node port, network
    answer: Answer
    cluster: str = ""  # inventory name of where it was looked at
    summary: str
    evidence: tuple[str, ...] = ()
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
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
    """All hops in the order of the way, and what they come to."""

    hops: tuple[Hop, ...]

    @property
    def answer(self) -> Answer:
        """BROKEN when one hop is; OK only when every hop that the way leads over is known to be."""
        answers = {hop.answer for hop in self.hops}
        return next((answer for answer in (Answer.BROKEN, Answer.UNKNOWN) if answer in answers), Answer.OK)

    @property
    def summary(self) -> str:
        """One sentence: the first hop that is broken, or what could not be told."""
        broken = [hop for hop in self.hops if hop.answer is Answer.BROKEN]
        if broken:
            more = f" ({len(broken) - 1} more broken)" if len(broken) > 1 else ""
            return f"No: {broken[0].name}: {broken[0].summary}{more}"
        unknown = [hop.name for hop in self.hops if hop.answer is Answer.UNKNOWN]
        if unknown:
            return f"Nothing that was read is in the way; not known: {', '.join(dict.fromkeys(unknown))}"
        return "Nothing is in the way"

    def to_dict(self) -> dict[str, Any]:
        return {"verdict": self.answer.value, "summary": self.summary, "hops": [hop.to_dict() for hop in self.hops]}
