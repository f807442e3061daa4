# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why can A not reach B: one thing is wrong at a time, and the hop that it is at says so; nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.hop import Explanation, HopVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.inputs import EndpointIdentity, ExplainInputs
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.question import Question, question_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.trace import trace_path
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure, Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, TrafficFacts
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import one_test
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, object_facts, pod, scene, service, slice_facts, traffic

GLOBAL = {"service.cilium.io/global": "true"}
PROBED = {"reached": 4, "asked": 4, "oldestProbe": "2026-09-01T12:00:00Z", "blocked": "", "podsProbed": True, "failed": [], "message": ""}
READY = {"ready": True, "stage": "ready", "nodesReady": 2, "nodesTotal": 2, "proof": "proven", "error": "", "nodePaths": PROBED}
BACKENDS = tuple(pod(f"nginx-{n}", app="nginx") for n in range(2))
WEB = pod("web-0", app="web")
ASKED = {
    "source": {"cluster": "c1", "namespace": NAMESPACE, "name": "web"},
    "target": {"namespace": NAMESPACE, "service": "nginx"},
    "port": 80,
}


def question(**changes: Any) -> Question:
    return question_of({**ASKED, **changes}, ("c1", "c2"))


def consumer(**fields: Any) -> TrafficFacts:
    """c1: the client, and a global Service without pods of its own."""
    values: dict[str, Any] = {"services": (service(annotations=GLOBAL),), "pods": (WEB,), "slices": (slice_facts(ready=0),)}
    return traffic("c1", **{**values, **fields})


def provider(**fields: Any) -> TrafficFacts:
    """c2: the pods."""
    values: dict[str, Any] = {"services": (service(annotations=GLOBAL),), "pods": BACKENDS, "slices": (slice_facts(ready=2),)}
    return traffic("c2", **{**values, **fields})


def explain(near: TrafficFacts | None = None, far: TrafficFacts | None = None, asked: Question | None = None, **fields: Any) -> Explanation:
    links: Mapping[tuple[str, str], Mapping[str, Any]] = fields.pop("links", {("c1", "c2"): READY, ("c2", "c1"): READY})
    identity = EndpointIdentity(id=65537, state="ready", labels=("k8s:app=web",))
    identities = fields.pop("identities", {("c1", NAMESPACE, "web-0"): identity})
    unread = fields.pop("unread_identities", {})
    seen_scene = scene(near or consumer(), far or provider(), **fields)
    return trace_path(asked or question(), ExplainInputs(scene=seen_scene, links=links, identities=identities, unread_identities=unread))


def answers(found: Explanation) -> dict[tuple[str, str], str]:
    return {(hop.name, hop.cluster): hop.answer.value for hop in found.hops}


def only_broken(found: Explanation, name: str, cluster: str) -> str:
    """The summary of the one hop that is broken; it is this one."""
    broken = [hop for hop in found.hops if hop.answer is HopVerdict.BROKEN]
    assert [(hop.name, hop.cluster) for hop in broken] == [(name, cluster)]
    assert found.answer is HopVerdict.BROKEN
    assert found.summary.startswith("No: ")
    return broken[0].summary


def cnp(name: str, spec: Mapping[str, Any]) -> ObjectFacts:
    api = "/apis/cilium.io/v2"
    return object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=NAMESPACE, api=api, spec=spec)


def test_when_nothing_is_wrong_every_hop_says_so() -> None:
    found = explain()
    assert answers(found) == {
        ("source", "c1"): "ok",
        ("identity", "c1"): "ok",
        ("service", "c1"): "ok",
        ("backend", "c1"): "ok",
        ("node port", "c1"): "skipped",
        ("namespace", "c1"): "ok",
        ("namespace", "c2"): "ok",
        ("link", "c1"): "ok",
        ("link", "c2"): "ok",
        ("egress policy", "c1"): "ok",
        ("ingress policy", "c2"): "ok",
        ("network", "c1"): "ok",
    }
    assert found.answer is HopVerdict.OK
    assert found.summary == "Nothing is in the way"


