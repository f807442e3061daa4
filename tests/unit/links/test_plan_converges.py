# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Random meshes: planning after applying gives the empty plan, and connect then disconnect gives the clusters back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    ClusterFacts,
    HostAlias,
    RemoteUsersFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import USERS_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import made_by_bindings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.testing.facts_builders import NOW, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.properties import examples
from tests.testing.simulated_apply import SimulatedClusters

VERSIONS = ("1.16.19", "1.17.17", "1.18.11", "1.19.5", "1.20.0")
USERS_TEXTS = (
    "users:\n",
    "users:\n- name: remote-foreign\n  role: remote\n",
    "# ours\nusers:\n  - {name: remote-foreign, role: remote}\n\n",
)
FOREIGN = "endpoints:\n- https://foreign.mesh.cilium.io:2379\n"


@st.composite
def _cluster(draw: st.DrawFn, number: int) -> ClusterFacts:
    version = draw(st.sampled_from(VERSIONS))
    mode = draw(st.sampled_from(("legacy", "migration", "cluster")))
    host = f"c{number}"
    overrides: dict[str, Any] = {}
    if draw(st.booleans()):  # no CA key: the remote certificate has to be copied
        overrides["ca"] = CaSecretFacts()
    for secret, field in (("cilium-clustermesh", "clustermesh"), ("cilium-kvstoremesh", "kvstoremesh")):
        kind = draw(st.sampled_from(("absent", "empty", "foreign")))
        if kind != "absent":
            keys = {"foreign": key_facts(FOREIGN, managers=("helm",), config=FOREIGN)} if kind == "foreign" else {}
            overrides[field] = peer_secret(secret, keys, helm=True)
    if mode != "legacy" and draw(st.booleans()):
        text = draw(st.sampled_from(USERS_TEXTS))
        users = {"remote-foreign": "remote"} if "foreign" in text else {}
        overrides["users"] = RemoteUsersFacts(present=True, resource_version="1", text=text, users=users, managers=("helm",))
    elif mode != "legacy":
        overrides["users"] = RemoteUsersFacts()
    cluster = cluster_facts(
        host,
        version=version,
        kvstoremesh=draw(st.booleans()),
        auth_mode=mode,
        service=draw(st.sampled_from(("LoadBalancer", "NodePort", "ClusterIP"))),
        ca=draw(st.sampled_from(("", "shared"))),
        node_count=draw(st.integers(1, 5)),
        endpoint_override=draw(st.sampled_from(("", "", "198.51.100.7:2379", f"[2001:db8::{number}]:2379"))),
    )
    return _with_foreign_aliases(draw, replace(cluster, **overrides), number)


def _with_foreign_aliases(draw: st.DrawFn, cluster: ClusterFacts, number: int) -> ClusterFacts:
    """Entries of another writer: one of no interest, and sometimes one that gives the first other cluster's name its address already."""
    other = 1 if number != 1 else 2
    aliases = [HostAlias(ip="203.0.113.9", hostnames=("foreign.example",), managers=("helm",))]
    if draw(st.booleans()):
        aliases.append(HostAlias(ip=f"192.0.2.{other}", hostnames=(f"c{other}.mesh.cilium.io", "foreign.example"), managers=("helm",)))
    assert cluster.apiserver is not None and cluster.agent is not None
    return replace(
        cluster,
        apiserver=replace(cluster.apiserver, host_aliases=tuple(aliases)),
        agent=replace(cluster.agent, host_aliases=tuple(aliases)),
    )


@st.composite
def any_meshes(draw: st.DrawFn, largest: int = 5) -> dict[str, ClusterFacts]:
    """Two to ``largest`` clusters that can be meshed, each of its own making, with things of others in what we write to."""
    return {f"c{n}": draw(_cluster(n)) for n in range(1, draw(st.integers(2, largest)) + 1)}


def _comparable(facts: Mapping[str, ClusterFacts]) -> dict[str, Any]:
    """Everything that a plan can change, without the versions of objects."""
    return {
        host: [
            replace(cluster.clustermesh, resource_version="", uid=""),
            replace(cluster.kvstoremesh, resource_version="", uid=""),
            *_comparable_users(cluster),
            cluster.apiserver.host_aliases if cluster.apiserver else (),
            cluster.agent.host_aliases if cluster.agent else (),
        ]
        for host, cluster in facts.items()
    }


def _comparable_users(cluster: ClusterFacts) -> list[Any]:
    """An empty ConfigMap is as good as none: connect makes one where the pod waits for it, and disconnect leaves it for the next pod."""
    users = cluster.users
    made = users.present and made_by_bindings(users.managers, users.labels)
    if made and cluster.users_enabled and not users.users and not [key for key in users.annotations if key.startswith(USERS_ANNOTATION)]:
        return [False, "", {}]
    return [users.present, users.text, dict(users.annotations)]


