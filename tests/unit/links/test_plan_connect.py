# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a plan to connect says and contains."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    ClusterFacts,
    HostAlias,
    RemoteUsersFacts,
    ServiceFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import (
    ApplyHostAliases,
    ApplySecret,
    FromSecret,
    Literal,
    Minted,
    Plan,
    PlanOptions,
    Step,
    WriteUsers,
)
from tests.testing.facts_builders import NOW, certificate, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

FILES = ("etcd-client-ca.crt", "etcd-client.crt", "etcd-client.key")


def _plan(*clusters: ClusterFacts, **options: Any) -> Plan:
    return plan_links(mesh_of(*(c.host for c in clusters)), {c.host: c for c in clusters}, PlanOptions(**options), NOW)


def _step(plan: Plan, cluster: str, suffix: str) -> Step:
    (step,) = [s for s in plan.steps if s.cluster == cluster and s.object.endswith(suffix)]
    return step


def _data(plan: Plan, cluster: str, secret: str) -> dict[str, Any]:
    action = _step(plan, cluster, secret).action
    assert isinstance(action, ApplySecret)
    return dict(action.data)


def _connected(*clusters: ClusterFacts) -> SimulatedClusters:
    simulated = SimulatedClusters({c.host: c for c in clusters}, NOW)
    simulated.run(plan_links(mesh_of(*(c.host for c in clusters)), simulated.facts(), PlanOptions(), NOW))
    return simulated


def test_leases_come_first_then_users_then_aliases_then_secrets() -> None:
    plan = _plan(cluster_facts("c1", version="1.19.5"), cluster_facts("c2", version="1.19.5"))
    registry = f"cilium-mesh-{mesh_of().binding.owner}"
    order = [(s.wave, s.cluster, s.object.rpartition("/")[2]) for s in plan.steps]
    assert order == [
        (0, "c1", registry),
        (0, "c2", registry),
        (1, "c1", "clustermesh-remote-users"),
        (1, "c2", "clustermesh-remote-users"),
        (2, "c1", "clustermesh-apiserver"),
        (2, "c1", "cilium-kvstoremesh"),
        (2, "c1", "cilium-clustermesh"),
        (2, "c2", "clustermesh-apiserver"),
        (2, "c2", "cilium-kvstoremesh"),
        (2, "c2", "cilium-clustermesh"),
    ]
    assert [len(wave) for wave in plan.waves] == [2, 2, 6]


def test_every_secret_is_written_once_however_many_peers_there_are() -> None:
    plan = _plan(*(cluster_facts(f"c{n}") for n in range(1, 6)))
    objects = [(s.cluster, s.object) for s in plan.steps]
    assert len(objects) == len(set(objects))
    assert len(_data(plan, "c1", "cilium-kvstoremesh")) == 4 * 4


def test_with_kvstoremesh_keys_of_peers_stand_in_its_secret_and_agents_go_to_their_own_etcd() -> None:
    plan = _plan(cluster_facts("c1"), cluster_facts("c2"))
    kvstoremesh, agents = _data(plan, "c1", "cilium-kvstoremesh"), _data(plan, "c1", "cilium-clustermesh")
    assert set(kvstoremesh) == {"c2", *(f"c2.{file}" for file in FILES)}
    assert set(agents) == {"c2"}
    assert yaml.safe_load(agents["c2"].text)["endpoints"] == ["https://clustermesh-apiserver.kube-system.svc:2379"]
    assert yaml.safe_load(kvstoremesh["c2"].text)["endpoints"] == ["https://c2.mesh.cilium.io:2379"]


def test_without_kvstoremesh_everything_stands_in_the_agents_secret_and_the_other_is_not_made() -> None:
    plan = _plan(cluster_facts("c1", kvstoremesh=False), cluster_facts("c2"))
    assert set(_data(plan, "c1", "cilium-clustermesh")) == {"c2", *(f"c2.{file}" for file in FILES)}
    assert not [s for s in plan.steps if s.cluster == "c1" and s.object.endswith("cilium-kvstoremesh")]
    assert _step(plan, "c1", "/cilium").object == "DaemonSet kube-system/cilium"


def test_a_plan_holds_recipes_and_no_values() -> None:
    plan = _plan(cluster_facts("c1"), replace(cluster_facts("c2"), ca=CaSecretFacts()), cluster_facts("c3"))
    data = _data(plan, "c1", "cilium-kvstoremesh")
    assert data["c3.etcd-client.crt"] == Minted("c3", "remote", 365, "certificate")
    assert data["c3.etcd-client.key"] == Minted("c3", "remote", 365, "key")
    assert data["c3.etcd-client-ca.crt"] == FromSecret("c3", "clustermesh-apiserver-server-cert", "ca.crt")
    assert data["c2.etcd-client.key"] == FromSecret("c2", "clustermesh-apiserver-remote-cert", "tls.key")


