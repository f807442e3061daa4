# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Annotations that Cilium does not read of a global Service: an item may set one only where the cluster permits it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import MANAGED, can_be_permitted
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import record_key
from tests.testing.facts_builders import cluster_facts
from tests.testing.rows import one_test
from tests.testing.traffic_builders import NAMESPACE, scene, traffic
from tests.unit.services.service_worlds import GLOBAL, KEY, SYNC, cluster, findings_of, one, run, spec, steps_of

TEAM: Final = "example.com/team"
COST: Final = "example.com/cost-centre"

WITH_A_MEANING: Final = (
    # Cilium (pkg/annotation/k8s.go, operator/pkg/lbipam)
    *(f"service.cilium.io/{name}" for name in ("lb-algorithm", "lb-l7", "node", "node-selector", "src-ranges-policy", "type")),
    *("service.cilium.io/forwarding-mode", "service.cilium.io/proxy-delegation", "service.cilium.io/Shared", "lbipam.cilium.io/ips"),
    *("lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-ips", "io.cilium.nodeipam/match-node-labels"),
    # kube-proxy and the endpoint controllers (k8s.io/api/core/v1/annotation_key_constants.go)
    *("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/headless"),
    "endpoints.kubernetes.io/over-capacity",
    # cloud controllers and DNS
    *("service.beta.kubernetes.io/aws-load-balancer-internal", "service.beta.kubernetes.io/load-balancer-source-ranges"),
    *(
        "kubernetes.io/elb.id",
        "kubernetes.io/elb.class",
        "networking.gke.io/load-balancer-type",
        "loadbalancer.openstack.org/keep-floatingip",
    ),
    *("external-dns.alpha.kubernetes.io/hostname", "metallb.universe.tf/loadBalancerIPs"),
    # tools
    *("kubectl.kubernetes.io/last-applied-configuration", "meta.helm.sh/release-name", "argocd.argoproj.io/tracking-id"),
    TEAM,
)


def permitting(*keys: str, before: dict[str, str] | None = None) -> Scene:
    """Two linked clusters with the Service, which permit these annotations."""
    facts = {host: cluster_facts(host, allowed_annotations=keys) for host in ("c1", "c2")}
    return scene(cluster("c1", annotations=before), cluster("c2"), facts=facts)


def withdrawn(world: Scene, *keys: str) -> Scene:
    """The same clusters with these permissions alone."""
    return replace(world, facts={host: replace(facts, allowed_annotations=keys) for host, facts in world.facts.items()})


def read_annotations(world: Scene, host: str = "c1") -> dict[str, str]:
    """The annotations of the Service without the record."""
    mark = record_key(world.binding)
    return {key: value for key, value in world.traffic[host].services[KEY].annotations.items() if key != mark}


@one_test("key", *WITH_A_MEANING)
def test_an_annotation_that_no_cluster_permits_refuses_the_item(key: str) -> None:
    world, item = permitting(), spec(globalAnnotations={key: "x"})
    assert steps_of(world, item) == []
    found = one(findings_of(world, item), "CM-GS-23")
    assert found.severity is Severity.BLOCKING and key in found.summary


def test_a_permission_is_for_one_annotation_and_no_other() -> None:
    item = spec(globalAnnotations={TEAM: "Shop", COST: "7"})
    assert one(findings_of(permitting(TEAM), item), "CM-GS-23").summary.count(TEAM) == 0
    assert read_annotations(run(permitting(TEAM, COST), item)) == {GLOBAL: "true", TEAM: "Shop", COST: "7"}


def test_every_target_has_to_permit_it() -> None:
    facts = {"c1": cluster_facts("c1", allowed_annotations=(TEAM,))}
    world = scene(cluster("c1"), cluster("c2"), facts=facts)
    assert steps_of(world, spec(globalAnnotations={TEAM: "shop"})) == []
    only = spec(globalAnnotations={TEAM: "shop"}, targetClusters=["c1"])
    assert {step.cluster for step in steps_of(world, only)} == {"c1"}


