# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads of a fleet in a process of its own.

``python -m tests.bench.fleet_run check`` observes, plans and judges by the engine alone. ``bare`` sends the objects that the workloads come
to, by the same client at the same concurrency, and waits until Karmada reports every copy as ready: Karmada's own share of a run. ``away``
deletes them, and waits until nothing of them is left in the clusters. All read ``{"kubeconfig": path, "fleet": the variable fleet}`` from
standard input.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import api_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.schedule import AT_ONCE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.facts import TenantFacts, binding_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import FleetRequest
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.reads import REQUESTS_AT_ONCE, tenant_facts, tenant_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.writes import item_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.answers import read_answers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Step
from tests.bench.engine_run import READS, Phases
from tests.testing.waiting import equals, wait_for

HOST: Final = "karmada"
MANAGER: Final = "bench"  # of what is sent bare
STALL: Final = 180.0  # seconds without progress: by its own limits Karmada needs several minutes for hundreds of workloads
PAUSE: Final = 1.0  # seconds between two lists: each costs the API server what it would else have for Karmada
_BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"


def check(karmada: Cluster, request: FleetRequest) -> dict[str, Any]:
    """What one round of a run costs when nothing is to be written: seconds by phase, requests, and the size of what it reports."""
    phases = Phases()
    with phases.measured("observe"):
        opened = Observation(clusters={HOST: karmada})
        found = read_answers(opened, HOST, tenant_reads(request.tenant), parallel=REQUESTS_AT_ONCE)
        facts = tenant_facts(request.tenant, found, HOST, karmada.server_time() or datetime.now(UTC))
    with phases.measured("plan"):
        planned = plan_fleet(request, facts, HOST)
    with phases.measured("status"):
        statuses = [workload_status(request, facts, decision) for decision in planned.decisions.values()]
    reads = sum(count for what, count in karmada.requests.items() if what.partition(" ")[0] in READS)
    return {
        "phases": phases.found,
        "reads": reads,
        "steps": len(planned.plan.steps),
        "bytes": len(json.dumps([dict(status.status) for status in statuses])),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def bare(karmada: Cluster, request: FleetRequest) -> dict[str, Any]:
    """Seconds until every object is written, and until Karmada reports every copy as ready."""
    began = time.monotonic()
    writes = send(karmada, request, _created(request))
    written = time.monotonic() - began
    wait_for(lambda: _unready(karmada, request), equals(0), what="every copy is ready", every=PAUSE, stall=STALL)
    return {"writes": writes, "written": written, "settled": time.monotonic() - began}


def away(karmada: Cluster, request: FleetRequest) -> dict[str, Any]:
    """Seconds until nothing of the workloads is left."""
    began = time.monotonic()
    remove(karmada, request, _created(request))
    return {"gone": time.monotonic() - began}


def _created(request: FleetRequest) -> tuple[str, ...]:
    """Return all workloads but the first, which is there before and after, and keeps the tenant's namespace."""
    return tuple(request.workloads or ())[1:]


def send(karmada: Cluster, request: FleetRequest, names: Collection[str]) -> int:
    """Write the policies and templates of workloads, and return how many. Nothing is decided, and there are no revisions."""
    now = datetime.now(UTC)
    writes = [(step.wave, action.path, api_body(action, {}, now)) for step, action in _writes(request, names)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for wave in sorted({wave for wave, _, _ in writes}):
            list(pool.map(lambda write: karmada.apply(write[1], write[2], manager=MANAGER), [one for one in writes if one[0] == wave]))
    return len(writes)


def remove(karmada: Cluster, request: FleetRequest, names: Collection[str]) -> None:
    """Delete what `send` wrote, and wait until Karmada has taken it out of the clusters."""
    found = [(step.object.startswith("PropagationPolicy"), action.path) for step, action in _writes(request, names)]
    with ThreadPoolExecutor(AT_ONCE) as pool:  # templates first: Karmada keeps what a policy without a template brought
        for policies in (False, True):
            list(pool.map(karmada.delete, [path for is_policy, path in found if is_policy is policies]))
    wait_for(lambda: _bound(karmada, request, names), equals(0), what="nothing is left", every=PAUSE, stall=STALL)


def _writes(request: FleetRequest, names: Collection[str]) -> list[tuple[Step, ApiWrite]]:
    steps = plan_fleet(request, TenantFacts(now=datetime.now(UTC)), HOST).plan.steps
    items = {item_of(name) for name in names}
    return [(s, s.action) for s in steps if s.item in items and isinstance(s.action, ApiWrite) and s.action.method == "apply"]


def _unready(karmada: Cluster, request: FleetRequest) -> int:
    """Workloads that are not whole in every cluster to which they go."""
    found = {
        str(entry["metadata"]["name"]): binding_facts(entry) for entry in karmada.list(_BINDINGS.format(karmada_namespace(request.tenant)))
    }
    whole = 0
    for name, workload in (request.workloads or {}).items():
        binding = found.get(f"{name}-{workload.kind.lower()}")
        if binding is None or not binding.replicas:
            continue
        placed = [binding.placed.get(member) for member in binding.replicas]
        whole += all(one is not None and one.applied and one.health == "Healthy" and one.ready >= workload.replicas for one in placed)
    return len(request.workloads or {}) - whole


def _bound(karmada: Cluster, request: FleetRequest, names: Collection[str]) -> int:
    """ResourceBindings of workloads: one goes when the last member has let its object go."""
    bindings = {f"{name}-{kind}" for name in names for kind in ("deployment", "service")}
    return sum(entry["metadata"]["name"] in bindings for entry in karmada.list(_BINDINGS.format(karmada_namespace(request.tenant))))


def main(arguments: Sequence[str]) -> None:
    asked = json.load(sys.stdin)
    given = parse_fleet(asked["fleet"], (HOST,))
    with open_cluster(ClusterAccess(host=HOST, kubeconfig=asked["kubeconfig"], context=None)) as karmada:
        print(json.dumps({"check": check, "bare": bare, "away": away}[arguments[0]](karmada, given.request)))


if __name__ == "__main__":
    main(sys.argv[1:])
