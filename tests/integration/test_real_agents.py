# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Real cilium-agents in a lab: what playbooks wrote decides over real packets, and nothing of it touches the machine or leaves it."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import struct
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.labs import unused_name
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab import agents, cgroups, launch, workloads
from tests.lab.options import LabOptions
from tests.lab.pods import RUN
from tests.lab.sandbox import libc
from tests.lab.tools import AGENT
from tests.lab.tools.provide import look
from tests.testing.waiting import equals, wait_for

SPACE: Final = "default"
WEB: Final = f"/apis/apps/v1/namespaces/{SPACE}/deployments/web"
TEXTS: Final = {"c1": "hello from c1", "c2": "hello from c2"}
REFUSED: Final = "refused"
CLIENT: Final = "client"
Paths = tuple[bool | None, bool | None]
BOTH: Final[Paths] = (True, True)
PORTS: Final[dict[str, Paths]] = {"tcp/4240": (False, True), "udp/8472": (True, False)}
"""What still passes to a node, at its address and through the tunnel, when a port of it is blocked."""

_BPF: Final = {"x86_64": 321, "aarch64": 280}  # numbers of bpf(2)
_PROG_QUERY: Final = 16
_ATTACH_TYPES: Final = 40


@pytest.fixture(scope="session")
def real_agents(servers: None) -> None:
    """Cilium's programs, which only the deep run builds, on a machine that can run them."""
    if lacks := [*agents.missing(), *sorted(set(AGENT) - look(AGENT, print).keys())]:
        pytest.skip(f"no real agents: {', '.join(lacks)} missing (docs/lab.md#real-agents)")


@pytest.fixture(scope="module")
def mesh(real_agents: None) -> Iterator[MeshLab]:
    """Two clusters that the playbook connected, c2 without kvstoremesh; a global Service with a server in each, and a client."""
    with MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real", kvstoremesh=(True, False))) as lab:
        for cluster in lab.names:
            for body in (deployment(cluster), SERVICE, workloads.pod(CLIENT, {"app": CLIENT}, workloads.PAUSE)):
                lab.api(cluster).create(body)
        run = lab.play("connect")
        assert run.rc == 0, run.output
        run = services(lab)
        assert run.rc == 0, run.output
        for cluster in lab.names:
            workloads.wait_ready(lab.api(cluster), SPACE, CLIENT)
            wait_for(partial(answers, lab, cluster), equals(set(TEXTS.values())), what=f"both clusters answer to {cluster}")
        yield lab


