# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What stands in the Secrets, as values of the chart: rendered by the chart, they give the same links again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.helm_values import (
    CLUSTERS,
    as_json,
    assignments,
    clusters_value,
    own_files,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, HostAlias
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from tests.lab.profiles.options import HelmPeer, ProfileOptions
from tests.lab.profiles.texts import peer_config
from tests.lab.profiles.values import parse_set, with_values
from tests.testing.facts_builders import NOW, apiserver_workload, cluster_facts, key_facts, mesh_of, peer_secret
from tests.testing.link_plans import plan_links
from tests.testing.rows import in_one_test
from tests.testing.simulated_apply import SimulatedClusters

NAMES = {"ffm": "c2"}
VERSIONS = ("1.16", "1.18", "1.19", "1.20")


def holding(version: str, text: str, aliases: tuple[HostAlias, ...] = ()) -> ClusterFacts:
    entry = {"c2": key_facts(text, config=text)}
    facts = cluster_facts("c1", version=f"{version}.1")
    workload = apiserver_workload(f"{version}.1", aliases=aliases)
    return replace(facts, kvstoremesh=peer_secret("cilium-kvstoremesh", entry), apiserver=workload)


@in_one_test
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "peer", [HelmPeer(name="c2", ips=("192.0.2.2", "192.0.2.3")), HelmPeer(name="c2", address="mesh.example.com", port=4001)]
)
def test_the_charts_own_texts_come_back_as_the_values_they_were_rendered_from(version: str, peer: HelmPeer) -> None:
    options = ProfileOptions(cluster_name="c1", cluster_id=1, version=version, peers=(peer,))
    aliases = tuple(HostAlias(ip=ip, hostnames=(peer.host,)) for ip in peer.ips)
    facts = holding(version, peer_config(options, peer), aliases)
    value = clusters_value(facts, NAMES)
    enabled, rows = assignments(facts, value)
    assert enabled == "clustermesh.config.enabled=true"
    assert with_values(replace(options, peers=()), parse_set(rows)).peers == (peer,)  # --set, of helm and of the cilium CLI
    assert with_values(replace(options, peers=()), {CLUSTERS: json.loads(as_json(facts, value))}).peers == (peer,)


def test_what_connect_wrote_comes_back_too_and_its_files_are_named() -> None:
    mesh = mesh_of("c1", "c2")
    for ca, files in (("shared", ()), ("", ("c2",))):
        clusters = SimulatedClusters({host: cluster_facts(host, version="1.20.0", ca=ca) for host in mesh.clusters}, NOW)
        clusters.run(plan_links(mesh, clusters.facts(), PlanOptions(), NOW))
        c1 = clusters.facts()["c1"]
        assert clusters_value(c1, {"c2": "c2"}) == [{"name": "c2", "ips": ["192.0.2.2"], "port": 2379}]
        assert own_files(c1, {"c2": "c2"}) == files


def test_a_text_that_names_no_endpoint_gives_no_address() -> None:
    assert clusters_value(holding("1.20", "endpoints: []\n"), NAMES) == [{"name": "c2"}]
    assert clusters_value(cluster_facts("c1"), NAMES) == []
