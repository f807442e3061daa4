# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One measurement of the pure stages, in a process of its own: ``python -m tests.bench.planning_run {plan|again|checks} CLUSTERS``.

Facts of a full mesh in which every cluster has a CA of its own and three nodes. Prints JSON; seconds are CPU seconds of this process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

VERSION = "1.20.2"
NODES = 3


def plan(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, Any]:
    """Planning, the hash and the plan as data: what a run needs before its first write."""
    started = time.process_time()
    found = plan_links(mesh, facts, PlanOptions(), NOW)
    planned = time.process_time()
    found.hash  # noqa: B018 worked out once, when it is asked for
    hashed = time.process_time()
    data = found.to_dict()
    ended = time.process_time()
    if found.blocked:
        raise SystemExit(f"The plan is blocked: {found.problems[0].summary}")
    seconds = {"plan": planned - started, "hash": hashed - planned, "data": ended - hashed}
    return {"seconds": seconds, "steps": len(data["steps"]), "links": len(data["links"])}


def checks(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, Any]:
    """All checks."""
    started = time.process_time()
    context = context_of(*facts.values(), mesh=mesh)
    findings = run_checks(context, "connect")
    return {"seconds": {"checks": time.process_time() - started}, "findings": len(findings), "links": len(mesh.links)}


def connected(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> Mapping[str, ClusterFacts]:
    """The same clusters once the plan was carried out."""
    clusters = SimulatedClusters(facts, NOW)
    clusters.run(plan_links(mesh, clusters.facts(mesh), PlanOptions(), NOW))
    return clusters.facts(mesh)


def main() -> None:
    kind, clusters = sys.argv[1], int(sys.argv[2])
    hosts = [f"c{number}" for number in range(1, clusters + 1)]
    mesh = mesh_of(*hosts)
    facts: Mapping[str, ClusterFacts] = {host: cluster_facts(host, version=VERSION, node_count=NODES) for host in hosts}
    if kind == "again":
        facts = connected(mesh, facts)
    before = time.monotonic()
    stages: Mapping[str, Callable[[Mesh, Mapping[str, ClusterFacts]], dict[str, Any]]] = {"plan": plan, "again": plan, "checks": checks}
    found = stages[kind](mesh, facts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**found, "kind": kind, "clusters": clusters, "wall": time.monotonic() - before, "peak": peak}))


if __name__ == "__main__":
    main()
