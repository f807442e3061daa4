# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What an intent becomes: golden files for a reader, and laws for every intent there could be."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import (
    ConnectivityIntent,
    LabelRequirement,
    PodSelection,
    PortRule,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import (
    CLUSTER_LABEL,
    NAMESPACE_LABEL,
    CannotExpress,
    compile_intent,
)
from tests.testing.policy_goldens import Golden, compiled, goldens
from tests.testing.rows import in_one_test

NAMES = {"c1": "one", "c2": "two", "c3": "three"}
MEMBERS = tuple(NAMES)
BINDING = Binding(name="edge-mesh-eu", cluster_refs=MEMBERS)
LATEST = Minor(1, 20)


@in_one_test
@pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)
def test_the_golden_files_are_current(golden: Golden) -> None:
    """``python -m tests.testing.policy_goldens`` writes them anew."""
    assert compiled(golden.intent) == golden.versions


def test_there_are_golden_files_of_every_kind() -> None:
    said = {(golden.intent["action"], golden.intent.get("policyMode", "Namespaced")) for golden in goldens()}
    assert said >= {("Allow", "Namespaced"), ("Allow", "Clusterwide"), ("Deny", "Namespaced"), ("Isolate", "Namespaced")}


def compile_one(intent: ConnectivityIntent, version: Minor = LATEST, **fields: Any) -> dict[str, tuple[dict[str, Any], ...]]:
    values: dict[str, Any] = {"names": NAMES, "members": MEMBERS, "binding": BINDING, **fields}
    return compile_intent(intent, version=version, **values)


def intent(**fields: Any) -> ConnectivityIntent:
    values: dict[str, Any] = {
        "name": "frontend-to-backend",
        "action": "Allow",
        "source": PodSelection(namespace="production", labels={"app": "frontend"}, clusters=("c1",)),
        "destination": PodSelection(namespace="production", labels={"app": "backend"}, clusters=("c2",)),
    }
    return ConnectivityIntent(**{**values, **fields})


def test_a_cluster_without_a_known_name_is_refused() -> None:
    with pytest.raises(CannotExpress, match="cluster name of c1 is not known"):
        compile_one(intent(), names={"c2": "two"})


def test_icmp_without_a_type_would_open_every_type() -> None:
    for icmp_type in (None, 0):
        with pytest.raises(CannotExpress, match="every type"):
            compile_one(intent(ports=(PortRule(protocol="ICMP", icmp_type=icmp_type),)))


def test_items_bindings_and_workspaces_do_not_share_a_name() -> None:
    one = compile_one(intent())["c2"][0]["metadata"]["name"]
    other = replace(BINDING, workspace="root:team-a")
    assert one == compile_one(intent())["c2"][0]["metadata"]["name"]
    assert (
        len({one, *(body["c2"][0]["metadata"]["name"] for body in (compile_one(intent(), binding=other), compile_one(intent(name="x"))))})
        == 3
    )


VALUE = st.sampled_from(["a", "b", "web", "1"])
KEY = st.sampled_from(["app", "role", "example.com/tier", "app.kubernetes.io/name"])
EXPRESSIONS = st.lists(
    st.one_of(
        st.builds(
            LabelRequirement, key=KEY, operator=st.sampled_from(["In", "NotIn"]), values=st.lists(VALUE, min_size=1, max_size=3).map(tuple)
        ),
        st.builds(LabelRequirement, key=KEY, operator=st.sampled_from(["Exists", "DoesNotExist"])),
    ),
    max_size=3,
).map(tuple)


def selections(*, anywhere: bool) -> st.SearchStrategy[PodSelection]:
    everywhere = st.booleans() if anywhere else st.just(False)
    return st.builds(
        lambda everywhere, namespace, **fields: PodSelection(
            namespace="" if everywhere else namespace,
            all_namespaces=everywhere,
            all_pods=not (fields["labels"] or fields["expressions"]),
            **fields,
        ),
        everywhere,
        st.sampled_from(["production", "staging"]),
        labels=st.dictionaries(KEY, VALUE, max_size=2),
        expressions=EXPRESSIONS,
        clusters=st.lists(st.sampled_from(MEMBERS), unique=True, max_size=3).map(tuple),
    )


PORTS = st.lists(
    st.one_of(
        st.builds(PortRule, protocol=st.sampled_from(["TCP", "UDP", "SCTP", "ANY"]), port=st.integers(0, 65535)),
        st.builds(PortRule, protocol=st.just("TCP"), port=st.integers(1, 1000), end_port=st.integers(1000, 65535)),
        st.builds(PortRule, protocol=st.sampled_from(["ICMP", "ICMPv6"]), icmp_type=st.integers(1, 255)),
    ),
    max_size=100,
    unique=True,
).map(tuple)


@st.composite
def intents(draw: st.DrawFn) -> ConnectivityIntent:
    action = draw(st.sampled_from(["Allow", "Deny", "Isolate"]))
    mode = draw(st.sampled_from(["Namespaced", "Clusterwide"]))
    return ConnectivityIntent(
        name="any",
        action=action,
        mode=mode,
        source=None if action == "Isolate" else draw(selections(anywhere=True)),
        destination=draw(selections(anywhere=mode == "Clusterwide")),
        ports=() if action == "Isolate" else draw(PORTS),
    )


def rules_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    spec = body["spec"]
    return [*spec.get("ingress", ()), *spec.get("ingressDeny", ())]


