# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.demo_operator [kcp|kubernetes]``: two tenants write the same custom resources, and each gets a mesh of its own.

The tenants are workspaces of a kcp, or namespaces of an ordinary cluster. A real kcp is used when there is one on PATH or in the tools
folder, else the test double; which one is said. Exit status 0 only if all that the last line says was seen: by the tenants, by the
kvstoremesh processes, and by looking at every object afterwards.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.demo.evidence import ask_kvstoremesh
from tests.demo.stages import Demo, StageFailed, find_servers, say
from tests.demo.verdict import Verdict
from tests.demo_operator import leftovers
from tests.demo_operator.follow import GONE, Follower
from tests.demo_operator.scene import CLUSTERS, MESH, NAME, TENANTS, WANTED, documents_in
from tests.demo_operator.verdict import HURT, OTHER, Seen, judge
from tests.integration.everything import everything
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import NamespaceWorkspace, Workspace, run_folders, run_processes
from tests.integration.shop import furnish
from tests.lab.options import LabOptions
from tests.lab.tools import ToolUnavailable, ensure
from tests.testing.kcp_client import path_of
from tests.testing.kcp_world import World, open_world
from tests.testing.management_plane import ManagementPlane
from tests.testing.namespace_world import HOME as OPERATOR_HOME
from tests.testing.namespace_world import NamespaceWorld, open_namespaces
from tests.testing.operator_process import OperatorProcess

BINDING: Final = "ClusterMeshBinding"
CILIUM: Final = "1.20"
SOURCES: Final = ("kcp", "kubernetes")
PLACES: Final = {"kcp": "a workspace of kcp", "kubernetes": "a namespace of one ordinary cluster"}
PLURAL: Final = {"kcp": "workspaces", "kubernetes": "namespaces"}
READY: Final = {
    "kcp": "the management plane says that the clusters are ready",
    "kubernetes": "the Secrets with the kubeconfigs of the clusters are there",
}
CHECK: Final = 5  # seconds between two dry runs of a mesh; the operator's default is 5 minutes


