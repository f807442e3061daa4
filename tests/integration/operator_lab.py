# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All that an operator needs around it, for a file of tests: a kcp, a management plane, and clusters with a Service each.

with open_operator_lab(folder) as lab:
    shop = lab.workspace("shop", "c1", "c2")
    with lab.operator("--no-leader-elect") as operator:
        shop.create("ClusterMeshBinding", "edge", clusterRefs=shop.refs("c1", "c2"))
        operator.wait(lambda: shop.phase("ClusterMeshBinding", "edge"), "the mesh is connected", until=equals("Connected"))

Tests take it from the fixture `operator_lab`, which all files of one worker share.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.model import Binding
from mesh_operator.keys import MeshKey
from mesh_operator.kinds import BY_KIND, CLUSTER, FLEET_GROUP, GROUP, ROWS, VERSION
from mesh_operator.records import name_of
from mesh_operator.runs import MARK
from tests.integration.everything import everything
from tests.integration.mesh_lab import MeshLab
from tests.integration.shop import NAMESPACE as SHOP
from tests.integration.shop import furnish
from tests.lab.options import LabOptions
from tests.testing.kcp_client import Client, path_of
from tests.testing.kcp_world import Tenant, World, open_world
from tests.testing.management_plane import NAMESPACE, ManagementPlane
from tests.testing.operator_process import OperatorProcess

Object = dict[str, Any]
HOME: Final = "default"  # the namespace in which tenants keep their custom resources, unless a test says otherwise
CHECK: Final = 2  # seconds between two looks at a mesh


@dataclass(frozen=True)
class Workspace:
    """A tenant at work. ``clusters``: names of his Clusters on the management plane, by those of his KubernetesClusters."""

    tenant: Tenant
    management: ManagementPlane
    lab: MeshLab
    clusters: dict[str, str]

    @property
    def client(self) -> Client:
        return self.tenant.client

    def add(self, name: str, *, kubeconfig: Path | None = None, ready: bool = True) -> None:
        """A KubernetesCluster and what the platform makes of it. It is the lab's cluster of that name, unless a kubeconfig is given."""
        path = kubeconfig or self.lab.lab.clusters[name].kubeconfig
        self.clusters[name] = self.management.add(self.tenant.cluster, name, path, ready=ready)
        self.create(CLUSTER, name, providerRef={"name": "kind"})

    def refs(self, *names: str) -> list[Object]:
        return [{"name": name} for name in names or self.clusters]

    def create(self, kind: str, name: str, *, namespace: str = HOME, **spec: Any) -> Object:
        return self.client.create({**_head(kind, name, namespace), "spec": spec})

    def get(self, kind: str, name: str, *, namespace: str = HOME) -> Object | None:
        return self.client.get(path_of(_head(kind, name, namespace)))

    def change(self, kind: str, name: str, *, namespace: str = HOME, **spec: Any) -> Object:
        """Some fields of its spec."""
        return self.merge(kind, name, {"spec": spec}, namespace=namespace)

    def merge(self, kind: str, name: str, body: Object, *, namespace: str = HOME) -> Object:
        return self.client.merge(path_of(_head(kind, name, namespace)), body)

    def delete(self, kind: str, name: str, *, namespace: str = HOME) -> None:
        """Ask for it; it goes when no finalizer is left."""
        self.client.delete(path_of(_head(kind, name, namespace)))

    def status(self, kind: str, name: str, *, namespace: str = HOME) -> Object:
        """{} where there is none."""
        found: Object = (self.get(kind, name, namespace=namespace) or {}).get("status") or {}
        return found

    def phase(self, kind: str, name: str, *, namespace: str = HOME) -> str:
        return str(self.status(kind, name, namespace=namespace).get("phase", ""))

    def condition(self, kind: str, name: str, of: str = "Ready", *, namespace: str = HOME) -> Object:
        """{} where there is none."""
        conditions = self.status(kind, name, namespace=namespace).get("conditions") or []
        return next((entry for entry in conditions if entry["type"] == of), {})

    def resources(self) -> dict[str, Object]:
        """Everything that the operator has to do with, in all namespaces, by "kind/name"."""
        kinds = [row for row in ROWS if row.kind != CLUSTER]
        return {
            f"{row.kind}/{found['metadata']['name']}": found
            for row in kinds
            for found in self.client.list(f"/apis/{row.group}/{VERSION}/{row.plural}")
        }

    def key(self, binding: str, *, namespace: str = HOME) -> MeshKey:
        return MeshKey(self.tenant.cluster, namespace, binding)

    def owner(self, binding: str, *, namespace: str = HOME) -> str:
        """Value of the label that everything has which the mesh made in clusters."""
        return _owner(self.key(binding, namespace=namespace))

    def record(self, binding: str, *, namespace: str = HOME) -> Object | None:
        """What the operator remembers of a mesh."""
        name = name_of(self.key(binding, namespace=namespace))
        found = self.management.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
        return None if found is None else dict(json.loads(found["data"]["record"]))


