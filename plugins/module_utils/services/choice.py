# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the failover contract chose for a Service in one cluster (failover.py), and the mark that it leaves there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model import MANAGER_DOMAIN

FAILED_OVER_ANNOTATION: Final = f"{MANAGER_DOMAIN}/failed-over"
"""On a Service: ``true`` while its cluster has failed over; absent otherwise."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a Service gets in one cluster. ``shared`` and ``affinity`` (of ``items.models.AFFINITIES``) are always given by ``decide``: a
    contract rests on both, whatever the Service's owner wrote. ``reason``: one sentence. ``failed_over``: kept by ``annotations``."""

    shared: bool | None
    affinity: str | None
    reason: str
    failed_over: bool = False

    @property
    def annotations(self) -> dict[str, str]:
        """The contract's own annotations, to be written beside Cilium's."""
        return {FAILED_OVER_ANNOTATION: "true"} if self.failed_over else {}
