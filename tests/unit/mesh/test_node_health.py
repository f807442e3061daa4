# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a user reads of packets between nodes: which nodes are reached, from where, and which port is blocked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.node_health import (
    MOST_FAILED,
    FailedNode,
    NodePath,
    NodeReport,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.node_ports import NODE_PORTS, health_port, pod_network_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.node_health import (
    MOST_NODES,
    REPORTED,
    agents_to_ask,
    health_off,
    parse_node_health,
    split_answer,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.node_paths import node_findings
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of, reader_facts
from tests.testing.rows import one_test

MESH = mesh_of("c1", "c2")
FACTS = {"c1": cluster_facts("c1"), "c2": cluster_facts("c2")}
GOOD = {"latency": 1200, "lastProbed": "2026-09-01T11:59:30Z"}
BAD = {"status": 'Get "http://10.2.1.7:4240/hello": context deadline exceeded', "lastProbed": "2026-09-01T11:59:20Z"}


def entry(name: str, host: Sequence[Any] = (GOOD, GOOD), pods: Sequence[Any] = (GOOD, GOOD)) -> dict[str, Any]:
    """A node in the answer of cilium-health; each address with its HTTP and ICMP probe, None: not probed."""

    def address(probes: Sequence[Any]) -> dict[str, Any]:
        made = {key: probe for key, probe in zip(("http", "icmp"), probes, strict=False) if probe is not None}
        return {"primary-address": {"ip": "192.0.2.1", **made}}

    return {"name": name, "host": address(host), **({"health-endpoint": address(pods)} if pods else {})}


def parsed(*entries: Any, timestamp: str = "2026-09-01T11:58:00Z") -> NodeReport:
    found = parse_node_health(json.dumps({"nodes": entries, "timestamp": timestamp}), "c1", "c1-n1", {"c2": "c2"})
    assert found is not None
    return found[0]


@one_test(
    "host pods path",
    ((GOOD, GOOD), (GOOD, GOOD), NodePath.REACHED),
    ((GOOD, BAD), (GOOD, BAD), NodePath.REACHED),  # ICMP is used by nothing but the probe
    ((GOOD, GOOD), (BAD, GOOD), NodePath.REACHED),
    ((GOOD, GOOD), (BAD, BAD), NodePath.POD_NETWORK),
    ((BAD, GOOD), (BAD, BAD), NodePath.POD_NETWORK),
    ((BAD, BAD), (BAD, BAD), NodePath.NODE),
    ((BAD, BAD), (GOOD, GOOD), NodePath.HEALTH_PORT),
    ((BAD, GOOD), (GOOD, GOOD), NodePath.HEALTH_PORT),
    ((BAD, GOOD), (), NodePath.HEALTH_PORT),
    ((BAD, BAD), (), NodePath.HOST),
    ((GOOD, BAD), (), NodePath.REACHED),
    ((None, GOOD), (), NodePath.REACHED),
    ((GOOD, GOOD), ({"status": 3}, {"status": ["x"]}), NodePath.POD_NETWORK),  # of a type that Cilium does not write
)
def test_the_probes_of_a_node_say_what_does_not_pass(host: Any, pods: Any, path: NodePath) -> None:
    found = parsed(entry("c2/c2-n1", host, pods))
    assert (found.asked, found.waiting) == (1, 0)
    assert [node.path for node in found.failed] == ([] if path is NodePath.REACHED else [path])
    assert found.host_only == (path is NodePath.REACHED and not pods)


def test_a_node_that_was_not_probed_yet_is_neither_reached_nor_lost() -> None:
    found = parsed(entry("c2/c2-n1", (None, None), (None, None)), entry("c2/c2-n2"))
    assert (found.reached, found.asked, found.waiting) == (1, 1, 1)


def test_nodes_of_other_clusters_and_the_own_one_do_not_count() -> None:
    found = parsed(entry("c1/c1-n1"), entry("c3/c3-n1", (BAD, BAD), (BAD, BAD)), entry("c2/c2-n1"), entry("no-cluster"))
    assert (found.cluster, found.peer, found.node, found.reached, found.failed) == ("c1", "c2", "c1-n1", 1, ())


def test_the_oldest_probe_is_kept_and_releases_without_it_have_the_begin_of_the_round() -> None:
    assert parsed(entry("c2/c2-n1", (GOOD, BAD))).oldest == "2026-09-01T11:59:20Z"
    assert parsed(entry("c2/c2-n1", ({"latency": 1}, None), ())).oldest == "2026-09-01T11:58:00Z"
    assert parsed(entry("c2/c2-n1", ({"latency": 1}, None), ()), timestamp="yesterday").oldest == ""


def test_the_field_of_older_agents_is_read_too() -> None:
    old = {"name": "c2/c2-n1", "host": {"primary-address": {"http": GOOD}}, "endpoint": {"http": BAD, "icmp": BAD}}
    assert [node.path for node in parsed(old).failed] == [NodePath.POD_NETWORK]


def test_the_same_nodes_are_named_in_whatever_order_the_agent_writes_them() -> None:
    lost = [entry(f"c2/n{number:04}", (BAD, BAD), (BAD, BAD)) for number in range(MOST_FAILED + 50)]
    found = parsed(*reversed(lost))
    assert found == parsed(*lost)
    assert (len(found.failed), found.more_failed, found.asked) == (MOST_FAILED, 50, MOST_FAILED + 50)
    assert found.failed[0].name == "n0000"


FIELDS = st.sampled_from(["nodes", "name", "host", "primary-address", "http", "icmp", "health-endpoint", "status", "lastProbed"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner), max_leaves=30))
def test_no_answer_of_an_agent_raises_and_no_node_is_counted_twice(document: Any) -> None:
    found = parse_node_health(json.dumps(document), "c1", "n", {"c2": "c2"})
    if found is not None:
        entries = document.get("nodes") or []
        assert found[0].asked + found[0].waiting <= len(entries)


