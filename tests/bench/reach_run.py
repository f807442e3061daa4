# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One measurement of reach, in a process of its own: ``python -m tests.bench.reach_run {named|spaces|open|upgrade} WORKLOADS``.

Three clusters of 40 namespaces. ``named``: every workload has a policy of its own, for ingress, and every fifth one for egress, so that all
are distinguished; ``spaces``: every namespace is isolated, and opened for one other; ``open``: there is no policy. ``upgrade``: the
policies of ``named``, and the forecast of an upgrade from 1.18 to 1.19. Prints JSON; seconds are CPU seconds of this process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, PodMeta
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.workload_index import WorkloadIndex
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.matrix import Grain
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.report import flows_csv, matrix_csv, reach_json, report_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.scope import ReachScope
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.upgrade.forecast import forecast
from tests.testing.facts_builders import cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.traffic_builders import namespace_facts, pod, scene, traffic

HOSTS = ("c1", "c2", "c3")
NAMESPACES = 40
PODS = 3


def made_scene(kind: str, workloads: int, *, planned: bool = False, version: str = "1.20.2") -> Scene:
    """The scene; ``planned``: with a further policy in one namespace of each cluster."""
    facts = {host: cluster_facts(host, version=version) for host in HOSTS}
    return scene(*(_traffic(kind, host, workloads // len(HOSTS), planned) for host in HOSTS), facts=facts)


def _traffic(kind: str, host: str, workloads: int, planned: bool) -> Any:
    names = [f"ns{number}" for number in range(NAMESPACES)]
    pods: list[PodMeta] = []
    policies: list[ObjectFacts] = []
    for number in range(workloads):
        namespace, app = names[number % NAMESPACES], f"app{number}"
        pods += [pod(f"{app}-{place}", namespace=namespace, app=app) for place in range(PODS)]
        if kind == "named":
            policies.append(_named(namespace, app, names[(number + 1) % NAMESPACES], f"app{number + 1}"))
            policies += [_egress(namespace, app)] if number % 5 == 0 else []
    if kind == "spaces":
        policies += [_space(name, names[(place + 1) % NAMESPACES]) for place, name in enumerate(names)]
    if planned:
        policies.append(_space("ns0", "ns7", "planned"))
    return traffic(host, namespaces=[namespace_facts(name) for name in names], pods=tuple(pods), policies=tuple(policies))


def _policy(namespace: str, name: str, spec: dict[str, Any]) -> ObjectFacts:
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": name, "namespace": namespace}, "spec": spec})


def _named(namespace: str, app: str, other_namespace: str, other: str) -> ObjectFacts:
    peers = [{"matchLabels": {"app": other, "k8s:io.kubernetes.pod.namespace": other_namespace}}]
    ports = [{"ports": [{"port": "8080", "protocol": "TCP"}, {"port": "9000", "endPort": 9100, "protocol": "TCP"}]}]
    ingress: list[dict[str, Any]] = [{"fromEndpoints": peers, "toPorts": ports}, {"fromEntities": ["remote-node"]}]
    return _policy(namespace, f"in-{app}", {"endpointSelector": {"matchLabels": {"app": app}}, "ingress": ingress})


def _egress(namespace: str, app: str) -> ObjectFacts:
    egress: list[dict[str, Any]] = [{"toEntities": ["cluster"]}, {"toCIDR": ["192.0.2.0/24"]}]
    return _policy(namespace, f"out-{app}", {"endpointSelector": {"matchLabels": {"app": app}}, "egress": egress})


def _space(namespace: str, other: str, name: str = "space") -> ObjectFacts:
    peers = [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": space}} for space in (namespace, other)]
    return _policy(namespace, name, {"endpointSelector": {}, "ingress": [{"fromEndpoints": peers}]})


def upgrade(workloads: int) -> dict[str, Any]:
    """The forecast of an upgrade, without the plan of connect."""
    made = made_scene("named", workloads, version="1.18.11")
    started = time.process_time()
    found = forecast(made, "1.19", lambda _facts: ((), None))
    spent = time.process_time() - started
    return {"workloads": workloads, "distinct": workloads, "changes": len(found.rows), "seconds": {"forecast": spent}, "cpu": spent}


def main() -> None:
    kind, workloads = sys.argv[1], int(sys.argv[2])
    if kind == "upgrade":
        forecasted = upgrade(workloads)
        print(json.dumps({**forecasted, "kind": kind, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        return
    now, planned = made_scene(kind, workloads), made_scene(kind, workloads, planned=True)
    seconds: dict[str, float] = {}
    started = before = time.process_time()
    wall = time.monotonic()

    def took(stage: str) -> None:
        nonlocal before
        seconds[stage] = time.process_time() - before
        before = time.process_time()

    report = report_of(WorkloadIndex(now), WorkloadIndex(planned), ReachScope())
    pairs = report.outcomes()
    took("matrix")
    changes = len(report.changes)
    took("difference")
    report.to_dict()
    took("result")
    sizes = {"csv": len(flows_csv(report))}
    took("flows.csv")
    sizes["matrix"] = len(matrix_csv(report, Grain.WORKLOAD))
    took("matrix.csv")
    sizes["json"] = len(reach_json(report))
    took("reach.json")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {"kind": kind, "workloads": report.sets.weight(report.sets.workloads), "distinct": report.sets.workloads.bit_count()}
    print(
        json.dumps(
            {
                **found,
                "pairs": pairs,
                "changes": changes,
                "seconds": seconds,
                "cpu": time.process_time() - started,
                "wall": time.monotonic() - wall,
                "peak": peak,
                "bytes": sizes,
            }
        )
    )


if __name__ == "__main__":
    main()