class OperatorDemo(Demo):
    """The stages, and what was seen so far."""

    STAGES = 8
    ENDED = "operator, servers and clusters are gone"

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.workspaces: dict[str, Workspace] = {}
        self.before: dict[str, Any] = {}
        self.seen = Seen()

    def verdict(self) -> Verdict:
        return judge(self.seen)

    def run(self) -> None:
        """All stages. Raises StageFailed."""
        self.begin("Servers", "kube-apiserver, etcd, clustermesh-apiserver and others, found or built once")
        find_servers(CILIUM)
        place = PLACES[self.source]
        self.begin("Tenants", f"{' and '.join(TENANTS)}, each with {place} and two clusters. All names are equal, Cilium's too")
        with self.world() as (world, management), tempfile.TemporaryDirectory() as folder:
            self.begin("Operator", f"a process of its own; it observes each mesh every {CHECK} s instead of every 5 minutes")
            with self.operator(world, management, Path(folder)) as operator:
                self.begin("Create", f"the same file in both {PLURAL[self.source]}, while the clusters are still being made")
                self.create()
                self.begin("Apart", "whose is what, asked of the clusters and of their kvstoremesh processes")
                self.compare_owners()
                self.begin("Cut", f"the link between the two clusters of {HURT} is cut, and healed")
                self.cut_and_heal()
                self.begin("Delete", f"the same file in both {PLURAL[self.source]}")
                self.delete()
                status = operator.stop()
                say(f"      the operator got SIGTERM and ended with status {status}")
            self.begin(
                "Nothing left", f"every object of every kind in the clusters, the {PLURAL[self.source]}, the operator's records, its runs"
            )
            self.find_what_is_left(status)

    # Around the operator

    @contextmanager
    def world(self) -> Iterator[tuple[World | NamespaceWorld, ManagementPlane]]:
        started = time.monotonic()
        with ExitStack() as stack:
            management = stack.enter_context(ManagementPlane())
            management.install()
            world: World | NamespaceWorld
            if self.source == "kcp":
                kind, origin = _kcp()
                say(f"      kcp: {origin}")
                world = stack.enter_context(open_world(kind))
            else:
                say("      no kcp: the kinds are CRDs of the cluster that the operator runs in")
                world = stack.enter_context(open_namespaces(management))
            for number, name in enumerate(TENANTS, 1):
                tenant = world.tenant(name)
                options = LabOptions(name=f"demo-operator-{number}", clusters=len(CLUSTERS), names=CLUSTERS, cilium=CILIUM)
                lab = stack.enter_context(MeshLab(options))
                furnish(lab)
                self.workspaces[name] = (Workspace if self.source == "kcp" else NamespaceWorkspace)(tenant, management, lab, {})
                self.before[name] = everything(lab)
                where = f"workspace {tenant.path}, logical cluster {tenant.cluster}" if self.source == "kcp" else tenant.path
                say(f"      {name}: {where}; {' and '.join(CLUSTERS)} run nginx")
            self.follower = Follower(workspace.tenant for workspace in self.workspaces.values())
            self.seen.history = self.follower.history
            say(f"      ready after {time.monotonic() - started:.0f} s")
            yield world, management

    @contextmanager
    def operator(self, world: World | NamespaceWorld, management: ManagementPlane, folder: Path) -> Iterator[OperatorProcess]:
        kubeconfig = folder / "operator.yaml"
        kubeconfig.write_text(json.dumps(world.operator().kubeconfig()), encoding="utf-8")
        flags = ["--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", f"{CHECK}s"]
        if self.source == "kcp":
            kcp, plane, given = kubeconfig, management.kubeconfig, "--kcp-kubeconfig operator.yaml --mgmt-kubeconfig mgmt.yaml"
        else:
            kcp, plane, given = None, kubeconfig, "--source kubernetes --mgmt-kubeconfig operator.yaml"
            flags += ["--mgmt-namespace", OPERATOR_HOME, "--namespace", OPERATOR_HOME]
        say(f"      $ mesh-operator {given} --node-id node-1 {' '.join(flags)}")
        with OperatorProcess(folder, kcp, plane, *flags) as operator:
            try:
                operator.wait_ready()
                say("      it is ready: every kind was listed once")
                yield operator
            except (AssertionError, StageFailed):
                say(f"      the end of its log:\n{operator.output()}")
                raise

    # What tenants do

    def create(self) -> None:
        namespaced = self.source == "kubernetes"
        text = MESH.replace(", namespace: default", "") if namespaced else MESH
        say("\n".join(f"      | {line}" for line in text.splitlines()))
        for name, workspace in self.workspaces.items():
            files = f"--namespace {name} apply" if namespaced else f"--kubeconfig {name}.yaml apply --filename clusters.yaml"
            say(f"      $ kubectl {files} --filename mesh.yaml")
            for cluster in CLUSTERS:
                workspace.add(cluster, ready=False)
            for document in documents_in(workspace.tenant.home):
                workspace.client.create(document)
        self._until_all(dict.fromkeys(WANTED, "Pending"), "every resource waits")
        for name, workspace in self.workspaces.items():
            for cluster in CLUSTERS:
                workspace.set_ready(cluster, True)
            self.follower.tell(name, READY[self.source])
        self._until_all(WANTED, "every resource has reached its phase")

    def compare_owners(self) -> None:
        self.seen.strangers = 0
        for name, workspace in self.workspaces.items():
            rows = [row for cluster in CLUSTERS for row in ask_kvstoremesh(workspace.lab.lab.clusters[cluster].kubeconfig)]
            ready = sum(row.get("ready") is True for row in rows)
            self.seen.links[name] = (ready, len(CLUSTERS))
            found = leftovers.workspaces(everything(workspace.lab))
            own = found.pop(workspace.tenant.cluster, 0)
            self.seen.strangers += found.total()
            say(f"      {name}: kvstoremesh of its clusters says: {ready} of {len(CLUSTERS)} links ready")
            say(f"      {name}: {own} objects in its clusters are labelled with its workspace, {found.total()} with another one")

    def cut_and_heal(self) -> None:
        phase, lab = self.follower.phase, self.workspaces[HURT].lab.lab
        self.seen.cut = self.follower.now()
        self.follower.tell(HURT, "the link is cut")
        lab.cut(*CLUSTERS)
        self.follower.until(lambda: phase(HURT, BINDING) == "Degraded", f"the mesh of {HURT} is Degraded")
        self.follower.follow(CHECK + 2)  # long enough for the operator to look at the other tenant's mesh as well
        self.follower.tell(OTHER, f"{BINDING}/{NAME:17}  is still {phase(OTHER, BINDING)}")
        self.seen.healed = self.follower.now()
        self.follower.tell(HURT, "the link is healed")
        lab.heal(*CLUSTERS)
        self.follower.until(lambda: all(phase(HURT, kind) == good for kind, good in WANTED.items()), f"all is well with {HURT} again")

    def delete(self) -> None:
        self.seen.deleted = self.follower.now()
        for name, workspace in self.workspaces.items():
            namespaced = self.source == "kubernetes"
            files = f"--namespace {name} delete" if namespaced else f"--kubeconfig {name}.yaml delete --filename clusters.yaml"
            say(f"      $ kubectl {files} --filename mesh.yaml")
            for document in documents_in(workspace.tenant.home):
                workspace.client.delete(path_of(document))
        self._until_all(dict.fromkeys(WANTED, GONE), "every resource is gone")
        for workspace in self.workspaces.values():
            for cluster in CLUSTERS:
                workspace.lose(cluster)

    def _until_all(self, phases: dict[str, str], what: str) -> None:
        phase = self.follower.phase
        self.follower.until(lambda: all(phase(t, kind) == wanted for t in TENANTS for kind, wanted in phases.items()), what)

    # What is left

    def find_what_is_left(self, status: int) -> None:
        found = [] if status == 0 else [f"the operator ended with status {status}"]
        for name, workspace in self.workspaces.items():
            after, key = everything(workspace.lab), workspace.key(NAME)
            differences = leftovers.left(self.before[name], after)
            rest = [
                *(f"in the workspace: {resource}" for resource in workspace.resources()),
                *(["on the management plane: the record of the mesh"] if workspace.record(NAME) else []),
                *(f"of a run: {folder}" for folder in run_folders(key)),
                *(f"of a run: process {pid}" for pid in run_processes(key)),
            ]
            say(f"      {name}: of {len(after)} objects in its clusters {len(differences)} are not as before; besides: {len(rest)}")
            found += [f"{name}: {line}" for line in (*differences, *rest)]
        for line in found:
            say(f"      left: {line}")
        self.seen.left = found


def _kcp() -> tuple[str, str]:
    """Which kcp there is to be had, and the words that say so."""
    try:
        tools = ensure(["kcp"], progress=lambda line: None)
    except ToolUnavailable:
        return "double", "none on PATH or in the tools folder, so its test double plays it (docs/kcp-double.md)"
    return "kcp", f"the real one, {tools.path('kcp')}"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.demo_operator")
    parser.add_argument("source", nargs="?", default="kcp", choices=SOURCES, help="where the custom resources are")
    introduction = f"Demo of the operator of edge_portal.cilium_mesh: {' and '.join(TENANTS)} each write {BINDING} {NAME}."
    return OperatorDemo(parser.parse_args().source).perform(introduction)


if __name__ == "__main__":
    sys.exit(main())