@pytest.mark.parametrize("output", ["", "{", "[]", '{"nodes": 3}', "Cannot get status"])
def test_what_is_no_node_health_is_none(output: str) -> None:
    assert parse_node_health(output, "c1", "n", {"c2": "c2"}) is None


def test_the_answer_of_the_command_is_split_at_its_own_line() -> None:
    assert split_answer('{\n "a": "---"\n}\n---\n{}\n') == ('{\n "a": "---"\n}', "{}\n")
    assert split_answer('{"a": 1}\n') == ('{"a": 1}\n', "")


@given(st.integers(1, 20), st.integers(0, 3 * MOST_NODES))
def test_the_sample_gets_smaller_with_the_mesh_and_what_is_read_stays_bounded(agents: int, nodes: int) -> None:
    asked = agents_to_ask(agents, nodes)
    assert 0 <= asked <= agents
    assert asked * nodes <= max(REPORTED, MOST_NODES)
    assert bool(asked) == (nodes <= MOST_NODES)


@one_test(
    "settings ports",
    ({}, "UDP 8472 (vxlan)"),
    ({"tunnel-protocol": "geneve"}, "UDP 6081 (geneve)"),
    ({"tunnel-port": "9999"}, "UDP 9999 (vxlan)"),
    ({"tunnel-port": "0"}, "UDP 8472 (vxlan)"),
    ({"tunnel-protocol": "other"}, "the tunnel other"),
    ({"enable-wireguard": "true"}, "UDP 51871 (WireGuard) and UDP 8472 (vxlan)"),
    ({"enable-ipsec": "true"}, "IP protocol 50 (ESP of IPsec) and UDP 8472 (vxlan)"),
    ({"routing-mode": "native"}, "routes to the pod networks, and all ports of pods (routing-mode native)"),
)
def test_the_port_is_that_of_the_cluster_s_own_settings(settings: Mapping[str, str], ports: str) -> None:
    assert pod_network_ports(cluster_facts("c1", config=settings)) == ports


def test_every_port_has_its_source_and_the_health_port_can_be_another() -> None:
    assert all(row.source for row in NODE_PORTS.values())
    assert health_port(None) == "TCP 4240 (cilium-health)"
    assert health_port(cluster_facts("c1", config={"cluster-health-port": "4250"})) == "TCP 4250 (cilium-health)"


def test_health_checking_that_is_off_is_named() -> None:
    assert health_off(FACTS["c1"]) == ""
    assert "enable-health-checking" in health_off(cluster_facts("c1", config={"enable-health-checking": "false"}))


# The status


