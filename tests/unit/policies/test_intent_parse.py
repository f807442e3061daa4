# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an intent may say, and what is refused: a namespace alone is all its pods, and nothing reaches beyond the labels of pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.parse import parse_intent
from tests.testing.rows import one_test

MEMBERS = ("c1", "c2", "c3")
SOURCE = {"namespace": "production", "name": "frontend", "clusters": ["c1"]}
DESTINATION = {"namespace": "production", "name": "backend", "clusters": ["c2"]}


def spec(**changes: Any) -> dict[str, Any]:
    """The intent of the seed; None takes a key away."""
    whole = {"action": "Allow", "source": SOURCE, "destination": DESTINATION, "ports": [{"protocol": "TCP", "port": 8080}], **changes}
    return {key: value for key, value in whole.items() if value is not None}


def parsed(**changes: Any) -> ConnectivityIntent:
    problems = Problems()
    intent = parse_intent(problems, "frontend-to-backend", spec(**changes), MEMBERS)
    assert intent is not None and not problems.found, problems.found
    return intent


def problems_of(**changes: Any) -> list[str]:
    problems = Problems()
    assert parse_intent(problems, "frontend-to-backend", spec(**changes), MEMBERS) is None
    assert problems.found
    return problems.found


def side(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**SOURCE, **changes}.items() if value is not None}


def test_the_intent_of_the_seed() -> None:
    intent = parsed()
    assert (intent.action, intent.mode, intent.ports) == ("Allow", "Namespaced", (PortRule(protocol="TCP", port=8080),))
    assert intent.source is not None
    assert (intent.source.labels, intent.source.clusters) == ({"app": "frontend"}, ("c1",))
    assert intent.probe.enabled is False and intent.probe.interval_seconds == 60


def test_a_side_without_clusters_means_every_member() -> None:
    assert parsed(destination=side(clusters=None)).destination.clusters == MEMBERS


def test_clusters_stand_in_the_order_of_the_mesh() -> None:
    assert parsed(destination=side(clusters=["c3", "c1"])).destination.clusters == ("c1", "c3")


def test_every_pod_and_every_namespace_are_asked_for_in_words() -> None:
    source = parsed(source={"allNamespaces": True, "allPods": True}).source
    assert source is not None and source.all_pods and source.all_namespaces and not source.labels and source.namespace == ""


@one_test(
    "written rule",
    ({"port": 80}, PortRule(protocol="TCP", port=80)),
    ({"port": "8080"}, PortRule(protocol="TCP", port=8080)),
    ({"protocol": "UDP", "port": 53, "endPort": 53}, PortRule(protocol="UDP", port=53)),
    ({"protocol": "ANY", "port": 1, "endPort": 65535}, PortRule(protocol="ANY", port=1, end_port=65535)),
    ({"protocol": "SCTP"}, PortRule(protocol="SCTP")),
    ({"protocol": "ICMP", "type": 8}, PortRule(protocol="ICMP", icmp_type=8)),
    ({"protocol": "ICMPv6", "type": "128"}, PortRule(protocol="ICMPv6", icmp_type=128)),
)
def test_ports(written: dict[str, Any], rule: PortRule) -> None:
    assert parsed(ports=[written]).ports == (rule,)


@one_test(
    "written words",
    ({"port": 0}, "ports[0].port: must be 1 to 65535, not 0"),
    ({"port": 65536}, "ports[0].port: must be 1 to 65535, not 65536"),
    ({"port": -1}, "ports[0].port: must be 1 to 65535, not -1"),
    ({"port": 10**5000}, "ports[0].port: must be 1 to 65535, not a larger number"),
    ({"port": True}, "ports[0].port: must be a number from 1 to 65535, not true or false"),
    ({"port": "http"}, 'ports[0].port: must be a number from 1 to 65535, not "http"'),
    ({"port": "٣"}, "ports[0].port: must be a number"),
    ({"port": 80.5}, "ports[0].port: must be a number"),
    ({"port": 90, "endPort": 80}, "ports[0].endPort: 80 is less than port 90"),
    ({"endPort": 80}, "ports[0].port: is missing; endPort is the end of a range"),
    ({"protocol": "tcp", "port": 80}, 'ports[0].protocol: "tcp" is not known; did you mean TCP?'),
    ({"protocol": "TCP", "type": 8}, "ports[0].type: belongs to ICMP and ICMPv6"),
    ({"protocol": "ICMP", "port": 8}, "ports[0].port: ICMP has types, not ports"),
    ({"protocol": "ICMP", "type": 8, "endPort": 9}, "ports[0].endPort: ICMP has types, not ports"),
    ({"protocol": "ICMP"}, "ports[0].type: is missing; a policy names each type of ICMP, such as 8"),
    ({"protocol": "ICMPv6"}, "ports[0].type: is missing; a policy names each type of ICMPv6, such as 128"),
    ({"protocol": "ICMP", "type": 0}, "ports[0].type: must be 1 to 255, not 0"),
    ({"protocol": "ICMP", "type": 256}, "ports[0].type: must be 1 to 255, not 256"),
    ({"prot": "TCP"}, "ports[0].prot: unknown key; did you mean port?"),
    ("80", "ports[0]: must be a mapping"),
)
def test_a_bad_port(written: Any, words: str) -> None:
    assert any(problem.startswith(words) for problem in problems_of(ports=[written])), problems_of(ports=[written])


