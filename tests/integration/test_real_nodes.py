# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Several nodes in a cluster, with a real agent each: pods of all reach each other, and a node that is cut off is named."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from tests.demo_traffic.evidence import Agent
from tests.demo_traffic.scene import SPACE
from tests.demo_traffic.verdict import REACHED, Paths
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.lab import workloads
from tests.lab.options import LabOptions
from tests.testing.waiting import equals, wait_for

NODES: Final = {"c1-node1": "c1", "c1-node2": "c1", "c2-node1": "c2"}
HURT: Final = "c1-node2"


@pytest.fixture(scope="module")
def mesh(real_agents: None) -> Iterator[MeshLab]:
    """A cluster of two nodes and one of one, connected."""
    with MeshLab(LabOptions(name=unused_name(), clusters=2, nodes=(2, 1), agents="real")) as lab:
        run = lab.play("connect")
        assert run.rc == 0, run.output
        yield lab


def test_a_pod_of_each_node_is_answered_by_those_of_all(mesh: MeshLab) -> None:
    for node, cluster in NODES.items():
        mesh.api(cluster).create(workloads.pod(node, {"app": "node"}, ["serve", node], node=node))
    addresses = {node: workloads.wait_ready(mesh.api(cluster), SPACE, node) for node, cluster in NODES.items()}

    def answer(client: str, server: str) -> str:
        kubeconfig = mesh.lab.clusters[NODES[client]].kubeconfig
        return workloads.curl(kubeconfig, SPACE, client, f"http://{addresses[server]}:8080/").text.strip()

    for client, server in itertools.product(NODES, repeat=2):
        wait_for(partial(answer, client, server), equals(server), what=f"{server} answers to {client}")


def test_a_node_that_packets_do_not_reach_is_counted_and_named(mesh: MeshLab) -> None:
    agents = {node: Agent(mesh.lab.clusters[cluster], node) for node, cluster in NODES.items()}

    def reached() -> dict[str, Paths]:
        """What the agent of c2 says of each node of c1."""
        return {node: agents["c2-node1"].paths(f"c1/{node}") for node in ("c1-node1", HURT)}

    def said() -> tuple[str, str]:
        """Status and message of condition NodesReachable."""
        found = next(row for row in status()["conditions"] if row["type"] == "NodesReachable")
        return found["status"], found["message"]

    def status() -> dict[str, Any]:
        binding: dict[str, Any] = mesh.play("status").result["status"]["binding"]
        return binding

    whole = "Every node that was probed is reached, over 2 links"
    wait_for(reached, equals(dict.fromkeys(("c1-node1", HURT), REACHED)), what="all nodes are reached")
    wait_for(said, equals(("True", whole)), what="status says so")
    rule = ["PREROUTING", "-i", "eth0", "-p", "udp", "--dport", "8472", "-s", "198.18.2.0/24", "-j", "DROP"]
    assert agents[HURT].run("iptables", "-w", "-t", "raw", "-I", *rule).code == 0
    try:
        wait_for(reached, equals({"c1-node1": REACHED, HURT: (True, False)}), what="the tunnel of one node is cut")
        half = "reaches 1 of 2: the nodes answer and their pod network does not, so UDP 8472 (vxlan) does not pass"
        lost = f"Packets between nodes are lost: c1 -> c2 {half}; c2 -> c1 {half}"
        wait_for(said, equals(("False", lost)), what="status counts one of two nodes in each direction")
        output = mesh.play("status").output
        assert set(re.findall(r"not reached: (\S+ -> \S+)", output)) == {f"{HURT} -> c2-node1", f"c2-node1 -> {HURT}"}, output
    finally:
        agents[HURT].run("iptables", "-w", "-t", "raw", "-D", *rule)
    wait_for(said, equals(("True", whole)), what="status says that all is well again")