def keys_of(selector: dict[str, Any]) -> set[str]:
    return {*selector.get("matchLabels", {}), *(entry["key"] for entry in selector.get("matchExpressions", ()))}


@given(intents(), st.randoms(use_true_random=False))
def test_equal_intents_give_equal_bytes(wanted: ConnectivityIntent, chance: random.Random) -> None:
    def shuffled(selection: PodSelection | None) -> PodSelection | None:
        if selection is None:
            return None
        labels = list(selection.labels.items())
        chance.shuffle(labels)
        expressions = [replace(e, values=tuple(chance.sample(e.values, len(e.values)))) for e in selection.expressions]
        chance.shuffle(expressions)
        clusters = tuple(chance.sample(selection.clusters, len(selection.clusters)))
        return replace(selection, labels=dict(labels), expressions=tuple(expressions), clusters=clusters)

    destination = shuffled(wanted.destination)
    assert destination is not None
    ports = tuple(chance.sample(wanted.ports, len(wanted.ports)))
    other = replace(wanted, source=shuffled(wanted.source), destination=destination, ports=ports)
    assert json.dumps(compile_one(wanted)) == json.dumps(compile_one(other))


@given(intents())
def test_every_version_that_can_say_it_gets_the_same_text(wanted: ConnectivityIntent) -> None:
    texts = {json.dumps(compile_one(wanted, Minor(1, minor))) for minor in range(16, 21)}
    assert len(texts) == 1
    try:
        assert json.dumps(compile_one(wanted, Minor(1, 15))) in texts
    except CannotExpress:
        assert wanted.action == "Deny" or any(port.end_port for port in wanted.ports)


@given(intents())
def test_clusters_and_namespaces_are_always_named(wanted: ConnectivityIntent) -> None:
    for host, bodies in compile_one(wanted).items():
        for body in bodies:
            subject = body["spec"]["endpointSelector"]
            assert subject["matchLabels"][CLUSTER_LABEL] == NAMES[host]
            assert (body["metadata"].get("namespace") is not None) != (NAMESPACE_LABEL in keys_of(subject))
            for selector in (entry for rule in rules_of(body) for entry in rule.get("fromEndpoints", ())):
                assert keys_of(selector) >= {CLUSTER_LABEL, NAMESPACE_LABEL}
                assert all(key.startswith("k8s:") for key in keys_of(selector))


@given(intents())
def test_a_policy_goes_to_the_destination_and_nowhere_else(wanted: ConnectivityIntent) -> None:
    assert set(compile_one(wanted)) == set(wanted.destination.clusters or MEMBERS)


@given(intents())
def test_only_a_deny_is_a_deny_and_it_never_isolates(wanted: ConnectivityIntent) -> None:
    for body in (body for bodies in compile_one(wanted).values() for body in bodies):
        spec = body["spec"]
        if wanted.action == "Deny":
            assert spec["enableDefaultDeny"] == {"ingress": False} and "ingress" not in spec
        else:
            assert "ingressDeny" not in spec and "enableDefaultDeny" not in spec
        assert ("fromEndpoints" in json.dumps(spec)) == (wanted.action != "Isolate")
        assert not {"egress", "egressDeny"} & set(spec)


@given(intents().filter(lambda wanted: wanted.action != "Isolate"), st.integers(0, 130), st.integers(0, 130))
def test_rules_stay_within_what_cilium_validates(wanted: ConnectivityIntent, ports: int, types: int) -> None:
    """Cilium refuses more than 40 ports or types in an entry (pkg/policy/api/rule_validation.go, maxPorts and maxICMPFields)."""
    many = [PortRule(protocol="TCP", port=8000 + number) for number in range(ports)]
    many += [PortRule(protocol="ICMP", icmp_type=1 + number) for number in range(types)]
    for body in (body for bodies in compile_one(replace(wanted, ports=tuple(many))).values() for body in bodies):
        rules = rules_of(body)
        assert not [rule for rule in rules if "toPorts" in rule and "icmps" in rule]
        in_ports = [len(entry["ports"]) for rule in rules for entry in rule.get("toPorts", ())]
        in_types = [len(entry["fields"]) for rule in rules for entry in rule.get("icmps", ())]
        assert (sum(in_ports), sum(in_types)) == (ports, types)
        assert all(1 <= number <= 40 for number in (*in_ports, *in_types))


@given(intents())
def test_no_port_is_lost_or_added(wanted: ConnectivityIntent) -> None:
    bodies = [body for entries in compile_one(wanted).values() for body in entries]
    ports = {
        (p["protocol"], int(p["port"]), p.get("endPort", 0))
        for b in bodies
        for r in rules_of(b)
        for t in r.get("toPorts", ())
        for p in t["ports"]
    }
    types = {(f["family"], f["type"]) for b in bodies for r in rules_of(b) for i in r.get("icmps", ()) for f in i["fields"]}
    plain = {(p.protocol, p.port, p.end_port if p.end_port != p.port else 0) for p in wanted.ports if p.icmp_type is None}
    icmp = {({"ICMP": "IPv4", "ICMPv6": "IPv6"}[p.protocol], p.icmp_type) for p in wanted.ports if p.icmp_type is not None}
    assert (ports, types) == (plain, icmp)
    assert wanted.ports or all(set(rule) <= {"fromEndpoints"} for body in bodies for rule in rules_of(body))
