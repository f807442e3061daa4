# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reach says of all flows together what the evaluator says of each alone; and what it adds to that: links, outsiders, plans."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure, Unread
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.endpoints import FirstPacket
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.verdict import PolicyOutcome, verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.workload_index import WorkloadIndex
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.difference import ChangeKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.port_set import ALL, LIMITS, PROTOCOLS, PortSet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.reach import Reach
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.report import ReachReport, flow_text, report_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.scope import ReachScope, scope_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.workload_set import (
    SetKind,
    bits_of,
    first_of,
    numbers_of,
    workload_sets,
)
from tests.testing.facts_builders import cluster_facts
from tests.testing.policy_worlds import policy_facts
from tests.testing.properties import examples
from tests.testing.traffic_builders import namespace_facts, pod, scene, service, traffic
from tests.unit.reach.random_scenes import random_scene

PORTS = {
    protocol: tuple(sorted({*limits, 80, 81, 8, 9, 99, 128} | ({443, 7999, 8000, 8080, 8999, 9000} if limits[1] > 255 else set())))
    for protocol, limits in LIMITS.items()
}


def reach_of(observed: Scene) -> Reach:
    index = WorkloadIndex(observed)
    return Reach.of(workload_sets(index))


def outcome_of(found: Reach, source: int, destination: int, protocol: str, port: int) -> PolicyOutcome:
    """What the cell of this source says of a port; there is exactly one cell, and one outcome."""
    (cell,) = [cell for cell in found.cells[destination] if cell.sources >> source & 1]
    (outcome,) = [outcome for outcome, ports in cell.ports.each() if ports.covers(protocol, port)]
    return outcome


@given(seed=st.integers(0, 2**32))
@examples(40)
def test_what_is_evaluated_together_is_what_each_flow_is_alone(seed: int) -> None:
    observed = random_scene(Random(seed))
    found = reach_of(observed)
    sets, world = found.sets, found.judgement.world
    draw = Random(seed + 1)
    groups = sets.index.groups
    ends = [(entry.number, entry.party.endpoint) for entry in sets if entry.party and entry.kind is not SetKind.WORKLOADS]
    ends += [
        (first_of(sets.sets_of_group[group.number]), group.party.endpoint) for group in groups
    ]  # every group, and not the first of its set alone
    for source_set, source in ends:
        for destination_set, destination in ends:
            protocol = draw.choice(PROTOCOLS)
            for port in draw.sample(PORTS[protocol], 4):
                alone = verdict(world, FirstPacket(source=source, destination=destination, protocol=protocol, port=port)).outcome
                together = outcome_of(found, source_set, destination_set, protocol, port)
                assert together is alone, (seed, source.shown, destination.shown, protocol, port)


@given(seed=st.integers(0, 2**32))
@examples(20)
def test_policies_that_are_named_are_those_that_the_evaluator_names(seed: int) -> None:
    observed = random_scene(Random(seed))
    found = reach_of(observed)
    for destination in found.sets:
        for cell in found.cells[destination.number]:
            for outcome, ports in cell.ports.each():
                groups = found.explained(cell, destination.number, outcome)
                assert sum(group.sources for group in groups) == cell.sources
                protocol, port, _last = ports.ranges[0]
                for group in groups:
                    for source in numbers_of(group.sources & found.sets.workloads):
                        ends = found.sets[source].party, destination.party
                        assert ends[0] and ends[1]
                        flow = FirstPacket(source=ends[0].endpoint, destination=ends[1].endpoint, protocol=protocol, port=port)
                        alone = verdict(found.judgement.world, flow)
                        decisive = [d for d in (alone.ingress, alone.egress) if d.outcome is outcome]
                        named = {policy.rpartition(" in ")[0] for policy in group.policies}
                        expected = (
                            set(decisive[0].policies) if outcome is PolicyOutcome.DENIED else {p for d in decisive for p in d.policies}
                        )
                        assert expected <= named, (seed, flow.source.shown, flow.destination.shown)


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_sets_of_ports_are_sets(seed: int) -> None:
    random = Random(seed)

    def some() -> PortSet:
        ranges = []
        for _ in range(random.randint(0, 4)):
            protocol = random.choice(PROTOCOLS)
            first = random.randint(1, 40)
            ranges.append((protocol, first, first + random.randint(0, 10)))
        return PortSet.of(ranges)

    one, two = some(), some()
    for protocol in PROTOCOLS:
        for port in range(1, 60):
            in_one, in_two = one.covers(protocol, port), two.covers(protocol, port)
            assert (one | two).covers(protocol, port) == (in_one or in_two)
            assert (one & two).covers(protocol, port) == (in_one and in_two)
            assert (one - two).covers(protocol, port) == (in_one and not in_two)
    assert ALL - (ALL - one) == one


