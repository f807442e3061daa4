# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""createMissingServices: a Service for clients where there is none, and only as long as it is asked for."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from tests.testing.traffic_builders import NAMESPACE, namespace_facts, scene, service, slice_facts, traffic
from tests.unit.services.service_worlds import AFFINITY, GLOBAL, KEY, SHARED, cluster, codes, findings_of, one, run, spec, steps_of, stub_at

ASKED = spec(createMissingServices=True)


def lacking() -> Scene:
    """c2 has the namespace and no Service."""
    return scene(cluster("c1"), traffic("c2"))


def with_service(world: Scene, host: str, found: ObjectFacts | None) -> Scene:
    """``world`` with that Service nginx in ``host``, or without it."""
    others = {key: entry for key, entry in world.traffic[host].services.items() if key != KEY}
    services = others if found is None else {**others, KEY: found}
    return replace(world, traffic={**world.traffic, host: replace(world.traffic[host], services=services)})


def test_a_stub_has_the_ports_and_no_selector_and_shares_nothing() -> None:
    made = stub_at(run(lacking(), ASKED), "c2")
    assert made.spec == {
        "type": "ClusterIP",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "sessionAffinity": "None",
        "ipFamilyPolicy": "PreferDualStack",
    }
    assert {key: made.annotations[key] for key in (GLOBAL, SHARED)} == {GLOBAL: "true", SHARED: "false"}
    assert codes(lacking(), ASKED) == []


def test_without_the_option_nothing_is_made() -> None:
    assert {step.cluster for step in steps_of(lacking(), spec())} == {"c1"}


def test_also_clusters_that_are_no_targets_get_one_but_no_foreign_service_is_touched() -> None:
    world = run(scene(cluster("c1"), traffic("c2"), cluster("c3")), spec(createMissingServices=True, targetClusters=["c1"]))
    assert GLOBAL in stub_at(world, "c2").annotations
    assert stub_at(world, "c3").annotations == {}


def test_a_headless_service_gets_a_headless_stub() -> None:
    world = scene(cluster("c1", clusterIP="None"), traffic("c2"))
    assert stub_at(run(world, ASKED), "c2").spec["clusterIP"] == "None"


def test_the_stub_follows_the_ports_and_the_affinity_of_the_original() -> None:
    world = run(lacking(), spec(createMissingServices=True, affinity="Remote"))
    assert stub_at(world, "c2").annotations[AFFINITY] == "remote"
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "admin", "port": 9000, "protocol": "TCP"}]
    moved = replace(service(ports=ports), annotations=world.traffic["c1"].services[KEY].annotations)
    world = run(with_service(world, "c1", moved), ASKED)
    made = stub_at(world, "c2")
    assert [port["name"] for port in made.spec["ports"]] == ["http", "admin"]
    assert AFFINITY not in made.annotations


def test_the_stub_goes_with_the_option_and_with_the_item() -> None:
    world = run(lacking(), ASKED)
    assert codes(world, spec()) == ["CM-GS-01"], "said in the run that deletes it, not in the next one"
    assert KEY not in run(world, spec()).traffic["c2"].services
    assert KEY not in run(world).traffic["c2"].services
    assert run(world).traffic["c1"].services[KEY].annotations == {}


def test_a_service_that_a_user_deploys_is_not_ours() -> None:
    world = run(lacking(), ASKED)
    world = with_service(world, "c2", service(annotations={"team": "web"}))
    assert run(run(world, ASKED)).traffic["c2"].services[KEY].annotations == {"team": "web"}


def test_a_stub_that_a_user_gave_a_selector_is_the_users() -> None:
    world = run(lacking(), ASKED)
    stub = stub_at(world, "c2")
    world = with_service(world, "c2", replace(stub, spec={**stub.spec, "selector": {"app": "nginx"}}))
    said = one(findings_of(world, ASKED), "CM-GS-20")
    assert said.cluster == "c2"
    assert KEY in run(run(world, ASKED)).traffic["c2"].services


def test_a_stub_stays_while_its_original_is_gone_or_silent() -> None:
    world = run(lacking(), ASKED)
    gone = with_service(world, "c1", None)
    assert not [step for step in steps_of(gone, ASKED) if step.cluster == "c2"]
    assert "CM-GS-21" in codes(gone, ASKED)
    silent = replace(world, traffic={"c2": world.traffic["c2"]}, facts={"c2": world.facts["c2"]})
    assert steps_of(silent, ASKED) == []
    chosen = spec(createMissingServices=True, selector={"namespace": NAMESPACE, "labelSelector": {"app": "nginx"}})
    world = run(lacking(), chosen)
    silent = replace(world, traffic={"c2": world.traffic["c2"]}, facts={"c2": world.facts["c2"]})
    assert steps_of(silent, chosen) == []


def test_a_cluster_without_the_namespace_gets_none() -> None:
    bare = replace(traffic("c2"), namespaces={"default": namespace_facts("default")})
    assert {step.cluster for step in steps_of(scene(cluster("c1"), bare), ASKED)} == {"c1"}


def test_a_stub_stays_where_its_namespace_is_not_shown() -> None:
    """A list of namespaces that is short by one (a proxy that shows each tenant his own) takes no name away from clients."""
    world = run(lacking(), ASKED)
    short = replace(world.traffic["c2"], namespaces={"default": namespace_facts("default")})
    assert steps_of(replace(world, traffic={**world.traffic, "c2": short}), ASKED) == []


def test_one_stub_serves_two_items_and_goes_with_the_last_of_them() -> None:
    start = scene(cluster("c1"), cluster("c2"), traffic("c3"))
    both = [spec("one", createMissingServices=True, targetClusters=["c1"]), spec("two", createMissingServices=True, targetClusters=["c2"])]
    world = run(start, *both)
    assert "globalServices/one" in stub_at(world, "c3").annotations.values()
    world = run(world, both[1])
    assert "globalServices/two" in stub_at(world, "c3").annotations.values()
    assert KEY not in run(world).traffic["c3"].services


def test_an_item_with_another_name_takes_the_stub_over() -> None:
    world = run(lacking(), ASKED)
    deletions = [step for step in steps_of(world, spec("new", createMissingServices=True)) if step.verb == "delete"]
    assert deletions == []
    world = run(world, spec("new", createMissingServices=True))
    assert "globalServices/new" in stub_at(world, "c2").annotations.values()


def test_a_port_that_only_the_original_has_is_no_trouble_for_the_stub() -> None:
    world = run(scene(cluster("c1", ports=[{"port": 53, "protocol": "UDP"}]), traffic("c2", slices=(slice_facts("other"),))), ASKED)
    assert stub_at(world, "c2").spec["ports"] == [{"protocol": "UDP", "port": 53}]
