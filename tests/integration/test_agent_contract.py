# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The contract that a lab's stand-in for cilium-agent shares with the real one: what both say in the same situations, on Cilium 1.19.

What only one of them can say is left out by name: a stand-in has no endpoints and identities of its own, serves ClusterIPs alone, and asks
when it is asked, where a real agent says what it last saw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from tests.demo_traffic.scene import CLIENT, NAME, SPACE
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.real_mesh import agent, furnish
from tests.lab import workloads
from tests.lab.options import LabOptions
from tests.lab.tools import CILIUM_AGENT
from tests.testing.flow_builders import flow
from tests.testing.waiting import equals, wait_for

ONLY_REAL: Final = {"num-endpoints", "num-identities", "num-failures", "last-failure"}
CONNECTED: Final = r"etcd: 1/1 connected, leases=0, lock leases=0, has-quorum=true: endpoint status checks are disabled, ID: [0-9a-f]{1,16}"
ROW: Final = re.compile(r"^(\d+ +)(\S+) +(\w+) +(\d+) => (\S+) \((\w+)\)( \(preferred\))? *$")


@pytest.fixture(scope="module", params=["stand-in", "real"])
def mesh(request: pytest.FixtureRequest) -> Iterator[MeshLab]:
    """Two connected clusters, c2 without kvstoremesh, that both serve a global Service."""
    if request.param == "real":
        request.getfixturevalue("real_agents")
    usual = LabOptions(name=unused_name(), clusters=2, cilium="1.19", binary_version=CILIUM_AGENT, kvstoremesh=(True, False))
    with MeshLab(replace(usual, agents=request.param)) as lab:
        assert status(lab, "c1") == {"clusters": None}
        furnish(lab, packets=request.param == "real")
        for cluster in lab.names:
            wait_for(partial(shared, lab, cluster), equals(1), what=f"the Service of the peer has come to {cluster}")
        yield lab


def shared(lab: MeshLab, cluster: str) -> int:
    (peer,) = status(lab, cluster)["clusters"]
    return int(peer.get("num-shared-services", 0))


def status(lab: MeshLab, cluster: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent(lab, cluster, "cilium", "status", "-o", "json"))["cluster-mesh"]
    return found


@pytest.mark.parametrize(("cluster", "peer", "number", "cached"), [("c1", "c2", 2, {"kvstoremesh": True}), ("c2", "c1", 1, {})])
def test_status_of_a_peer(mesh: MeshLab, cluster: str, peer: str, number: int, cached: dict[str, bool]) -> None:
    said = status(mesh, cluster)
    (found,) = said["clusters"]
    assert set(said) == {"clusters"}
    assert re.fullmatch(CONNECTED, found.pop("status"))
    assert {key: value for key, value in found.items() if key not in ONLY_REAL} == {
        "name": peer,
        "connected": True,
        "ready": True,
        "config": {
            "cluster-id": number,
            "required": True,
            "retrieved": True,
            "sync-canaries": True,
            "service-exports-enabled": False,
            **cached,
        },
        "synced": {"nodes": True, "endpoints": True, "identities": True, "services": True},
        "num-nodes": 1,
        "num-shared-services": 1,
    }


def test_services_and_their_backends(mesh: MeshLab) -> None:
    address = (mesh.api("c1").get(f"/api/v1/namespaces/{SPACE}/services/{NAME}") or {})["spec"]["clusterIP"]

    def rows() -> list[tuple[str, ...]]:
        """Type, number, state and preference of each backend of the Service in c1, as the table has them."""
        lines = agent(mesh, "c1", "cilium", "service", "list", "--clustermesh-affinity").splitlines()
        (place,) = [number for number, line in enumerate(lines) if f" {address}:80/TCP " in line]
        first = ROW.fullmatch(lines[place])
        assert first, lines[place]
        second = re.fullmatch(r" +(\d+) => (\S+) \((\w+)\)( \(preferred\))? *", lines[place + 1])
        assert second, lines[place + 1]
        return [(first[3], first[4], first[6], first[7] or ""), (second[1], second[3], second[4] or "")]

    assert rows() == [("ClusterIP", "1", "active", " (preferred)"), ("2", "active", " (preferred)")]
    listed = json.loads(agent(mesh, "c1", "cilium", "service", "list", "--clustermesh-affinity", "-o", "json"))
    (found,) = [entry for entry in listed if entry["spec"]["frontend-address"]["ip"] == address]
    assert found["spec"] == found["status"]["realized"]
    assert found["spec"]["flags"] == {
        "extTrafficPolicy": "Cluster",
        "intTrafficPolicy": "Cluster",
        "name": NAME,
        "namespace": SPACE,
        "trafficPolicy": "Cluster",
        "type": "ClusterIP",
    }
    assert found["spec"]["frontend-address"] == {"ip": address, "port": 80, "protocol": "TCP", "scope": "external"}
    own, other = found["spec"]["backend-addresses"]
    alike = {"port": 8080, "preferred": True, "protocol": "TCP", "state": "active", "weight": 100}
    assert {**alike, "ip": own["ip"], "nodeName": "c1-node1"} == own
    assert {**alike, "ip": other["ip"]} == other
    assert (own["ip"].split(".")[1], other["ip"].split(".")[1]) == ("1", "2")


