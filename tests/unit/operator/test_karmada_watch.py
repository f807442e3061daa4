# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a change in Karmada concerns, and which tenants in it have lost their custom resources."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import OPERATOR_ANNOTATION, Tenant, karmada_namespace
from mesh_operator.base.keys import CLUSTER_ANNOTATION, FleetKey
from mesh_operator.base.kinds import CLUSTER, FLEET, POLICY, WORKLOAD
from mesh_operator.base.serve import Metrics
from mesh_operator.base.settings import Settings
from mesh_operator.fleets.karmada_watch import SEARCH, FleetOrphans, KarmadaBindings, KarmadaClusters
from mesh_operator.fleets.side import FleetSide
from mesh_operator.source.store import Store

SHOP: Final = Tenant("ws1", "default")
BANK: Final = Tenant("ws2", "default")


def binding(tenant: Tenant) -> dict[str, Any]:
    return {"metadata": {"name": "web-deployment", "namespace": karmada_namespace(tenant)}}


def cluster(ready: str, **labels: str) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeSummary": {"totalNum": len(labels)}}
    return {"metadata": {"name": "m-c1", "labels": {**SHOP.labels, **labels}}, "status": status}


def test_a_binding_concerns_the_workloads_of_its_tenant_alone() -> None:
    touched: list[FleetKey] = []
    tenants = [SHOP]
    sink = KarmadaBindings(lambda: tenants, touched.append)
    sink.put(binding(SHOP))
    sink.put(binding(BANK))
    sink.put({"metadata": {"name": "x", "namespace": "kube-system"}})
    assert touched == [FleetKey("ws1", "default", WORKLOAD)]
    tenants.append(BANK)
    sink.replace([binding(BANK), binding(BANK)])
    assert touched[1:] == [FleetKey("ws2", "default", WORKLOAD)], "each tenant once"


def test_a_cluster_concerns_its_tenant_when_it_becomes_ready_or_ceases_to_be_and_not_with_each_report() -> None:
    touched: list[FleetKey] = []
    sink = KarmadaClusters(touched.append)
    both = [FleetKey("ws1", "default", CLUSTER), FleetKey("ws1", "default", WORKLOAD)]
    sink.replace([cluster("True")])
    assert touched == both
    report = cluster("True")
    report["status"]["nodeSummary"] = {"totalNum": 9}
    sink.put(report)
    assert touched == both
    sink.put(cluster("Unknown"))
    sink.missing(cluster("Unknown"))
    assert touched == both * 3
    foreign = cluster("True")
    foreign["metadata"] = {"name": "theirs"}
    sink.put(foreign)
    assert touched == both * 3


class Karmada:
    def __init__(self) -> None:
        self.namespaces: list[Tenant] = [SHOP, BANK]
        self.marks: dict[Tenant, str] = {}
        self.down = False

    def list(self, path: str, *, label_selector: str = "") -> list[dict[str, Any]]:
        assert (path, label_selector) == ("/api/v1/namespaces", "edge-connect.eu/source-workspace")
        if self.down:
            raise Unreachable("no answer", cluster="Karmada")
        mine = [
            {"metadata": {"name": karmada_namespace(tenant), "labels": tenant.labels, "annotations": self._marked(tenant)}}
            for tenant in self.namespaces
        ]
        return [*mine, {"metadata": {"name": "kcp-forged", "labels": Tenant("ws9", "default").labels}}]

    def _marked(self, tenant: Tenant) -> dict[str, str]:
        return {OPERATOR_ANNOTATION: self.marks[tenant]} if tenant in self.marks else {}


def mark() -> str:
    return "mine"


def test_a_tenant_is_an_orphan_after_the_grace_period_and_only_if_its_namespace_has_its_name() -> None:
    karmada = Karmada()
    orphans = FleetOrphans(karmada, grace=3 * SEARCH)  # type: ignore[arg-type]  # a Karmada with the methods that are used
    shop = [SHOP]
    assert orphans.search([SHOP, BANK], mark, -SEARCH) == frozenset()
    assert orphans.search(shop, mark, 0.0) == frozenset()
    assert orphans.due == SEARCH
    karmada.down = True
    assert orphans.search(shop, mark, SEARCH) is None
    karmada.down = False
    assert orphans.search(shop, mark, 2 * SEARCH) == frozenset()
    assert orphans.search(shop, mark, 3 * SEARCH) == frozenset({FleetKey("ws2", "default", WORKLOAD)})
    assert orphans.search([SHOP, BANK], mark, 4 * SEARCH) == frozenset()
    assert orphans.search(shop, mark, 5 * SEARCH) == frozenset(), "the time begins anew"