def test_a_port_that_is_there_twice_counts_once() -> None:
    ports = [{"port": 80}, {"protocol": "TCP", "port": "80"}, {"port": 80, "endPort": 80}]
    assert parsed(ports=ports).ports == (PortRule(protocol="TCP", port=80),)


@one_test(
    "changes words",
    ({"source": side(name=None, allPods=False)}, "source: has allPods: false and no name"),
    ({"source": side(name=None, allPods=False, selector={})}, "source: has allPods: false and no name"),
    ({"source": {"allNamespaces": True}}, "source: selects every pod of every namespace"),
    ({"source": {"allNamespaces": True, "selector": {}, "expressions": []}}, "source: selects every pod of every namespace"),
    ({"source": side(namespace=None)}, "source.namespace: is missing"),
    ({"source": {}}, "source: is missing"),
    ({"source": {"selector": {}, "clusters": []}}, "source: is missing"),
    ({"source": {"clusters": ["c1"]}}, "source.namespace: is missing"),
    ({"destination": {"selector": {}}}, "destination.namespace: is missing"),
    ({"source": None}, "source: is missing"),
    ({"destination": None}, "destination: is missing"),
    ({"action": None}, "action: is missing; use one of Allow, Deny, Isolate"),
)
def test_what_is_forgotten_never_means_every_namespace(changes: dict[str, Any], words: str) -> None:
    assert any(problem.startswith(words) for problem in problems_of(**changes)), problems_of(**changes)


@one_test(
    "changes words",
    ({"action": "Permit"}, 'action: "Permit" is not known'),
    ({"policyMode": "Global"}, 'policyMode: "Global" is not known'),
    ({"source": side(clusters=["c9"])}, 'source.clusters[0]: "c9" is no member of the mesh'),
    ({"source": side(clusters=["c1", "c1"])}, 'source.clusters[1]: "c1" is named twice'),
    ({"source": side(clusters=[None])}, "source.clusters[0]: must be a text, not nothing"),
    ({"source": side(clusters="c1")}, "source.clusters: must be a list"),
    ({"source": side(selector={"app": "web"})}, "source.name: stands beside selector"),
    ({"source": side(allPods=True)}, "source.allPods: stands beside name"),
    ({"source": side(allNamespaces=True)}, "source.namespace: stands beside allNamespaces: true"),
    ({"source": side(namespace="a.b")}, 'source.namespace: "a.b" is not a DNS-1123 label'),
    ({"source": side(namespace="")}, 'source.namespace: "" is not a DNS-1123 label'),
    ({"destination": {"allNamespaces": True, "allPods": True}}, "destination.allNamespaces: a policy of mode Namespaced"),
    ({"action": "Isolate"}, "source: does not belong to action Isolate"),
    ({"action": "Isolate", "source": None}, "ports: does not belong to action Isolate"),
    (
        {"action": "Isolate", "source": None, "ports": None, "probe": {"enabled": True, "method": "job"}},
        "probe.method: an intent of action Isolate",
    ),
    ({"probe": {"enabled": True, "intervalSeconds": 9}}, "probe.intervalSeconds: must be 10 to 86400, not 9"),
    ({"probe": {"intervalSeconds": False}}, "probe.intervalSeconds: must be a number"),
    ({"probe": {"method": "ping"}}, 'probe.method: "ping" is not known'),
    ({"probe": {"command": "nc"}}, "probe.command: must be a list"),
    ({"probe": {"command": ["nc", 7]}}, "probe.command[1]: must be a text, not a number; put it in quotes"),
    ({"probe": {"command": ["x" * 513]}}, "probe.command[0]: is longer than 512 characters"),
    ({"probe": {"image": "a b"}}, 'probe.image: "a b" is not the reference of an image'),
    ({"destnation": {}}, "destnation: unknown key; did you mean destination?"),
)
def test_what_cannot_be_meant(changes: dict[str, Any], words: str) -> None:
    assert any(problem.startswith(words) for problem in problems_of(**changes)), problems_of(**changes)


