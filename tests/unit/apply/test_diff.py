# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The diff shows every step, our own keys only, and no value of a Secret."""

from __future__ import annotations

from dataclasses import replace

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.diff import diff_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import CaSecretFacts, ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, PlanOptions, Step
from tests.testing.facts_builders import NOW, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.simulated_apply import SimulatedClusters

FOREIGN = key_facts("endpoints:\n- https://foreign\n", managers=("helm",), config="endpoints:\n- https://foreign\n")


def _clusters() -> dict[str, ClusterFacts]:
    c1 = replace(cluster_facts("c1", version="1.19.5"), kvstoremesh=peer_secret("cilium-kvstoremesh", {"foreign": FOREIGN}, helm=True))
    return {"c1": c1, "c2": replace(cluster_facts("c2", version="1.19.5"), ca=CaSecretFacts()), "c3": cluster_facts("c3", version="1.19.5")}


def _by_header(entries: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    assert all(entry["before_header"] == entry["after_header"] for entry in entries)
    return {entry["before_header"]: entry for entry in entries}


def test_connecting_shows_configurations_in_clear_and_everything_else_as_digest_or_request() -> None:
    facts = _clusters()
    plan = plan_links(mesh_of(*facts), facts, PlanOptions(), NOW)
    entries = diff_plan(plan, facts)
    assert len(entries) == len(plan.steps)
    entry = _by_header(entries)["c1/kube-system/Secret/cilium-kvstoremesh"]
    data = yaml.safe_load(entry["after"])["data"]
    assert entry["before"] == "" and "foreign" not in data
    assert "https://c2.mesh.cilium.io:2379" in data["c2"]
    assert data["c2.etcd-client.key"] == f"sha256:{facts['c2'].remote_cert.digests['tls.key'][:12]}"
    assert data["c3.etcd-client.key"] == "new key for remote-c1, 365 days, issued by the CA of c3"


def test_users_and_aliases_are_shown_before_and_after() -> None:
    facts = _clusters()
    entries = _by_header(diff_plan(plan_links(mesh_of(*facts), facts, PlanOptions(), NOW), facts))
    users = entries["c1/kube-system/ConfigMap/clustermesh-remote-users"]
    assert yaml.safe_load(users["before"])["data"]["users.yaml"] == "users:\n"
    assert "- name: remote-c2" in yaml.safe_load(users["after"])["data"]["users.yaml"]
    aliases = entries["c1/kube-system/Deployment/clustermesh-apiserver"]
    assert aliases["before"] == ""
    assert {"ip": "192.0.2.2", "hostnames": ["c2.mesh.cilium.io"]} in yaml.safe_load(aliases["after"])["spec"]["template"]["spec"][
        "hostAliases"
    ]


def test_disconnecting_shows_what_goes() -> None:
    facts = _clusters()
    mesh = mesh_of(*facts)
    simulated = SimulatedClusters(facts, NOW)
    simulated.run(plan_links(mesh, simulated.facts(), PlanOptions(), NOW))
    connected = simulated.facts()
    entries = _by_header(diff_plan(plan_disconnect(mesh, connected, None), connected))
    secret = entries["c1/kube-system/Secret/cilium-kvstoremesh"]
    before = yaml.safe_load(secret["before"])["data"]
    assert set(before) >= {"c2", "c2.etcd-client.key", "c3"} and "foreign" not in before
    assert before["c3.etcd-client.key"].startswith("sha256:")
    assert secret["after"] == ""
    assert entries["c2/kube-system/Secret/cilium-kvstoremesh"]["after"] == ""  # deleted


def test_a_cluster_that_joins_changes_only_its_own_lines() -> None:
    facts = _clusters()
    simulated = SimulatedClusters(facts, NOW)
    simulated.run(plan_links(mesh_of("c1", "c2"), simulated.facts(), PlanOptions(), NOW))
    now = simulated.facts()
    entry = _by_header(diff_plan(plan_links(mesh_of(*now), now, PlanOptions(), NOW), now))["c1/kube-system/Secret/cilium-kvstoremesh"]
    before, after = yaml.safe_load(entry["before"])["data"], yaml.safe_load(entry["after"])["data"]
    assert {key: after[key] for key in before} == before
    assert {key.partition(".")[0] for key in set(after) - set(before)} == {"c3"}


def _call(path: str, body: dict[str, object], method: str = "merge") -> dict[str, str]:
    """The diff of one API call, on c1 of a connected mesh."""
    facts = _clusters()
    simulated = SimulatedClusters(facts, NOW)
    simulated.run(plan_links(mesh_of(*facts), simulated.facts(), PlanOptions(), NOW))
    action = ApiWrite(method=method, path=path, body=body)
    step = Step(wave=1, cluster="c1", verb="patch", object="x", why="x", action=action)
    (entry,) = diff_plan(Plan(manager="m", steps=(step,)), simulated.facts())
    return entry


def test_a_call_shows_what_stood_in_the_places_it_speaks_of() -> None:
    metadata = {"uid": "u", "resourceVersion": "1", "labels": {"app.kubernetes.io/managed-by": None}, "annotations": {"new": "x"}}
    entry = _call("/api/v1/namespaces/kube-system/secrets/cilium-kvstoremesh", {"metadata": metadata})
    assert yaml.safe_load(entry["before"]) == {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    assert yaml.safe_load(entry["after"]) == {"metadata": {"annotations": {"new": "x"}}}


def test_a_call_never_shows_a_value_of_a_secret() -> None:
    entry = _call("/api/v1/namespaces/kube-system/secrets/cilium-kvstoremesh", {}, method="delete")
    data = yaml.safe_load(entry["before"])["data"]
    assert data["c2.etcd-client.key"].startswith("sha256:") and entry["after"] == ""
    tls = _call("/api/v1/namespaces/kube-system/secrets/clustermesh-apiserver-server-cert", {}, method="delete")
    shown = yaml.safe_load(tls["before"])["data"]
    assert set(shown) == {"ca.crt", "tls.crt", "tls.key"} and all(value.startswith("sha256:") for value in shown.values())


def test_an_object_that_the_facts_do_not_hold_is_shown_as_it_will_be() -> None:
    entry = _call("/apis/batch/v1/namespaces/kube-system/jobs", {"kind": "Job", "metadata": {"name": "j"}}, method="create")
    assert entry["before"] == "" and yaml.safe_load(entry["after"])["metadata"] == {"name": "j"}
    unknown = _call("/apis/batch/v1/namespaces/kube-system/jobs/j", {"spec": {"suspend": True}})
    assert unknown["before"] == "" and yaml.safe_load(unknown["after"]) == {"spec": {"suspend": True}}
