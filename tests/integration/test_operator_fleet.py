# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From "I want clusters" to a workload that was rolled out, through custom resources alone: the operator's fleet side on a real Karmada."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

import pytest

from tests.integration.agent_lists import backends
from tests.integration.fleet_operator_lab import FleetOperatorLab, Shop, template
from tests.integration.labs import KARMADA_OPERATOR
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals
from tests.unit.fleet.test_translation_laws import OF_THE_NODE, hostile_workloads

pytestmark = [pytest.mark.lab(KARMADA_OPERATOR), pytest.mark.usefixtures("karmada_programs")]


@pytest.fixture(scope="module")
def fleet_lab(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetOperatorLab]:
    with ExitStack() as stack:
        yield FleetOperatorLab(stack, module_lab, tmp_path_factory.mktemp("fleet-operator"))


@pytest.fixture
def empty(fleet_lab: FleetOperatorLab) -> FleetOperatorLab:
    """No tenant with an object, whatever another test left."""
    fleet_lab.clear()
    return fleet_lab


@pytest.fixture
def shop(fleet_lab: FleetOperatorLab) -> Shop:
    """A tenant whose workload runs, with its first revision, in both clusters, and no other tenant with an object."""
    fleet_lab.clear(but="shop")
    shop = fleet_lab.shop("shop")
    if not shop.web_runs():
        with fleet_lab.operator("fleet") as operator:
            shop.start_web(operator)
    return shop


def test_a_tenant_wants_clusters_and_a_workload_and_gets_both(empty: FleetOperatorLab) -> None:
    names, shop = empty.lab.names, empty.shop("shop")
    with empty.operator("fleet") as operator:
        shop.start_web(operator)
        assert shop.images() == ["1", "1"]
        status = shop.status("FleetWorkload", "web")
        assert (status["readyReplicas"], {row["clusterName"] for row in status["placements"]}) == (4, set(names))
        operator.wait(partial(shop.phase, "Fleet", "edge"), "the fleet is ready", until=equals("Ready"))
        assert shop.status("Fleet", "edge")["matchedClusters"] == [*names]
        operator.wait(partial(shop.used_by, "everywhere"), "the policy is used", until=equals(1))
        operator.wait(partial(shop.names, "FleetWorkloadRevision"), "the revision is there to see", until=equals("web-r1"))
        operator.wait(partial(shop.names, "ClusterMetrics"), "the clusters have figures", until=equals(" ".join(names)))
        operator.wait(partial(shop.nodes, names[0]), "the nodes are counted")


def test_a_change_goes_out_in_waves_though_the_operator_is_killed_and_is_rolled_back(fleet_lab: FleetOperatorLab, shop: Shop) -> None:
    first, _second = fleet_lab.lab.names
    with fleet_lab.operator("fleet") as operator:
        operator.wait_ready()
        shop.put("FleetWorkload", "web", template=template("2"), rollout={"waves": [{"clusters": [first]}], "pauseSeconds": 3})
        operator.wait(shop.images, "the first wave has the change, the second has not", until=equals(["2", "1"]))
        operator.kill()
    with fleet_lab.operator("fleet") as operator:
        operator.wait(shop.images, "the rollout goes on where it was", until=equals(["2", "2"]))
        operator.wait(partial(shop.phase, "FleetWorkload", "web"), "the rollout is complete", until=equals("Available"))
        operator.wait(partial(shop.names, "FleetWorkloadRevision"), "both revisions are there", until=equals("web-r1 web-r2"))
        shop.put("FleetWorkload", "web", operation={"type": "Rollback", "id": "back", "toRevision": 1})
        operator.wait(shop.images, "the first revision is back", until=equals(["1", "1"]))
        done = {"type": "Rollback", "id": "back", "result": "Complete"}
        operator.wait(partial(shop.last_operation, "web"), "the operation is complete", until=equals(done))