def test_a_tenant_that_this_operator_never_saw_is_left_alone() -> None:
    orphans = FleetOrphans(Karmada(), grace=0.0)  # type: ignore[arg-type]  # a Karmada with the methods that are used
    assert orphans.search([SHOP], mark, 0.0) == frozenset()
    assert orphans.search([], mark, SEARCH) == frozenset({FleetKey("ws1", "default", WORKLOAD)})


def test_a_restart_loses_no_orphan_and_takes_no_tenant_of_another_operator() -> None:
    """All custom resources of the tenants were gone before the operator began: only the marks in Karmada tell whose they are."""
    karmada = Karmada()
    other = Tenant("ws3", "default")
    karmada.namespaces.append(other)
    karmada.marks = {BANK: "mine", other: "another"}
    orphans = FleetOrphans(karmada, grace=SEARCH)  # type: ignore[arg-type]  # a Karmada with the methods that are used
    assert orphans.search([], mark, 0.0) == frozenset()
    assert orphans.search([], mark, SEARCH) == frozenset({FleetKey("ws2", "default", WORKLOAD)}), "SHOP may be that of a playbook"
    assert orphans.search([other], mark, 2 * SEARCH) == frozenset({FleetKey("ws2", "default", WORKLOAD)})
    assert orphans.search([], mark, 9 * SEARCH) == frozenset({FleetKey("ws2", "default", WORKLOAD)}), "another operator made it meanwhile"


def test_a_short_grace_period_is_not_stretched_by_the_pause_between_two_searches() -> None:
    orphans = FleetOrphans(Karmada(), grace=2.0)  # type: ignore[arg-type]  # a Karmada with the methods that are used
    orphans.search([SHOP], mark, 0.0)
    assert orphans.due == 2.0
    found = [orphans.search([], mark, now) for now in (2.0, 4.0)]
    assert found == [frozenset(), frozenset({FleetKey("ws1", "default", WORKLOAD)})]


class OwnNamespace:
    """The operator's namespace on the management plane."""

    def __init__(self, uid: str = "mine") -> None:
        self.made: list[str] = []
        self.uid = uid

    def get(self, path: str) -> dict[str, Any] | None:
        return {"metadata": {"uid": self.uid}} if path.rpartition("/")[2] in self.made else None

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        self.made.append(body["metadata"]["name"])
        return {"metadata": {"uid": self.uid}}


def side_of(karmada: Karmada, own: OwnNamespace, store: Store, touched: list[FleetKey]) -> FleetSide:
    unused: Any = None
    return FleetSide(
        settings=Settings(kcp_kubeconfig="", mgmt_kubeconfig="", node_id="n", orphan_grace=2.0),
        karmada=SimpleNamespace(own=lambda: karmada),  # type: ignore[arg-type]  # a Karmada with the methods that are used
        mgmt=own,  # type: ignore[arg-type]  # a cluster with the methods that are used
        store=store,
        clusters=unused,
        dry_runs=unused,
        runner=unused,
        writer=unused,
        api_at=unused,
        cancel=Event(),
        clusters_listed=lambda: True,
        metrics=Metrics(),
        event=unused,
        touched=lambda key, _seconds, _urgency: touched.append(key),
    )


@pytest.mark.parametrize(("kind", "is_orphan"), [(CLUSTER, True), (WORKLOAD, False), (FLEET, False), (POLICY, False)])
def test_a_tenant_that_has_clusters_alone_has_lost_its_workloads(kind: str, is_orphan: bool) -> None:
    """Its clusters could never leave: workloads that no custom resource asks for are placed in them."""
    karmada, own, touched = Karmada(), OwnNamespace(), list[FleetKey]()
    karmada.namespaces, karmada.marks = [SHOP], {SHOP: "mine"}
    store = Store(lambda *_: None, lambda: 0.0)
    metadata = {"name": "x", "namespace": SHOP.namespace, "uid": "u", "annotations": {CLUSTER_ANNOTATION: SHOP.workspace}}
    store.put("url", kind, {"metadata": metadata, "spec": {}})
    side = side_of(karmada, own, store, touched)
    for now in (0.0, 2.0, 4.0):
        side.search_orphans(now)
    assert (touched, own.made) == ([FleetKey(*SHOP, WORKLOAD)] if is_orphan else [], ["fleet-operator"])


def test_after_a_restore_no_tenant_of_before_is_an_orphan() -> None:
    """The ConfigMap of the backup has another uid then, so the mark in Karmada is another operator's. Without a ConfigMap one is made."""
    for restored in (["fleet-operator"], []):
        karmada, touched = Karmada(), list[FleetKey]()
        karmada.marks = {SHOP: "mine", BANK: "mine"}
        own = OwnNamespace(uid="restored")
        own.made += restored
        side = side_of(karmada, own, Store(lambda *_: None, lambda: 0.0), touched)
        for now in (0.0, 2.0, 4.0, 8.0):
            side.search_orphans(now)
        assert touched == [] and own.made == ["fleet-operator"]