INJECTIONS = [
    *("reserved:host", "reserved:world", "any:reserved:host", "k8s:k8s:app", "k8s:", "K8S:app", " k8s:app", "container:app"),
    *("cidr:0.0.0.0/0", "$host", "io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.cilium.k8s.policy.cluster"),
    *("io.cilium.k8s.policy.serviceaccount", "io.cilium.k8s.namespace.labels.team", "k8s:io.cilium.k8s.policy.cluster"),
    *("any:io.cilium.k8s.policy.cluster", "k8s:io.kubernetes.pod.namespace", "any:io.kubernetes.pod.namespace", "app=x", "app\n"),
    *("app\x00", " app", "", "a/b/c", "UPPER.example/app", "a" * 64, "é"),
]


@one_test("key", *INJECTIONS)
def test_a_selector_cannot_reach_beyond_the_labels_of_pods(key: str) -> None:
    by_label = problems_of(source=side(name=None, selector={key: "x"}))
    by_expression = problems_of(source=side(name=None, expressions=[{"key": key, "operator": "Exists"}]))
    for problem in (*by_label, *by_expression):
        assert problem.isprintable() and problem.startswith("source.")


@one_test("value", "a b", "a\n", "x" * 64, "-a", "*", "a,b", "", 7, True, ["a"], {"a": "b"})
def test_a_name_is_the_value_of_a_label(value: Any) -> None:
    assert problems_of(source=side(name=value))[0].startswith("source.name: ")


@pytest.mark.parametrize("nothing", [{}, {"selector": {}}, {"expressions": []}, {"selector": {}, "expressions": []}], ids=str)
def test_a_namespace_alone_selects_all_its_pods(nothing: dict[str, Any]) -> None:
    for key in ("source", "destination"):
        assert parsed(**{key: {"namespace": "a", **nothing}}) == parsed(**{key: {"namespace": "a", "allPods": True}})


@pytest.mark.parametrize("source", ["k8s:", "any:"])
def test_a_key_with_the_source_of_pods_is_the_label_of_pods(source: str) -> None:
    bare = {"selector": {"app": "web", "example.com/tier": ""}, "expressions": [{"key": "team", "operator": "Exists"}]}
    written = {
        "selector": {f"{source}app": "web", f"{source}example.com/tier": ""},
        "expressions": [{"key": f"{source}team", "operator": "Exists"}],
    }
    assert parsed(source=side(name=None, **written)) == parsed(source=side(name=None, **bare))


def test_one_label_with_two_values_is_refused_whatever_sources_are_written() -> None:
    assert problems_of(source=side(name=None, selector={"app": "web", "k8s:app": "other"})) == [
        'source.selector.k8s:app: contradicts the same key with another source: "web" and "other"'
    ]


def test_an_empty_value_of_a_label_is_one() -> None:
    source = parsed(source=side(name=None, selector={"app": ""})).source
    assert source is not None and source.labels == {"app": ""}


@one_test(
    "expression words",
    ({"key": "app", "operator": "In"}, "values: has no value; In needs some"),
    ({"key": "app", "operator": "NotIn", "values": []}, "values: has no value; NotIn needs some"),
    ({"key": "app", "operator": "Exists", "values": ["a"]}, "values: Exists takes no values"),
    ({"key": "app", "operator": "Gt", "values": ["1"]}, 'operator: "Gt" is not known'),
    ({"key": "app"}, "operator: is missing; use one of In, NotIn, Exists, DoesNotExist"),
    ({"key": "app", "operator": "In", "values": [1]}, "values[0]: must be a text, not a number; put it in quotes"),
    ({"key": 5, "operator": "Exists"}, "key: must be a text, not a number"),
    ({"operator": "Exists"}, "key: is missing"),
)
def test_a_bad_expression(expression: dict[str, Any], words: str) -> None:
    problems = problems_of(source=side(name=None, expressions=[expression]))
    assert any(problem.startswith(f"source.expressions[0].{words}") for problem in problems), problems


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["action", "policyMode", "source", "destination", "ports", "probe"]),
        JSON | st.sampled_from(["Allow", "Isolate", SOURCE, [{"port": 80}]]),
    )
)
def test_whatever_is_written_is_read_or_refused_with_printable_words(written: dict[str, Any]) -> None:
    problems = Problems()
    intent = parse_intent(problems, "any", written, MEMBERS)
    assert (intent is None) == bool(problems.found)
    assert all(problem.isprintable() for problem in problems.found)
