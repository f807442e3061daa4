# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What agents write is read strictly: known shapes become flows, everything else is counted and never believed."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.flows import parse_flows
from tests.testing.flow_builders import FRONTEND, flow
from tests.testing.rows import alike, one_test

LIMIT = 1024 * 1024


def test_a_delivered_packet_as_cilium_writes_it() -> None:
    (found,) = parse_flows(flow(), limit=LIMIT).flows
    assert (found.verdict, found.protocol, found.port, found.reply, found.delivered) == ("FORWARDED", "TCP", 8080, False, True)
    assert (found.source.cluster, found.source.namespace, found.source.name) == ("c1", "production", "frontend-1")
    assert found.destination.labels["app"] == "backend"
    assert found.time.isoformat() == "2026-08-20T09:59:00.123456+00:00"
    assert found.shown == "09:59:00Z production/frontend-1 in c1 -> production/backend-1 in c2 TCP 8080: FORWARDED"


def test_a_drop_of_the_documentation() -> None:
    """Cilium documentation, observability/hubble/configuration/export: a line that the exporter wrote."""
    line = (
        '{"flow":{"time":"2023-08-21T12:12:18.510175415Z","verdict":"DROPPED","IP":{"source":"10.244.1.60","destination":"10.244.1.5",'
        '"ipVersion":"IPv4"},"l4":{"TCP":{"source_port":44916,"destination_port":80,"flags":{"SYN":true}}},"source":{"namespace":"default",'
        '"pod_name":"xwing"},"destination":{"namespace":"default","pod_name":"deathstar-7848d6c4d5-th9v2"},"node_name":"kind-kind/kind-worker",'
        '"drop_reason_desc":"POLICY_DENIED"},"node_name":"kind-kind/kind-worker","time":"2023-08-21T12:12:18.510175415Z"}'
    )
    (found,) = parse_flows(line, limit=LIMIT).flows
    assert (found.verdict, found.reason, found.port, found.reply, found.delivered) == ("DROPPED", "POLICY_DENIED", 80, None, False)
    assert (found.source.namespace, found.source.labels, found.source.cluster) == ("default", {}, "")


@one_test(
    "line delivered",
    (flow(), True),
    (flow(kind="policy-verdict"), True),
    *alike(False, flow(kind="policy-verdict", traffic_direction="EGRESS"), flow(trace_observation_point="TO_OVERLAY")),
    *alike(False, flow(trace_observation_point=None), flow(traffic_direction="EGRESS"), flow(is_reply=True), flow(is_reply=None)),
    (flow("DROPPED", kind="drop"), False),
)
def test_delivered_is_only_what_the_ingress_policy_let_through(line: str, *, delivered: bool) -> None:
    assert [found.delivered for found in parse_flows(line, limit=LIMIT).flows] == [delivered]


def test_other_kinds_of_answers_are_no_flows_and_no_errors() -> None:
    lines = [
        json.dumps({"lost_events": {"source": "PERF_EVENT_RING_BUFFER", "num_events_lost": "17"}, "node_name": "c2/n"}),
        json.dumps({"node_status": {"state_change": "NODE_CONNECTED", "node_names": ["c2/n"]}}),
        flow(Type="L7", l4=None),
        flow(Type="SOCK"),
        "",
    ]
    found = parse_flows("\n".join(lines), limit=LIMIT)
    assert (found.flows, found.broken, found.lost) == ((), 0, 17)


@one_test(
    "line",
    "level=warning msg=hello",
    "[1, 2]",
    flow()[:-40],
    flow(time="yesterday"),
    flow(time="2026-08-20T09:59:00"),
    flow(l4={"TCP": {"destination_port": 70000}}),
    flow(l4={"TCP": {"destination_port": "8080"}}),
    flow(l4={"TCP": {"destination_port": 8080}, "UDP": {"destination_port": 8080}}),
    flow(l4=["TCP"]),
    flow(l4={}),
    "[" * 100_000,
)
def test_what_is_not_understood_is_counted_and_not_believed(line: str) -> None:
    found = parse_flows(f"{line}\n{flow()}", limit=LIMIT)
    assert (len(found.flows), found.broken) == (1, 1)


def test_hostile_names_stay_one_printable_line() -> None:
    hostile = {**FRONTEND, "pod_name": "x\x1b[2J\u202e\nverdict: FORWARDED -----BEGIN KEY-----"}
    (found,) = parse_flows(flow(source=hostile, drop_reason_desc="A" * 5000), limit=LIMIT).flows
    assert found.shown.isprintable() and len(found.shown) < 600 and "BEGIN KEY" not in found.shown


def test_labels_of_other_sources_and_wrong_types_are_not_taken() -> None:
    odd = {
        **FRONTEND,
        "labels": ["reserved:world=1", "app=frontend", 7, {"k8s:app": "x"}, "k8s:tier=a=b"],
        "cluster_name": 7,
        "namespace": [],
    }
    (found,) = parse_flows(flow(source=odd), limit=LIMIT).flows
    assert (found.source.labels, found.source.cluster, found.source.namespace) == ({"tier": "a=b"}, "", "")


def test_a_long_answer_is_cut() -> None:
    line = flow()
    assert len(parse_flows("\n".join([line] * 5000), limit=100 * LIMIT).flows) == 4000
    cut = parse_flows("\n".join([line] * 10), limit=len(line) * 3)
    assert (len(cut.flows), cut.broken) == (2, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["flow", "l4", "TCP", "source", "labels", "time"]), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_read_without_an_exception(value: object) -> None:
    found = parse_flows(json.dumps(value), limit=LIMIT)
    assert found.flows == ()