def test_while_karmada_is_down_statuses_say_so_and_nothing_is_deleted(fleet_lab: FleetOperatorLab, shop: Shop) -> None:
    with fleet_lab.operator("fleet") as operator:
        without(fleet_lab, shop, operator, "kube-apiserver")


@pytest.mark.full
def test_without_a_part_of_karmada_statuses_say_so_and_a_change_goes_out_when_it_is_back(fleet_lab: FleetOperatorLab, shop: Shop) -> None:
    """The API server of Clusters (503), and the webhook, without which Karmada takes no policy (500)."""
    lab = fleet_lab.lab.lab
    with fleet_lab.operator("fleet") as operator:
        without(fleet_lab, shop, operator, "aggregated-apiserver")
        lab.kill_karmada("webhook")
        try:
            shop.put("FleetWorkload", "web", template=template("2"), rollout={"pauseSeconds": 0})
            unwritten = ("False", "NotWritten")
            operator.wait(partial(shop.condition, "FleetWorkload", "web", "Applied"), "the change is not taken", until=equals(unwritten))
            assert shop.images() == ["1", "1"]
        finally:
            lab.revive_karmada("webhook")
        operator.wait(shop.images, "the change goes out", until=equals(["2", "2"]))
        shop.put("FleetWorkload", "web", operation={"type": "Rollback", "id": "again", "toRevision": 1})
        operator.wait(shop.images, "and comes back", until=equals(["1", "1"]))
        operator.wait(partial(shop.phase, "FleetWorkload", "web"), "all is well again", until=equals("Available"))


def without(fleet_lab: FleetOperatorLab, shop: Shop, operator: OperatorProcess, part: str) -> None:
    """A part of Karmada dies, without which nothing can be read, and comes back."""
    lab, down = fleet_lab.lab.lab, ("False", "KarmadaUnavailable")
    operator.wait(partial(shop.phase, "FleetWorkload", "web"), "the workload runs", until=equals("Available"))
    lab.kill_karmada(part)
    try:
        for kind, name in (("FleetWorkload", "web"), ("KubernetesCluster", "c1"), ("Fleet", "edge")):
            operator.wait(partial(shop.condition, kind, name), f"{kind} {name} says that {part} is down", until=equals(down))
        assert shop.images() == ["1", "1"]
    finally:
        lab.revive_karmada(part)
    operator.wait(partial(shop.phase, "FleetWorkload", "web"), "all is well again", until=equals("Available"))
    operator.wait(partial(shop.phase, "KubernetesCluster", "c1"), "the cluster is ready again", until=equals("Ready"))


def test_a_workload_is_a_global_service_in_clusters_that_a_mesh_has_connected(fleet_lab: FleetOperatorLab, shop: Shop) -> None:
    names = fleet_lab.lab.names
    meshed = {"spread": {"by": "cluster", "min": 1, "max": 1}, "requireConnected": {"meshRef": {"name": "edge"}}}
    ports = [{"port": 80}]
    with fleet_lab.operator("all") as operator:
        shop.put("PlacementPolicy", "meshed", strategy="Spread", **meshed)
        svc = {"ports": ports, "global": True, "meshRef": {"name": "edge"}}
        shop.put("FleetWorkload", "api", fleetRef={"name": "edge"}, placementRef={"name": "meshed"}, template=template("1"), service=svc)
        waits = ("False", "NoConnectedCluster")
        operator.wait(partial(shop.condition, "FleetWorkload", "api"), "the workload waits for the mesh", until=equals(waits))
        shop.put("ClusterMeshBinding", "edge", clusterRefs=[{"name": name} for name in names])
        operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is connected", until=equals("Connected"))
        operator.wait(partial(shop.phase, "FleetWorkload", "api"), "the workload runs", until=equals("Available"))
        assert sorted(shop.images("api")) == ["-", "1"]
        operator.wait(partial(shop.phase, "GlobalService", "fleet-api"), "its Service is global", until=equals("Exported"))
        shop.delete("FleetWorkload", "api")
        operator.wait(partial(shop.names, "GlobalService"), "the GlobalService goes with its workload", until=equals(""))
        shop.delete("ClusterMeshBinding", "edge")
        operator.wait(partial(shop.names, "ClusterMeshBinding"), "the mesh is gone", until=equals(""))
        operator.wait(partial(shop.names, "FleetWorkload"), "the other workload stays", until=equals("web"))