@given(numbers=st.sets(st.integers(0, 300)))
def test_bits_are_numbers(numbers: set[int]) -> None:
    assert set(numbers_of(bits_of(numbers))) == numbers
    assert not numbers or first_of(bits_of(numbers)) == min(numbers)


# One scene by hand


def cnp(name: str, spec: dict[str, Any], namespace: str = "shop") -> ObjectFacts:
    return policy_facts({"kind": "CiliumNetworkPolicy", "metadata": {"name": name, "namespace": namespace}, "spec": spec})


CLOSED = cnp(
    "db",
    {
        "endpointSelector": {"matchLabels": {"app": "db"}},
        "ingress": [
            {
                "fromEndpoints": [{"matchLabels": {"app": "web", "k8s:io.cilium.k8s.policy.cluster": "c1"}}],
                "toPorts": [{"ports": [{"port": "5432", "protocol": "TCP"}]}],
            }
        ],
    },
)
SHOP = [namespace_facts("shop")]


def two_clusters(*policies: ObjectFacts, **fields: Any) -> Scene:
    """A client and another workload in c1, the database in c2."""
    first = traffic("c1", namespaces=SHOP, pods=(pod("web-0", namespace="shop", app="web"), pod("cron-0", namespace="shop", app="cron")))
    services = fields.pop("services", ())
    second = traffic("c2", namespaces=SHOP, pods=(pod("db-0", namespace="shop", app="db"),), policies=policies, services=services)
    return scene(first, second, **fields)


def report(observed: Scene, planned: Scene | None = None, **ends: Any) -> ReachReport:
    scope = scope_of(ends, observed.mesh.clusters)
    return report_of(WorkloadIndex(observed), WorkloadIndex(planned) if planned else None, scope)


def texts(found: ReachReport) -> list[str]:
    return [flow_text(row) for row in found.flows()]


def test_a_policy_opens_one_port_to_one_workload_and_is_named() -> None:
    found = texts(report(two_clusters(CLOSED), source={"namespace": "shop"}, destination={"workload": "ReplicaSet db"}))
    assert "shop in c1 (ReplicaSet web) -> shop in c2 (ReplicaSet db): TCP 5432 allowed (CiliumNetworkPolicy shop/db in c2)" in found
    assert any(text.startswith("shop in c1 (ReplicaSet cron) -> ") and "all ports denied" in text for text in found)


def test_namespaces_have_one_cell_with_what_their_workloads_have_in_common() -> None:
    matrix = report(two_clusters(CLOSED)).matrix
    place = {line.name: number for number, line in enumerate(matrix.rows)}
    assert str(matrix.cells[place["c1/shop"], place["c2/shop"]]) == "1 of 2 pairs: TCP 5432"
    assert str(matrix.cells[place["c2/shop"], place["c1/shop"]]) == "all"


def test_an_outsider_that_reaches_a_workload_is_named_with_the_service_that_publishes_it() -> None:
    published = service("db", namespace="shop", type="LoadBalancer")
    (row, *_more) = [row for row in report(two_clusters(services=(published,))).outsiders if row.flow.destination.cluster == "c2"]
    assert row.published == ("LoadBalancer db",)
    assert row.flow.verdict is PolicyOutcome.ALLOWED
    assert [r for r in report(two_clusters(CLOSED)).outsiders if r.flow.destination.cluster == "c2"] == []


