# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How a loss is reported: merged over clusters, ranked by recorded traffic, without system and host-network pods, as an outage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity, ordered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import ConnectivityIntent, PodSelection, PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.flows import Flow, FlowSide, SeenFlows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts, PodMeta
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import compile_intent
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.impact_findings import (
    NAMED,
    IntentImpact,
    impact_findings,
    intent_impact,
)
from tests.testing.facts_builders import NOW, cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.properties import examples
from tests.testing.traffic_builders import namespace_facts, scene, traffic

HOSTS: Final = ("c1", "c2", "c3")
NAMESPACES: Final = ("production", "other", "kube-system")
APPS: Final = tuple(f"app-{n}" for n in range(7))
LOST, ISOLATED, UNCERTAIN = "CM-INT-31", "CM-INT-30", "CM-INT-32"


def pods(app: str, namespace: str = "production", number: int = 1, **fields: Any) -> list[PodMeta]:
    owner = f"ReplicaSet {app}-5d9f"
    labels = {"app": app, "pod-template-hash": "5d9f"}
    return [PodMeta(namespace=namespace, name=f"{app}-5d9f-{n}", labels=labels, owner=owner, **fields) for n in range(number)]


def place(running: Mapping[str, Sequence[PodMeta]], policies: Mapping[str, Sequence[ObjectFacts]] | None = None, **fields: Any) -> Scene:
    namespaces = [namespace_facts(name) for name in NAMESPACES]
    return scene(
        *(
            traffic(host, namespaces=namespaces, pods=tuple(those), policies=tuple((policies or {}).get(host, ())), **fields)
            for host, those in running.items()
        )
    )


def intent(action: str = "Allow", source: str = "app-1", destination: str = "app-0", **fields: Any) -> ConnectivityIntent:
    selection = PodSelection(namespace="production", labels={"app": source})
    values: dict[str, Any] = {"source": None if action == "Isolate" else selection}
    to = PodSelection(namespace="production", labels={"app": destination})
    return ConnectivityIntent(name="x", action=action, **{**values, "destination": to, **fields})


def impact(wanted: ConnectivityIntent, where: Scene) -> IntentImpact:
    bodies = compile_intent(wanted, names=where.names, members=where.mesh.clusters, version=Minor(1, 18), binding=where.binding)
    return intent_impact(wanted, bodies, where)


def end(host: str, pod: PodMeta | str) -> FlowSide:
    if isinstance(pod, str):
        return FlowSide(reserved=pod, name="192.0.2.1")
    labels = {"app": pod.labels["app"], "io.kubernetes.pod.namespace": pod.namespace, "io.cilium.k8s.policy.cluster": host}
    return FlowSide(namespace=pod.namespace, cluster=host, labels=labels, name=pod.name)


def packet(source: FlowSide, destination: FlowSide, ago: int = 12, port: int = 80) -> Flow:
    at = NOW - timedelta(seconds=ago)
    return Flow(time=at, verdict="FORWARDED", source=source, destination=destination, protocol="TCP", port=port, delivered=True)


def seen(*flows: Flow, **fields: Any) -> SeenFlows:
    return SeenFlows(flows=flows, now=NOW, window=300.0, **fields)


def one(found: Sequence[Finding], code: str) -> Finding:
    (entry,) = [entry for entry in found if entry.code == code]
    return entry


def named(finding: Finding) -> list[tuple[str, set[str]]]:
    """(workload, clusters) that the summary names, in its order."""
    texts = finding.summary.rpartition(": ")[2].split("; ")
    rows = [re.fullmatch(r"(\S+/.+) in (.+)", text) for text in texts]
    return [(row[1], set(re.split(r", | and ", row[2]))) for row in rows if row]


def counted(finding: Finding, pattern: str) -> int:
    found = re.search(pattern, f"{finding.summary}\n{finding.evidence}")
    return int(found[1]) if found else 0


APP = {name: pods(name) for name in APPS}


def test_what_two_clusters_lose_alike_is_one_finding_and_each_name_stands_once() -> None:
    found = impact_findings(impact(intent(), place({"c1": [*APP["app-0"], *APP["app-1"], *APP["app-2"]], "c2": APP["app-0"]})))
    lost = one(found, LOST)
    assert (lost.cluster, lost.others, lost.severity) == ("c1", ("c2",), Severity.OUTAGE)
    assert lost.summary == (
        "c1 and c2: 3 workloads lose access to production/app-0 (2 pods): production/app-0 in c1 and c2; production/app-2 in c1"
    )
    assert one(found, ISOLATED).summary.startswith("c1 and c2: 2 pods that no policy isolates so far")