@pytest.mark.full
def test_a_workload_leaves_a_dead_cluster_and_its_global_service_answers_from_where_it_went(
    fleet_lab: FleetOperatorLab, shop: Shop
) -> None:
    lab, names = fleet_lab.lab, fleet_lab.lab.names
    service = f"/api/v1/namespaces/{shop.namespace}/services/api"
    meshed = {"strategy": "Spread", "spread": {"by": "cluster", "min": 1, "max": 1}, "requireConnected": {"meshRef": {"name": "edge"}}}
    with fleet_lab.operator("all") as operator:
        shop.put("ClusterMeshBinding", "edge", clusterRefs=[{"name": name} for name in names])
        shop.put("PlacementPolicy", "movable", **meshed, migration={"auto": True, "dwellSeconds": 10})
        svc = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
        config = {"kind": "ConfigMap", "name": "conf", "data": {"A": "1"}}
        where = {"fleetRef": {"name": "edge"}, "placementRef": {"name": "movable"}}
        shop.put("FleetWorkload", "api", **where, replicas=2, template=template("1"), service=svc, resources=[config])
        operator.wait(partial(shop.phase, "FleetWorkload", "api"), "the workload runs", until=equals("Available"))
        operator.wait(partial(shop.phase, "GlobalService", "fleet-api"), "its Service is global", until=equals("Exported"))
        ((home, other),) = [pair for pair in ((names[0], names[1]), (names[1], names[0])) if shop.homes("api") == pair[0]]
        reached = partial(backends, lab, other, service, affinity=False)
        operator.wait(reached, f"clients in {other} reach {home}", until=equals({home: 2}))
        lab.lab.kill(home)
        lab.lab.freeze_api(home)
        try:
            operator.wait(partial(shop.homes, "api"), f"the workload moves to {other}", until=equals(other))
            operator.wait(partial(shop.phase, "FleetWorkload", "api"), "and runs there", until=equals("Available"))
            assert shop.homes("api", "evictedClusters") == home
            operator.wait(lambda: reached().get(other, 0), f"clients in {other} reach it there", until=equals(2))
            operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is not whole", until=equals("Degraded"))
        finally:
            lab.lab.thaw_api(home)
            lab.lab.restart(home)
        operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is whole again", until=equals("Connected"))
        operator.wait(partial(shop.homes, "api", "evictedClusters"), f"{home} may have it again", until=equals(""))
        operator.wait(partial(shop.phase, "FleetWorkload", "api"), "the workload runs", until=equals("Available"))
        assert shop.homes("api") == other, "it is where it is"
        for kind, name in (("FleetWorkload", "api"), ("ClusterMeshBinding", "edge"), ("PlacementPolicy", "movable")):
            shop.delete(kind, name)
        for kind in ("GlobalService", "ClusterMeshBinding"):
            operator.wait(partial(shop.names, kind), f"no {kind} is left", until=equals(""))
        operator.wait(partial(shop.phase, "FleetWorkload", "web"), "the other workload is well", until=equals("Available"))


