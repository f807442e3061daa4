# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The reserved load balancer: its id stands on the Service while the cluster is meshed, and what others wrote there stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import api_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.fingerprint import facts_fingerprint
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.load_balancer import (
    ELB_AUTOCREATE,
    ELB_ID,
    elb_steps,
    elb_withdrawal,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ServiceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.known import known
from tests.testing.link_plans import plan_links
from tests.testing.rows import in_one_test
from tests.testing.simulated_apply import SimulatedClusters

ELB, OTHER = "41fae315-2964-49c4-afde-bc6d358cd031", "c582b56c-2b4e-4c83-9d9e-29e12893c6f6"
BINDING = mesh_of("c1", "c2").binding
OURS = BINDING.manager
SECOND = Binding(name="second", cluster_refs=("c1", "c3"))


def cluster(
    host: str = "c1", *, elb: str = ELB, kind: str = "LoadBalancer", held: str = "", by: Iterable[str] = (), **service: Any
) -> ClusterFacts:
    annotations = {"example.com/kept": "yes"} | ({ELB_ID: held} if held else {})
    managers = {"example.com/kept": ("helm",)} | ({ELB_ID: tuple(by)} if by else {})
    made = ServiceFacts(
        type=kind, cluster_ip="10.96.1.10", node_port=32001, uid="uid-1", annotations=annotations, annotation_managers=managers, **service
    )
    return replace(cluster_facts(host, version="1.20.0"), service=made, elb_id=elb)


def written(facts: ClusterFacts, binding: Binding = BINDING) -> dict[str, Any] | None:
    steps = elb_steps(binding, [facts])
    if not steps:
        return None
    action = steps[0].action
    assert isinstance(action, ApiWrite) and action.method == "apply"
    assert action.path == "/api/v1/namespaces/kube-system/services/clustermesh-apiserver"
    return api_body(action, {}, NOW)


def test_the_id_is_applied_as_the_one_field_of_ours_to_the_service_that_was_seen() -> None:
    assert written(cluster()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "clustermesh-apiserver", "namespace": "kube-system", "uid": "uid-1", "annotations": {ELB_ID: ELB}},
    }


@in_one_test
@pytest.mark.parametrize(
    "facts",
    [
        cluster(elb=""),
        cluster(kind="NodePort"),
        cluster(held=ELB, by=(OURS,)),
        cluster(held=ELB, by=("helm",)),
        cluster(held=ELB),
        cluster(held=OTHER),
        cluster(held=OTHER, by=("cloud-provider",)),
        cluster(held=OTHER, by=(OURS, "cloud-provider")),
        replace(cluster(), service=ServiceFacts(type="LoadBalancer", annotations={ELB_AUTOCREATE: "{}"})),
        replace(cluster(), service=None),
    ],
    ids=["no id", "NodePort", "ours", "helm's", "without a writer", "foreign", "the cloud's", "shared", "made for it", "no Service"],
)
def test_nothing_is_written_where_it_stands_or_where_it_is_not_ours_to_write(facts: ClusterFacts) -> None:
    assert written(facts) is None


def test_an_id_of_ours_that_changed_in_the_inventory_is_rewritten_with_a_warning() -> None:
    facts = cluster(held=OTHER, by=(OURS,))
    assert (written(facts) or {})["metadata"]["annotations"] == {ELB_ID: ELB}
    assert "made anew" in elb_steps(BINDING, [facts])[0].disruption


def test_a_second_binding_holds_it_too_so_that_the_first_may_leave() -> None:
    facts = cluster(held=ELB, by=(OURS,))
    assert written(facts, SECOND) is not None
    both = cluster(held=ELB, by=(OURS, SECOND.manager))
    assert written(both, SECOND) is None and written(both) is None
    assert [step.verb for step in elb_withdrawal(BINDING, both)] == ["apply"]