def test_what_is_permitted_keeps_its_case_and_a_second_run_changes_nothing() -> None:
    world = run(permitting(TEAM, before={TEAM: "shop"}), spec(globalAnnotations={TEAM: "Shop"}))
    assert read_annotations(world)[TEAM] == "Shop"
    assert steps_of(world, spec(globalAnnotations={TEAM: "Shop"})) == []


def test_the_item_that_goes_leaves_what_stood_there() -> None:
    before = {TEAM: "platform", "other": "kept"}
    assert read_annotations(run(run(permitting(TEAM, before=before), spec(globalAnnotations={TEAM: "shop"})))) == before


def test_a_permission_that_is_withdrawn_keeps_the_service_as_it_is_until_the_item_is_corrected() -> None:
    made = run(permitting(TEAM), spec(globalAnnotations={TEAM: "shop"}))
    world = withdrawn(made)
    assert steps_of(world, spec(globalAnnotations={TEAM: "shop"})) == []
    assert read_annotations(run(world)) == {TEAM: "shop"}  # the Service is global no more; what the run may not write stays
    assert read_annotations(run(withdrawn(run(world, spec()), TEAM))) == {TEAM: "shop"}


def test_a_forged_record_restores_nothing_that_the_cluster_does_not_permit() -> None:
    world = run(permitting(), spec())
    mark = record_key(world.binding)
    values = [{"KEY": "evil", GLOBAL: None}, {"KEY": None, GLOBAL: "true"}]
    forged = json.dumps({"earlier": values[0], "item": "globalServices/nginx", "written": values[1]})
    for key in WITH_A_MEANING:
        current = world.traffic["c1"].services[KEY]
        edited = replace(current, annotations={**current.annotations, mark: forged.replace("KEY", key)})
        services = {**world.traffic["c1"].services, KEY: edited}
        attacked = replace(world, traffic={**world.traffic, "c1": replace(world.traffic["c1"], services=services)})
        assert read_annotations(run(attacked)) == {}


def test_a_service_that_is_made_for_clients_does_not_get_it() -> None:
    facts = {host: cluster_facts(host, allowed_annotations=(TEAM,)) for host in ("c1", "c2")}
    world = scene(cluster("c1"), traffic("c2"), facts=facts)
    made = run(world, spec(globalAnnotations={TEAM: "shop"}, createMissingServices=True))
    assert read_annotations(made)[TEAM] == "shop"
    assert TEAM not in made.traffic["c2"].services[(NAMESPACE, "nginx")].annotations


@pytest.mark.parametrize(
    "key", [key for key in MANAGED if "edge-portal" in key] + ["global-service.cilium-mesh.edge-portal.eu/0123456789ab"]
)
def test_the_annotations_of_this_project_cannot_be_permitted(key: str) -> None:
    assert not can_be_permitted(key)
    world, item = permitting(key), spec(globalAnnotations={key: "x"})
    assert steps_of(world, item) == []


TEXTS = st.sampled_from(["shop", "Shop", "true", "a/b:c"])
FIELDS: Any = st.fixed_dictionaries({}, optional={TEAM: TEXTS, COST: TEXTS, SYNC: st.sampled_from(["true", "false"])})


@given(before=st.dictionaries(st.sampled_from([TEAM, COST, GLOBAL]), TEXTS), asked=st.lists(FIELDS, min_size=1, max_size=3))
def test_whatever_was_asked_for_in_whatever_order_the_way_back_ends_where_it_began(
    before: dict[str, str], asked: list[dict[str, str]]
) -> None:
    world = permitting(TEAM, COST, before=before)
    for values in asked:
        world = run(world, spec(globalAnnotations=values))
        assert {key: value for key, value in read_annotations(world).items() if key in values} == values
    assert read_annotations(run(world)) == before
