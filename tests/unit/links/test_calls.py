# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How many calls a link costs: what is asked once for a cluster is not asked again for each of its peers.

Calls are counted and not seconds, so that the figures are the same on every machine. A full mesh of 255 has 64,770 links.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import TrustMode
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.link_trust import WAYS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

Facts = Mapping[str, ClusterFacts]


def plan(mesh: Mesh, facts: Facts) -> None:
    plan_links(mesh, facts, PlanOptions(), NOW)


def checks(mesh: Mesh, facts: Facts) -> None:
    run_checks(context_of(*facts.values(), mesh=mesh), "connect")


def calls(stage: Callable[[Mesh, Facts], None], size: int, *, connected: bool) -> int:
    """Calls of functions of Python and of C that a stage makes for a full mesh of so many clusters, each with a CA of its own."""
    mesh = mesh_of(*(f"c{number}" for number in range(size)))
    facts: Facts = {host: cluster_facts(host, version="1.20.2") for host in mesh.clusters}
    if connected:
        clusters = SimulatedClusters(facts, NOW)
        clusters.run(plan_links(mesh, clusters.facts(mesh), PlanOptions(), NOW))
        facts = clusters.facts(mesh)
    made = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        stage(mesh, facts)
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize(
    ("stage", "connected", "most"),
    [(plan, False, 66), (plan, True, 124), (checks, False, 50), (checks, True, 148)],
    ids=["first plan", "plan of a connected mesh", "checks", "checks of a connected mesh"],
)
def test_a_link_costs_so_many_calls(stage: Callable[[Mesh, Facts], None], connected: bool, most: float) -> None:
    """The second difference of three sizes leaves out what a run and a cluster cost, and so counts the links alone."""
    calls(stage, 18, connected=connected)  # what is remembered of a cluster is there for each of them, whatever ran before
    few, some, many = (calls(stage, size, connected=connected) for size in (6, 12, 18))
    links = 18 * 17 - 2 * 12 * 11 + 6 * 5
    per_link = (many - 2 * some + few) / links
    assert most / 2 < per_link <= most, "where it is far below, lower the figure"


def test_the_ways_to_trust_are_tried_in_the_order_of_the_modes() -> None:
    assert list(WAYS) == list(TrustMode)