def _started(facts: Mapping[str, ClusterFacts]) -> tuple[SimulatedClusters, dict[str, ClusterFacts]]:
    clusters = SimulatedClusters(facts, NOW)
    return clusters, clusters.facts()


@examples(150)
@given(any_meshes())
def test_connecting_a_second_time_changes_nothing(facts: dict[str, ClusterFacts]) -> None:
    clusters, start = _started(facts)
    mesh = mesh_of(*facts)
    first = plan_links(mesh, start, PlanOptions(), NOW)
    assert first.problems == () and len(first.links) == len(facts) * (len(facts) - 1)
    clusters.run(first)
    second = plan_links(mesh, clusters.facts(), PlanOptions(), NOW)
    assert second.steps == () and second.problems == ()


@examples(150)
@given(any_meshes())
def test_disconnecting_gives_the_clusters_back_as_they_were(facts: dict[str, ClusterFacts]) -> None:
    clusters, start = _started(facts)
    mesh = mesh_of(*facts)
    clusters.run(plan_links(mesh, start, PlanOptions(), NOW))
    clusters.run(plan_disconnect(mesh, clusters.facts(), None))
    assert _comparable(clusters.facts()) == _comparable(start)
    assert plan_disconnect(mesh, clusters.facts(), None).empty


@examples(100)
@given(any_meshes(), st.data())
def test_a_run_that_reached_only_some_clusters_is_completed_by_the_next(facts: dict[str, ClusterFacts], data: st.DataObject) -> None:
    clusters, start = _started(facts)
    mesh = mesh_of(*facts)
    reached = data.draw(st.sets(st.sampled_from(sorted(facts))))
    clusters.run(plan_links(mesh, start, PlanOptions(), NOW), only=reached)
    clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
    assert plan_links(mesh, clusters.facts(), PlanOptions(), NOW).empty


@examples(100)
@given(any_meshes(), st.data())
def test_a_dead_cluster_leaves_and_the_others_keep_their_links(facts: dict[str, ClusterFacts], data: st.DataObject) -> None:
    clusters, start = _started(facts)
    leaving = data.draw(st.sampled_from(sorted(facts)))
    staying = [host for host in facts if host != leaving]
    clusters.run(plan_links(mesh_of(*facts), start, PlanOptions(), NOW))
    answering = {host: cluster for host, cluster in clusters.facts().items() if host != leaving}
    clusters.run(plan_disconnect(mesh_of(*facts), answering, frozenset({leaving})))
    after = clusters.facts()
    for host in staying:
        for secret in (after[host].clustermesh, after[host].kvstoremesh):
            assert not [key for key in secret.keys if key.partition(".")[0] == leaving]
        assert f"remote-{leaving}" not in after[host].users.users
    rest = plan_links(mesh_of(*staying), {host: after[host] for host in staying}, PlanOptions(), NOW)
    assert not [step for step in rest.steps if step.object.startswith("Secret")]  # what the others have among themselves is untouched


@examples(75)
@given(any_meshes(), st.data())
def test_a_member_that_does_not_answer_keeps_what_was_written_for_it(facts: dict[str, ClusterFacts], data: st.DataObject) -> None:
    clusters, start = _started(facts)
    mesh = mesh_of(*facts)
    clusters.run(plan_links(mesh, start, PlanOptions(), NOW))
    silent = data.draw(st.sampled_from(sorted(facts)))
    answering = {host: cluster for host, cluster in clusters.facts().items() if host != silent}
    plan = plan_links(mesh, answering, PlanOptions(), NOW)
    assert plan.empty, [step.to_dict() for step in plan.steps]


@examples(75)
@given(any_meshes())
def test_two_meshes_that_share_a_cluster_do_not_touch_each_other(facts: dict[str, ClusterFacts]) -> None:
    third = cluster_facts("c9", version="1.18.11", endpoint_override="198.51.100.99:2379")
    clusters, start = _started({**facts, "c9": third})
    one, two = mesh_of(*facts), mesh_of("c1", "c9", name="other")
    clusters.run(plan_links(two, start, PlanOptions(), NOW))
    with_two = _comparable(clusters.facts())
    clusters.run(plan_links(one, clusters.facts(), PlanOptions(), NOW))
    assert plan_links(two, clusters.facts(), PlanOptions(), NOW).empty
    clusters.run(plan_disconnect(one, clusters.facts(), None))
    assert plan_links(two, clusters.facts(), PlanOptions(), NOW).empty
    assert _comparable(clusters.facts())["c9"] == with_two["c9"]
    clusters.run(plan_disconnect(two, clusters.facts(), None))
    assert _comparable(clusters.facts()) == _comparable(start)
