# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is said of a global Service that will not work, and that nothing is said of one that will."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.topology import Mode, Topology
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import SliceFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.endpoints import endpoint_counts
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import one_test
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, service, slice_facts, traffic
from tests.unit.services.service_worlds import AFFINITY, GLOBAL, KEY, SHARED, SYNC, cluster, codes, findings_of, one, run, spec, two

HTTP = {"name": "http", "port": 80, "protocol": "TCP"}


def test_nothing_is_said_of_a_service_that_works() -> None:
    assert findings_of(two(), spec(shared=True, affinity="Local")) == []
    assert findings_of(run(two(), spec()), spec()) == []


def test_a_target_without_the_service_is_named_with_what_helps() -> None:
    said = one(findings_of(scene(cluster("c1"), traffic("c2")), spec()), "CM-GS-01")
    assert said.cluster == "c2"
    assert "createMissingServices" in said.fix


def test_where_no_cluster_has_the_service_a_stub_is_not_what_helps() -> None:
    said = one(findings_of(scene(traffic("c1"), traffic("c2")), spec()), "CM-GS-01")
    assert (said.cluster, said.others) == ("c1", ("c2",))
    assert "createMissingServices" not in said.fix


def test_labels_that_no_service_has_are_named() -> None:
    wanted = spec(selector={"namespace": NAMESPACE, "labelSelector": {"matchLabels": {"tier": "shop"}}})
    assert "tier=shop" in one(findings_of(two(), wanted), "CM-GS-02").summary


def test_a_linked_cluster_outside_the_targets_that_has_no_service_cannot_use_it() -> None:
    said = one(findings_of(scene(cluster("c1"), cluster("c2"), traffic("c3")), spec(targetClusters=["c1", "c2"])), "CM-GS-06")
    assert (said.cluster, said.severity.value) == ("c3", "advisory")


def test_a_linked_cluster_whose_service_is_not_global_sees_local_backends_only() -> None:
    said = one(findings_of(two(), spec(targetClusters=["c1"])), "CM-GS-07")
    assert (said.cluster, said.severity.value) == ("c2", "advisory")


def test_a_service_without_the_labels_is_not_global_and_is_named() -> None:
    shop, other = service(labels={"tier": "shop"}), service(labels={"tier": "none"})
    wanted = spec(selector={"namespace": NAMESPACE, "labelSelector": {"tier": "shop"}})
    world = scene(
        traffic("c1", services=[shop], slices=(slice_facts(),)),
        traffic("c2", services=[other]),
    )
    said = one(findings_of(world, wanted), "CM-GS-07")
    assert (said.cluster, said.severity.value) == ("c2", "remediable")


def test_a_missing_namespace_is_named_and_not_the_missing_service_in_it() -> None:
    bare = traffic("c2", namespaces=())
    world = scene(cluster("c1"), type(bare)(host="c2", served=bare.served))
    assert codes(world, spec()) == ["CM-GS-08"]
    assert codes(world, spec(targetClusters=["c1"], createMissingServices=True)) == ["CM-GS-08"]
    assert codes(world, spec(targetClusters=["c1"])) == []


@one_test(
    "version config namespace said",
    ("1.20.1", {}, {}, False),
    ("1.20.1", {"clustermesh-default-global-namespace": "false"}, {}, True),
    ("1.20.1", {"clustermesh-default-global-namespace": "false"}, {"clustermesh.cilium.io__global": "true"}, False),
    ("1.20.1", {}, {"clustermesh.cilium.io__global": "false"}, True),
    ("1.19.5", {"clustermesh-default-global-namespace": "false"}, {}, False),
    ("1.19.5", {}, {"clustermesh.cilium.io__global": "false"}, False),
)
def test_from_1_20_a_namespace_that_is_not_global_exports_nothing(
    version: str, config: dict[str, str], namespace: dict[str, str], said: bool
) -> None:
    place = namespace_facts(**namespace)
    here = traffic("c1", services=[service()], slices=(slice_facts(),), namespaces=[place])
    world = scene(here, cluster("c2"), facts={"c1": cluster_facts("c1", version=version, config=config)})
    found = [entry for entry in findings_of(world, spec()) if entry.code == "CM-GS-09"]
    assert [entry.cluster for entry in found] == (["c1"] if said else [])


@one_test(
    "first second version apart",
    ([HTTP], [{**HTTP, "port": 8080}], "1.18.11", False),
    ([HTTP], [{**HTTP, "name": "web"}], "1.18.11", True),
    ([HTTP], [{**HTTP, "protocol": "UDP"}], "1.18.11", True),
    ([HTTP], [{"port": 80}], "1.18.11", False),
    ([HTTP], [{"port": 80}], "1.16.19", True),
    ([{"port": 80}], [{"port": 81}], "1.16.19", False),
    ([HTTP, {**HTTP, "name": "https", "port": 443}], [HTTP], "1.18.11", True),
)
def test_ports_are_matched_by_name_and_protocol(first: list[Any], second: list[Any], version: str, apart: bool) -> None:
    found = [
        e
        for e in findings_of(scene(cluster("c1", ports=first), cluster("c2", ports=second), version=version), spec())
        if e.code == "CM-GS-10"
    ]
    assert bool(found) is apart
    assert all(entry.severity.value == "remediable" and entry.evidence for entry in found)


