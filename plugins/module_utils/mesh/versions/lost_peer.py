# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Cilium does about a peer that is lost, by version: after which time a reader notices, and how long it keeps the peer's backends.

The times are rows of ``versions.DELAYS``, with their sources. ``clustermesh-cache-ttl`` (from 1.19) begins when the reader gives the
connection up (services/failover_findings.py has the source).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .minors import CiliumVersion, Minor, delay


class Seconds(NamedTuple):
    """Range of seconds, both ends included."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least} to {self.most} s" if self.least != self.most else f"{self.least} s"


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Times within which a reader gives up a lost peer: ``refused`` by its address, or ``silent``."""

    refused: Seconds
    silent: Seconds

    @property
    def either(self) -> Seconds:
        """Range that covers both ways to be lost."""
        return Seconds(min(self.refused.least, self.silent.least), max(self.refused.most, self.silent.most))


def delays(version: CiliumVersion | Minor | None) -> Delays:
    """Return the delays of a reader of this version."""
    refused, silent = delay("refused_link_noticed", version), delay("silent_link_noticed", version)
    return Delays(refused=Seconds(refused.least, refused.most), silent=Seconds(silent.least, silent.most))


def kept_for(noticed: Seconds, ttl: float | None) -> Seconds | None:
    """Return how long after the loss the peer's backends are dropped; None: never, for ``ttl`` None or 0."""
    if not ttl:
        return None
    return Seconds(noticed.least + round(ttl), noticed.most + round(ttl))
