# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Many tenants with a mesh of two real clusters each, on few clusters: every mesh is another pair of them.

Bindings may share a cluster, as each writes keys of its own (docs/decisions/0003). So seven clusters with a running kvstoremesh each hold
21 meshes, all links of which are real. A tenant's applications lie in a namespace of his own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from mesh_operator.base.kinds import BINDING, INTENT, SERVICE
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import Workspace
from tests.lab.options import LabOptions
from tests.testing.kcp_world import World, open_world
from tests.testing.management_plane import ManagementPlane
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals, wait_for

CILIUM: Final = "1.20"
NAME: Final = "edge-mesh-eu"  # of every binding: tenants know nothing of each other
APPLICATIONS: Final = 25  # Services in each cluster of a mesh
PHASES: Final = {BINDING: "Connected", SERVICE: "Exported", INTENT: "Applied"}
_PORTS: Final = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
_AT_ONCE: Final = 8


@dataclass
class Site:
    """One mesh: a tenant, his two clusters, and his namespace in them. ``items``: how many were created."""

    workspace: Workspace
    clusters: tuple[str, str]
    namespace: str
    items: int = 0

    def bind(self) -> None:
        """Create the binding, unless it is there."""
        if self.workspace.get(BINDING, NAME) is None:
            self.workspace.create(BINDING, NAME, clusterRefs=self.workspace.refs())

    def ask(self) -> tuple[str, str]:
        """Create one more item, services and intents in turns; its kind and name."""
        number, self.items = self.items, self.items + 1
        kind, name = (INTENT, f"to-app-{number // 2}") if number % 2 else (SERVICE, f"app-{number // 2}")
        if kind == SERVICE:
            self.workspace.create(kind, name, meshRef={"name": NAME}, selector={"namespace": self.namespace, "name": name})
        else:
            ends: dict[str, Any] = {side: {"namespace": self.namespace, "selector": {"app": "web"}} for side in ("source", "destination")}
            ports = [{"protocol": "TCP", "port": 8000 + number}]
            self.workspace.create(kind, name, meshRef={"name": NAME}, action="Allow", ports=ports, **ends)
        return kind, name

    def missing(self) -> list[str]:
        """What of it is not in the phase that it is to reach."""
        found = self.workspace.resources()
        return [name for name, obj in found.items() if (obj.get("status") or {}).get("phase") != PHASES[obj["kind"]]]

    def is_done(self) -> bool:
        return not self.missing()


@dataclass(frozen=True)
class Bench:
    """See the module."""

    world: World
    management: ManagementPlane
    lab: MeshLab
    sites: Sequence[Site]
    folder: Path

    def operator(self) -> OperatorProcess:
        """Not started yet; with the defaults of every interval and limit."""
        kcp = self.folder / "kcp.kubeconfig"
        kcp.write_text(json.dumps(self.world.operator().kubeconfig()), encoding="utf-8")
        return OperatorProcess(self.folder, kcp, self.management.kubeconfig)

    def wait(self, sites: Sequence[Site], operator: OperatorProcess) -> float:
        """Until everything is in the phase that it is to reach, asked one site after the other; how many seconds that took."""
        began = time.monotonic()
        for site in sites:
            operator.wait(site.is_done, f"{site.namespace} is done")
        return time.monotonic() - began


@contextmanager
def open_bench(folder: Path, meshes: int, say: Callable[[str], None]) -> Iterator[Bench]:
    """With as many clusters as so many pairs need."""
    clusters = next(number for number in range(2, 40) if number * (number - 1) // 2 >= meshes)
    with ExitStack() as stack:
        say(f"a management plane, a kcp (its test double) with {meshes} workspaces, and {clusters} clusters")
        management = stack.enter_context(ManagementPlane())
        management.install()
        world = stack.enter_context(open_world("double"))
        lab = stack.enter_context(MeshLab(LabOptions(name="bench-operator", clusters=clusters, cilium=CILIUM)))
        pairs = list(combinations(lab.names, 2))[:meshes]
        sites = [_site(world, management, lab, number, (first, second)) for number, (first, second) in enumerate(pairs, 1)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_furnish, sites))
        wait_for(lambda: sum(map(_is_ready, sites)), equals(len(sites)), what="all applications run")
        yield Bench(world, management, lab, sites, folder)


def _site(world: World, management: ManagementPlane, lab: MeshLab, number: int, clusters: tuple[str, str]) -> Site:
    workspace = Workspace(world.tenant(f"tenant-{number}"), management, lab, {})
    for cluster in clusters:
        workspace.add(cluster)
    return Site(workspace, clusters, f"tenant-{number}")


def _furnish(site: Site) -> None:
    """One pod, and Services that lead to it."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    for cluster in site.clusters:
        api = site.workspace.lab.api(cluster)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}})
        metadata = {"namespace": site.namespace}
        api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**metadata, "name": "web"}, "spec": spec})
        for number in range(APPLICATIONS):
            service = {"metadata": {**metadata, "name": f"app-{number}"}, "spec": {"selector": labels, "ports": _PORTS}}
            api.create({"apiVersion": "v1", "kind": "Service", **service})


def _is_ready(site: Site) -> bool:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{site.namespace}/endpointslices"
    for cluster in site.clusters:
        slices = site.workspace.lab.api(cluster).list(path)
        if sum(any(e["conditions"].get("ready") for e in one.get("endpoints") or ()) for one in slices) < APPLICATIONS:
            return False
    return True
