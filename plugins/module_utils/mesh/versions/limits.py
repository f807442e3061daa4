# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Limits of Cilium Cluster Mesh that one cluster sets for itself."""

from __future__ import annotations

from ..facts.cluster import ClusterFacts
from .cilium_config import setting

MAX_CLUSTERS = ("255", "511")


def max_clusters(facts: ClusterFacts) -> str:
    """Return ``max-connected-clusters`` of cilium-config; unset is 255 (and 1.14 knows no other)."""
    return setting(facts, "max-connected-clusters", "255")
