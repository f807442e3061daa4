# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What flows say about an intent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.flows import Flow
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.flows import parse_flows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.verdict import any_port, flows_of_intent, judge
from tests.testing.flow_builders import BACKEND, FRONTEND, flow, side
from tests.testing.rows import one_test

BEGIN = datetime(2026, 8, 20, 9, 58, tzinfo=UTC)
END = datetime(2026, 8, 20, 10, 5, tzinfo=UTC)


def intent(action: str = "Allow", **fields: Any) -> ConnectivityIntent:
    values: dict[str, Any] = {
        "source": PodSelection(namespace="production", labels={"app": "frontend"}),
        "destination": PodSelection(namespace="production", labels={"app": "backend"}),
        "ports": (PortRule(protocol="TCP", port=8080),),
    }
    return ConnectivityIntent(name="front-to-back", action=action, **{**values, **fields})


def flows(*lines: str) -> tuple[Flow, ...]:
    found = parse_flows("\n".join(lines), limit=1_000_000)
    assert found.broken == 0
    return found.flows


def result(wanted: ConnectivityIntent, *lines: str, alone: bool = False) -> str:
    source = "" if wanted.source is None else "c1"
    return judge(
        wanted, flows_of_intent(flows(*lines), wanted, source=source, destination="c2", since=BEGIN, until=END), alone=alone
    ).result


DELIVERED, DENIED, DENY_RULE = flow(), flow("DROPPED", kind="drop"), flow("DROPPED", kind="drop", drop_reason_desc="POLICY_DENY")
AT_SOURCE = flow("DROPPED", kind="drop", traffic_direction="EGRESS")
OTHER_DROP = flow("DROPPED", kind="drop", drop_reason_desc="CT_MAP_INSERTION_FAILED")
AUDIT, PROXIED = flow("AUDIT", kind="policy-verdict"), flow("REDIRECTED", kind="policy-verdict")


@one_test(
    "lines allow deny",
    ((), "unknown", "unknown"),
    ((DELIVERED,), "proven", "refuted"),
    ((flow(kind="policy-verdict"),), "proven", "refuted"),
    ((DENIED,), "refuted", "proven"),
    ((flow("DROPPED", kind="policy-verdict"),), "refuted", "proven"),
    ((DENY_RULE,), "refuted", "proven"),
    ((AT_SOURCE,), "refuted", "unknown"),
    ((OTHER_DROP,), "unknown", "unknown"),
    ((flow("ERROR"),), "unknown", "unknown"),
    ((AUDIT,), "unknown", "refuted"),
    ((AUDIT, DELIVERED), "unknown", "refuted"),
    ((PROXIED,), "unknown", "refuted"),
    ((flow(trace_observation_point="TO_OVERLAY"),), "unknown", "unknown"),
)
def test_verdicts(lines: tuple[str, ...], allow: str, deny: str) -> None:
    assert (result(intent("Allow"), *lines), result(intent("Deny"), *lines)) == (allow, deny)


def test_the_newest_flow_of_a_pair_decides() -> None:
    early, late = "2026-08-20T09:59:00Z", "2026-08-20T09:59:10Z"
    assert result(intent(), flow("DROPPED", kind="drop", time=early), flow(time=late)) == "proven"
    assert result(intent(), flow(time=early), flow("DROPPED", kind="drop", time=late)) == "refuted"


def test_one_pair_of_pods_that_contradicts_is_enough() -> None:
    other = side("c2", "backend-2", app="backend")
    assert result(intent(), flow(), flow("DROPPED", kind="drop", destination=other, time="2026-08-20T09:58:30Z")) == "refuted"
    assert result(intent("Deny"), DENIED, flow(destination=other, time="2026-08-20T09:58:30Z")) == "refuted"


