# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Items in a process of its own: ``python -m tests.bench.items_run plan`` decides and prints every write, ``bare`` sends such writes.

Both read ``{"inventory": {host: {kubeconfig, namespace}}, "mesh": the variable cilium_mesh, "writes": […]}`` from standard input.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.schedule import AT_ONCE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import observe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import first_read, other_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import lists_of, read_all_traffic
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.scene import observe_scene
from tests.bench.engine_run import Phases
from tests.lab.addresses import NETWORK

PARALLEL: Final = 10  # the actions' default
SERVED: Final = ("cilium.io/v2", "discovery.k8s.io/v1", "networking.k8s.io/v1")
KINDS: Final = (ItemKind.GLOBAL_SERVICE, ItemKind.INTENT)
MANAGER: Final = "bench"


def _access(host: str, values: Mapping[str, str]) -> ClusterAccess:
    kubeconfig, namespace = values["kubeconfig"], values["namespace"]
    return ClusterAccess(host=host, context=None, kubeconfig=kubeconfig, namespace=namespace, endpoint_networks=(NETWORK,))


def plan(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Every write that the items come to, what deciding cost, and the number of lists that were asked for."""
    mesh = parse(asked["mesh"], tuple(asked["inventory"]))
    phases = Phases()
    with phases.measured("observe"):
        observation = observe(_accesses(asked["inventory"]), parallel=PARALLEL, registry=registry_name(mesh.binding))
    with observation:
        desired = desired_of(asked["mesh"], mesh, kinds=KINDS)
        with phases.measured("scene"):
            scene = observe_scene(read_all_traffic, observation, mesh, desired.kinds, now=datetime.now(UTC), parallel=PARALLEL)
        with phases.measured("plan"):
            decided = plan_items(desired, scene)
        lists = {
            host: sum(n for what, n in cluster.requests.items() if what.startswith("list "))
            for host, cluster in observation.clusters.items()
        }
    blocking = [finding for finding in decided.findings if finding.blocks]
    if blocking:
        raise SystemExit(f"{blocking[0].code}: {blocking[0].item}: {blocking[0].summary}")
    return {"writes": [_write(step.cluster, step.action) for step in decided.plan.steps], "phases": phases.found, "lists": lists}


def bare(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same reads and writes with the same client at the same concurrency, and nothing decided: wall seconds by part."""
    took: dict[str, float] = {}
    with ExitStack() as stack:
        clusters = {a.host: stack.enter_context(open_cluster(a)) for a in _accesses(asked["inventory"])}
        workers = max(1, min(AT_ONCE, PARALLEL // len(clusters)))
        for part in ("reads", "writes", "reads again"):
            started = time.monotonic()
            with ThreadPoolExecutor(len(clusters) * workers) as pool:
                pending: list[Future[Any]] = []
                for cluster in clusters.values():
                    if part == "writes":
                        own = (write for write in asked["writes"] if write["cluster"] == cluster.host)
                        pending += [pool.submit(_send, cluster, write) for write in own]
                    else:
                        pending += _read(pool, cluster, whole=part == "reads")
            took[part] = time.monotonic() - started
            for future in pending:
                future.result()  # of requests that failed, a figure would mean nothing
    return {"wall": sum(took.values()), "parts": took}


def _accesses(inventory: Mapping[str, Mapping[str, str]]) -> list[ClusterAccess]:
    return [_access(host, values) for host, values in inventory.items()]


def _write(cluster: str, action: object) -> dict[str, Any]:
    if not isinstance(action, ApiWrite):
        raise SystemExit(f"a step of an item is {type(action).__name__}, which this benchmark cannot send")
    return {"cluster": cluster, "method": action.method, "path": action.path, "body": action.body}


def _send(cluster: Cluster, write: Mapping[str, Any]) -> None:
    calls = {"apply": cluster.apply, "create": cluster.create, "merge": cluster.merge_patch}
    calls[write["method"]](write["path"], write["body"], manager=MANAGER)


def _read(pool: ThreadPoolExecutor, cluster: Cluster, *, whole: bool) -> list[Future[Any]]:
    reads = [first_read(cluster.namespace), *other_reads(cluster.namespace).values()] if whole else []
    paths = [(entry.collection(SERVED), entry) for entry in lists_of(KINDS).values()]
    lists = [pool.submit(cluster.list, path, metadata_only=entry.metadata_only) for path, entry in paths if path]
    return [*(pool.submit(read.run, cluster) for read in reads), *lists]


def main(arguments: Sequence[str]) -> None:
    asked = json.load(sys.stdin)
    print(json.dumps({"plan": plan, "bare": bare}[arguments[0]](asked)))


if __name__ == "__main__":
    main(sys.argv[1:])