def test_withdrawal_applies_nothing_and_only_where_it_was_ours() -> None:
    (step,) = elb_withdrawal(BINDING, cluster(held=ELB, by=(OURS,)))
    assert isinstance(step.action, ApiWrite) and "annotations" not in step.action.body["metadata"]
    assert elb_withdrawal(BINDING, cluster(held=ELB, by=("helm",))) == []
    assert elb_withdrawal(BINDING, replace(cluster(), service=None)) == []


def _service(clusters: SimulatedClusters, host: str) -> ServiceFacts:
    return known(clusters.facts()[host].service)


def _run(clusters: SimulatedClusters, mesh: Mesh) -> Plan:
    plan = plan_links(mesh, clusters.facts(), PlanOptions(), NOW)
    assert not plan.blocked
    clusters.run(plan)
    return plan


def test_it_is_written_once_and_withdrawn_when_the_mesh_ends() -> None:
    mesh = mesh_of("c1", "c2")
    start = {"c1": cluster("c1", ingress_ips=("192.0.2.1",)), "c2": cluster_facts("c2", version="1.20.0")}
    clusters = SimulatedClusters(start, NOW)
    before = _service(clusters, "c1")
    _run(clusters, mesh)
    assert _service(clusters, "c1").annotations == {"example.com/kept": "yes", ELB_ID: ELB}
    assert _service(clusters, "c1").annotation_managers[ELB_ID] == (OURS,)
    assert ELB_ID not in _service(clusters, "c2").annotations
    assert plan_links(mesh, clusters.facts(), PlanOptions(), NOW).empty
    clusters.run(plan_disconnect(mesh, clusters.facts(), None))
    assert _service(clusters, "c1") == before


def test_it_stays_while_the_cluster_keeps_a_peer_and_goes_from_the_one_that_leaves() -> None:
    hosts = ("c1", "c2", "c3")
    clusters = SimulatedClusters({h: cluster(h, ingress_ips=(f"192.0.2.{h[1]}",)) for h in hosts}, NOW)
    mesh = mesh_of(*hosts)
    _run(clusters, mesh)
    clusters.run(plan_disconnect(mesh, clusters.facts(), frozenset({"c3"})))
    assert [ELB_ID in _service(clusters, host).annotations for host in hosts] == [True, True, False]


def test_a_cluster_that_waits_for_its_load_balancer_does_not_keep_the_others_apart() -> None:
    """c3 has no address yet: c1 and c2 are linked, c3 dials both, and no cluster dials c3 until its address is there."""
    mesh = mesh_of("c1", "c2", "c3")
    start = {h: cluster_facts(h, version="1.20.0") for h in ("c1", "c2")} | {"c3": cluster("c3")}
    clusters = SimulatedClusters(start, NOW)
    plan = _run(clusters, mesh)
    assert [(p.code, p.cluster, p.severity.value) for p in plan.problems] == [("CM-ELB-03", "c3", "remediable")]
    assert {(link.cluster, link.peer) for link in plan.links} == {("c1", "c2"), ("c2", "c1"), ("c3", "c1"), ("c3", "c2")}
    assert _service(clusters, "c3").annotations[ELB_ID] == ELB

    clusters.change("c3", lambda c: replace(c, service=replace(known(c.service), ingress_ips=("192.0.2.3",))))
    assert {(link.cluster, link.peer) for link in _run(clusters, mesh).links} >= {("c1", "c3"), ("c2", "c3")}

    clusters.change("c3", lambda c: replace(c, service=replace(known(c.service), ingress_ips=())))
    away = plan_links(mesh, clusters.facts(), PlanOptions(), NOW)
    assert away.empty and away.problems == (), "an address that is away for a moment ends no link"


def test_a_plan_relies_on_the_id_and_on_what_stands_there() -> None:
    states = [cluster(elb=""), cluster(), cluster(held=OTHER, by=("x",)), cluster(held=ELB, by=(OURS,)), cluster(held=ELB, by=("x",))]
    digests = [tuple(sorted(facts_fingerprint(facts).items())) for facts in states]
    assert len(set(digests)) == len(states)
