# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What readers say of their links, in their three languages: metrics, JSON status, troubleshoot."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import LinkFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.link_status import (
    PeerMetrics,
    agent_statuses,
    kvstoremesh_statuses,
    link_from_status,
    parse_metrics,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.troubleshoot import Hint, parse_troubleshoot
from tests.testing.rows import one_test

BLANK = LinkFacts(cluster="edge-1", peer="edge-2", reader="kvstoremesh", pod="mesh-1", source="exec")
READY = {
    "name": "c2",
    "ready": True,
    "connected": True,
    "status": "etcd: 1/1 connected",
    "config": {"required": True, "retrieved": True, "cluster-id": 2},
    "synced": {"nodes": True, "endpoints": True, "identities": True, "services": True},
    "last-failure": "0001-01-01T00:00:00.000Z",
}

# metrics


def gauge(name: str, labels: str, value: str) -> str:
    return f"cilium_kvstoremesh_remote_cluster_{name}{{{labels}}} {value}\n"


def test_metrics_of_old_and_new_releases_are_read() -> None:
    text = (
        "# HELP cilium_kvstoremesh_remote_cluster_readiness_status The readiness status of the remote cluster\n"
        + gauge("readiness_status", 'source_cluster="c1",source_node_name="",target_cluster="c2"', "1")
        + gauge("readiness_status", 'target_cluster="c3"', "0")
        + gauge("failures", 'target_cluster="c3"', "4")
        + gauge("last_failure_ts", 'target_cluster="c3"', "1.7e+09")
        + gauge("last_failure_ts", 'source_cluster="c1",target_cluster="c2"', "-6.21355968e+10")
        + 'cilium_kvstoremesh_remote_clusters{source_cluster="c1"} 2\ngo_goroutines 12\n'
    )
    assert parse_metrics(text) == {
        "c2": PeerMetrics(ready=True),
        "c3": PeerMetrics(failures=4, last_failure="2023-11-14T22:13:20+00:00"),
    }


@one_test("value", "NaN", "+Inf", "x", "1e999", "2", "0x1")
def test_a_gauge_of_another_value_is_not_ready(value: str) -> None:
    assert parse_metrics(gauge("readiness_status", 'target_cluster="c2"', value)) == {"c2": PeerMetrics()}


def test_the_source_cluster_is_not_mistaken_for_the_target() -> None:
    assert parse_metrics(gauge("readiness_status", 'source_cluster="c1"', "1")) == {}
    assert parse_metrics("") == {}


# JSON status


def test_a_ready_peer_is_read_whole() -> None:
    found = kvstoremesh_statuses(json.dumps([READY]))
    assert found is not None
    link = link_from_status(BLANK, found["c2"])
    assert (link.known, link.ready, link.connected, link.config_required, link.config_retrieved) == (True,) * 5
    assert link.cluster_id == 2 and all(link.synced.values()) and len(link.synced) == 4
    assert (link.failures, link.last_failure, link.status) == (0, "", "etcd: 1/1 connected")
    assert (link.cluster, link.peer, link.pod, link.source) == ("edge-1", "edge-2", "mesh-1", "exec")


def test_what_go_leaves_out_is_false() -> None:
    status = {
        "name": "c2",
        "status": "Waiting for initial connection to be established",
        "config": {"required": True},
        "synced": {"nodes": True},
    }
    link = link_from_status(BLANK, status)
    assert (link.known, link.ready, link.connected, link.config_retrieved) == (True, False, False, False)
    assert link.synced == {"nodes": True, "endpoints": False, "identities": False, "services": False}
    unknown = link_from_status(BLANK, {"name": "c2"})
    assert (unknown.config_required, unknown.config_retrieved, unknown.synced) == (None, None, {})


