# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Waivers of a binding: protections that its owner gives up for a time, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

LONGEST: Final = timedelta(days=366)
"""A waiver that lasts longer has no effect: it would be forgotten."""


class WaiverKind(StrEnum):
    """Key of the binding that holds the waiver."""

    ACCEPT = "accept"  # a finding that blocks
    TAKE_BACK = "takeBack"  # a cluster that is not the one that was taken out
    REPAIR = "repair"  # keys that another writer changed
    ADOPT = "adopt"  # objects of another tool


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """One waiver. ``subject``: the code of a finding, or the inventory name of a cluster; "" for kinds that have none."""

    kind: WaiverKind
    subject: str = ""
    reason: str
    until: datetime  # aware, UTC

    def in_force(self, now: datetime) -> bool:
        """Return whether the waiver has an effect: it has not ended, and does not end later than a waiver may."""
        return now < self.until <= now + LONGEST

    @property
    def label(self) -> str:
        """Return ``accept CM-CIDR-02``."""
        return f"{self.kind} {self.subject}".rstrip()
