# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every family of scenarios, by the name of its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import custom_resources, findings, fleet, inputs, meshes, traffic, trust

FAMILIES: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "meshes-profiles": meshes.profiles,
    "meshes-mixed": meshes.mixed,
    "meshes-topologies": meshes.topologies,
    "meshes-troubles": meshes.troubles,
    "trust-ca": trust.ca,
    "trust-adoptions": trust.adoptions,
    "findings-fit": findings.fit,
    "findings-facts": findings.decided_on_facts,
    "items-scenes": traffic.on_scenes,
    "items-settings": traffic.settings,
    "items-probes": traffic.probed,
    "items-goldens": traffic.goldens,
    "items-actions": traffic.actions,
    "explain": traffic.explanations,
    "inputs-mesh": inputs.meshes,
    "inputs-items": inputs.item_specs,
    "inputs-filters": inputs.filter_calls,
    "fleet-workloads": fleet.workloads,
    "fleet-members": fleet.members,
    "operator-statuses": custom_resources.written,
    "operator-requests": custom_resources.requests,
}