def test_two_tenants_with_equal_names_share_nothing_and_no_cluster_is_joined_twice(fleet_lab: FleetOperatorLab, shop: Shop) -> None:
    bank = fleet_lab.shop("bank")
    taken = hostile(bank)
    with fleet_lab.operator("fleet") as operator:
        bank.put("KubernetesCluster", "c1", providerRef={"name": "kind"})
        bank.put("Fleet", "edge", clusterRefs=[{"name": "c1"}])
        bank.put("FleetWorkload", "web", fleetRef={"name": "edge"}, template=template("9"))
        operator.wait(partial(bank.planned, "c1"), "the management plane is asked for the cluster of the second tenant")
        bank.provision("c1")
        joined = ("False", "AlreadyJoined")
        operator.wait(partial(bank.condition, "KubernetesCluster", "c1", "Joined"), "the same cluster is refused", until=equals(joined))
        assert (bank.phase("KubernetesCluster", "c1"), shop.images()) == ("Error", ["1", "1"])
        assert bank.images() == ["-", "-"]
        for name in taken:  # what the API server took
            operator.wait(partial(bank.phase, "FleetWorkload", name), f"{name} is judged")
            invalid = bank.condition("FleetWorkload", name) == ("False", "InvalidSpec")
            assert invalid or not tries(bank.get("FleetWorkload", name)["spec"]), bank.get("FleetWorkload", name)
        found = [entry for path in TEMPLATES for entry in fleet_lab.karmada.list(path) if entry["metadata"]["namespace"].startswith("kcp-")]
        whose = {tenant.namespace: tenant.tenant.labels_of("web") for tenant in (shop, bank)}
        assert {entry["metadata"]["namespace"] for entry in found} == whose.keys()
        assert all(whose[entry["metadata"]["namespace"]].items() <= entry["metadata"]["labels"].items() for entry in found)
        for kind, name in (*(("FleetWorkload", name) for name in ("web", *taken)), ("Fleet", "edge"), ("KubernetesCluster", "c1")):
            bank.delete(kind, name)
        for kind in ("FleetWorkload", "Fleet", "KubernetesCluster"):
            operator.wait(partial(bank.names, kind), f"no {kind} of the second tenant is left", until=equals(""))
        operator.wait(bank.left, "nothing of the second tenant is left", until=equals(""))
        assert shop.images() == ["1", "1"]


TEMPLATES: Final = ("/apis/apps/v1/deployments", "/api/v1/configmaps", "/api/v1/services", "/api/v1/persistentvolumeclaims")
TRIED: Final = re.compile(rf"karmada\\.io|edge-connect|edge-portal|kube-system|volumeName|{'|'.join(OF_THE_NODE)}", re.IGNORECASE)


def hostile(shop: Shop) -> list[str]:
    """Have the tenant ask for every hostile workload. Returns the names of those that are taken, whole or without what is tried."""
    taken = []
    for number, spec in enumerate(hostile_workloads()):
        name = f"h{number}"
        with suppress(ApiError):
            shop.ask("FleetWorkload", name, spec)
            taken.append(name)
    return taken


def tries(spec: object) -> bool:
    """Whether anything hostile is left in a spec."""
    return TRIED.search(json.dumps(spec)) is not None


def test_all_that_is_deleted_leaves_nothing_in_karmada_the_clusters_and_the_management_plane(
    fleet_lab: FleetOperatorLab, shop: Shop
) -> None:
    names = fleet_lab.lab.names
    with fleet_lab.operator("fleet") as operator:
        for kind, name in (("FleetWorkload", "web"), *(("KubernetesCluster", name) for name in names)):
            shop.delete(kind, name)
        for kind in ("FleetWorkload", "KubernetesCluster", "FleetWorkloadRevision", "ClusterMetrics"):
            operator.wait(partial(shop.names, kind), f"no {kind} is left", until=equals(""))
        operator.wait(shop.left, "nothing is left for the tenant", until=equals(""))
        assert shop.images() == ["-", "-"]


