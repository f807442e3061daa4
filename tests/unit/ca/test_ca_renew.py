# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Renewing writes what certificates need and nothing else, and a second time nothing at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.renew import only_renewals
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import (
    ApplySecret,
    FromSecret,
    Literal,
    Minted,
    Plan,
    PlanOptions,
)
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

MESH = mesh_of("c1", "c2", "c3")
LATER = NOW + timedelta(days=340)  # minted certificates live 365 days


def connected() -> SimulatedClusters:
    clusters = SimulatedClusters(long_lived({host: cluster_facts(host, version="1.20.0") for host in MESH.clusters}), NOW)
    clusters.run(plan_links(MESH, clusters.facts(), PlanOptions(), NOW))
    return clusters


def long_lived(facts: dict[str, ClusterFacts]) -> dict[str, ClusterFacts]:
    """CAs and certificates of the clusters that do not end within this test."""
    ends = NOW + timedelta(days=5000)
    found = {}
    for host, cluster in facts.items():
        changes = {"ca": replace(cluster.ca, certificates=tuple(replace(c, not_after=ends) for c in cluster.ca.certificates))}
        for field in ("server_cert", "remote_cert", "admin_cert", "local_cert"):
            secret = getattr(cluster, field)
            ca = tuple(replace(c, not_after=ends) for c in secret.ca)
            changes[field] = replace(secret, ca=ca, certificate=replace(secret.certificate, not_after=ends))
        found[host] = replace(cluster, **changes)  # type: ignore[arg-type]  # fields of ClusterFacts by their names
    return found


def moved(cluster: ClusterFacts) -> ClusterFacts:
    """Its load balancer has another address."""
    assert cluster.service is not None
    return replace(cluster, service=replace(cluster.service, ingress_ips=("192.0.2.99",)))


def renewals(facts: dict[str, ClusterFacts], when: timedelta = timedelta()) -> Plan:
    return only_renewals(plan_links(MESH, facts, PlanOptions(), NOW + when), facts)


def test_a_fresh_mesh_needs_nothing() -> None:
    assert renewals(connected().facts()).empty


def test_certificates_near_their_end_are_minted_and_nothing_else_changes() -> None:
    facts = connected().facts()
    plan = renewals(facts | {"c2": moved(facts["c2"])}, LATER - NOW)
    assert {(step.cluster, step.object) for step in plan.steps} == {
        (host, "Secret kube-system/cilium-kvstoremesh") for host in MESH.clusters
    }
    for step in plan.steps:
        action = step.action
        assert isinstance(action, ApplySecret)
        secret = facts[step.cluster].kvstoremesh
        assert set(action.data) == set(secret.keys), "keys came or went"
        for key, recipe in action.data.items():
            minted = key.endswith((".etcd-client.crt", ".etcd-client.key"))
            assert isinstance(recipe, Minted) is minted
            if isinstance(recipe, Literal):
                assert recipe.text == secret.keys[key].config, "an address changed, which is for connect"


def test_a_new_ca_of_one_peer_touches_that_peer_alone() -> None:
    facts = connected().facts()
    other = cluster_facts("c3", version="1.20.0", ca="Another CA")
    names = ("ca", "server_cert", "remote_cert", "admin_cert", "local_cert")
    facts["c3"] = replace(facts["c3"], **{name: getattr(other, name) for name in names})
    plan = renewals(facts)
    for local, peer in (("c1", "c2"), ("c2", "c1")):
        (action,) = [step.action for step in plan.steps if step.cluster == local]
        assert isinstance(action, ApplySecret) and action.name == "cilium-kvstoremesh"
        kept = (peer, f"{peer}.etcd-client-ca.crt", f"{peer}.etcd-client.crt", f"{peer}.etcd-client.key")
        of_peer = {key: recipe for key, recipe in action.data.items() if key.partition(".")[0] == peer}
        assert of_peer == {key: FromSecret(local, action.name, key) for key in kept}
    text = next(s.action for s in plan.steps if s.cluster == "c1" and s.object.endswith("cilium-kvstoremesh"))
    assert isinstance(text, ApplySecret) and isinstance(text.data["c3"], Literal)
    before = facts["c1"].kvstoremesh.keys["c3"].config or ""
    assert text.data["c3"].text.splitlines()[:-1] == before.splitlines()[:-1], "only the comment changes"
    assert text.data["c3"].text != before


def test_renewing_twice_changes_nothing_the_second_time() -> None:
    clusters = connected()
    clusters.now = LATER
    first = renewals(clusters.facts(), LATER - NOW)
    assert not first.empty
    clusters.run(first)
    assert renewals(clusters.facts(), LATER - NOW).empty
