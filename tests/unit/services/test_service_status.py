# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The status of a GlobalService says what is so, in the words of the CRD."""

from __future__ import annotations

from dataclasses import replace

from tests.testing.facts_builders import cluster_facts
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, service, slice_facts, traffic
from tests.unit.services.service_worlds import cluster, conditions, run, spec, status_of, two


def test_exported_everywhere() -> None:
    status = status_of(two(), spec(affinity="Local"))
    assert (status["phase"], status["exportedClusters"]) == ("Exported", ["c1", "c2"])
    assert status["endpointSummary"][0] == {
        "clusterName": "c1",
        "endpoints": 2,
        "ready": True,
        "readyEndpoints": 2,
        "backend": "Annotations",
        "agentsReady": 2,
        "agentsTotal": 2,
        "shared": True,
        "affinity": "Local",
    }
    assert status["consumers"] == [
        {"clusterName": host, "usable": True, "localReadyEndpoints": 2, "remoteReadyEndpoints": 2, "stub": False, "affinity": "Local"}
        for host in ("c1", "c2")
    ]
    assert conditions(status) == {
        "Accepted": ("True", "SpecValid"),
        "Exported": ("True", "AllClustersExported"),
        "Ready": ("True", "Exported"),
        "Degraded": ("False", "AsAsked"),
    }


def test_a_service_of_one_cluster_with_a_stub_in_the_other_is_all_that_was_asked_for() -> None:
    status = status_of(scene(cluster("c1"), traffic("c2")), spec(createMissingServices=True))
    assert (status["phase"], status["exportedClusters"]) == ("Exported", ["c1"])
    assert status["consumers"] == [
        {"clusterName": "c2", "usable": True, "localReadyEndpoints": 0, "remoteReadyEndpoints": 2, "stub": True, "affinity": "None"}
    ]


def test_a_target_without_the_service_degrades_it() -> None:
    status = status_of(scene(cluster("c1"), traffic("c2")), spec())
    assert (status["phase"], status["exportedClusters"]) == ("Degraded", ["c1"])
    assert conditions(status)["Exported"] == ("False", "SomeClustersExported")
    assert "c2: there is no Service production/nginx" in str(status["conditions"])


def test_where_no_cluster_has_it_the_phase_is_error() -> None:
    status = status_of(scene(traffic("c1"), traffic("c2")), spec())
    assert status["phase"] == "Error"
    assert conditions(status)["Exported"] == ("False", "NoClusterExported")
    assert conditions(status)["Ready"][0] == "False"


def test_a_silent_member_is_named_and_degrades() -> None:
    status = status_of(scene(cluster("c1"), cluster("c2"), members=["c3"]), spec())
    assert (status["phase"], status["exportedClusters"]) == ("Degraded", ["c1", "c2"])
    assert "c3: does not answer" in str(status["conditions"])


def test_a_write_that_failed_is_not_exported() -> None:
    status = status_of(two(), spec(), failed={"c2": "may not patch services"})
    assert (status["phase"], status["exportedClusters"]) == ("Degraded", ["c1"])
    assert "c2: may not patch services" in str(status["conditions"])


def test_zero_ready_endpoints_are_not_ready() -> None:
    world = scene(cluster("c1", ready=0), traffic("c2", services=[service()], slices=(slice_facts(ready=0, unready=3),)))
    status = status_of(world, spec())
    assert status["phase"] == "Degraded"
    assert conditions(status)["Ready"] == ("False", "NoReadyEndpoints")
    assert conditions(status)["Exported"] == ("True", "AllClustersExported")
    assert [(row["endpoints"], row["ready"]) for row in status["endpointSummary"]] == [(0, False), (3, False)]


def test_an_agent_that_is_down_and_a_load_balancer_name_are_visible() -> None:
    facts = cluster_facts("c1")
    assert facts.agent is not None
    down = replace(facts, agent=replace(facts.agent, desired=3, ready=2))
    world = scene(cluster("c1", ingress=[{"hostname": "lb.example.com"}, {"ip": "192.0.2.7"}]), cluster("c2"), facts={"c1": down})
    row = status_of(world, spec())["endpointSummary"][0]
    assert (row["agentsReady"], row["agentsTotal"]) == (2, 3)
    assert row["loadBalancer"] == ["lb.example.com", "192.0.2.7"]


def test_a_service_that_only_consumes_is_as_asked_for_and_not_exported() -> None:
    world = scene(cluster("c1", annotations={"service.cilium.io/global": "true"}), cluster("c2"))
    status = status_of(world, spec(shared=False, targetClusters=["c2"]))
    assert (status["phase"], status["exportedClusters"]) == ("Exported", [])
    assert conditions(status)["Exported"] == ("False", "NotShared")
    assert conditions(status)["Ready"] == ("True", "ConsumesOnly")


def test_before_the_write_the_export_is_under_way() -> None:
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.plan import plan_services
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.status import service_status
    from tests.unit.services.service_worlds import wanting

    world = two()
    wanted = wanting(world, spec())
    status = service_status(wanted.of(ItemKind.GLOBAL_SERVICE)[0], plan_services(wanted, world)[0], world, {})
    assert status["phase"] == "Exporting"
    assert conditions(status)["Degraded"][0] == "False"


def test_a_namespace_that_is_not_global_is_not_exported() -> None:
    place = namespace_facts(**{"clustermesh.cilium.io__global": "false"})
    here = traffic("c1", services=[service()], slices=(slice_facts(),), namespaces=[place])
    status = status_of(scene(here, cluster("c2"), version="1.20.1"), spec())
    assert (status["phase"], status["exportedClusters"]) == ("Degraded", ["c2"])
    assert "is not global" in str(status["conditions"])


def test_labels_give_a_row_per_service() -> None:
    wanted = spec(selector={"namespace": NAMESPACE, "labelSelector": {"tier": "shop"}})
    cart, desk = (service(name, labels={"tier": "shop"}) for name in ("cart", "desk"))
    world = scene(
        traffic("c1", services=[cart, desk], slices=(slice_facts("cart"), slice_facts("desk", ready=1))),
        traffic("c2", services=[cart], slices=(slice_facts("cart", ready=4),)),
        traffic("c3"),
    )
    status = status_of(world, wanted)
    assert status["phase"] == "Exported"
    assert [(row["name"], row["exportedClusters"], row["readyEndpoints"]) for row in status["services"]] == [
        ("cart", ["c1", "c2"], 6),
        ("desk", ["c1"], 1),
    ]
    assert [row["endpoints"] for row in status["endpointSummary"]] == [3, 4, 0]
    assert status_of(scene(traffic("c1"), traffic("c2")), wanted)["phase"] == "Error"


def test_the_status_does_not_change_by_a_second_run() -> None:
    assert status_of(run(two(), spec()), spec()) == status_of(two(), spec())