def test_what_differs_stays_apart() -> None:
    wall = policy_facts(
        {
            "kind": "CiliumNetworkPolicy",
            "metadata": {"name": "open", "namespace": "production"},
            "spec": {
                "endpointSelector": {"matchLabels": {"app": "app-0"}},
                "ingress": [{"fromEndpoints": [{"matchLabels": {"app": "app-2"}}]}],
                "enableDefaultDeny": {"ingress": False},
            },
        }
    )
    running = {host: [*APP["app-0"], *APP["app-2"]] for host in ("c1", "c2")}
    found = impact_findings(impact(intent(), place(running, {"c2": [wall]})))
    assert [entry.cluster for entry in found if entry.code == LOST] == ["c1", "c2"]


def test_pods_of_the_host_s_network_neither_lose_access_nor_become_isolated() -> None:
    on_host = [*pods("app-2", host_network=True), *pods("app-0", number=3, host_network=True)]
    host_pods = [replace(pod, name=f"host-{pod.name}") for pod in on_host]
    found = impact_findings(impact(intent(), place({"c1": [*APP["app-0"], *host_pods]})))
    assert "1 pod " in one(found, ISOLATED).summary and named(one(found, LOST)) == [("production/app-0", {"c1"})]
    mixed = place({"c1": APP["app-0"]}, unread=(Unread(what="hostpods", message="no", remedy=""),))
    assert "c1 cannot tell pods of the host's network apart" in one(impact_findings(impact(intent(), mixed)), LOST).evidence


def test_system_workloads_are_counted_and_alone_are_no_outage() -> None:
    system = pods("dns", "kube-system")
    both = one(impact_findings(impact(intent(), place({"c1": [*APP["app-0"], *system]}))), LOST)
    assert named(both) == [("production/app-0", {"c1"})] and "1 system workload loses access too." in both.evidence
    alone = one(impact_findings(impact(intent(source="app-0"), place({"c1": [*APP["app-0"], *system]}))), LOST)
    assert alone.severity is Severity.REMEDIABLE and "c1: system workloads alone lose access to production/app-0" in alone.summary
    speaking = {"c1": seen(packet(end("c1", system[0]), end("c1", APP["app-0"][0])))}
    in_use = one(impact_findings(impact(intent(source="app-0"), place({"c1": [*APP["app-0"], *system]})), speaking), LOST)
    assert (
        in_use.severity is Severity.OUTAGE
        and "1 system workload loses access too, and 1 of them speaks to it now on TCP 80" in in_use.evidence
    )


@pytest.mark.parametrize("action", ["Allow", "Isolate"])
def test_a_system_pod_that_becomes_isolated_is_an_outage(action: str) -> None:
    to = PodSelection(namespace="kube-system", labels={"app": "dns"})
    where = place({"c1": pods("dns", "kube-system", 2)})
    found = one(impact_findings(impact(replace(intent(action), destination=to), where)), ISOLATED)
    assert found.severity is Severity.OUTAGE and "2 pods of them run in system namespaces" in found.evidence


def test_who_speaks_comes_first_with_ports_number_and_age() -> None:
    where = place({"c1": [*APP["app-0"], *APP["app-2"]], "c2": [*APP["app-5"], *APP["app-6"]]})
    to = end("c1", APP["app-0"][0])
    gone = replace(APP["app-5"][0], name="app-5-of-before")
    flows = [packet(end("c2", APP["app-6"][0]), to, 40), *(packet(end("c2", gone), to, ago, 8080) for ago in (200, 130, 125))]
    found = one(impact_findings(impact(intent(), where), {"c1": seen(*flows)}), LOST)
    assert [name for name, _hosts in named(found)] == ["production/app-5", "production/app-6", "production/app-0", "production/app-2"]
    assert ", 2 of which speak to it now: " in found.summary
    assert found.evidence.splitlines()[:3] == [
        "production/app-5 in c2 speaks to it now on TCP 8080 (3 flows in the last 5 minutes, last 2 minutes ago).",
        "production/app-6 in c2 speaks to it now on TCP 80 (1 flow in the last 5 minutes, last 40 s ago).",
        "2 workloads were not seen to speak to it in the last 5 minutes.",
    ]