@one_test(
    "said counts",
    ({"num-nodes": 3, "num-shared-services": 2, "num-endpoints": 41, "num-identities": 17, "num-service-exports": 9}, (3, 2, 41, 17)),
    ({"num-endpoints": 41}, (0, 0, 41, 0)),  # Go leaves a count of zero out
    ({}, (0, 0, 0, 0)),
    ({"num-nodes": 2**63 - 1}, (2**63 - 1, 0, 0, 0)),
    ({"num-nodes": 2**63}, None),  # no API server would take a status with it
    ({"num-nodes": -1}, None),
    ({"num-nodes": 3, "num-identities": "17"}, None),
    ({"num-nodes": True}, None),
    ({"num-nodes": None}, None),
    ({"num-endpoints": 1.5}, None),
)
def test_what_has_arrived_of_a_peer_is_counted_or_not_known(said: dict[str, Any], counts: tuple[int, ...] | None) -> None:
    kinds = ("nodes", "services", "endpoints", "identities")
    expected = {} if counts is None else dict(zip(kinds, counts, strict=True))
    assert link_from_status(BLANK, {**READY, **said}).arrived == expected


def test_a_peer_that_the_reader_does_not_list_is_not_known() -> None:
    assert link_from_status(BLANK, None) == BLANK


def test_the_agents_status_holds_the_same_under_another_key() -> None:
    assert agent_statuses(json.dumps({"cluster-mesh": {"clusters": [READY]}, "cilium": {"state": "Ok"}})) == {"c2": READY}
    assert agent_statuses(json.dumps({"cilium": {"state": "Ok"}})) == {}
    assert agent_statuses("Cilium agent is not ready") is None


def test_no_remote_clusters_are_not_an_unknown_form() -> None:
    assert kvstoremesh_statuses("null") == {} == kvstoremesh_statuses("[]")
    assert kvstoremesh_statuses("{}") is None and kvstoremesh_statuses("error") is None


def test_what_a_hostile_peer_writes_becomes_one_short_line() -> None:
    status = {
        "status": "\x1b[2J-----BEGIN PRIVATE KEY-----\ncanary\n" + "x " * 5000,
        "last-failure": "now\n\x07",
        "synced": {"\u202e" * 90: 1},
    }
    link = link_from_status(BLANK, status)
    assert "canary" not in link.status and "\n" not in link.status and "\x1b" not in link.status and len(link.status) <= 300
    assert link.last_failure == "now" and max(map(len, link.synced)) <= 40


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*READY, "cluster-id", "num-failures", "clusters"]), inner),
    max_leaves=15,
)


statuses = st.fixed_dictionaries({"name": st.text(min_size=1)}, optional={key: json_values for key in READY if key != "name"})


@given(st.lists(statuses, max_size=3), st.booleans())
def test_whatever_stands_in_the_status_of_a_peer_gives_a_link_of_it_that_can_be_printed(rows: list[Any], of_agent: bool) -> None:
    text = json.dumps({"cluster-mesh": {"clusters": rows}} if of_agent else rows)
    assume("NaN" not in text and "Infinity" not in text)  # Python writes them, and JSON has no such numbers
    found = (agent_statuses if of_agent else kvstoremesh_statuses)(text)
    assert found is not None and found.keys() == {row["name"] for row in rows}
    for status in found.values():
        link = link_from_status(BLANK, status)
        assert link.known and link.failures >= 0
        assert not link.ready or status.get("ready") is True, "nothing else says that a link is ready"
        assert all(not unicodedata.category(c).startswith("C") for c in link.status + link.last_failure)


@given(json_values, st.lists(st.none() | st.text(max_size=3) | st.fixed_dictionaries({"name": st.text(max_size=3)}), max_size=3))
def test_no_json_makes_the_parsers_fail_or_hides_a_peer_beside_it(value: Any, others: list[Any]) -> None:
    for document in (value, {"cluster-mesh": value}, {"cluster-mesh": {"clusters": value}}):
        kvstoremesh_statuses(json.dumps(document))
        agent_statuses(json.dumps(document))
    rows = [*others, READY, value]
    text = json.dumps(rows)
    assume("NaN" not in text and "Infinity" not in text)
    named = {row["name"] for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str) and row["name"]}
    for found in (kvstoremesh_statuses(text), agent_statuses(json.dumps({"cluster-mesh": {"clusters": rows}}))):
        assert found is not None and found.keys() == named


# troubleshoot