def test_a_headless_service_needs_endpoint_sync_where_it_is_used() -> None:
    headless: dict[str, Any] = {"clusterIP": "None"}
    synced = cluster_facts("c1", config={"clustermesh-enable-endpoint-sync": "true"})
    world = scene(cluster("c1", **headless), cluster("c2", **headless), facts={"c1": synced})
    said = one(findings_of(world, spec()), "CM-GS-11")
    assert (said.cluster, said.others) == ("c2", ())
    assert "enableEndpointSliceSynchronization=true" in said.fix
    off = one(findings_of(world, spec(globalAnnotations={SYNC: "false"})), "CM-GS-11")
    assert (off.cluster, off.others) == ("c1", ("c2",))


def test_slices_that_are_asked_for_and_not_written_are_named() -> None:
    assert codes(two(), spec(globalAnnotations={SYNC: "true"})) == ["CM-GS-11"]


def test_with_kube_proxy_node_ports_reach_local_backends_only() -> None:
    facts = {"c2": cluster_facts("c2", config={"kube-proxy-replacement": "false"})}
    said = one(findings_of(scene(cluster("c1"), cluster("c2"), facts=facts), spec()), "CM-GS-12")
    assert (said.cluster, said.severity.value) == ("c2", "advisory")


def test_an_external_name_is_not_written() -> None:
    world = scene(cluster("c1"), cluster("c2", type="ExternalName"))
    assert "CM-GS-13" in codes(world, spec())
    assert GLOBAL not in run(world, spec()).traffic["c2"].services[KEY].annotations


def test_a_service_without_selector_is_pointed_out() -> None:
    assert one(findings_of(scene(cluster("c1", selector={}), cluster("c2")), spec()), "CM-GS-14").cluster == "c1"


def test_a_service_that_no_cluster_shares_is_not_exported() -> None:
    assert codes(two(), spec(shared=False)) == ["CM-GS-15"]
    only_here = scene(cluster("c1", annotations={GLOBAL: "true"}), cluster("c2"))
    assert codes(only_here, spec(shared=False, targetClusters=["c2"])) == []


def test_what_another_writer_set_to_not_shared_counts() -> None:
    world = scene(cluster("c1", annotations={SHARED: "false"}), cluster("c2", annotations={"io.cilium/shared-service": "false"}))
    assert codes(world, spec()) == ["CM-GS-15"]


def test_remote_backends_that_are_preferred_and_do_not_exist_are_named() -> None:
    world = scene(cluster("c1"), cluster("c2", ready=0))
    assert one(findings_of(world, spec(affinity="Remote")), "CM-GS-16").cluster == "c1"
    by_hand = scene(cluster("c1", annotations={AFFINITY: "remote"}), cluster("c2", ready=0))
    assert codes(by_hand, spec()) == ["CM-GS-16"]


def test_no_ready_endpoint_anywhere_is_named_with_the_numbers() -> None:
    said = one(findings_of(scene(cluster("c1", ready=0), cluster("c2", ready=0)), spec()), "CM-GS-17")
    assert said.evidence == "c1: 0 of 0 ready; c2: 0 of 0 ready"


def test_slices_that_cilium_mirrors_are_not_the_clusters_own() -> None:
    mirrored = slice_facts(ready=3, managed_by="endpointslice-mesh-controller.cilium.io", source_cluster="c2")
    assert endpoint_counts(traffic("c1", slices=(mirrored,)), KEY) == (0, 0)
    world = scene(traffic("c1", services=[service()], slices=(mirrored,)), cluster("c2", ready=0))
    assert "CM-GS-17" in codes(world, spec())


def test_a_pod_of_both_address_families_counts_once() -> None:
    other: SliceFacts = slice_facts(ready=2, unready=1)
    assert endpoint_counts(traffic("c1", slices=(slice_facts(ready=2, unready=1), other)), KEY) == (2, 3)


def test_clusters_that_are_not_linked_do_not_count() -> None:
    world = scene(cluster("c1"), cluster("c2"), traffic("c3"))
    apart = Mesh(binding=replace(world.binding, topology=Topology(mode=Mode.HUB_AND_SPOKE, hubs=("c2",))))
    wanted = spec(targetClusters=["c1"])
    assert one(findings_of(world, wanted), "CM-GS-06").cluster == "c3"
    assert "CM-GS-06" not in codes(replace(world, mesh=apart), wanted)
