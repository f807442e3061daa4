# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ports that only runs of items have, beside those of ``ports.py``: a run of links alone does not import what is behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..base.clocks import Clocks
from ..evidence.clusters import evidence_of
from ..observe import Observation
from ..probe.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class ItemPorts:
    """Functions through which a run of items reaches clusters."""

    evidence: Callable[[Observation, Clocks], Evidence]  # as evidence.clusters.evidence_of


REAL_ITEM_PORTS: Final = ItemPorts(evidence=evidence_of)
"""Ports to real clusters."""