@pytest.mark.full
@pytest.mark.usefixtures("empty")
def test_two_tenants_run_with_equal_names_and_what_one_lost_while_the_operator_was_down_is_removed(fleet_lab: FleetOperatorLab) -> None:
    first, second = fleet_lab.lab.names
    one, other = fleet_lab.shop("one"), fleet_lab.shop("other")
    with fleet_lab.operator("fleet") as operator:
        for tenant, cluster, tag in ((one, first, "1"), (other, second, "7")):
            tenant.put("KubernetesCluster", "c1", providerRef={"name": "kind"}, labels={"tier": "edge"})
            tenant.put("Fleet", "edge", selector={"matchLabels": {"tier": "edge"}})
            tenant.put("FleetWorkload", "web", fleetRef={"name": "edge"}, template=template(tag), service={"ports": [{"port": 80}]})
            operator.wait(partial(tenant.planned, "c1"), "the management plane is asked for the cluster")
            tenant.provision("c1", cluster)
        for tenant in (one, other):
            operator.wait(partial(tenant.phase, "FleetWorkload", "web"), "the workload runs", until=equals("Available"))
        assert (one.images(), other.images()) == (["1", "-"], ["-", "7"])
    for kind, name in (("FleetWorkload", "web"), ("Fleet", "edge")):
        other.vanish(kind, name)
    with fleet_lab.operator("fleet", "--orphan-grace", "2s") as operator:
        operator.wait(other.images, "what no object asks for any more is removed", until=equals(["-", "-"]))
        other.delete("KubernetesCluster", "c1")
        operator.wait(partial(other.names, "KubernetesCluster"), "the cluster leaves", until=equals(""))
        operator.wait(other.left, "nothing of the tenant is left", until=equals(""))
        operator.wait(partial(one.phase, "FleetWorkload", "web"), "the other tenant has lost nothing", until=equals("Available"))
        assert one.images() == ["1", "-"]


@pytest.mark.full
@pytest.mark.usefixtures("empty")
def test_a_cluster_that_is_deleted_is_named_by_all_that_name_it_and_all_heals_when_it_is_back(fleet_lab: FleetOperatorLab) -> None:
    first, second = names = fleet_lab.lab.names
    shop = fleet_lab.shop("named")
    missing = ("False", "ClustersMissing")
    with fleet_lab.operator("all") as operator:
        for name in names:
            shop.put("KubernetesCluster", name, providerRef={"name": "kind"})
            operator.wait(partial(shop.planned, name), "the management plane is asked for the cluster")
            shop.provision(name)
        shop.put("Fleet", "named", clusterRefs=[{"name": name} for name in names])
        shop.put("FleetWorkload", "web", fleetRef={"name": "named"}, template=template("1"))
        shop.put("ClusterMeshBinding", "edge", clusterRefs=[{"name": name} for name in names])
        operator.wait(partial(shop.phase, "FleetWorkload", "web"), "the workload runs", until=equals("Available"))
        operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is connected", until=equals("Connected"))
        shop.delete("KubernetesCluster", second)
        operator.wait(partial(shop.condition, "FleetWorkload", "web", "ClustersFound"), "the workload says so", until=equals(missing))
        assert second in shop.message("FleetWorkload", "web", "ClustersFound")
        operator.wait(partial(shop.condition, "Fleet", "named"), "the fleet says so", until=equals(missing))
        operator.wait(partial(shop.names, "KubernetesCluster"), "the cluster has left", until=equals(first))
        operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is not whole", until=equals("Degraded"))
        operator.wait(partial(shop.message, "ClusterMeshBinding", "edge", "Ready"), "and says which", until=lambda said: second in said)
        assert shop.images() == ["1", "-"]
        shop.put("KubernetesCluster", second, providerRef={"name": "kind"})
        operator.wait(partial(shop.planned, second), "the management plane is asked for the cluster again")
        shop.provision(second)
        operator.wait(shop.images, "the workload is back in it", until=equals(["1", "1"]))
        operator.wait(partial(shop.phase, "FleetWorkload", "web"), "and is whole", until=equals("Available"))
        found = ("True", "ClustersFound")
        operator.wait(partial(shop.condition, "FleetWorkload", "web", "ClustersFound"), "which it says", until=equals(found))
        operator.wait(partial(shop.phase, "ClusterMeshBinding", "edge"), "the mesh is whole again", until=equals("Connected"))
