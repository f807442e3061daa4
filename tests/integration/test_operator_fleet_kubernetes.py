# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Without kcp a namespace is the tenant: the same operator takes its clusters to a real Karmada, and its workloads to the clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.integration.fleet_operator_lab import NamespacedFleetLab, template
from tests.integration.labs import KARMADA_NAMESPACES
from tests.integration.mesh_lab import MeshLab
from tests.testing.waiting import equals

pytestmark = [pytest.mark.lab(KARMADA_NAMESPACES), pytest.mark.usefixtures("karmada_programs"), pytest.mark.full]


@pytest.fixture(scope="module")
def namespaces(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespacedFleetLab]:
    with ExitStack() as stack:
        yield NamespacedFleetLab(stack, module_lab, tmp_path_factory.mktemp("fleet-of-namespaces"))


def test_two_namespaces_with_equal_names_have_a_cluster_and_a_workload_each_and_leave_nothing(namespaces: NamespacedFleetLab) -> None:
    first, second = namespaces.lab.names
    shop, bank = namespaces.shop("shop"), namespaces.shop("bank")
    with namespaces.operator() as operator:
        for tenant, cluster, tag in ((shop, first, "1"), (bank, second, "7")):
            tenant.put("KubernetesCluster", "c1", importedKubeconfigRef={"name": "c1", "key": "kubeconfig"}, labels={"tier": "edge"})
            tenant.put("Fleet", "edge", selector={"matchLabels": {"tier": "edge"}})
            tenant.put("FleetWorkload", "web", fleetRef={"name": "edge"}, template=template(tag), service={"ports": [{"port": 80}]})
            tenant.provision("c1", cluster)
        for tenant in (shop, bank):
            operator.wait(partial(tenant.phase, "KubernetesCluster", "c1"), "the cluster is a member", until=equals("Ready"))
            operator.wait(partial(tenant.phase, "FleetWorkload", "web"), "the workload runs", until=equals("Available"))
        assert (shop.images(), bank.images()) == (["1", "-"], ["-", "7"])
        operator.wait(partial(shop.names, "FleetWorkloadRevision"), "the revision is there to see", until=equals("web-r1"))
        shop.put("FleetWorkload", "web", template=template("2"))
        operator.wait(shop.images, "a change goes out", until=equals(["2", "-"]))
        shop.put("FleetWorkload", "web", operation={"type": "Rollback", "id": "back", "toRevision": 1})
        operator.wait(shop.images, "and comes back", until=equals(["1", "-"]))
        assert bank.images() == ["-", "7"]
        for tenant in (shop, bank):
            for kind, name in (("FleetWorkload", "web"), ("Fleet", "edge"), ("KubernetesCluster", "c1")):
                tenant.delete(kind, name)
        for tenant in (shop, bank):
            for kind in ("FleetWorkload", "KubernetesCluster", "FleetWorkloadRevision", "ClusterMetrics"):
                operator.wait(partial(tenant.names, kind), f"no {kind} is left", until=equals(""))
            operator.wait(tenant.left, "nothing is left in Karmada and the clusters", until=equals(""))