@pytest.mark.parametrize("action", ["Allow", "Deny", "Isolate"])
def test_traffic_that_stops_is_an_outage_whatever_the_action(action: str) -> None:
    where = place({"c1": [*APP["app-0"], *APP["app-1"], *APP["app-2"]]})
    cut = APP["app-1" if action == "Deny" else "app-2"][0]
    flows = {"c1": seen(packet(end("c1", cut), end("c1", APP["app-0"][0])))}
    quiet, loud = (one(impact_findings(impact(intent(action), where), those), LOST) for those in ({"c1": seen()}, flows))
    assert quiet.severity is (Severity.OUTAGE if action == "Allow" else Severity.ADVISORY)
    assert loud.severity is Severity.OUTAGE and "1 of which speaks to it now" in loud.summary


def test_traffic_that_stays_allowed_is_not_cut_and_a_port_that_closes_is() -> None:
    where = place({"c1": [*APP["app-0"], *APP["app-1"]]})
    source, to = end("c1", APP["app-1"][0]), end("c1", APP["app-0"][0])
    on_80 = intent(ports=(PortRule(protocol="TCP", port=80),))
    kept, closed = (one(impact_findings(impact(on_80, where), {"c1": seen(packet(source, to, port=p))}), LOST) for p in (80, 9090))
    assert "speak" not in kept.summary and "app-1" not in kept.summary
    assert "production/app-1 in c1 speaks to it now on TCP 9090" in closed.evidence


@pytest.mark.parametrize(("kind", "text"), [("world", "Addresses outside of the clusters"), ("remote-node", "Other nodes")])
def test_sources_that_are_no_pods_are_an_outage_when_they_speak(kind: str, text: str) -> None:
    where = place({"c1": APP["app-0"]})
    found = {
        of: one(
            impact_findings(impact(intent("Isolate"), where), {"c1": seen(packet(end("c1", of), end("c1", APP["app-0"][0])))}), ISOLATED
        )
        for of in (kind, "host", "health")
    }
    assert found[kind].severity is Severity.OUTAGE and f"{text} speak to them now on TCP 80 (1 flow" in found[kind].evidence
    assert {found[of].severity for of in ("host", "health")} == {Severity.ADVISORY}


def test_what_is_not_known_of_traffic_is_said() -> None:
    where = place({"c1": APP["app-0"], "c2": APP["app-0"]})
    off = {"c1": seen(unknown="Hubble is off in c1"), "c2": seen(notes=("flows were requested from 6 of 9 nodes in c2",))}
    evidence = one(impact_findings(impact(intent(), where), off), LOST).evidence
    assert "Whether they use these connections is not known: Hubble is off in c1." in evidence
    assert "Not all of the traffic is known: flows were requested from 6 of 9 nodes in c2." in evidence
    assert "Whether they use these connections is not known." in one(impact_findings(impact(intent(), where)), LOST).evidence


@pytest.mark.parametrize("action", ["Allow", "Isolate", "Deny"])
def test_traffic_that_may_stop_is_reported_where_it_is_not_certain_that_it_goes_on(action: str) -> None:
    """A filter of labels that cannot be read: whether the policies select the pods is not known."""
    where = place({"c1": [*APP["app-0"], *APP["app-1"], *APP["app-2"]]})
    unread = {"c1": cluster_facts("c1", version="1.18.11", config={"label-prefix-file": "/etc/cilium/label-prefix"})}
    flows = {
        "c1": seen(
            packet(end("c1", APP["app-2"][0]), end("c1", APP["app-0"][0])), packet(end("c1", APP["app-1"][0]), end("c1", APP["app-0"][0]))
        )
    }
    vague = impact(intent(action), replace(where, facts={**where.facts, **unread}))
    assert vague.cutting == ("c1",), "its flows are asked for"
    said = one(impact_findings(vague, flows), UNCERTAIN)
    assert said.severity is Severity.REMEDIABLE and "traffic that is there now may be cut on TCP 80 (" in said.evidence
    assert one(impact_findings(vague), UNCERTAIN).severity is Severity.ADVISORY
    known = impact(intent(action), where)
    assert not [entry for entry in impact_findings(known, flows) if entry.code == UNCERTAIN]