@pytest.mark.parametrize(
    ("forth", "back", "answer", "words"),
    [
        ({}, {}, "unknown", "is not known: the agents were not asked"),
        ({"asked": 0, "message": "it is off"}, {}, "unknown", "is not known: it is off"),
        (PROBED, {}, "ok", "packets pass"),
        ({**PROBED, "reached": 0, "blocked": "pod_network"}, PROBED, "broken", "from the nodes of c1 to those of c2"),
        (PROBED, {**PROBED, "reached": 0, "blocked": "node"}, "broken", "from the nodes of c2 to those of c1"),
        ({**PROBED, "reached": 3, "blocked": "pod_network"}, PROBED, "unknown", "it depends on the nodes"),
        ({**PROBED, "reached": 0, "blocked": "health_port"}, PROBED, "ok", "packets pass"),
        ({**PROBED, "podsProbed": False}, PROBED, "unknown", "the way of pods was not probed"),
    ],
)
def test_the_network_is_judged_by_the_node_health_of_the_agents(forth: Any, back: Any, answer: str, words: str) -> None:
    found = explain(links={("c1", "c2"): {**READY, "nodePaths": forth}, ("c2", "c1"): {**READY, "nodePaths": back}})
    hop = next(hop for hop in found.hops if hop.name == "network")
    assert hop.answer.value == answer and words in hop.summary
    assert ("UDP 8472 (vxlan)" in hop.fix) == (answer == "broken") and bool(hop.fix) == (answer != "ok")
    assert any("UDP 8472 (vxlan) between all nodes" in line for line in hop.evidence)


def test_a_way_within_one_cluster_is_known_to_its_end() -> None:
    near = consumer(pods=(WEB, *BACKENDS), slices=(slice_facts(ready=2),), services=(service(),))
    found = explain(near)
    assert found.answer is HopVerdict.OK
    assert answers(found)["link", "c1"] == answers(found)["network", "c1"] == "skipped"


def test_a_service_that_is_missing_for_the_client_is_named_with_where_it_is() -> None:
    found = explain(consumer(services=()))
    assert "no Service production/nginx in c1" in only_broken(found, "service", "c1")
    assert found.hops[-1].evidence == ("it is in c2",)


def test_a_port_that_the_service_does_not_have_is_reported_with_those_it_has() -> None:
    found = explain(asked=question(port=81))
    assert "no port 81/TCP" in only_broken(found, "service", "c1")
    assert found.hops[-1].evidence == ("its ports: http 80/TCP",)


@one_test(
    "near far line",
    (consumer(services=(service(),)), None, "c1: the Service is not global here, so no backend of another cluster is used"),
    (None, provider(services=(service(),)), "c2: the Service is not global there"),
    (
        None,
        provider(services=(service(annotations={**GLOBAL, "service.cilium.io/shared": "false"}),)),
        "c2: the Service is not shared there",
    ),
    (None, provider(services=(service(annotations=GLOBAL, ports=({"name": "web", "port": 80},)),)), "no port named http there"),
    (None, provider(services=()), "c2: has no such Service"),
    (None, provider(slices=(slice_facts(ready=0, unready=2),)), "c2: 0 ready, exported"),
)
def test_a_service_without_a_backend_says_of_every_cluster_why(near: TrafficFacts | None, far: TrafficFacts | None, line: str) -> None:
    found = explain(near, far)
    assert only_broken(found, "backend", "c1") == "no backend would be chosen"
    backend = next(hop for hop in found.hops if hop.name == "backend")
    assert any(line in entry for entry in backend.evidence), backend.evidence


@one_test(
    "links said",
    ({("c1", "c2"): READY}, "; the link c1 -> c2 is ready, so agents have what it publishes"),
    ({("c1", "c2"): {"ready": False, "stage": "dialling"}}, "; nor is the link c1 -> c2 ready (stage dialling)"),
    ({("c1", "c2"): {"ready": False, "stage": "unknown"}}, ""),
    ({}, ""),
)
def test_backends_of_a_cluster_that_does_not_answer_are_not_known_and_the_link_to_it_is_named(links: Any, said: str) -> None:
    silent = {"c2": ObserveFailure(host="c2", code="CM-API-01", message="no answer within 5 s")}
    seen_scene = scene(consumer(), members=("c2",), failures=silent)
    found = trace_path(question(), ExplainInputs(scene=seen_scene, links=links))
    backend = next(hop for hop in found.hops if hop.name == "backend")
    assert backend.answer is HopVerdict.UNKNOWN
    assert f"c2: does not answer (no answer within 5 s){said}" in backend.evidence


def test_with_affinity_local_the_backends_of_another_cluster_are_not_chosen_while_there_are_own_ones() -> None:
    own = service(annotations={**GLOBAL, "service.cilium.io/affinity": "local"})
    near = consumer(services=(own,), slices=(slice_facts(ready=1),), pods=(WEB, *BACKENDS))
    target = {"cluster": "c2", "namespace": NAMESPACE, "service": "nginx"}
    assert only_broken(explain(near, asked=question(target=target)), "backend", "c1") == "no backend of c2 would be chosen"