def test_node_health_of_a_peer(mesh: MeshLab) -> None:
    def probes() -> list[set[str]]:
        """Keys of the HTTP probes of the peer's node and of its pod network; [] while it was not probed."""
        health = json.loads(agent(mesh, "c1", "cilium-health", "status", "-o", "json"))
        assert health["local"] == {"name": "c1/c1-node1"} and re.fullmatch(r"[-0-9]+T[:0-9]+Z", health["timestamp"])
        peers = [node for node in health["nodes"] or [] if node["name"] == "c2/c2-node1"]
        paths = [node[part]["primary-address"] for node in peers for part in ("host", "health-endpoint")]
        assert all(path["ip"] for path in paths)
        return [set(path["http"]) for path in paths if "http" in path]

    wait_for(probes, equals([{"lastProbed", "latency"}] * 2), what="the node of the peer was probed on both ways")


def test_troubleshoot_of_a_peer(mesh: MeshLab) -> None:
    lines = [line.strip() for line in agent(mesh, "c1", "cilium", "troubleshoot", "clustermesh").splitlines()]
    expected = (
        r"Found 1 cluster configurations",
        r'Cluster "c2":',
        r"📄 Configuration path: /var/lib/cilium/clustermesh/c2",
        r"🔌 Endpoints:",
        r"- https://clustermesh-apiserver\.kube-system\.svc:2379",
        r"🔑 Digital certificates:",
        r"✅ TLS Root CA certificates:",
        r"- Serial number: +[0-9a-f:]+",
        r"Subject: +CN=Cilium CA",
        r"✅ TLS client certificates:",
        r"Subject: +CN=local-c1",
        r"Not after: +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC",
        r"⚙️ Etcd client:",
        r"✅ Etcd connection successfully established",
        r"\S+ +Etcd cluster ID: [0-9a-f]{1,16}",
    )
    place = 0
    for pattern in expected:
        found = [number for number, line in enumerate(lines[place:]) if re.fullmatch(pattern, line)]
        assert found, f"{pattern} after line {place} of {lines}"
        place += found[0] + 1


def shape(value: Any, path: str = "") -> set[str]:
    """Paths and types of what a JSON value holds."""
    if isinstance(value, dict):
        return {entry for key, inner in value.items() for entry in shape(inner, f"{path}.{key}")}
    return {f"{path} {'number' if isinstance(value, int) and not isinstance(value, bool) else type(value).__name__}"}


def test_flows_have_what_made_ones_have(mesh: MeshLab) -> None:
    """Tests without packets make flows of their own; real ones have every field of theirs."""
    made = json.loads(flow())
    command = ["hubble", "observe", "--server", "unix:///var/run/cilium/hubble.sock", "-o", "jsonpb", "--last", "20"]
    command += ["--type", "trace:to-endpoint", "--from-label", f"app={CLIENT}", "--to-label", f"app={NAME}", "--to-port", "8080"]
    if mesh.lab.options.agents == "stand-in":
        mesh.lab.trials("c1").show([flow(node="c1/c1-node1")])
        command = command[: command.index("--from-label")]
    else:
        handle = mesh.lab.clusters["c1"]
        for _ in range(8):
            workloads.curl(handle.kubeconfig, SPACE, CLIENT, "http://web/")
    found = wait_for(lambda: agent(mesh, "c1", *command).splitlines(), what="flows were recorded")
    assert any(shape(made) <= shape(json.loads(line)) for line in found), (
        sorted(shape(made) - shape(json.loads(found[0]))),
        found[0],
    )
