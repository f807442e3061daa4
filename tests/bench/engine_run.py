# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One connect without waiting by the engine alone, without Ansible, in a process of its own: what each phase costs.

``python -m tests.bench.engine_run`` reads ``{"inventory": {host: {kubeconfig, namespace}}, "binding": name}`` from standard input and
prints JSON; ``cpu`` is of this process with all its threads.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import observe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.judgement import context_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.lab.addresses import NETWORK
from tests.testing.link_plans import plan_decided

READS: Final = ("get", "list")


class Phases:
    """Wall and CPU seconds by phase."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        wall, cpu = time.monotonic(), time.process_time()
        yield
        self.found[name] = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}


def _access(host: str, values: Mapping[str, str]) -> ClusterAccess:
    kubeconfig, namespace = values["kubeconfig"], values["namespace"]
    return ClusterAccess(host=host, context=None, kubeconfig=kubeconfig, namespace=namespace, endpoint_networks=(NETWORK,))


def connect(inventory: Mapping[str, Mapping[str, str]], binding: str) -> dict[str, Any]:
    """Observe, check, plan, write. Ends the process when something blocks or fails: a figure of that would mean nothing."""
    mesh = Mesh(binding=Binding(name=binding, cluster_refs=tuple(inventory)))
    accesses = [_access(host, values) for host, values in inventory.items()]
    phases, now = Phases(), datetime.now(UTC)
    with phases.measured("observe"):
        observation = observe(accesses, registry=registry_name(mesh.binding))
    with observation:
        with phases.measured("checks"):
            context = context_of(real_ports(), observation, mesh, ConnectOptions(), now)
            findings = run_checks(context, "connect")
        _refuse(findings)
        with phases.measured("plan"):
            plan = plan_decided(context.decisions, PlanOptions())
            data = plan.to_dict()
        _refuse(plan.problems)
        with phases.measured("write"):
            done = apply_plan(plan, observation, now=now)
        for host, error in done.failures.items():
            raise SystemExit(f"Writing failed in {host}: {error}")
        requests = {host: _by_kind(cluster.requests) for host, cluster in observation.clusters.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"phases": phases.found, "requests": requests, "steps": len(data["steps"]), "peak": peak}


def _by_kind(requests: Mapping[str, int]) -> dict[str, int]:
    reads = sum(number for name, number in requests.items() if name.partition(" ")[0] in READS)
    return {"reads": reads, "writes": sum(requests.values()) - reads}


def _refuse(findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        if finding.blocks:
            raise SystemExit(f"{finding.code}: {finding.summary}\n{finding.evidence}")


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    print(json.dumps(connect(asked["inventory"], asked["binding"])))