def report(cluster: str, peer: str, *, lost: Sequence[tuple[str, NodePath]] = (), **values: Any) -> NodeReport:
    failed = tuple(FailedNode(name=name, path=path) for name, path in lost)
    shown = {"reached": 2 - len(failed), "oldest": "2026-09-01T11:59:30Z", **values}
    return NodeReport(cluster=cluster, peer=peer, node=f"{cluster}-n1", failed=failed, **shown)


def readers(**reports: NodeReport) -> dict[str, ReaderFacts]:
    """Readers that all report ready; ``c1``, ``c2``: the node health of one agent of that cluster."""
    made = {"c1": reader_facts("c1", ["c2"]), "c2": reader_facts("c2", ["c1"])}
    given = {"c1": report("c1", "c2"), "c2": report("c2", "c1"), **reports}
    return {host: replace(reader, nodes=(given[host],), nodes_asked=(f"{host}-n1",)) for host, reader in made.items()}


def status_of(found: Mapping[str, ReaderFacts], facts: Mapping[str, ClusterFacts] = FACTS, **more: Any) -> dict[str, Any]:
    return build_status(MESH, facts, {}, found, now=NOW, **more)


def nodes_of(status: Mapping[str, Any]) -> dict[str, Any]:
    return next(entry for entry in status["conditions"] if entry["type"] == "NodesReachable")


ALL_PODS = (("c2-n1", NodePath.POD_NETWORK), ("c2-n2", NodePath.POD_NETWORK))


def test_where_every_node_is_reached_the_condition_says_so_and_each_link_counts() -> None:
    status = status_of(readers())
    assert (status["phase"], nodes_of(status)["status"], nodes_of(status)["reason"]) == ("Connected", "True", "NodesReached")
    assert status["links"][0]["nodePaths"] == {
        "reached": 2,
        "asked": 2,
        "oldestProbe": "2026-09-01T11:59:30Z",
        "blocked": "",
        "podsProbed": True,
        "failed": [],
        "message": "",
    }
    assert status["meshStatus"][0]["probedFrom"] == ["c1-n1"]
    assert node_findings(status, FACTS) == ()


def test_a_mesh_whose_packets_are_all_lost_is_not_connected_and_the_port_is_named() -> None:
    status = status_of(readers(c1=report("c1", "c2", lost=ALL_PODS)))
    ready = next(entry for entry in status["conditions"] if entry["type"] == "Ready")
    assert (status["phase"], ready["status"], ready["reason"]) == ("Degraded", "False", "PacketsLost")
    assert "c1 -> c2" in ready["message"]
    nodes = nodes_of(status)
    assert (nodes["status"], nodes["reason"]) == ("False", "PodNetworkBlocked")
    assert "c1 -> c2 reaches 0 of 2" in nodes["message"] and "UDP 8472 (vxlan)" in nodes["message"]
    (found,) = node_findings(status, FACTS)
    assert (found.code, found.cluster, found.peer) == ("CM-NET-08", "c1", "c2")
    assert "packets between pods of these clusters are lost" in found.summary and "UDP 8472 (vxlan)" in found.fix
    assert "c1-n1 -> c2-n1 (pod network)" in found.evidence and "2026-09-01T11:59:30Z" in found.evidence


def test_where_some_nodes_are_lost_the_mesh_stays_connected_and_the_condition_says_which() -> None:
    status = status_of(readers(c1=report("c1", "c2", lost=ALL_PODS[:1])))
    assert (status["phase"], nodes_of(status)["status"]) == ("Connected", "False")
    assert "1 of 2" in nodes_of(status)["message"]
    assert "packets between some pods" in node_findings(status, FACTS)[0].summary


@one_test(
    "path phase reason code words",
    (NodePath.NODE, "Degraded", "NodesUnreachable", "CM-NET-08", ("UDP 8472 (vxlan)", "TCP 4240 (cilium-health)")),
    (NodePath.POD_NETWORK, "Degraded", "PodNetworkBlocked", "CM-NET-08", ("UDP 8472 (vxlan)",)),
    (NodePath.HOST, "Connected", "NodesUnreachable", "CM-NET-09", ("TCP 4240 (cilium-health)",)),
    (NodePath.HEALTH_PORT, "Connected", "HealthPortBlocked", "CM-NET-09", ("TCP 4240 (cilium-health)",)),
)
def test_each_loss_has_its_reason_its_code_and_its_port(path: NodePath, phase: str, reason: str, code: str, words: Sequence[str]) -> None:
    status = status_of(readers(c1=report("c1", "c2", lost=[("c2-n1", path), ("c2-n2", path)])))
    assert (status["phase"], nodes_of(status)["reason"]) == (phase, reason)
    (found,) = node_findings(status, FACTS)
    assert found.code == code and all(word in found.fix and word in found.summary for word in words)