def test_clusters_of_one_ca_share_no_files() -> None:
    plan = _plan(cluster_facts("c1", ca="shared"), cluster_facts("c2", ca="shared"))
    assert set(_data(plan, "c1", "cilium-kvstoremesh")) == {"c2"}


def test_the_plan_says_for_every_pair_how_it_is_trusted_and_why() -> None:
    data = _plan(cluster_facts("c1"), cluster_facts("c2"), cluster_facts("c3")).to_dict()
    assert [(link["cluster"], link["peer"], link["trust"]) for link in data["links"]] == [
        (a, b, "minted") for a in ("c1", "c2", "c3") for b in ("c1", "c2", "c3") if a != b
    ]
    assert all("CA" in link["reason"] and link["endpoint"].startswith("https://") for link in data["links"])


def test_a_step_shows_what_it_does_what_it_disturbs_and_how_to_undo_it() -> None:
    plan = _plan(cluster_facts("c1", version="1.18.11"), cluster_facts("c2", version="1.18.11"))
    data = plan.to_dict()
    assert set(data["steps"][0]) >= {"wave", "cluster", "verb", "object", "why", "disruption", "undo"}
    restart = _step(plan, "c1", "/clustermesh-apiserver")
    assert restart.disruption.startswith("rolling restart of Deployment clustermesh-apiserver")
    assert "disconnect" in _step(plan, "c1", "cilium-kvstoremesh").undo
    assert "c2" in _step(plan, "c1", "cilium-kvstoremesh").why
    assert json.loads(json.dumps(data)) == data


