# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which backends of other clusters the port of a Service uses: Cilium goes by the names of ports, whatever their numbers."""

from __future__ import annotations

from typing import Final

from ..facts import ClusterFacts
from ..versions import Minor, cilium_version

FREE_PORT_NAMES: Final = Minor(1, 18)
"""From here on a port without a name goes with any other (pkg/loadbalancer/writer/writer.go); before, names had to be equal."""


def names_fit(facts: ClusterFacts, name: str, theirs: str) -> bool:
    """Does the port ``name`` of a Service in the cluster of ``facts`` use backends of a peer's port ``theirs``? "" is no name."""
    version = cilium_version(facts)
    free = version is None or version.release >= FREE_PORT_NAMES
    return name == theirs or (free and "" in (name, theirs))
