# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the cluster and the mesh stand on is no item's to lead elsewhere, to open or to cut off. All else there is its owner's business."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemPlan, ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import ObjectFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from tests.testing.rows import in_one_test, one_test
from tests.testing.traffic_builders import namespace_facts, pod, scene, service, slice_facts, traffic

ETCD = {"k8s-app": "clustermesh-apiserver"}
AGENT = {"k8s-app": "cilium"}

OF_THE_SYSTEM = {
    "clustermesh-apiserver": service("clustermesh-apiserver", namespace="kube-system", selector=ETCD, labels=ETCD),
    "by its pods": service("mesh-door", namespace="kube-system", selector=ETCD, labels=ETCD),
    "hubble-peer": service("hubble-peer", namespace="kube-system", selector=AGENT, labels=AGENT),
    "metrics of agents": service("cilium-agent", namespace="kube-system", selector=AGENT, labels=AGENT),
    "api server": service("kubernetes", namespace="default", selector=None, labels={"component": "apiserver"}),
}
OF_OTHERS = {
    "dns": service("kube-dns", namespace="kube-system", selector={"k8s-app": "kube-dns"}),
    "hubble-ui": service("hubble-ui", namespace="kube-system", selector={"k8s-app": "hubble-ui"}),
    "of that name elsewhere": service("clustermesh-apiserver", namespace="production", selector=ETCD),
    "kubernetes elsewhere": service("kubernetes", namespace="production"),
}


def world(*services: ObjectFacts, **fields: Any) -> Scene:
    spaces = [namespace_facts(name) for name in ("default", "kube-system", "production")]
    slices = tuple(slice_facts(entry.name, namespace=entry.namespace) for entry in services)
    return scene(*(traffic(host, services=services, slices=slices, namespaces=spaces, **fields) for host in ("c1", "c2")))


def planned(at: Scene, kind: str, spec: Mapping[str, Any]) -> ItemPlan:
    return plan_items(desired_of({kind: [{"name": "x", **spec}]}, at.mesh), at).items[0]


def made_global(entry: ObjectFacts, *, by_label: bool) -> ItemPlan:
    selector = {"labelSelector": dict(entry.labels)} if by_label else {"name": entry.name}
    return planned(world(entry), "globalServices", {"selector": {"namespace": entry.namespace, **selector}, "createMissingServices": True})


@in_one_test
@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("which", OF_THE_SYSTEM)
def test_what_the_mesh_stands_on_is_not_made_global(which: str, by_label: bool) -> None:
    plan = made_global(OF_THE_SYSTEM[which], by_label=by_label)
    assert (plan.verdict, plan.steps, [finding.code for finding in plan.findings]) == (ItemVerdict.REFUSED, (), ["CM-GS-22"])


@pytest.mark.parametrize("which", OF_OTHERS)
def test_other_services_of_system_namespaces_may_be_global(which: str) -> None:
    plan = made_global(OF_OTHERS[which], by_label=False)
    assert plan.verdict is ItemVerdict.ACCEPTED and len(plan.steps) == 2


def test_it_is_refused_by_name_before_it_is_there() -> None:
    plan = planned(world(), "globalServices", {"selector": {"namespace": "kube-system", "name": "clustermesh-apiserver"}})
    assert (plan.verdict, plan.steps, [finding.code for finding in plan.findings]) == (ItemVerdict.REFUSED, (), ["CM-GS-22"])


def exposed(entry: ObjectFacts, exposure: str) -> ItemPlan:
    port = {"number": entry.spec["ports"][0]["port"]}
    spec = {"service": {"namespace": entry.namespace, "name": entry.name}, "port": port, "class": exposure, "sourceRanges": ["0.0.0.0/0"]}
    return planned(world(entry), "exposedServices", spec)


@in_one_test
@pytest.mark.parametrize("exposure", ["LoadBalancer", "NodePort"])
@pytest.mark.parametrize("which", [name for name in OF_THE_SYSTEM if name != "api server"])
def test_no_second_door_to_the_mesh_is_opened(which: str, exposure: str) -> None:
    plan = exposed(OF_THE_SYSTEM[which], exposure)
    assert (plan.verdict, plan.reason, plan.steps) == (ItemVerdict.REFUSED, "OfTheSystem", ())


def test_the_api_server_is_not_exposed() -> None:
    assert exposed(OF_THE_SYSTEM["api server"], "LoadBalancer").verdict is ItemVerdict.REFUSED


@pytest.mark.parametrize("which", OF_OTHERS)
def test_other_services_of_system_namespaces_may_be_exposed(which: str) -> None:
    plan = exposed(OF_OTHERS[which], "LoadBalancer")
    assert plan.verdict is ItemVerdict.ACCEPTED and len(plan.steps) == 2


EVERY_POD = {"allNamespaces": True, "allPods": True}
SHOP = {"namespace": "production", "selector": {"app": "shop"}}
LEFT_OUT = [{"key": "k8s-app", "operator": "NotIn", "values": ["clustermesh-apiserver"]}]


@one_test(
    "spec cuts",
    ({"action": "Isolate", "policyMode": "Clusterwide", "destination": EVERY_POD}, True),
    ({"action": "Isolate", "destination": {"namespace": "kube-system", "allPods": True}}, True),
    ({"action": "Allow", "source": SHOP, "destination": {"namespace": "kube-system", "selector": ETCD}}, True),
    ({"action": "Deny", "source": EVERY_POD, "policyMode": "Clusterwide", "destination": EVERY_POD}, True),
    ({"action": "Deny", "source": SHOP, "policyMode": "Clusterwide", "destination": EVERY_POD}, False),
    ({"action": "Deny", "source": SHOP, "destination": {"namespace": "kube-system", "selector": {"k8s-app": "kube-dns"}}}, False),
    ({"action": "Isolate", "policyMode": "Clusterwide", "destination": {"allNamespaces": True, "expressions": LEFT_OUT}}, False),
    ({"action": "Isolate", "destination": {"namespace": "production", "allPods": True}}, False),
)
def test_no_intent_cuts_the_mesh_that_carries_it(spec: dict[str, Any], cuts: bool) -> None:
    plan = planned(world(pods=(pod("shop-1", app="shop"),)), "connectivityIntents", spec)
    refusals = [finding for finding in plan.findings if finding.code == "CM-INT-18"]
    assert (plan.verdict, bool(refusals), bool(plan.steps)) == (ItemVerdict.REFUSED if cuts else ItemVerdict.ACCEPTED, cuts, not cuts)
    assert all(finding.severity is Severity.BLOCKING for finding in refusals)


def test_pods_of_the_mesh_with_further_labels_count_as_they_are() -> None:
    labels = {"k8s_app": "clustermesh-apiserver", "team": "net"}
    at = world(pods=(pod("clustermesh-apiserver-1", namespace="kube-system", **labels),))
    destination = {"namespace": "kube-system", "selector": {"team": "net"}}
    plan = planned(at, "connectivityIntents", {"action": "Isolate", "destination": destination})
    assert "CM-INT-18" in [finding.code for finding in plan.findings]