@one_test(
    "line",
    flow(source=side("c3", "frontend-1", app="frontend")),
    flow(source=side("c1", "frontend-1", namespace="staging", app="frontend")),
    flow(source=side("c1", "frontend-1", app="frontend2")),
    flow(source=side("c1", "frontend-1")),
    flow(source={**FRONTEND, "labels": ["k8s:app=frontend"], "cluster_name": ""}),
    flow(source={}),
    flow(destination=side("c1", "backend-1", app="backend")),
    flow(destination=side("c2", "backend-1", namespace="other", app="backend")),
    flow(source=BACKEND, destination=FRONTEND),
    flow(port=8081),
    flow(protocol="UDP"),
    flow(is_reply=True),
    flow(l4={"TCP": {"source_port": 1, "destination_port": 8080, "flags": {"SYN": True, "ACK": True}}}),
    flow(time="2026-08-20T09:57:59Z"),
    flow(time="2026-08-20T11:00:00Z"),
)
def test_flows_that_are_not_about_the_intent_do_not_count(line: str) -> None:
    assert result(intent("Allow"), line) == "unknown"
    assert result(intent("Deny"), line) == "unknown"


def test_the_cluster_is_known_without_its_label_too() -> None:
    bare = {**FRONTEND, "labels": [label for label in FRONTEND["labels"] if "policy.cluster" not in label]}
    assert result(intent(), flow(source=bare)) == "proven"


def test_isolation_is_proven_by_a_denial_and_refuted_where_nothing_else_allows() -> None:
    isolate = intent("Isolate", source=None, ports=())
    assert result(isolate, DENIED) == "proven"
    assert result(isolate, DELIVERED) == "unknown"
    assert result(isolate, DELIVERED, alone=True) == "refuted"
    host = {"identity": 1, "labels": ["reserved:host"]}
    assert result(isolate, flow(source=host), alone=True) == "unknown"


def test_expressions_are_checked_here_as_agents_do_not_know_them() -> None:
    def wanted(operator: str, *values: str) -> ConnectivityIntent:
        requirement = LabelRequirement(key="tier", operator=operator, values=values)
        return intent(source=PodSelection(namespace="production", expressions=(requirement,)))

    tier = flow(source=side("c1", "frontend-1", tier="a"))
    assert [result(wanted("In", "a", "b"), tier), result(wanted("NotIn", "a"), tier)] == ["proven", "unknown"]
    assert [result(wanted("Exists"), tier), result(wanted("DoesNotExist"), tier)] == ["proven", "unknown"]
    assert [result(wanted("NotIn", "a"), DELIVERED), result(wanted("DoesNotExist"), DELIVERED)] == ["proven", "proven"]


@one_test(
    "rule inside outside",
    (PortRule(protocol="TCP", port=80), [("TCP", 80)], [("TCP", 81), ("UDP", 80), ("ICMP", 80)]),
    (PortRule(protocol="ANY", port=53), [("TCP", 53), ("UDP", 53), ("SCTP", 53)], [("ICMP", 53), ("TCP", 54)]),
    (PortRule(protocol="UDP", port=0), [("UDP", 1), ("UDP", 65535)], [("TCP", 1)]),
    (PortRule(protocol="TCP", port=8000, end_port=8010), [("TCP", 8000), ("TCP", 8010)], [("TCP", 7999), ("TCP", 8011)]),
    (PortRule(protocol="ICMP", icmp_type=8), [("ICMP", 8)], [("ICMP", 0), ("ICMPv6", 8), ("TCP", 8)]),
    (PortRule(protocol="ICMPv6", icmp_type=128), [("ICMPv6", 128)], [("ICMPv6", 129), ("ICMP", 128)]),
)
def test_ports(rule: PortRule, inside: list[tuple[str, int]], outside: list[tuple[str, int]]) -> None:
    assert all(any_port((rule,), *entry) for entry in inside)
    assert not any(any_port((rule,), *entry) for entry in outside)
    assert all(any_port((), *entry) for entry in [*inside, *outside])


KINDS = [DELIVERED, DENIED, DENY_RULE, AT_SOURCE, OTHER_DROP, AUDIT, PROXIED]


@given(st.lists(st.sampled_from(KINDS), max_size=6))
def test_what_proves_an_intent_refutes_its_opposite(lines: list[str]) -> None:
    allow, deny = result(intent("Allow"), *lines), result(intent("Deny"), *lines)
    assert (allow, deny) != ("proven", "proven")
    assert allow != "proven" or deny == "refuted"
    assert deny != "proven" or allow == "refuted"


@given(st.integers(1, 3600))
def test_what_is_older_than_the_policy_never_counts(seconds: int) -> None:
    assert result(intent(), flow(time=BEGIN - timedelta(seconds=seconds))) == "unknown"