def deployment(cluster: str) -> dict[str, Any]:
    labels = {"app": "web"}
    container = workloads.pod("web", labels, ["serve", TEXTS[cluster]])["spec"]["containers"][0]
    template = {
        "metadata": {"labels": labels, "annotations": {RUN: "true"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": SPACE}, "spec": spec}


SERVICE: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": SPACE},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


def services(lab: MeshLab, **more: Any) -> Any:
    return lab.play(
        "services", mesh={**lab.mesh(), "globalServices": [{"name": "web", "selector": {"namespace": SPACE, "name": "web"}, **more}]}
    )


def ask(lab: MeshLab, cluster: str) -> str:
    """One request of the client to the Service: who answered, or `REFUSED`."""
    handle = lab.lab.clusters[cluster]
    answer = workloads.curl(handle.api, handle.kubeconfig, SPACE, CLIENT, "http://web/", seconds=1)
    return answer.text.strip() if answer.code == 0 else REFUSED


def answers(lab: MeshLab, cluster: str, count: int = 8) -> set[str]:
    return {ask(lab, cluster) for _ in range(count)}


def agent(lab: MeshLab, cluster: str, *command: str) -> str:
    """What a command in the agent's container prints."""
    handle = lab.lab.clusters[cluster]
    (pod,) = handle.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", label_selector="k8s-app=cilium")
    answer = workloads.execute(handle.kubeconfig, NAMESPACE, pod["metadata"]["name"], command, limit=90)
    assert answer.code == 0, answer.errors
    return answer.text


def test_the_mesh_is_connected_and_the_agents_say_so_themselves(mesh: MeshLab) -> None:
    run = mesh.play("status")
    assert (run.rc, run.result["status"]["binding"]["phase"]) == (0, "Connected"), run.output
    for cluster in mesh.names:
        (peer,) = json.loads(agent(mesh, cluster, "cilium", "status", "-o", "json"))["cluster-mesh"]["clusters"]
        assert (peer["connected"], peer["ready"], peer["synced"]["services"]) == (True, True, True), peer


def test_a_global_service_is_answered_by_both_then_by_the_other_one_and_with_local_affinity_by_the_own_one(mesh: MeshLab) -> None:
    assert answers(mesh, "c1") == set(TEXTS.values())
    mesh.api("c1").patch(WEB, {"spec": {"replicas": 0}})
    wait_for(partial(answers, mesh, "c1"), equals({TEXTS["c2"]}), what="c2 alone answers when c1 has no backend")
    mesh.api("c1").patch(WEB, {"spec": {"replicas": 1}})
    wait_for(partial(answers, mesh, "c1"), equals(set(TEXTS.values())), what="both answer again")
    try:
        run = services(mesh, affinity="Local")
        assert run.rc == 0, run.output
        wait_for(partial(answers, mesh, "c1"), equals({TEXTS["c1"]}), what="c1 answers itself")
        assert answers(mesh, "c2") == {TEXTS["c2"]}
    finally:
        services(mesh)


def test_compiled_intents_admit_and_refuse_the_client_in_both_clusters(mesh: MeshLab) -> None:
    destination = {"namespace": SPACE, "name": "web"}

    def apply(*intents: dict[str, Any]) -> None:
        run = mesh.play("policies", mesh={**mesh.mesh(), "connectivityIntents": list(intents)})
        assert run.rc == 0, run.output

    allow = {
        "name": "client-to-web",
        "action": "Allow",
        "source": {"namespace": SPACE, "name": CLIENT, "clusters": ["c1"]},
        "destination": destination,
    }
    deny = {**allow, "name": "no-client", "action": "Deny"}
    both, every = {TEXTS["c1"], TEXTS["c2"]}, partial(answers, mesh, "c1")
    try:
        apply(allow)
        wait_for(partial(answers, mesh, "c2", 3), equals({REFUSED}), what="the client of c2 is not admitted")
        wait_for(every, equals(both), what="that of c1 is, to both clusters")
        apply(allow, deny)
        wait_for(partial(answers, mesh, "c1", 3), equals({REFUSED}), what="Deny wins over Allow")
    finally:
        apply()
    wait_for(partial(answers, mesh, "c2"), equals(both), what="without policies all are admitted")


def test_nodes_reach_each_other_until_a_port_is_blocked(mesh: MeshLab) -> None:
    def reached() -> Paths:
        """Whether c1 reaches cilium-health on the node of c2, at its address and through the tunnel; None while there is no answer yet."""
        # A probe that meets silence outlasts the patience of the command, and its result is stored all the same.
        script = "cilium-health status --probe >/dev/null 2>&1; cilium-health status -o json"
        nodes = {node["name"]: node for node in json.loads(agent(mesh, "c1", "sh", "-c", script))["nodes"]}
        peer = nodes["c2/c2-node1"]
        paths = (peer["host"]["primary-address"], peer["health-endpoint"]["primary-address"])
        address, tunnel = (not path["http"].get("status") if "http" in path else None for path in paths)
        return address, tunnel

    wait_for(reached, equals(BOTH), what="the nodes reach each other")
    for port, left in PORTS.items():
        mesh.lab.block("c1", "c2", port)
        try:
            wait_for(reached, equals(left), what=f"{port} does not pass")
        finally:
            mesh.lab.heal("c1", "c2")
        wait_for(reached, equals(BOTH), what=f"{port} passes again")


def test_nothing_of_a_node_or_a_pod_leaves_the_machine(mesh: MeshLab) -> None:
    handle = mesh.lab.clusters["c1"]
    for url in ("http://203.0.113.1/", f"{handle.server}/version"):
        answer = workloads.curl(handle.api, handle.kubeconfig, SPACE, CLIENT, url, seconds=2)
        assert answer.code, f"{url} answered to a pod: {answer.text}"
    routes = agent(mesh, "c1", "ip", "route", "show", "table", "all")
    assert "198.18.0.0/15" in routes and "default" not in routes


def machine() -> dict[str, str]:
    """What agents change on a machine of their own: programs at the root cgroup, interfaces, routes, rules and settings of the kernel."""
    root = cgroups.machine_root()
    commands = {
        "links": ["ip", "-o", "link"],
        "routes": ["ip", "route", "show", "table", "all"],
        "rules": ["ip", "rule"],
        "filter": ["iptables-save"],
    }
    found = {name: subprocess.run(command, capture_output=True, text=True, check=True).stdout for name, command in commands.items()}
    found["filter"] = "\n".join(line for line in found["filter"].splitlines() if not line.startswith(("#", ":")))
    settings = sorted(Path("/proc/sys/kernel").iterdir())
    found["settings"] = "\n".join(
        f"{path.name} {path.read_text()}" for path in settings if path.name in ("unprivileged_bpf_disabled", "timer_migration")
    )
    found["programs"] = str(attached(root)) if root else ""
    found["cgroups"] = "\n".join(sorted(path.name for path in root.iterdir() if path.is_dir())) if root else ""
    found["mounts"] = "\n".join(
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "bpf" in line or "mesh-lab" in line
    )
    return found


def attached(cgroup: Path) -> dict[int, int]:
    """How many programs are attached to a cgroup, by type of attachment (bpf(2): BPF_PROG_QUERY)."""
    found = {}
    handle = os.open(cgroup, os.O_RDONLY)
    try:
        for kind in range(_ATTACH_TYPES):
            query = struct.pack("IIIIQI4x", handle, kind, 0, 0, 0, 0).ljust(64, b"\0")
            buffer = ctypes.create_string_buffer(query, 64)
            if libc.syscall(_BPF[platform.machine()], _PROG_QUERY, buffer, 64) == 0 and (
                count := struct.unpack_from("I", buffer.raw, 24)[0]
            ):
                found[kind] = count
    finally:
        os.close(handle)
    return found


def processes(folder: Path) -> set[int]:
    """Processes of the machine whose command line names a lab's folder, or that lie in its cgroup."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = path.joinpath("cmdline").read_bytes() + path.joinpath("cgroup").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words or cgroups.folder_of(Path("/"), folder).name.encode() in words:
            found.add(int(path.name))
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_a_lab_leaves_nothing_and_changes_nothing_of_the_machine(real_agents: None, killed: bool) -> None:
    before = machine()
    with MeshLab(LabOptions(name=unused_name(), clusters=1, agents="real")) as lab:
        folder = launch.folder_of(lab.lab.options.name)
        assert processes(folder)
        during = machine()
        assert {key: value for key, value in during.items() if key != "cgroups"} == {
            key: value for key, value in before.items() if key != "cgroups"
        }
        if killed:
            os.kill(lab.lab.status()["pid"], signal.SIGKILL)
            wait_for(lambda: folder.exists(), equals(False), what="the folder of the lab is gone")
    wait_for(partial(processes, folder), lambda found: not found, what="no process is left")
    assert machine() == before