def section(*lines: str, name: str = "c2") -> str:
    return (
        f'Found 2 cluster configurations\nTroubleshooting filtered subset of clusters: {name}\n\nCluster "{name}":\n'
        + "\n".join(lines)
        + "\n"
    )


CONFIG = "📄 Configuration path: /var/lib/cilium/clustermesh/c2"
RESOLVED = "     ✅ Hostname resolved to: 10.0.0.9"
TCP = "     ✅ TCP connection successfully established to 10.0.0.9:2379"
TLS = "     ✅ TLS connection successfully established to 10.0.0.9:2379"
FAILED_CLIENT = "   ❌ Failed to establish connection: context deadline exceeded"


@one_test(
    "lines stage words",
    (["❌ Configuration not found"], "secret_not_projected", "Configuration not found"),
    (
        [CONFIG, "❌ Cannot parse etcd configuration: open /x/c2.etcd-client.crt: no such file or directory"],
        "secret_not_projected",
        "c2.etcd-client.crt",
    ),
    ([CONFIG, "❌ Cannot parse etcd configuration: yaml: line 3: mapping values"], "", "line 3"),
    ([CONFIG, "❌ No available endpoints", FAILED_CLIENT], "dialling", "No available endpoints"),
    ([CONFIG, "     ❌ Cannot resolve hostname: lookup c2.mesh.cilium.io: no such host", FAILED_CLIENT], "dialling", "no such host"),
    (
        [CONFIG, RESOLVED, "     ❌ Cannot establish TCP connection to x:2379: connect: connection refused"],
        "dialling",
        "connection refused",
    ),
    (
        [CONFIG, RESOLVED, TCP, "     ❌ Cannot establish TLS connection to x:2379: tls: unknown authority", FAILED_CLIENT],
        "tls",
        "unknown authority",
    ),
    ([CONFIG, RESOLVED, TCP, "     ❌ Cannot establish TLS connection to x:2379: EOF", FAILED_CLIENT], "dialling", "EOF"),
    (
        [CONFIG, TCP, TLS, "     ❌ TLS client authentication failed: remote error: tls: bad certificate", FAILED_CLIENT],
        "tls",
        "bad certificate",
    ),
    ([CONFIG, TCP, TLS, "   ❌ Failed to retrieve key from etcd: etcdserver: permission denied"], "authorisation", "permission denied"),
    ([CONFIG, "something new", "❌ A phrase of the future"], "", "A phrase of the future"),
    ([CONFIG, TCP, TLS, "   ✅ Etcd connection successfully established", "   i  Etcd cluster ID: 1f"], "", ""),
)
def test_troubleshoot_reports_the_step_that_fails(lines: list[str], stage: str, words: str) -> None:
    hint = parse_troubleshoot(section(*lines))["c2"]
    assert hint.stage == stage and words in hint.error


def test_of_several_endpoints_the_one_that_came_furthest_counts() -> None:
    refused = "     ❌ Cannot establish TCP connection to a:2379: connection refused"
    untrusted = "     ❌ Cannot establish TLS connection to b:2379: x509: certificate signed by unknown authority"
    for lines in ([refused, TCP, untrusted, FAILED_CLIENT], [TCP, untrusted, refused, FAILED_CLIENT]):
        assert parse_troubleshoot(section(CONFIG, *lines))["c2"].stage == "tls"


def test_each_peer_has_its_own_section() -> None:
    output = section("❌ Configuration not found") + '\nCluster "c3":\n' + f"{CONFIG}\n   ✅ Etcd connection successfully established\n"
    assert parse_troubleshoot(output) == {
        "c2": Hint(stage="secret_not_projected", error="Configuration not found"),
        "c3": Hint(connected=True),
    }


@given(st.text(max_size=20), st.integers(1, 2000))
def test_any_output_is_parsed_and_its_error_is_one_short_line(text: str, times: int) -> None:
    """Long outputs are repeated texts: those that Hypothesis draws seldom exceed the limit."""
    found = parse_troubleshoot(f'Cluster "c2":\n❌ {text * times}')["c2"]
    assert len(found.error) <= 200 and found.error.isprintable()