def test_from_1_20_no_workload_is_touched() -> None:
    plan = _plan(cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0"))
    assert not [s for s in plan.steps if isinstance(s.action, ApplyHostAliases)]
    assert "cilium-host-aliases" in _data(plan, "c1", "cilium-kvstoremesh")["c2"].text


def test_two_peers_behind_one_address_share_an_alias() -> None:
    c1, c2, c3 = (cluster_facts(f"c{n}", endpoint_override="" if n == 1 else f"198.51.100.7:3237{n}") for n in (1, 2, 3))
    action = _step(_plan(c1, c2, c3), "c1", "/clustermesh-apiserver").action
    assert isinstance(action, ApplyHostAliases)
    assert action.aliases == {"198.51.100.7": ("c2.mesh.cilium.io", "c3.mesh.cilium.io")}


def test_a_foreign_alias_that_lacks_the_name_blocks_and_names_the_address() -> None:
    c1 = cluster_facts("c1")
    assert c1.apiserver is not None
    taken = HostAlias(ip="192.0.2.2", hostnames=("other.example",), managers=("helm",))
    plan = _plan(replace(c1, apiserver=replace(c1.apiserver, host_aliases=(taken,))), cluster_facts("c2"))
    (problem,) = plan.problems
    assert plan.blocked and problem.code == "CM-OWN-03" and "192.0.2.2" in problem.summary


def test_a_foreign_key_blocks_and_names_the_peer() -> None:
    secret = peer_secret("cilium-kvstoremesh", {"c2": key_facts("endpoints:\n- https://x\n", managers=("helm",))}, helm=True)
    plan = _plan(replace(cluster_facts("c1"), kvstoremesh=secret), cluster_facts("c2"))
    (problem,) = plan.problems
    assert problem.blocks and (problem.code, problem.cluster, problem.peer) == ("CM-OWN-02", "c1", "c2")


def test_a_foreign_object_gets_no_labels_and_a_new_one_says_whose_it_is() -> None:
    c1 = replace(cluster_facts("c1"), kvstoremesh=peer_secret("cilium-kvstoremesh", helm=True))
    mesh = mesh_of("c1", "c2", workspace="root:tenant")
    plan = plan_links(mesh, {"c1": c1, "c2": cluster_facts("c2")}, PlanOptions(), NOW)
    present, new = _step(plan, "c1", "cilium-kvstoremesh").action, _step(plan, "c1", "cilium-clustermesh").action
    assert isinstance(present, ApplySecret) and isinstance(new, ApplySecret)
    assert present.labels == {}
    assert new.labels == {
        "app.kubernetes.io/managed-by": "cilium-mesh.edge-portal.eu",
        "cilium-mesh.edge-portal.eu/owner": mesh.binding.owner,
        "edge-connect.eu/source-name": "edge-mesh-eu",
        "edge-connect.eu/source-workspace": "root-tenant",
    }


def test_users_are_added_for_every_peer_and_foreign_ones_stay() -> None:
    text = "users:\n- name: remote-c2\n  role: remote\n"
    users = RemoteUsersFacts(present=True, resource_version="5", text=text, users={"remote-c2": "remote"})
    c1 = replace(cluster_facts("c1", auth_mode="migration"), users=users)
    action = _step(_plan(c1, cluster_facts("c2"), cluster_facts("c3")), "c1", "clustermesh-remote-users").action
    assert isinstance(action, WriteUsers)
    assert action.text == text + "- name: remote-c3\n  role: remote\n"
    assert action.annotation == "remote-c3" and action.resource_version == "5"


def test_1_16_in_cluster_mode_lists_its_own_user_too() -> None:
    c1 = cluster_facts("c1", version="1.16.19", auth_mode="cluster")
    action = _step(_plan(c1, cluster_facts("c2")), "c1", "clustermesh-remote-users").action
    assert isinstance(action, WriteUsers) and action.annotation == "remote-c1,remote-c2"


def test_a_user_with_another_role_blocks() -> None:
    users = RemoteUsersFacts(
        present=True, resource_version="5", text="users:\n- name: remote-c2\n  role: root\n", users={"remote-c2": "root"}
    )
    plan = _plan(replace(cluster_facts("c1", auth_mode="cluster"), users=users), cluster_facts("c2"))
    assert [(p.code, p.cluster) for p in plan.problems] == [("CM-USER-02", "c1")] and plan.blocked


def test_a_peer_without_address_blocks_once_and_a_pair_without_trust_by_pair() -> None:
    c2 = replace(cluster_facts("c2"), service=ServiceFacts(type="LoadBalancer"))
    c3 = replace(cluster_facts("c3"), ca=CaSecretFacts())
    c3 = replace(c3, remote_cert=replace(c3.remote_cert, certificate=None))
    plan = _plan(cluster_facts("c1"), c2, c3)
    found = {(p.code, p.cluster, p.peer) for p in plan.problems}
    assert found == {("CM-EP-02", "c2", ""), ("CM-TRUST-01", "c1", "c3"), ("CM-TRUST-01", "c2", "c3")}


@pytest.mark.parametrize(("name", "code"), [("", "CM-ID-01"), ("C_1", "CM-ID-02"), ("c2", "CM-ID-04"), ("x\nendpoints:", "CM-ID-02")])
def test_a_cluster_name_that_cannot_be_a_key_blocks(name: str, code: str) -> None:
    plan = _plan(cluster_facts("c1", config={"cluster-name": name}), cluster_facts("c2"), cluster_facts("c3"))
    assert plan.blocked and (code, "c1") in {(p.code, p.cluster) for p in plan.problems}


def test_inventory_names_may_differ_from_cilium_names() -> None:
    c1, c2 = cluster_facts("c1"), replace(cluster_facts("c2"), host="edge-ber")
    plan = plan_links(mesh_of("c1", "edge-ber"), {"c1": c1, "edge-ber": c2}, PlanOptions(), NOW)
    action = _step(plan, "c1", "cilium-clustermesh").action
    assert isinstance(action, ApplySecret) and set(action.data) == {"c2"}
    assert list(action.annotations.values()) == ['{"edge-ber":"c2"}']


def test_a_renewed_server_certificate_of_the_peer_changes_nothing_and_a_new_ca_rewrites_the_link() -> None:
    start = _connected(cluster_facts("c1"), cluster_facts("c2"))
    facts, mesh = start.facts(), mesh_of("c1", "c2")
    server = facts["c2"].server_cert
    renewed = {**facts, "c2": replace(facts["c2"], server_cert=replace(server, digests={**server.digests, "tls.crt": "0" * 64}))}
    assert plan_links(mesh, renewed, PlanOptions(), NOW).empty
    other = cluster_facts("c2", ca="new CA")
    rolled = {**facts, "c2": replace(facts["c2"], ca=other.ca, server_cert=other.server_cert, remote_cert=other.remote_cert)}
    data = _data(plan_links(mesh, rolled, PlanOptions(), NOW), "c1", "cilium-kvstoremesh")
    before = facts["c1"].kvstoremesh.keys["c2"].config
    assert isinstance(data["c2.etcd-client.crt"], Minted)
    assert isinstance(data["c2"], Literal) and data["c2"].text != before and yaml.safe_load(data["c2"].text) == yaml.safe_load(before or "")


def test_a_minted_certificate_is_renewed_when_it_ends_soon_and_not_before() -> None:
    # The CA outlives the certificates by years: the cluster's CA in the chart does so by default.
    long = certificate("Cilium CA of c2", days=1095)
    c2 = cluster_facts("c2")
    c2 = replace(c2, ca=replace(c2.ca, certificates=(long,)), server_cert=replace(c2.server_cert, ca=(long,)))
    facts, mesh = _connected(cluster_facts("c1"), c2).facts(), mesh_of("c1", "c2")
    assert plan_links(mesh, facts, PlanOptions(), NOW + timedelta(days=334)).empty
    due = plan_links(mesh, facts, PlanOptions(), NOW + timedelta(days=336))
    assert isinstance(_data(due, "c1", "cilium-kvstoremesh")["c2.etcd-client.key"], Minted)


def test_a_certificate_that_ends_with_its_ca_is_not_renewed_in_every_run() -> None:
    facts, mesh = _connected(cluster_facts("c1"), cluster_facts("c2")).facts(), mesh_of("c1", "c2")
    assert plan_links(mesh, facts, PlanOptions(), NOW + timedelta(days=360)).empty


def test_switching_kvstoremesh_on_moves_the_peers_keys_and_the_aliases() -> None:
    off = _connected(cluster_facts("c1", kvstoremesh=False), cluster_facts("c2")).facts()
    on = {**off, "c1": replace(off["c1"], apiserver=cluster_facts("c1").apiserver)}
    plan = plan_links(mesh_of("c1", "c2"), on, PlanOptions(), NOW)
    assert set(_data(plan, "c1", "cilium-kvstoremesh")) == {"c2", *(f"c2.{file}" for file in FILES)}
    assert set(_data(plan, "c1", "cilium-clustermesh")) == {"c2"}
    waves = {s.object: s.wave for s in plan.steps if isinstance(s.action, ApplyHostAliases)}
    assert waves == {"Deployment kube-system/clustermesh-apiserver": 2, "DaemonSet kube-system/cilium": 3}


def test_the_hash_is_the_same_for_the_same_clusters_and_another_when_something_relied_on_changes() -> None:
    c1, c2 = cluster_facts("c1"), cluster_facts("c2")
    first = _plan(c1, c2).hash
    assert _plan(c1, replace(c2, users=replace(c2.users, resource_version="99"))).hash == first
    assert _plan(c1, replace(c2, nodes=())).hash == first  # a LoadBalancer does not rely on nodes
    assert _plan(c1, replace(c2, ca=replace(c2.ca, digest="0" * 64))).hash != first
    assert _plan(c1, replace(c2, service=ServiceFacts(type="LoadBalancer", ingress_ips=("192.0.2.99",)))).hash != first
    assert _plan(c1, c2, certificate_days=90).hash != first


@pytest.mark.parametrize(
    ("option", "value"), [("trust", "any"), ("node_addresses", "Hostname"), ("certificate_days", 0), ("renew_before_days", -1)]
)
def test_an_option_that_there_is_not_is_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=option):
        (PlanOptions if option.endswith("days") else LinkPolicy)(**{option: value})


