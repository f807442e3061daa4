# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the fleet side: workloads that Karmada brings to clusters, and clusters that become and cease to be its members."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import TenantObject
from tests.testing.members_world import NOW, PLANES, WORKS

from .adapter import Json, still
from .fleet_adapter import NAMESPACE, TENANT, Members, Workloads, member


def web(image: str = "web:1", **fields: Any) -> Json:
    """Return a workload with one cluster per wave."""
    template = {"spec": {"containers": [{"name": "web", "image": image}]}}
    return {"name": "web", "fleetRef": {"name": "all"}, "template": template, "rollout": {"batchSize": 1}, **fields}


def fleet(*workloads: Json, **fields: Any) -> Json:
    """Return the variable ``fleet`` with three clusters, a fleet of all of them, and a policy by which workloads move."""
    moves = {"auto": True, "dwellSeconds": 60, "unhealthySeconds": 60}
    return {
        "workspace": TENANT.workspace,
        "clusters": [{"name": name, "host": name} for name in "abc"],
        "fleets": [{"name": "all", "clusterRefs": [{"name": name} for name in "abc"]}],
        "placementPolicies": [{"name": "movable", "strategy": "FixedReplicas", "migration": moves}],
        "workloads": list(workloads),
        **fields,
    }


def workloads() -> dict[str, Any]:
    """Return what runs for workloads find, plan, write and report."""
    with still():
        return {story.__name__.removeprefix("_").replace("_", " "): story() for story in _WORKLOADS}


def _a_change_and_a_rollback() -> Json:
    of = Workloads(fleet(web(service={"ports": [{"port": 80}]})))
    of.run("check", check=True)
    of.run("first")
    of.run("again")
    of.variable = fleet(web("web:2", service={"ports": [{"port": 80}]}))
    of.run("change")
    of.variable = fleet(web("web:2", operation={"type": "Rollback", "id": "back", "toRevision": 1}))
    of.run("rolled back")
    of.variable = fleet(web("web:2", operation={"type": "Restart", "id": "monday"}))
    of.run("restarted")
    of.variable = fleet(web("web:2", operation={"type": "Rollback", "id": "far", "toRevision": 9}))
    of.run("to a revision that is not there")
    of.variable = fleet()
    of.run("removed")
    return of.course


def _what_is_not_valid_or_leads_nowhere() -> Json:
    unknown = {**web(), "name": "lost", "fleetRef": {"name": "none"}}
    refused = {**web(), "name": "privileged", "template": {"spec": {"hostNetwork": True, "containers": [{"name": "x", "image": "x"}]}}}
    nowhere = {**web(), "name": "nowhere", "placementRef": {"name": "gpu"}}
    gpu = {"name": "gpu", "strategy": "FixedReplicas", "requirements": [{"key": "gpu", "operator": "Exists"}]}
    of = Workloads(fleet(web(), unknown, refused, nowhere, placementPolicies=[gpu, {"name": "wrong", "strategy": "Best"}]))
    of.run("run")
    of.variable = {**fleet(web()), "workspace": "?"}
    of.run("no tenant")
    return of.course