def test_networks_that_policies_name_are_outsiders_of_their_own() -> None:
    spec = {"endpointSelector": {}, "ingress": [{"fromCIDRSet": [{"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}]}]}
    rows = [row for row in report(two_clusters(cnp("office", spec))).outsiders if row.flow.destination.cluster == "c2"]
    assert [row.flow.source.shown for row in rows] == ["world 192.0.2.0/24, other addresses"]


def test_a_plan_shows_what_it_opens_and_what_it_closes() -> None:
    found = report(two_clusters(), two_clusters(CLOSED))
    kinds = {(row.kind, str(row.flow.ports), row.flow.source.workloads) for row in found.changes if row.flow.source.cluster == "c1"}
    assert (ChangeKind.LOST, "all ports", ("ReplicaSet cron",)) in kinds
    assert all(kind is ChangeKind.LOST for kind, _ports, _workloads in kinds)
    back = report(two_clusters(CLOSED), two_clusters())
    assert {row.kind for row in back.changes} == {ChangeKind.GAINED}
    assert report(two_clusters(CLOSED), two_clusters(CLOSED)).changes == ()


def test_of_a_member_that_does_not_answer_nothing_is_said() -> None:
    failure = ObserveFailure(host="c3", code="CM-API-01", message="c3 does not answer")
    found = report(two_clusters(members=("c3",), failures={"c3": failure}))
    to_c3 = [row for row in found.flows() if row.destination.cluster == "c3" or row.source.cluster == "c3"]
    assert to_c3 and {row.verdict for row in to_c3} == {PolicyOutcome.UNKNOWN}
    assert found.notes == ("Nothing is known of c3: c3 does not answer",)
    assert found.violations([]) == []
    assert found.violations(["lost"]) == ["nothing is known of c3, so no gate is passed"]


def test_pods_that_may_not_be_read_are_unknown_and_no_empty_cluster() -> None:
    unread = Unread(what="pods", message="pods may not be listed in c2", remedy="")
    observed = scene(traffic("c1", namespaces=SHOP, pods=(pod("web-0", namespace="shop", app="web"),)), traffic("c2", unread=(unread,)))
    found = report(observed)
    assert found.unread == ("c2",)
    assert found.violations(["world"])[-1] == "nothing is known of c2, so no gate is passed"


def test_clusters_without_a_link_do_not_know_each_other() -> None:
    observed = two_clusters()
    binding = replace(observed.mesh.binding, topology=Topology(mode=Mode.PAIRS, pairs=()))
    found = report(replace(observed, mesh=replace(observed.mesh, binding=binding)))
    across = [row for row in found.flows() if (row.source.cluster, row.destination.cluster) == ("c1", "c2")]
    across = [row for row in across if row.source.namespace and row.destination.namespace]
    assert across and {row.verdict for row in across} == {PolicyOutcome.UNKNOWN}
    assert "not linked" in across[0].reasons[0]


@pytest.mark.parametrize(("version", "hides"), [("1.18.11", False), ("1.19.5", True), ("1.20.2", True)])
def test_a_namespace_that_is_not_global_hides_its_pods_from_other_clusters(version: str, hides: bool) -> None:
    hidden = replace(namespace_facts("shop"), annotations={"clustermesh.cilium.io/global": "false"})
    first = traffic("c1", namespaces=[hidden], pods=(pod("web-0", namespace="shop", app="web"),))
    second = traffic("c2", namespaces=SHOP, pods=(pod("db-0", namespace="shop", app="db"),))
    facts = {host: cluster_facts(host, version=version) for host in ("c1", "c2")}
    found = report(scene(first, second, facts=facts))
    across = [row for row in found.flows() if {row.source.cluster, row.destination.cluster} == {"c1", "c2"} and row.source.namespace]
    across = [row for row in across if row.destination.namespace]
    assert len(across) == 2
    assert {row.verdict is PolicyOutcome.UNKNOWN for row in across} == {hides}


@pytest.mark.parametrize(
    ("gate", "fails", "passes"),
    [
        ("allowed", {"source": {"workload": "ReplicaSet web"}}, {"source": {"workload": "ReplicaSet cron"}}),
        ("world", {"destination": {"cluster": "c1"}}, {"destination": {"cluster": "c2"}}),
    ],
)
def test_a_gate_is_about_the_scope(gate: str, fails: dict[str, Any], passes: dict[str, Any]) -> None:
    to_database = {"destination": {"cluster": "c2", "workload": "ReplicaSet db"}}
    assert len(report(two_clusters(CLOSED), **{**to_database, **fails}).violations([gate])) == 1
    assert report(two_clusters(CLOSED), **{**to_database, **passes}).violations([gate]) == []


def test_gates_of_a_plan() -> None:
    assert report(two_clusters(), two_clusters(CLOSED)).violations(["gained"]) == []
    (lost,) = report(two_clusters(), two_clusters(CLOSED)).violations(["lost", "gained"])
    assert lost.startswith("lost: lost: ")
    assert report(two_clusters(CLOSED), two_clusters()).violations(["lost"]) == []


def test_a_name_that_is_nowhere_is_refused_as_a_gate_about_it_would_always_be_passed() -> None:
    with pytest.raises(InvalidInput, match="there is no workload wbe"):
        report(two_clusters(), source={"workload": "wbe"})
    with pytest.raises(InvalidInput, match=r"source\.cluster.*no member.*destination"):
        scope_of({"source": {"cluster": "c9"}, "destination": {"nam": "x"}}, ("c1", "c2"))


def test_workloads_that_no_policy_distinguishes_are_one_set() -> None:
    many = tuple(pod(f"w{number}-0", namespace="shop", app=f"w{number}") for number in range(50))
    found = reach_of(scene(traffic("c1", namespaces=SHOP, pods=many)))
    (only,) = [entry for entry in found.sets if entry.kind is SetKind.WORKLOADS]
    assert only.weight == 50
    assert report_of(found.sets.index, None, ReachScope()).to_dict()["pairs"]["all"] >= 2500


def test_policies_with_thousands_of_ports_are_unknown_and_not_late() -> None:
    ports = [{"port": str(number), "protocol": "TCP"} for number in range(1, 9000, 2)]
    spec = {"endpointSelector": {}, "ingress": [{"toPorts": [{"ports": ports[start : start + 40]} for start in range(0, 4500, 40)]}]}
    (text, *_rest) = texts(report(two_clusters(cnp("many", spec)), source={"cluster": "c1"}, destination={"cluster": "c2"}))
    assert "unknown" in text and "too many ports" in text
