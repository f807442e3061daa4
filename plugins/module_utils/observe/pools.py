# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of CiliumPodIPPools, from which nodes take ranges where ``ipam`` is multi-pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.json_fields import text, texts
from ..mesh.facts import PodPoolFacts


def pod_pool_facts(values: Iterable[Any]) -> tuple[PodPoolFacts, ...]:
    """Return the facts of pools, sorted by name."""
    found = [
        PodPoolFacts(name=text(v, "metadata", "name"), cidrs=(*texts(v, "spec", "ipv4", "cidrs"), *texts(v, "spec", "ipv6", "cidrs")))
        for v in values
    ]
    return tuple(sorted(found, key=lambda pool: pool.name))