def _foreign_objects() -> Json:
    of = Workloads(fleet(web()))
    of.put("Deployment", "web", {"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}})
    of.run("a Deployment of the same name")
    other = Workloads(fleet(web()))
    other.put("Namespace", "", {})
    other.run("a Namespace of the same name")
    of.course |= other.course
    return of.course


def _a_stall_and_a_refusal() -> Json:
    of = Workloads(fleet(web()))
    of.run("first")
    of.karmada.broken.add("web:2")
    of.variable = fleet(web("web:2"))
    of.run("pods are not ready", wait_timeout=900)
    of.karmada.broken.clear()
    of.karmada.refusing = {member("a"): 'admission webhook "quota.example.com" denied the request: token: abc'}
    of.variable = fleet(web("web:3"))
    of.run("a cluster refuses it", wait_timeout=900)
    of.karmada.refusing = {}
    of.run("it takes it again")
    return of.course


def _no_decision_of_the_scheduler() -> Json:
    of = Workloads(fleet(web()))
    of.run("first")
    for reason in ("NoClusterFit", "Unschedulable", "SchedulerError"):
        of.karmada.unfit = reason
        of.karmada.settle()
        of.run(reason, wait_timeout=30)
    return of.course


def _lost_clusters() -> Json:
    of = Workloads(fleet(web(placementRef={"name": "movable"})))
    of.run("first")
    of.karmada.kill(member("a"))
    of.run("one is lost", wait_timeout=10)
    of.karmada.wait(61)
    of.run("it is left", wait_timeout=10)
    of.karmada.kill(member("b"))
    of.karmada.wait(61)
    of.run("a second one is lost", wait_timeout=10)
    for name in "ab":
        of.karmada.revive(member(name))
    of.karmada.wait(61)
    of.run("both are back")
    return of.course


def _what_it_names_is_gone_or_taken() -> Json:
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    of = Workloads(fleet(web(service=service), takenGlobalServices=["fleet-web"], operator="uid-1"))
    of.run("a GlobalService of the tenant's own")
    of.variable = fleet(web(rollout={"waves": [{"clusters": ["c"]}]}), clusters=[{"name": "a"}, {"name": "b"}])
    of.run("a cluster is deleted")
    of.variable = fleet(web(), clusters=[])
    of.run("all clusters are deleted")
    of.variable = fleet(web())
    of.run("all are back")
    return of.course


def _no_karmada() -> Json:
    of = Workloads(fleet(web()))
    of.world.plain = True
    of.run("an API server without Karmada's kinds")
    return of.course


def _what_is_not_wanted_does_not_go() -> Json:
    of = Workloads(fleet(web()))
    of.run("first")
    path, namespace = TenantObject("Deployment", "web").path(NAMESPACE), f"/api/v1/namespaces/{NAMESPACE}"
    of.karmada.holds = {path: "karmada.io/binding-controller", namespace: "kubernetes"}
    of.variable = fleet()
    of.karmada.kill(member("b"))
    of.run("the Deployment stays")
    del of.karmada.objects[path]
    of.run("the Namespace stays")
    return of.course


_WORKLOADS: Final[tuple[Callable[[], Json], ...]] = (
    _a_change_and_a_rollback,
    _what_is_not_valid_or_leads_nowhere,
    _foreign_objects,
    _a_stall_and_a_refusal,
    _no_decision_of_the_scheduler,
    _lost_clusters,
    _what_it_names_is_gone_or_taken,
    _what_is_not_wanted_does_not_go,
    _no_karmada,
)

ONE: Final[Json] = {"clusters": [{"name": "c1"}]}
BOTH: Final[Json] = {"clusters": [{"name": "c1", "region": "eu-de", "labels": {"tier": "edge"}}, {"name": "c2"}]}
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"


def members() -> dict[str, Any]:
    """Return what runs that make clusters members, renew their tokens and let them leave find, plan, write and report."""
    with still():
        return {story.__name__.removeprefix("_").replace("_", " "): story() for story in _MEMBERS}


def _joining_and_renewal() -> Json:
    of = Members()
    of.run("check", BOTH, check=True)
    of.run("first", BOTH)
    of.run("again", BOTH)
    of.world.now = NOW + timedelta(days=340)
    of.run("renewed", BOTH)
    of.run("the earlier tokens are in use", BOTH)
    of.world.now = NOW + timedelta(days=370)
    of.run("they have ended", BOTH)
    return of.course


def _short_tokens() -> Json:
    of = Members()
    of.world.servers["c1"].longest = timedelta(hours=24)
    of.run("first", ONE)
    of.world.now = NOW + timedelta(hours=15)
    of.run("again", ONE)
    return of.course


def _refused_clusters() -> Json:
    of = Members()
    of.run("of another tenant", {"workspace": "bank", "clusters": [{"name": "vault", "host": "c1"}]})
    of.world.karmada.put(f"{CLUSTERS}/{member('c2')}", {"metadata": {"name": member("c2")}, "spec": {}})
    of.run("a member elsewhere, and a name that is taken", BOTH)
    loopback = Members()
    server = loopback.world.servers["c1"]
    server.endpoint = server.endpoint._replace(host="127.0.0.1")
    loopback.run("an address of Karmada's own host", ONE)
    server.endpoint = server.endpoint._replace(host="c1.example.com")
    loopback.run("a right one", ONE)
    server.put("/api/v1/namespaces/kube-system", {"metadata": {"name": "kube-system"}})
    loopback.run("another cluster at the address", ONE)
    leaving = Members()
    terminating = {"name": "karmada-cluster", "deletionTimestamp": "2026-11-24T08:00:00Z"}
    leaving.world.servers["c1"].put("/api/v1/namespaces/karmada-cluster", {"metadata": terminating})
    leaving.run("its namespace is being deleted", ONE)
    leaving.world.servers["c2"].dead = True
    leaving.run("silent", {"clusters": [{"name": "c2"}]})
    return {**of.course, **loopback.course, **leaving.course}


def _a_member_that_karmada_does_not_reach() -> Json:
    of = Members()
    of.run("first", BOTH)
    of.world.karmada.objects.pop(f"/api/v1/namespaces/karmada-cluster/secrets/{member('c1')}")
    of.run("its Secret is gone", BOTH, wait_timeout=3)
    return of.course


def _leaving() -> Json:
    of = Members()
    of.run("first", BOTH)
    server, namespace = of.world.servers["c1"], f"/api/v1/namespaces/{NAMESPACE}"
    managed = {"karmada.io/managed": "true"}
    server.put(namespace, {"metadata": {"name": NAMESPACE, "labels": {**TENANT.labels, **managed}}})
    server.put(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/web", {"metadata": {"name": "web", "labels": managed}})
    server.put(f"{namespace}/configmaps/notes", {"metadata": {"name": "notes"}})
    binding = f"/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings/web-deployment"
    placed = {"resource": {"kind": "Deployment", "name": "web"}, "clusters": [{"name": member("c1")}]}
    of.world.karmada.put(binding, {"metadata": {"name": "web-deployment"}, "spec": placed})
    of.run("a workload is there", ONE, state="absent")
    del of.world.karmada.objects[binding]
    of.run("check", ONE, state="absent", check=True)
    of.run("notes of local users are there", ONE, state="absent")
    of.run("again", ONE, state="absent")
    return of.course


def _leaving_without_the_cluster() -> Json:
    of = Members()
    of.run("first", BOTH)
    for server in ("c1", "c2"):
        of.world.servers[server].dead = True
    of.run("silent", ONE, state="absent", deadline=600)
    of.world.now = NOW + timedelta(seconds=601)
    of.run("after the deadline", ONE, state="absent", deadline=600)
    work = {"metadata": {"name": "ns", "finalizers": ["karmada.io/execution-controller"]}, "spec": {"preserveResourcesOnDeletion": True}}
    of.world.karmada.put(f"{WORKS.format(member('c2'))}/ns", work)
    of.run("Karmada waits for it", {"clusters": [{"name": "c2"}]}, state="absent", deadline=0, wait_timeout=9)
    of.run("abandoned", {"clusters": [{"name": "c2"}]}, state="absent", abandon=["c2"], wait_timeout=9)
    for server in ("c1", "c2"):
        of.world.servers[server].dead = False
    of.run("both are back", BOTH, state="absent")
    return of.course


def _leaving_while_something_is_held() -> Json:
    of = Members()
    planned: Json = {"managementPlane": "plane", "clusters": [{"name": "c1", "spec": {"region": "eu-de"}}]}
    plane, server = f"{PLANES}/{member('c1')}", of.world.servers["c1"]
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/karmada-controller-manager:karmada-{member('c1')}"
    of.run("asked for", planned, wait=False)
    of.world.plane.objects[plane] |= {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Provisioned"}]}}
    of.run("first", planned)
    server.objects[role]["metadata"]["finalizers"] = ["example.com/audit"]
    of.world.plane.objects[plane]["metadata"]["finalizers"] = ["example.com/provider"]
    namespace = server.put(
        f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"name": NAMESPACE, "labels": TENANT.labels, "finalizers": ["a/b"]}}
    )
    remaining = {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining"}
    namespace["status"] = {"conditions": [remaining]}
    of.run("rights are held", planned, state="absent", wait_timeout=9)
    of.run("they still are", planned, state="absent", wait_timeout=9)
    server.dead = True
    of.run("it falls silent", planned, state="absent", wait_timeout=9)
    server.dead = False
    for path in (role, f"/api/v1/namespaces/{NAMESPACE}"):
        server.release(path)
    of.run("the management plane holds its Cluster", planned, state="absent", wait_timeout=9)
    of.world.plane.release(plane)
    of.run("nothing is left", planned, state="absent")
    return of.course


def _the_management_plane() -> Json:
    of = Members()
    planned: Json = {"managementPlane": "plane", "clusters": [{"name": "c1", "spec": {"region": "eu-de"}}]}
    of.run("asked for", planned, wait=False)
    for reason in ("CreatingNodes", "Provisioned"):
        ready = {"type": "Ready", "status": str(reason == "Provisioned"), "reason": reason}
        of.world.plane.objects[f"{PLANES}/{member('c1')}"]["status"] = {"conditions": [ready]}
        of.run(reason, planned, wait=False)
    of.run("removed", planned, state="absent")
    of.world.plane.put(f"{PLANES}/{member('c1')}", {"metadata": {"name": member("c1"), "labels": {}}, "spec": {}})
    of.run("a foreign Cluster", planned)
    made = {"edge-connect.eu/source-workspace": TENANT.workspace, "edge-connect.eu/source-name": "c1"}
    cluster = {"metadata": {"name": member("c1"), "labels": made}, "spec": {"region": "eu-nl"}}
    of.world.plane.put(f"{PLANES}/{member('c1')}", cluster)
    of.run("one of another program that differs", planned, wait=False)
    return of.course


_MEMBERS: Final[tuple[Callable[[], Json], ...]] = (
    _joining_and_renewal,
    _short_tokens,
    _refused_clusters,
    _a_member_that_karmada_does_not_reach,
    _leaving,
    _leaving_without_the_cluster,
    _leaving_while_something_is_held,
    _the_management_plane,
)