def test_a_node_that_is_down_in_its_own_cluster_is_not_called_cut_off() -> None:
    down = replace(FACTS["c2"], nodes=tuple(replace(node, ready=node.name != "c2-n1") for node in FACTS["c2"].nodes))
    status = status_of(readers(c1=report("c1", "c2", lost=ALL_PODS[:1])), {**FACTS, "c2": down})
    assert nodes_of(status)["status"] == "True"
    assert status["links"][0]["nodePaths"]["asked"] == 1


def test_what_was_not_probed_is_unknown_and_says_why() -> None:
    fresh = status_of(readers(c1=NodeReport(cluster="c1", peer="c2", node="c1-n1", waiting=2)))
    assert (fresh["phase"], nodes_of(fresh)["status"], nodes_of(fresh)["reason"]) == ("Connected", "Unknown", "NotProbed")
    assert "1 of 2 links have no probe between nodes (c1 -> c2)" in nodes_of(fresh)["message"]
    assert "not probed" in fresh["links"][0]["nodePaths"]["message"]
    off = {host: replace(reader, nodes=(), nodes_asked=(), nodes_unread="it is off") for host, reader in readers().items()}
    assert nodes_of(status_of(off))["message"].endswith(": it is off")


def test_a_reading_without_node_health_keeps_what_was_measured_before() -> None:
    before = status_of(readers(c1=report("c1", "c2", lost=ALL_PODS[:1])))
    without = {host: replace(reader, nodes=(), nodes_asked=None) for host, reader in readers().items()}
    after = status_of(without, previous=before)
    assert nodes_of(after) == nodes_of(before)
    assert after["links"][0]["nodePaths"] == before["links"][0]["nodePaths"]
    alone = status_of(without)
    assert all(entry["type"] != "NodesReachable" for entry in alone["conditions"]) and "nodePaths" not in alone["links"][0]


COLUMNS = st.sampled_from(["reached", "asked", "oldestProbe", "blocked", "failed", "message"])
VALUES = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers() | st.text(max_size=3), max_size=3)


@given(st.dictionaries(COLUMNS, VALUES))
def test_an_earlier_status_is_not_trusted(paths: dict[str, Any]) -> None:
    without = {host: replace(reader, nodes=(), nodes_asked=None) for host, reader in readers().items()}
    previous = {"links": [{"cluster": "c1", "peer": "c2", "nodePaths": paths}], "conditions": [{"type": "NodesReachable", "status": []}]}
    status = status_of(without, previous=previous)
    assert node_findings(status, FACTS) == ()
    kept = status["links"][0].get("nodePaths")
    assert kept is None or (isinstance(kept["reached"], int) and all(isinstance(name, str) for name in kept["failed"]))


LOSSES = st.lists(st.sampled_from([None, *(path for path in NodePath if path is not NodePath.REACHED)]), max_size=4)


@given(LOSSES, LOSSES)
def test_the_condition_is_met_exactly_if_every_probed_node_is_reached(there: list[NodePath | None], back: list[NodePath | None]) -> None:
    def made(cluster: str, peer: str, losses: list[NodePath | None]) -> NodeReport:
        lost = [(f"{peer}-x{number}", path) for number, path in enumerate(losses) if path is not None]
        return report(cluster, peer, lost=lost, reached=sum(path is None for path in losses))

    status = status_of(readers(c1=made("c1", "c2", there), c2=made("c2", "c1", back)))
    lost = [path for path in (*there, *back) if path is not None]
    condition = nodes_of(status)["status"]
    assert condition == ("False" if lost else "True" if there and back else "Unknown")
    assert bool(node_findings(status, FACTS)) == bool(lost)
    cut = any(losses and all(path is not None and path.loses_pods for path in losses) for losses in (there, back))
    assert status["phase"] == ("Degraded" if cut else "Connected")
    for row, losses in zip(status["links"], (there, back), strict=True):
        assert row["nodePaths"]["reached"] + sum(path is not None for path in losses) == row["nodePaths"]["asked"] == len(losses)