def test_a_link_that_is_not_ready_is_named_in_its_direction_with_its_error() -> None:
    late = {**READY, "ready": False, "stage": "tls", "error": "x509: unknown authority"}
    found = explain(links={("c1", "c2"): READY, ("c2", "c1"): late})
    assert "c2 -> c1 is not ready (stage tls)" in only_broken(found, "link", "c2")
    broken = next(hop for hop in found.hops if hop.answer is HopVerdict.BROKEN)
    assert "x509: unknown authority" in broken.evidence


def test_a_link_that_no_reader_could_judge_is_unknown() -> None:
    found = explain(links={("c1", "c2"): READY, ("c2", "c1"): {"ready": False, "stage": "unknown", "error": "exec forbidden"}})
    assert answers(found)["link", "c2"] == "unknown"


@pytest.mark.parametrize(
    ("version", "answer", "unknown"),
    [
        ("1.20.2", "broken", "its backends and the identities of its pods"),
        ("1.19.5", "unknown", "the identities of its pods"),
        ("1.18.11", "ok", ""),
    ],
)
def test_a_namespace_that_is_not_global_matters_from_1_19_on(version: str, answer: str, unknown: str) -> None:
    closed = namespace_facts(NAMESPACE, clustermesh__cilium__io__global="false")
    closed = replace(closed, annotations={"clustermesh.cilium.io/global": "false"})
    found = explain(consumer(namespaces=(closed,)), version=version)
    assert answers(found)["namespace", "c1"] == answer
    hop = next(hop for hop in found.hops if (hop.name, hop.cluster) == ("namespace", "c1"))
    assert not unknown or hop.summary.endswith(f"other clusters do not know {unknown}"), hop


def test_a_policy_that_does_not_let_the_client_in_is_named() -> None:
    rule = {"endpointSelector": {"matchLabels": {"app": "nginx"}}, "ingress": [{"fromEndpoints": [{"matchLabels": {"app": "other"}}]}]}
    found = explain(far=provider(policies=(cnp("closed", rule),)))
    assert only_broken(found, "ingress policy", "c2") == "policy does not let it through (TCP 8080)"
    broken = next(hop for hop in found.hops if hop.answer is HopVerdict.BROKEN)
    assert any("production/closed" in entry for entry in broken.evidence)


def test_a_policy_at_the_source_is_looked_at_too() -> None:
    rule = {"endpointSelector": {"matchLabels": {"app": "web"}}, "egress": [{"toEndpoints": [{"matchLabels": {"app": "other"}}]}]}
    only_broken(explain(consumer(policies=(cnp("no-way-out", rule),))), "egress policy", "c1")


def test_a_policy_that_cilium_refuses_leaves_the_hop_unknown_with_what_to_do() -> None:
    rule: dict[str, Any] = {"endpointSelector": {}, "ingress": [{"fromNodes": [{}]}]}
    valid: dict[str, Any] = {"endpointSelector": {}, "ingress": [{}]}
    said = replace(cnp("said", valid), status={"conditions": [{"type": "Valid", "status": "False", "message": "no"}]})
    by_condition = next(hop for hop in explain(far=provider(policies=(said,))).hops if hop.name == "ingress policy")
    assert by_condition.answer is HopVerdict.UNKNOWN and "condition Valid is False" in by_condition.evidence[0]

    found = explain(far=provider(policies=(cnp("of-nodes", rule),)))
    ingress = next(hop for hop in found.hops if hop.name == "ingress policy")

    assert ingress.answer is HopVerdict.UNKNOWN
    assert "Cilium refuses it: fromNodes needs enable-node-selector-labels" in ingress.evidence[0]
    assert "Correct the policy that Cilium refuses" in ingress.fix and "CM-INT-19" in ingress.fix


def test_pods_of_one_service_that_differ_in_what_they_accept_leave_it_open() -> None:
    rule = {"endpointSelector": {"matchLabels": {"tier": "closed"}}, "ingress": [{}]}
    pods = (pod("nginx-0", app="nginx", tier="closed"), pod("nginx-1", app="nginx"))
    found = explain(far=provider(policies=(cnp("some", rule),), pods=pods))
    ingress = next(hop for hop in found.hops if hop.name == "ingress policy")
    assert (ingress.answer, ingress.summary) == (HopVerdict.UNKNOWN, "it depends on the pod (TCP 8080)")
    assert len(ingress.evidence) == 2


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (EndpointIdentity(id=0, state="waiting-for-identity"), HopVerdict.BROKEN),
        (EndpointIdentity(id=65537, state="regenerating"), HopVerdict.BROKEN),
        (None, HopVerdict.UNKNOWN),
    ],
)
def test_a_client_without_an_identity_is_reported(identity: EndpointIdentity | None, expected: HopVerdict) -> None:
    found = explain(identities={("c1", NAMESPACE, "web-0"): identity})
    assert next(hop for hop in found.hops if hop.name == "identity").answer is expected