@dataclass(frozen=True)
class OperatorLab:
    """See the module."""

    world: World
    management: ManagementPlane
    clusters: MeshLab
    folder: Path

    def workspace(self, name: str, *clusters: str) -> Workspace:
        """A new tenant who has these clusters of the lab."""
        made = Workspace(self.world.tenant(name), self.management, self.clusters, {})
        for cluster in clusters:
            made.add(cluster)
        return made

    def operator(self, *flags: str, node: str = "node-1", own_processes: bool = False) -> OperatorProcess:
        """Not started yet. With short intervals, which ``flags`` override.

        :param own_processes: its plays are processes of ansible-playbook, and not forks of a warm process: where the test kills, cancels or
            counts them.
        """
        kcp = self.folder / "kcp.kubeconfig"
        if not kcp.exists():
            kcp.write_text(json.dumps(self.world.operator().kubeconfig()), encoding="utf-8")
        short = ("--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", "2s", "--max-runs", "4")
        return OperatorProcess(self.folder, kcp, self.management.kubeconfig, *short, *flags, node=node, warm_plays=not own_processes)


class SharedOperatorLab:
    """The operator lab of a test run. A file of tests gets it as it was when it was new: what the one before left is looked for, and
    where there is something, the lab is made anew."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lab: OperatorLab | None = None
        self._untouched: Object = {}

    def lend(self, folder: Path) -> OperatorLab:
        """``folder``: for the logs and kubeconfigs of the borrower's operators."""
        if self._lab is not None and (left := _left_in(self._lab, self._untouched)):
            print(f"The operator lab is made anew; left by the file before: {left}")
            self.close()
        if self._lab is None:
            self._lab = self._stack.enter_context(open_operator_lab(folder))
            self._untouched = everything(self._lab.clusters)
        return replace(self._lab, folder=folder)

    def close(self) -> None:
        """End it, if there is one; it may be asked for again."""
        self._lab = None
        self._stack.close()


SHARED: Final = SharedOperatorLab()


def _left_in(lab: OperatorLab, untouched: Object) -> list[str]:
    """Names of what is in the clusters or in kcp and was not when the lab was new. What operators remember is forgotten."""
    places = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for found in lab.management.api.list(places):
        if "record" in (found.get("data") or {}):
            lab.management.api.delete(f"{places}/{found['metadata']['name']}")
    lab.world.faults.clear()
    now = everything(lab.clusters)
    changed = [place for place in sorted(now.keys() | untouched.keys()) if now.get(place) != untouched.get(place)]
    everywhere = lab.world.virtual("*")
    return changed + [
        f"{row.kind} {found['metadata']['name']}"
        for row in ROWS
        if row.kind != CLUSTER
        for found in everywhere.list(f"/apis/{row.group}/{VERSION}/{row.plural}")
    ]


@contextmanager
def open_operator_lab(folder: Path, *, clusters: int = 3) -> Iterator[OperatorLab]:
    """Clusters c1, c2, ... with Service production/nginx and a pod behind it in each, and Service production/quiet with none, of no mesh
    and of no tenant yet.

    :raises ToolUnavailable: a program is missing. The text says why.
    """
    options = LabOptions(name=f"operator-{os.getpid()}-{time.monotonic_ns()}", clusters=clusters, cilium="1.20")
    with ExitStack() as stack, ThreadPoolExecutor(1) as aside:
        lab = aside.submit(_furnished, options)  # it takes longest; the servers here have to be started by the main thread
        stack.callback(lambda: None if lab.exception() else lab.result().lab.close())
        management = stack.enter_context(ManagementPlane())
        management.install()
        world = stack.enter_context(open_world("double"))
        yield OperatorLab(world, management, lab.result(), folder)


def is_on_the_way(status: Object) -> bool:
    """Whether a status says that an object waits for its turn, or that a run is at work for it."""
    phases = {row.going_on for row in ROWS if row.going_on}
    ready: Object = next((entry for entry in status.get("conditions") or () if entry["type"] == "Ready"), {})
    return ready.get("reason") in phases | {"Queued"}


def run_folders(key: MeshKey) -> list[Path]:
    """Of plays of one mesh that are under way, or were left."""
    places = ("/dev/shm", tempfile.gettempdir())
    return [folder for place in places for folder in Path(place).glob(f"mesh-operator-[0-9]*/run-{_owner(key)}-*")]


def run_processes(key: MeshKey) -> dict[int, str]:
    """Processes of plays of one mesh, and the folder of each one's run, by their environment."""
    found: dict[int, str] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone, or somebody else's
            entries = (place / "environ").read_bytes().decode(errors="replace").split("\0")
            found |= {int(place.name): entry for entry in entries if entry.startswith(f"{MARK}=") and f"/run-{_owner(key)}-" in entry}
    return found


def _owner(key: MeshKey) -> str:
    return Binding(name=key.name, cluster_refs=(), workspace=key.workspace, namespace=key.namespace).owner


def _furnished(options: LabOptions) -> MeshLab:
    lab = MeshLab(options)
    lab.__enter__()
    try:
        furnish(lab)
        for name in lab.names:
            spec = {"selector": {"app": "quiet"}, "ports": [{"name": "http", "port": 80}]}
            metadata = {"name": "quiet", "namespace": SHOP}
            lab.api(name).create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    except BaseException:
        lab.lab.close()
        raise
    return lab


def _head(kind: str, name: str, namespace: str) -> Object:
    group = FLEET_GROUP if kind == CLUSTER else GROUP
    assert kind in BY_KIND, f"there is no kind {kind}"
    return {"apiVersion": f"{group}/{VERSION}", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
