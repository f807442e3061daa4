# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Effects of a hop on one cluster: what changes by itself, what has to be done before or after, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Need(StrEnum):
    """What an effect asks for."""

    BEFORE = "before"  # it has to be done before the hop, or the hop breaks something
    WITH = "with"  # a value of the hop itself keeps what is there now
    AFTER = "after"  # it has to be done once the hop is done
    NOTHING = "nothing"  # it happens by itself


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Effect of a rule on one cluster. ``source`` says where Cilium states it."""

    rule: str  # name of the row of mesh/versions/minors.py
    cluster: str  # inventory name
    need: Need
    summary: str
    evidence: tuple[str, ...] = ()
    values: tuple[str, ...] = ()  # Helm values for the hop, as "KEY=VALUE"
    commands: tuple[str, ...] = ()
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the effect as results have it."""
        return {
            "rule": self.rule,
            "cluster": self.cluster,
            "need": self.need.value,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "values": list(self.values),
            "commands": list(self.commands),
            "source": self.source,
        }
