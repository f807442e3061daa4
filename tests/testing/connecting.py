# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters in memory as those that a run has open: in place of the port ``connect``, or for a reader of observe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation


def connecting(client: Callable[[ClusterAccess], Any]) -> Callable[[Observation, ClusterAccess], None]:
    """Return a port that opens ``client(access)``."""

    def connect(opened: Observation, access: ClusterAccess) -> None:
        opened.clusters[access.host] = client(access)

    return connect


def opened(**clients: Any) -> Observation:
    """Return an observation with these clients, by inventory name, and no facts."""
    return Observation(clusters=clients)