def test_what_may_not_be_read_is_not_known() -> None:
    unread = (Unread(what="pods", message="cannot list pods", remedy="grant it"),)
    found = explain(consumer(pods=(), unread=unread), unread_identities={"c1": "cannot get ciliumendpoints"})
    assert answers(found)["source", "c1"] == "unknown"


def test_pods_can_be_the_target_themselves() -> None:
    asked = question(target={"cluster": "c2", "namespace": NAMESPACE, "labels": {"app": "nginx"}}, port=8080)
    found = explain(asked=asked)
    assert answers(found)["target", "c2"] == "ok"
    assert answers(found)["ingress policy", "c2"] == "ok"
    assert ("service", "c1") not in answers(found)


def test_without_kube_proxy_replacement_node_ports_lead_nowhere_when_all_backends_are_remote() -> None:
    exposed = service(annotations=GLOBAL, type="NodePort", ports=({"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080},))
    facts = {"c1": cluster_facts("c1", config={"kube_proxy_replacement": "false"})}
    assert "kube-proxy knows the backends of this cluster alone" in only_broken(
        explain(consumer(services=(exposed,)), facts=facts), "node port", "c1"
    )


@one_test(
    "changes path",
    ({"source": {"namespace": NAMESPACE, "name": "web"}}, "source.cluster"),
    ({"source": {"cluster": "c9", "namespace": NAMESPACE, "name": "web"}}, "source.cluster"),
    ({"source": {"cluster": "c1", "namespace": NAMESPACE}}, "source"),
    ({"source": {"cluster": "c1", "namespace": NAMESPACE, "name": "web", "pod": "web-0"}}, "source"),
    ({"source": {"cluster": "c1", "namespace": NAMESPACE, "service": "web"}}, "source.service"),
    ({"target": {"cluster": "c2", "namespace": NAMESPACE, "labels": {"a b": "c"}}}, "target.labels"),
    ({"target": {"namespace": "../kube-system", "service": "nginx"}}, "target.namespace"),
    ({"port": 0}, "port"),
    ({"port": 70000}, "port"),
    ({"port": "9" * 5000}, "port"),  # more digits than Python reads
    ({"target": {"cluster": "c2", "namespace": NAMESPACE, "pod": "nginx-0"}, "port": "http"}, "port"),
    ({"port": None}, "port"),
    ({"protocol": "ICMP"}, "protocol"),
)
def test_a_question_that_cannot_be_meant_is_refused_by_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as error:
        question(**changes)
    assert f"{path}: " in error.value.message


@pytest.mark.parametrize(("version", "fits"), [("1.16.19", False), ("1.18.11", True)])
def test_a_port_without_a_name_goes_with_any_other_since_1_18(version: str, fits: bool) -> None:
    """As the findings about the Service say (services/viability_findings.py): the two must not contradict each other."""
    nameless = service(annotations=GLOBAL, ports=({"port": 80, "protocol": "TCP", "targetPort": 8080},))
    found = explain(consumer(services=(nameless,)), version=version)
    backend = next(hop for hop in found.hops if hop.name == "backend")
    assert (backend.answer is HopVerdict.OK) is fits, backend
    assert any("has no port named" in line for line in backend.evidence) is not fits


def test_which_of_several_ports_is_meant_is_not_guessed() -> None:
    nameless = service(annotations=GLOBAL, ports=({"port": 80, "protocol": "TCP", "targetPort": 8080},))
    ports = tuple({"name": name, "port": number, "protocol": "TCP"} for name, number in (("http", 80), ("admin", 81)))
    slices = (slice_facts(ready=2, ports=(("http", "TCP", 8080), ("admin", "TCP", 8081))),)
    found = explain(consumer(services=(nameless,)), provider(services=(service(annotations=GLOBAL, ports=ports),), slices=slices))
    assert answers(found)["backend", "c1"] == "ok"
    assert answers(found)["ingress policy", "c2"] == "unknown"
