# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plans of links from a mesh and facts, decided and planned in one call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.plan import plan_leases
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.connect import plan_connect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import LinkDecisions, decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions

POLICY: Final = LinkPolicy()


def plan_links(
    mesh: Mesh,
    facts: Mapping[str, ClusterFacts],
    options: PlanOptions,
    now: datetime,
    *,
    policy: LinkPolicy = POLICY,
    former: Mapping[str, ClusterFacts] | None = None,
) -> Plan:
    """Return the plan of a connection."""
    return plan_decided(decide_links(mesh, facts, policy, now), options, former=former)


def plan_decided(decisions: LinkDecisions, options: PlanOptions, *, former: Mapping[str, ClusterFacts] | None = None) -> Plan:
    """Return the plan of a connection that was decided on."""
    return plan_connect(decisions, plan_leases(decisions.mesh, decisions.facts, decisions.members, former), options)
