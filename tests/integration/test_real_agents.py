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

from tests.demo_traffic.evidence import Agent
from tests.demo_traffic.scene import CLIENT, SPACE, WEB
from tests.demo_traffic.verdict import REACHED, TUNNEL_CUT, Paths
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.real_mesh import REFUSED, TEXTS, agent, answers, furnish, services
from tests.lab import cgroups, launch, workloads
from tests.lab.addresses import OUTSIDE
from tests.lab.options import LabOptions
from tests.lab.sandbox import libc
from tests.testing.waiting import equals, wait_for

PORTS: Final[dict[str, tuple[Paths, str, str, str]]] = {
    "tcp/4240": ((False, True), "HealthPortBlocked", "CM-NET-09", "TCP 4240"),
    "udp/8472": (TUNNEL_CUT, "PodNetworkBlocked", "CM-NET-08", "UDP 8472 (vxlan)"),
}
"""What still passes to a node, at its address and through the tunnel, when a port of it is blocked; and what is said of it."""
ASKED: Final[dict[str, Any]] = {
    "cilium_mesh_from": {"cluster": "c1", "namespace": SPACE, "name": CLIENT},
    "cilium_mesh_to": {"namespace": SPACE, "service": "web"},
    "cilium_mesh_port": "http",
}

_BPF: Final = {"x86_64": 321, "aarch64": 280}  # numbers of bpf(2)
_PROG_QUERY: Final = 16
_ATTACH_TYPES: Final = 40


@pytest.fixture(scope="module")
def mesh(real_agents: None) -> Iterator[MeshLab]:
    """Two clusters that the playbook connected, c2 without kvstoremesh; a global Service with a server in each, and a client."""
    with MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real", kvstoremesh=(True, False))) as lab:
        furnish(lab)
        yield lab


def test_the_mesh_is_connected_and_the_agents_say_so_themselves(mesh: MeshLab) -> None:
    run = mesh.play("status")
    assert (run.rc, run.result["status"]["binding"]["phase"]) == (0, "Connected"), run.output
    for cluster in mesh.names:
        (peer,) = json.loads(agent(mesh, cluster, "cilium", "status", "-o", "json"))["cluster-mesh"]["clusters"]
        assert (peer["connected"], peer["ready"], peer["synced"]["services"]) == (True, True, True), peer


def test_a_global_service_is_answered_by_those_that_backends_affinity_and_sharing_say(mesh: MeshLab) -> None:
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
        run = services(mesh, affinity="Remote")
        assert run.rc == 0, run.output
        for cluster, other in (("c1", "c2"), ("c2", "c1")):
            wait_for(partial(answers, mesh, cluster), equals({TEXTS[other]}), what=f"{other} answers to {cluster}")
        run = services(mesh, shared=False)
        assert run.rc == 0, run.output
        for cluster in mesh.names:
            wait_for(partial(answers, mesh, cluster), equals({TEXTS[cluster]}), what=f"{cluster} alone answers, since nothing is shared")
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
        """Whether c1 reaches cilium-health on the node of c2."""
        return Agent(mesh.lab.clusters["c1"]).paths("c2/c2-node1")

    def said() -> tuple[str, str]:
        """Status and reason of condition NodesReachable, as the playbook has them from the agents of both clusters."""
        run = mesh.play("status")
        found = next(row for row in run.result["status"]["binding"]["conditions"] if row["type"] == "NodesReachable")
        return found["status"], found["reason"]

    wait_for(reached, equals(REACHED), what="the nodes reach each other")
    wait_for(said, equals(("True", "NodesReached")), what="status says so")
    for port, (left, reason, code, text) in PORTS.items():
        mesh.lab.block("c1", "c2", port)
        try:
            wait_for(reached, equals(left), what=f"{port} does not pass")
            wait_for(said, equals(("False", reason)), what=f"status says so of {port}")
            status = mesh.play("status")
            assert code in status.finding_codes() and text in status.output, status.output
            explained = mesh.play("explain", **ASKED)
            network = {hop["verdict"] for hop in explained.result["explanation"]["hops"] if hop["hop"] == "network"}
            assert network == {"skipped", "broken" if code == "CM-NET-08" else "ok"}, explained.output  # skipped within c1
        finally:
            mesh.lab.heal("c1", "c2")
        wait_for(reached, equals(REACHED), what=f"{port} passes again")
    wait_for(said, equals(("True", "NodesReached")), what="status says that all pass")


def test_explain_finds_nothing_in_the_way_of_a_client_that_is_answered(mesh: MeshLab) -> None:
    def hops() -> set[str]:
        run = mesh.play("explain", **ASKED)
        return {hop["verdict"] for hop in run.result["explanation"]["hops"]}

    wait_for(hops, equals({"ok", "skipped"}), what="all hops are known to be well")
    assert answers(mesh, "c1") == set(TEXTS.values())


@pytest.mark.parametrize("method", ["job", "hubble"])
def test_a_probe_proves_an_allow_and_a_deny_by_what_packets_did(mesh: MeshLab, method: str) -> None:
    def probed(action: str) -> dict[str, Any]:
        """The probe's result of one intent from the client of c1 to the servers of c2, which is all there is."""
        intent = {
            "name": "probed",
            "action": action,
            "source": {"namespace": SPACE, "name": CLIENT, "clusters": ["c1"]},
            "destination": {"namespace": SPACE, "name": "web", "clusters": ["c2"]},
            "ports": [{"protocol": "TCP", "port": 8080}],
            "probe": {"enabled": True, "method": method, "image": "registry.example/busybox:1.36"},
        }
        run = mesh.play("policies", mesh={**mesh.mesh(), "connectivityIntents": [intent]})
        (row,) = run.result["status"]["connectivityIntents"]
        if method == "hubble":
            answers(mesh, "c1")  # flows for the next run
        return dict(row["probeStatus"])

    try:
        for action in ("Allow", "Deny"):
            status = wait_for(
                partial(probed, action), lambda found: found["result"] == "proven", what=f"the {action} is proven by {method}"
            )
            assert status["success"] is True
            if method == "hubble" or action == "Deny":
                assert any("TCP 8080" in line for line in status["evidence"]), status
    finally:
        mesh.play("policies", mesh={**mesh.mesh(), "connectivityIntents": []})


def test_nothing_of_a_node_or_a_pod_leaves_the_machine(mesh: MeshLab) -> None:
    handle = mesh.lab.clusters["c1"]
    for url in ("http://203.0.113.1/", f"{handle.server}/version"):
        answer = workloads.curl(handle.kubeconfig, SPACE, CLIENT, url, seconds=2)
        assert answer.code, f"{url} answered to a pod: {answer.text}"
        for source in OUTSIDE:
            assert mesh.lab.outside(source, url.replace("https:", "http:")).code, f"{url} answered to the host outside"
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