def test_an_outage_stands_before_what_can_be_remedied_and_after_what_blocks() -> None:
    made = [Finding(code="CM-INT-31", severity=severity, summary=severity.value) for severity in reversed(Severity)]
    assert [entry.severity for entry in ordered(made)] == [Severity.BLOCKING, Severity.OUTAGE, Severity.REMEDIABLE, Severity.ADVISORY]
    assert [entry.blocks for entry in ordered(made)] == [True, False, False, False]


# Laws

some_pods = st.lists(st.tuples(st.sampled_from(APPS), st.sampled_from(NAMESPACES), st.booleans()), min_size=1, max_size=9, unique=True)
worlds = st.fixed_dictionaries(dict.fromkeys(HOSTS, some_pods))
allowing = st.fixed_dictionaries({host: st.lists(st.sampled_from(APPS), max_size=2) for host in HOSTS})
chatter = st.lists(st.tuples(*(st.integers(0, 1000) for _ in range(2)), st.sampled_from(HOSTS), st.sampled_from((80, 90))), max_size=8)


def opened(app: str) -> ObjectFacts:
    rule = {"fromEndpoints": [{"matchLabels": {"app": app}}]}
    spec = {"endpointSelector": {}, "ingress": [rule], "enableDefaultDeny": {"ingress": False}}
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": f"open-{app}", "namespace": "production"}, "spec": spec})


@given(worlds, allowing, chatter, st.sampled_from(["Allow", "Deny", "Isolate"]), st.randoms(use_true_random=False))
@examples(60)
def test_merging_and_ranking_lose_nothing_and_name_no_system_pod(running: Any, open_to: Any, spoken: Any, action: str, rng: Any) -> None:
    made = {
        host: [
            replace(pod, name=f"{pod.name}-{on_host}", owner=f"ReplicaSet {app}{'-host' if on_host else ''}-5d9f", host_network=on_host)
            for app, namespace, on_host in rows
            for pod in pods(app, namespace)
        ]
        for host, rows in running.items()
    }
    where = place(made, {host: [opened(app) for app in apps] for host, apps in open_to.items()})
    found = impact(intent(action), where)
    every = [(host, pod) for host, those in made.items() for pod in those if not pod.host_network]
    flows: dict[str, list[Flow]] = {host: [] for host in HOSTS}
    for source, target, host, port in spoken if every else ():
        to = [pod for at, pod in every if at == host]
        if to:
            flows[host].append(packet(end(*every[source % len(every)]), end(host, to[target % len(to)]), source % 300, port))
    for known in (None, {host: seen(*those) for host, those in flows.items()}):
        findings = impact_findings(found, known)
        for code, base in ((LOST, "lost"), (ISOLATED, "isolated")):
            hosts = [host for entry in findings if entry.code == code for host in (entry.cluster, *entry.others)]
            assert len(hosts) == len(set(hosts)) and set(hosts) >= {effect.host for effect in found.effects if getattr(effect, base)}
        for entry in (entry for entry in findings if entry.code == LOST):
            effects = [effect for effect in found.effects if effect.host in (entry.cluster, *entry.others)]
            lost = {number for effect in effects for number in effect.lost}
            assert all(effect.lost == effects[0].lost for effect in effects)
            places = {(f"{g.namespace}/{name}", g.host) for g in found.index.groups if g.number in lost for name in g.workloads}
            rows = named(entry)
            shown = {(name, host) for name, hosts_of in rows for host in hosts_of}
            assert len(rows) <= NAMED and len({name for name, _hosts in rows}) == len(rows)
            assert not [name for name, _host in shown if name.startswith("kube-system/") or name.endswith("-host")]
            more, system = counted(entry, r"and (\d+) more workload"), counted(entry, r"(\d+) system workloads? loses? access too")
            total = counted(entry, r"(\d+) workloads? (?:perhaps )?loses? access")
            assert len(shown) + more == total
            assert system >= sum(name.startswith("kube-system/") for name, _host in places)
            if known is None:
                assert total + system == len(places) and (more or shown | {p for p in places if p[0].startswith("kube-system/")} == places)
        if known:
            shuffled = {host: replace(entry, flows=tuple(rng.sample(entry.flows, len(entry.flows)))) for host, entry in known.items()}
            assert impact_findings(found, shuffled) == findings
