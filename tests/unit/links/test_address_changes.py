# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A change of one cluster's address rewrites what names that address in the clusters that dial it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    ClusterFacts,
    NodeFacts,
    ServiceFacts,
    WorkloadFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples
from tests.testing.simulated_apply import SimulatedClusters

VERSIONS = ("1.16.19", "1.18.11", "1.20.0")
NAMES = ("lb.example.com", "other.example.com")
ADDRESSES = st.sampled_from(("192.0.2.101", "192.0.2.102", "192.0.2.103", "2001:db8::101", "2001:db8::102"))


@st.composite
def _endpoints(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of ClusterFacts that say where a cluster is reached, and what its names resolve to."""
    kind = draw(st.sampled_from(("ips", "name", "nodes", "cluster ip", "override")))
    port = draw(st.sampled_from((2379, 2380)))
    found: dict[str, Any] = {"endpoint_override": "", "resolved": {}}
    ips = tuple(draw(st.lists(ADDRESSES, min_size=1, max_size=3)))
    # The Service's own port stays: the agents of its cluster have it in what they read too (chart value service.port, from 1.21).
    service = ServiceFacts(type="LoadBalancer", cluster_ip="10.96.9.9", port=2379, node_port=31000 + port)
    if kind == "ips":
        return {**found, "service": replace(service, ingress_ips=ips)}
    if kind == "name":
        name = draw(st.sampled_from(NAMES))
        return {**found, "service": replace(service, ingress_hostnames=(name,)), "resolved": {name: ips}}
    if kind == "nodes":
        numbers = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True))
        nodes = tuple(NodeFacts(name=f"n{i}", ready=i != 9 or len(numbers) == 1, internal_ips=(f"172.16.9.{i}",)) for i in numbers)
        return {**found, "service": replace(service, type="NodePort"), "nodes": nodes}
    if kind == "cluster ip":
        return {**found, "service": replace(service, type="ClusterIP", cluster_ip=f"10.96.9.{draw(st.integers(1, 9))}")}
    address = ips[0] if ":" not in ips[0] else f"[{ips[0]}]"
    return {**found, "service": service, "endpoint_override": f"{address}:{port}"}


@st.composite
def _clusters(draw: st.DrawFn) -> dict[str, ClusterFacts]:
    found = {}
    for number in range(1, draw(st.integers(2, 4)) + 1):
        dual = draw(st.booleans())
        found[f"c{number}"] = cluster_facts(
            f"c{number}",
            version=draw(st.sampled_from(VERSIONS)),
            kvstoremesh=draw(st.booleans()),
            auth_mode=draw(st.sampled_from(("legacy", "cluster"))),
            ca=draw(st.sampled_from(("", "shared"))),
            config={"enable-ipv6": "true"} if dual else {},
        )
    return found


def _moved(cluster: ClusterFacts, place: Mapping[str, Any]) -> ClusterFacts:
    nodes = place.get("nodes", cluster.nodes)
    return replace(cluster, service=place["service"], endpoint_override=place["endpoint_override"], nodes=nodes)


def _digests(cluster: ClusterFacts) -> dict[tuple[str, str], str]:
    return {(secret.name, key): value.digest for secret in (cluster.clustermesh, cluster.kvstoremesh) for key, value in secret.keys.items()}


def _aliases(cluster: ClusterFacts) -> set[tuple[str, str, str]]:
    workloads: tuple[WorkloadFacts | None, ...] = (cluster.apiserver, cluster.agent)
    return {(w.name, alias.ip, name) for w in workloads if w for alias in w.host_aliases for name in alias.hostnames}


def _rest(cluster: ClusterFacts) -> list[Any]:
    """What no address stands in; without the versions of objects."""
    secrets = [(s.present, s.labels, s.annotations, s.managers) for s in (cluster.clustermesh, cluster.kvstoremesh)]
    return [secrets, cluster.users.text, cluster.users.annotations, cluster.users.present]


@examples(60)
@given(_clusters(), _endpoints(), _endpoints())
def test_only_the_key_of_the_peer_that_moved_changes(facts: dict[str, ClusterFacts], before: dict[str, Any], after: dict[str, Any]) -> None:
    mesh, mover = mesh_of(*facts), "c1"
    clusters = SimulatedClusters({**facts, mover: _moved(facts[mover], before)}, NOW)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW, policy=LinkPolicy(resolved=before["resolved"])))
    connected = clusters.facts()
    clusters.change(mover, lambda cluster: _moved(cluster, after))
    plan = plan_links(mesh, clusters.facts(), PlanOptions(), NOW, policy=LinkPolicy(resolved=after["resolved"]))
    clusters.run(plan)
    moved = clusters.facts()
    assert not [step for step in plan.steps if step.cluster == mover and not step.object.startswith("ConfigMap")]
    for host in facts:
        old, new = _digests(connected[host]), _digests(moved[host])
        remote = "cilium-kvstoremesh" if facts[host].runs_kvstoremesh else "cilium-clustermesh"
        changed = {place for place in old.keys() | new.keys() if old.get(place) != new.get(place)}
        assert changed <= ({(remote, mover)} if host != mover else set())
        assert {name.partition(".")[0] for _, _, name in _aliases(connected[host]) ^ _aliases(moved[host])} <= {mover}
        assert _rest(connected[host]) == _rest(moved[host])
    assert plan_links(mesh, moved, PlanOptions(), NOW, policy=LinkPolicy(resolved=after["resolved"])).empty


@examples(60)
@given(_clusters(), st.lists(ADDRESSES, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_an_answer_in_another_order_and_a_name_that_is_not_found_change_nothing(
    facts: dict[str, ClusterFacts], answer: list[str], chance: Any
) -> None:
    mesh, name = mesh_of(*facts), NAMES[0]
    place = {"service": ServiceFacts(type="LoadBalancer", cluster_ip="10.96.9.9", ingress_hostnames=(name,)), "endpoint_override": ""}
    clusters = SimulatedClusters({**facts, "c1": _moved(facts["c1"], place)}, NOW)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW, policy=LinkPolicy(resolved={name: tuple(answer)})))
    turned = list(answer)
    chance.shuffle(turned)
    assert plan_links(mesh, clusters.facts(), PlanOptions(), NOW, policy=LinkPolicy(resolved={name: tuple(turned)})).empty
    unknown = plan_links(mesh, clusters.facts(), PlanOptions(), NOW)
    assert unknown.empty and unknown.problems == ()
