# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""mesh_connect while the load balancer that is reserved for a cluster has no address yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ServiceFacts
from tests.testing.facts_builders import cluster_facts
from tests.unit.plugins.action.conftest import World, mesh

ELB, ELB_ID = "41fae315-2964-49c4-afde-bc6d358cd031", "kubernetes.io/elb.id"
ALL = mesh("c1", "c2", "c3")


def three(*ingress: str) -> list[ClusterFacts]:
    others = [cluster_facts(host, version="1.20.0") for host in ("c1", "c2")]
    service = ServiceFacts(type="LoadBalancer", cluster_ip="10.96.3.10", node_port=32003, ingress_ips=ingress)
    return [*others, replace(cluster_facts("c3", version="1.20.0"), service=service, elb_id=ELB)]


def test_the_others_are_connected_and_the_run_does_not_wait_for_the_one_without_an_address(make_world: Any) -> None:
    world: World = make_world(*three())
    result = world.run("mesh_connect", mesh=ALL, wait_timeout=0)
    assert "failed" not in result, result["msg"]
    assert [(f["cluster"], f["severity"]) for f in result["findings"] if f["code"] == "CM-ELB-03"] == [("c3", "remediable")]
    service = world.clusters.facts()["c3"].service
    assert service is not None and service.annotations[ELB_ID] == ELB
    assert "c3" not in world.clusters.facts()["c1"].kvstoremesh.keys
    assert "c1" in world.clusters.facts()["c3"].kvstoremesh.keys


def test_the_next_run_connects_it_when_the_address_is_there(make_world: Any) -> None:
    world: World = make_world(*three())
    world.run("mesh_connect", mesh=ALL, wait_timeout=0)
    with_address = three("192.0.2.3")[2].service
    world.clusters.change("c3", lambda cluster: replace(cluster, service=with_address))
    result = world.run("mesh_connect", mesh=ALL)
    assert result["status"]["phase"] == "Connected"
    assert {"c1", "c2"} == {step["cluster"] for step in result["plan"]["steps"] if step["object"].startswith("Secret")}
    assert world.run("mesh_connect", mesh=ALL)["changed"] is False
