# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ports that only runs about certificates and CAs have, beside those of ``ports.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..mesh.trust.issuing import Issuing
from ..mesh.trust.roll_facts import RollFacts
from ..observe import Observation
from ..observe.issuing import read_issuing
from ..observe.rolls import observe_rolls


@dataclass(frozen=True, kw_only=True)
class TrustPorts:
    """Functions through which a run about certificates and CAs reaches clusters."""

    read_issuing: Callable[[Observation, str], Issuing]
    observe_rolls: Callable[..., Mapping[str, RollFacts]]


REAL_TRUST_PORTS: Final = TrustPorts(read_issuing=read_issuing, observe_rolls=observe_rolls)
"""Ports to real clusters."""