def test_disconnecting_what_was_never_connected_is_the_empty_plan() -> None:
    facts = {"c1": cluster_facts("c1"), "c2": cluster_facts("c2", auth_mode="cluster")}
    assert plan_disconnect(mesh_of("c1", "c2"), facts, None).empty


def test_disconnecting_goes_the_other_way_round_and_says_what_ends() -> None:
    c1, c2 = (cluster_facts(f"c{n}", version="1.19.5") for n in (1, 2))
    plan = plan_disconnect(mesh_of("c1", "c2"), _connected(c1, c2).facts(), None)
    assert [s.object.rpartition("/")[2] for s in plan.steps if s.cluster == "c1"] == [
        "cilium-clustermesh",
        "cilium-kvstoremesh",
        "clustermesh-apiserver",
        "clustermesh-remote-users",
        f"cilium-mesh-{mesh_of().binding.owner}",
    ]
    assert [s.verb for s in plan.steps if s.cluster == "c1"] == ["delete", "delete", "apply", "patch", "delete"]
    assert "3 minutes" in plan.steps[0].disruption


def test_users_that_cannot_be_taken_out_are_a_problem() -> None:
    facts = _connected(*(cluster_facts(f"c{n}", auth_mode="cluster") for n in (1, 2))).facts()
    broken = replace(facts["c1"], users=replace(facts["c1"].users, users={}, problem="users.yaml is not YAML", text="["))
    plan = plan_disconnect(mesh_of("c1", "c2"), {**facts, "c1": broken}, None)
    assert [(p.code, p.cluster) for p in plan.problems] == [("CM-USER-02", "c1")]
