# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads come to clusters by a real Karmada: waves, rollback, refusals, lost clusters, hostile tenants, and a clean end."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import ANY

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from tests.integration.labs import KARMADA
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError, LabApi
from tests.testing.karmada_hostile import REFUSALS, Attempt, attempts, right_objects
from tests.testing.karmada_members import CLUSTERS, deployer_kubeconfig, join, operator_kubeconfig, unready
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.lab(KARMADA), pytest.mark.usefixtures("karmada_programs")]

SHOP: Final = Tenant("shop", "default")
BANK: Final = Tenant("bank", "default")
IMAGE: Final = "registry.example/web"


class FleetLab:
    """A Karmada with the clusters of the lab as members of one tenant, and the deployer with its documented rights and no others."""

    def __init__(self, lab: MeshLab, folder: Path) -> None:
        self.lab = lab
        self.karmada = LabApi.from_kubeconfig(lab.lab.karmada)
        self.deployer = deployer_kubeconfig(self.karmada, lab.lab.karmada, folder)
        operator_kubeconfig(self.karmada, lab.lab.karmada, folder)  # the other user that writes workloads
        for name in lab.names:
            labels = SHOP.labels_of(name)
            join(self.karmada, lab.lab.clusters[name], name=member_name(SHOP, name), labels=labels, region=f"eu-{name}", provider="lab")
        wait_for(lambda: unready(self.karmada), lambda names: not names, what="both members are Ready")

    def play(self, workloads: list[dict[str, Any]] | None, *arguments: str, playbook: str = "fleet", **more: Any) -> PlaybookRun:
        tenant, policies = more.pop("tenant", SHOP), more.pop("policies", [])
        fleet = {
            "workspace": tenant.workspace,
            "karmada": "karmada",
            "clusters": [{"name": name, "region": f"eu-{name}", "provider": "lab"} for name in self.lab.names],
            "fleets": [
                {"name": "all", "clusterRefs": [{"name": name} for name in self.lab.names]},
                {
                    "name": "any",
                    "selector": more.pop("selector", {"matchExpressions": [{"key": "edge-connect.eu/source-name", "operator": "Exists"}]}),
                },
            ],
            "placementPolicies": policies,
            "connected": more.pop("connected", {}),
            **({"workloads": workloads} if workloads is not None else {}),
        }
        hosts = {"karmada": {"cilium_mesh_kubeconfig": str(self.deployer)}}
        return self.lab.play(playbook, hosts=hosts, arguments=arguments, fleet=fleet, fleet_workload_wait_timeout=60, **more)

    def images(self, name: str = "web", tenant: Tenant = SHOP) -> list[str]:
        """The tag that each cluster runs, "-" for none."""
        path = f"/apis/apps/v1/namespaces/{karmada_namespace(tenant)}/deployments/{name}"
        found = [self.lab.api(cluster).get(path) for cluster in self.lab.names]
        return [entry["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2] if entry else "-" for entry in found]


@pytest.fixture(scope="module")
def fleet(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetLab]:
    yield FleetLab(module_lab, tmp_path_factory.mktemp("kubeconfigs"))


@pytest.fixture
def empty(fleet: FleetLab) -> FleetLab:
    """No workload in any cluster, whatever another test left."""
    run = fleet.play([])
    assert (run.rc, fleet.images()) == (0, ["-", "-"]), run.output
    return fleet


@pytest.fixture
def at_1(empty: FleetLab) -> FleetLab:
    """The first revision of the workload in both clusters, and nothing else."""
    run = empty.play([web("1")])
    assert (run.rc, empty.images()) == (0, ["1", "1"]), run.output
    return empty


@pytest.fixture
def at_3(fleet: FleetLab) -> FleetLab:
    """The workload with tag 3 in both clusters, whatever revision that is, and nothing else."""
    run = fleet.play([web("3")])
    assert (run.rc, fleet.images()) == (0, ["3", "3"]), run.output
    return fleet


def web(tag: str, **more: Any) -> dict[str, Any]:
    container = {"name": "web", "image": f"{IMAGE}:{tag}", "envFrom": [{"configMapRef": {"name": "conf"}}]}
    return {
        "name": "web",
        "fleetRef": {"name": "all"},
        "replicas": 2,
        "template": {"spec": {"containers": [container]}},
        "service": {"ports": [{"port": 80}]},
        "resources": [{"kind": "ConfigMap", "name": "conf", "data": {"A": "b"}}],
        **more,
    }


def status(run: PlaybookRun, name: str = "web") -> dict[str, Any]:
    assert run.mesh_result is not None, run.output
    return next(entry["status"] for entry in run.mesh_result["workloads"] if entry["name"] == name)


def codes(run: PlaybookRun) -> set[str]:
    return {entry["code"] for entry in (run.mesh_result or {})["findings"]}


@pytest.mark.usefixtures("empty")
def test_a_workload_runs_in_both_clusters_as_check_mode_says_and_a_second_run_changes_nothing(fleet: FleetLab) -> None:
    checked = fleet.play([web("1")], "--check", "--diff")
    assert (checked.rc, checked.changed, fleet.images()) == (0, True, ["-", "-"]), checked.output
    assert f"image: {IMAGE}:1" in checked.output
    approved = (checked.mesh_result or {})["plan"]["hash"]
    refused = fleet.play([web("2")], fleet_workload_hash=approved[:12])
    assert (refused.rc, fleet.images()) == (2, ["-", "-"]) and "was approved" in refused.output
    first = fleet.play([web("1")], fleet_workload_hash=approved[:12])
    assert (first.rc, first.changed, fleet.images()) == (0, True, ["1", "1"]), first.output
    assert (status(first)["phase"], status(first)["readyReplicas"]) == ("Available", 4)
    assert {row["clusterName"] for row in status(first)["placements"]} == set(fleet.lab.names)
    for name in fleet.lab.names:
        api, namespace = fleet.lab.api(name), karmada_namespace(SHOP)
        assert api.get(f"/api/v1/namespaces/{namespace}/services/web") and api.get(f"/api/v1/namespaces/{namespace}/configmaps/conf")
    again = fleet.play([web("1")])
    assert (again.rc, again.changed) == (0, False), again.output


@pytest.mark.usefixtures("at_1")
def test_more_workloads_are_more_writes_and_not_one_read_more(fleet: FleetLab) -> None:
    one = fleet.play([web("1")], "--check").requests["karmada"]
    workloads = [web("1"), *(web("1", name=f"more-{number}", resources=[]) for number in range(4))]
    created = fleet.play(workloads, fleet_workload_wait=False)
    assert created.rc == 0, created.output
    assert created.requests["karmada"] == 2 * one + 4 * 4, "a revision, a policy, a Deployment and a Service each, between two looks"
    assert fleet.play(workloads, "--check").requests["karmada"] == one
    removed = fleet.play([web("1")])
    assert (removed.rc, fleet.images()) == (0, ["1", "1"]), removed.output
    wait_for(lambda: fleet.images("more-0"), lambda found: found == ["-", "-"], what="Karmada takes the others out of the clusters")


@pytest.mark.usefixtures("at_1")
def test_a_change_goes_out_in_waves_stalls_while_a_cluster_refuses_it_and_is_rolled_back(fleet: FleetLab) -> None:
    first, second = fleet.lab.names
    waves = {"rollout": {"waves": [{"clusters": [first]}], "progressDeadlineSeconds": 10}}
    for document in refusal("2"):
        fleet.lab.api(first).create(document)
    wait_for(lambda: is_refused(fleet.lab.api(first)), bool, what="the cluster refuses the new image")
    stalled = fleet.play([web("2", **waves)])
    assert stalled.rc == 2 and fleet.images() == ["1", "1"], stalled.output
    assert (status(stalled)["rollout"]["phase"], status(stalled)["rollout"]["suspendedClusters"]) == ("Stalled", [second])
    assert {"CM-FLEET-07", "CM-FLEET-08"} <= codes(stalled)
    assert "is refused by a rule of the cluster" in str(status(stalled)) and "no second image" not in str(status(stalled))
    for path in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        fleet.lab.api(first).delete(f"/apis/admissionregistration.k8s.io/v1/{path}/no-second")
    healed = fleet.play([web("2", **waves)])
    assert (healed.rc, fleet.images(), status(healed)["phase"]) == (0, ["2", "2"], "Available"), healed.output
    back = fleet.play(
        [web("2", **waves)],
        playbook="fleet_rollout",
        fleet_workload_name="web",
        fleet_workload_operation="rollback",
        fleet_workload_operation_id="one",
        fleet_workload_to_revision=1,
    )
    assert (back.rc, fleet.images()) == (0, ["1", "1"]), back.output
    assert status(back)["lastOperation"]["result"] == "Complete" and status(back)["currentRevision"] == 3
    still = fleet.play([web("2", **waves)])
    assert (still.changed, fleet.images()) == (False, ["1", "1"]), still.output
    paused = fleet.play([web("2", **waves)], playbook="fleet_rollout", fleet_workload_name="web", fleet_workload_operation="pause")
    assert paused.rc == 0, paused.output
    held = fleet.play([web("3", **waves)])
    assert (held.rc, fleet.images(), status(held)["rollout"]["phase"]) == (0, ["1", "1"], "Paused"), held.output
    resumed = fleet.play([web("3", **waves)], playbook="fleet_rollout", fleet_workload_name="web", fleet_workload_operation="resume")
    assert (resumed.rc, fleet.images()) == (0, ["3", "3"]), resumed.output


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({"strategy": "Weighted", "weights": [{"cluster": "c1", "weight": 3}, {"cluster": "c2", "weight": 1}]}, {"c1": 6, "c2": 2}),
        ({"strategy": "Spread", "spread": {"by": "region", "min": 2}}, {"c1": ANY, "c2": ANY}),
        ({"strategy": "FixedReplicas", "requirements": [{"key": "region", "operator": "In", "values": ["eu-c2"]}]}, {"c2": 8}),
    ],
    ids=["weights", "spread", "requirement"],
)
@pytest.mark.usefixtures("at_3")
def test_replicas_go_where_the_placement_says(fleet: FleetLab, policy: dict[str, Any], wanted: dict[str, int]) -> None:
    """With a spread, replicas stay where they are if the rule is met: Karmada divides only those that come or go."""
    run = fleet.play([web("3", replicas=8, placementRef={"name": "where"})], policies=[{"name": "where", **policy}])
    assert run.rc == 0, run.output
    placed = {row["clusterName"]: row["replicas"] for row in status(run)["placements"]}
    assert placed == wanted and sum(placed.values()) == 8


@pytest.mark.full
def test_what_is_beside_a_workload_comes_to_the_cluster_that_has_room_for_the_workload(empty: FleetLab) -> None:
    """The cluster that comes first by name has no room for pods; a ConfigMap needs none."""
    lab = empty.lab
    full, roomy = sorted(lab.names, key=lambda name: member_name(SHOP, name))
    node = lab.api(full).list("/api/v1/nodes")[0]["metadata"]["name"]
    hog: dict[str, Any] = {"name": "hog", "image": f"{IMAGE}:1", "resources": {"requests": {"cpu": "900"}}}
    lab.api(full).create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hog", "namespace": "default"},
            "spec": {"nodeName": node, "containers": [hog]},
        }
    )
    summary = f"{CLUSTERS}/{member_name(SHOP, full)}"
    wait_for(
        lambda: (empty.karmada.get(summary) or {})["status"]["resourceSummary"].get("allocated", {}).get("cpu"),
        lambda cpu: str(cpu).startswith("900"),
        what="Karmada knows that the cluster is full",
    )
    policy = {"name": "one", "strategy": "Spread", "spread": {"by": "cluster", "min": 1, "max": 1}}
    workload = web("1", placementRef={"name": "one"})
    workload["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    run = empty.play([workload], policies=[policy])
    assert (run.rc, homes(empty, "apps/v1", "deployments/web")) == (0, {roomy}), run.output
    beside = ("configmaps/conf", "services/web")
    assert [homes(empty, "v1", path) for path in beside] == [{roomy}, {roomy}]
    again = empty.play([workload], policies=[policy])
    assert (again.rc, again.changed) == (0, False), again.output
    lab.api(full).delete("/api/v1/namespaces/default/pods/hog")
    everywhere = empty.play([{**workload, "placementRef": {"name": "all"}}], policies=[{"name": "all", "strategy": "FixedReplicas"}])
    assert everywhere.rc == 0, everywhere.output
    assert [homes(empty, "v1", path) for path in beside] == [{full, roomy}] * 2
    back = empty.play([workload], policies=[policy])
    assert back.rc == 0, back.output
    assert [len(homes(empty, *path)) for path in (("apps/v1", "deployments/web"), *(("v1", path) for path in beside))] == [1, 1, 1]
    assert homes(empty, "v1", beside[0]) == homes(empty, "apps/v1", "deployments/web")


def homes(fleet: FleetLab, version: str, path: str) -> set[str]:
    """The clusters that have an object of the tenant."""
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    return {name for name in fleet.lab.names if fleet.lab.api(name).get(f"{root}/namespaces/{karmada_namespace(SHOP)}/{path}") is not None}


@pytest.mark.usefixtures("at_3")
def test_a_placement_that_cannot_be_met_says_so_and_what_runs_stays(fleet: FleetLab) -> None:
    nowhere = {"name": "where", "strategy": "Spread", "requirements": [{"key": "region", "operator": "In", "values": ["us"]}]}
    run = fleet.play([web("3", replicas=8, placementRef={"name": "where"})], policies=[nowhere])
    assert run.rc == 2 and "CM-FLEET-02" in codes(run), run.output
    assert "meets the requirements of where" in run.output
    assert fleet.images() == ["3", "3"]


@pytest.mark.usefixtures("at_3")
def test_tenants_with_equal_names_share_nothing_and_none_selects_clusters_of_another(fleet: FleetLab) -> None:
    run = fleet.play([web("9", fleetRef={"name": "any"})], tenant=BANK)
    assert run.rc == 2 and fleet.images(tenant=BANK) == ["-", "-"], run.output
    assert fleet.images() == ["3", "3"]
    gone = fleet.play(None, tenant=BANK, fleet_workload_state="absent")
    assert gone.rc == 0, gone.output
    assert fleet.images() == ["3", "3"]
    assert fleet.karmada.get(f"/api/v1/namespaces/{karmada_namespace(BANK)}") is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"template": {"spec": {"hostNetwork": True, "containers": [{"name": "web", "image": "x"}]}}}, "hostNetwork"),
        ({"template": {"spec": {"containers": [{"name": "web", "image": "x", "securityContext": {"privileged": True}}]}}}, "privileged"),
        ({"resources": [{"kind": "ClusterRoleBinding", "name": "x", "spec": {}}]}, "ClusterRoleBinding"),
        (
            {"resources": [{"kind": "ConfigMap", "name": "x", "annotations": {"work.karmada.io/conflict-resolution": "overwrite"}}]},
            "karmada.io",
        ),
    ],
    ids=["host-network", "privileged", "kind", "takeover"],
)
@pytest.mark.usefixtures("at_3")
def test_a_hostile_template_is_refused_and_what_runs_stays(fleet: FleetLab, spec: dict[str, Any], said: str) -> None:
    run = fleet.play([web("3", **spec)])
    assert run.rc == 2 and "CM-FLEET-01" in codes(run) and said in run.output, run.output
    assert fleet.images() == ["3", "3"]


RBAC: Final = "rbac.authorization.k8s.io/v1"
ALL_RIGHTS: Final[dict[str, Any]] = {
    "apiVersion": RBAC,
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "a-mistake"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [
        {"kind": "ServiceAccount", "name": f"fleet-{one}", "namespace": "edge-connect-system"} for one in ("deployer", "operator")
    ],
}


@pytest.mark.parametrize("everything", [False, True], ids=["documented-rights", "all-rights"])
@pytest.mark.usefixtures("at_3")
def test_rules_of_karmada_hold_the_deployer_even_with_stolen_credentials(fleet: FleetLab, everything: bool) -> None:
    """Each hostile write is refused, by both users that write workloads, also if a role that permits all is theirs by mistake."""
    bound = f"/apis/{RBAC}/clusterrolebindings"
    if everything:
        fleet.karmada.create(ALL_RIGHTS)
    let_through = []
    try:
        for name in ("deployer", "operator"):
            user = fleet.karmada.as_user(f"system:serviceaccount:edge-connect-system:fleet-{name}")
            for path, body in right_objects(SHOP):
                user.post(f"{path}?dryRun=All", body)
            every = [one for one in attempts(SHOP, BANK) if not (one.is_join and name == "operator")]
            tried = [one for one in every if not (one.by_right and everything)]
            let_through += [f"{name}: {one.name}: {said}" for one in tried if (said := attempt(user, one, everything=everything))]
    finally:
        if everything:
            fleet.karmada.delete(f"{bound}/{ALL_RIGHTS['metadata']['name']}")
    assert len(tried) > 50 and let_through == []


def attempt(user: LabApi, tried: Attempt, *, everything: bool) -> str:
    """Try a hostile write; return what is wrong with the answer, "" if a rule refused it, or for want of rights the API server."""
    try:
        (user.patch if tried.changes else user.post)(tried.path, tried.body)
    except ApiError as error:
        by_rule = any(words in str(error) for words in REFUSALS)
        return "" if by_rule or (error.status == 403 and not everything) else str(error)
    return "it was let through"


@pytest.mark.usefixtures("at_3")
def test_a_member_refuses_a_pod_that_came_past_all_of_this(fleet: FleetLab) -> None:
    """The namespace has its Pod Security level in the members too, by Karmada."""
    container = {"name": "x", "image": "x", "securityContext": {"privileged": True}}
    spec = {"hostNetwork": True, "containers": [container]}
    for name in fleet.lab.names:
        with pytest.raises(ApiError, match="violates PodSecurity"):
            metadata = {"name": "attempt", "namespace": karmada_namespace(SHOP)}
            fleet.lab.api(name).create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.mark.usefixtures("at_3")
def test_a_policy_that_another_program_deletes_is_written_again(fleet: FleetLab) -> None:
    path = f"/apis/policy.karmada.io/v1alpha1/namespaces/{karmada_namespace(SHOP)}/propagationpolicies/web"
    fleet.karmada.delete(path)
    wait_for(lambda: fleet.karmada.get(path) is None, what="the policy is gone")
    run = fleet.play([web("3")])
    assert (run.rc, run.changed, fleet.images()) == (0, True, ["3", "3"]), run.output
    assert fleet.karmada.get(path) is not None


@pytest.mark.full
@pytest.mark.usefixtures("at_3")
def test_an_object_that_local_users_made_is_not_taken_over_and_the_workload_says_so(fleet: FleetLab) -> None:
    api, path = fleet.lab.api(fleet.lab.names[0]), f"/api/v1/namespaces/{karmada_namespace(SHOP)}/configmaps/own"
    api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": karmada_namespace(SHOP)}, "data": {"a": "x"}}
    )
    conf, own = ({"kind": "ConfigMap", "name": name, "data": {"A": "b"}} for name in ("conf", "own"))
    wish = [web("4", resources=[conf, own])]
    fleet.play(wish, fleet_workload_wait=False)
    refused = wait_for(
        lambda: fleet.play(wish, playbook="fleet_status"), lambda run: "CM-FLEET-08" in codes(run), what="the cluster refuses it", every=1
    )
    said = "ConfigMap own exists in the cluster already and was not made by the fleet; delete or rename it."
    assert said in str(status(refused)) and status(refused)["phase"] == "Degraded"
    assert (api.get(path) or {})["data"] == {"a": "x"}
    api.delete(path)
    wait_for(
        lambda: status(fleet.play(wish, playbook="fleet_status")), lambda now: now["phase"] == "Available", what="all is well", every=1
    )
    assert (api.get(path) or {})["data"] == {"A": "b"}


@pytest.mark.full
@pytest.mark.usefixtures("at_3")
def test_while_parts_of_karmada_are_dead_a_change_stalls_or_is_refused_and_goes_on_when_they_are_back(fleet: FleetLab) -> None:
    lab = fleet.lab.lab
    waves = {"rollout": {"waves": [{"clusters": [fleet.lab.names[0]]}], "progressDeadlineSeconds": 10}}
    fleet.play([web("4")])
    lab.kill_karmada("webhook")
    refused = fleet.play([web("3", **waves)], fleet_workload_wait=False)
    assert fleet.images() == ["4", "4"], refused.output
    written = next(row for row in status(refused)["conditions"] if row["type"] == "Applied")
    assert (written["reason"], status(refused)["phase"]) == ("NotWritten", "Degraded")
    assert "answered 500 (InternalError) to patch propagationpolicies" in written["message"]
    lab.revive_karmada("webhook")
    lab.kill_karmada("controller-manager")
    stalled = fleet.play([web("3", **waves)])
    assert stalled.rc == 2 and "CM-FLEET-07" in codes(stalled) and fleet.images() == ["4", "4"], stalled.output
    lab.revive_karmada("controller-manager")
    done = fleet.play([web("3", **waves)])
    assert (done.rc, fleet.images()) == (0, ["3", "3"]), done.output


@pytest.mark.usefixtures("at_3")
def test_a_workload_leaves_a_lost_cluster_and_returns(fleet: FleetLab) -> None:
    lost = fleet.lab.names[1]
    movable = {"name": "movable", "strategy": "FixedReplicas", "migration": {"auto": True, "dwellSeconds": 10}}
    workload = web("3", placementRef={"name": "movable"}, replicas=1)
    assert fleet.play([workload], policies=[movable]).rc == 0
    secret = f"/api/v1/namespaces/karmada-cluster/secrets/{member_name(SHOP, lost)}"
    token = (fleet.karmada.get(secret) or {})["data"]["token"]
    fleet.karmada.patch(secret, {"data": {"token": base64.b64encode(b"revoked").decode()}})
    wait_for(lambda: unready(fleet.karmada), lambda names: names == [member_name(SHOP, lost)], what="the cluster is not Ready")
    seen = fleet.play([workload], policies=[movable])
    assert status(seen)["phase"] == "Degraded" and "CM-FLEET-10" in codes(seen), seen.output

    def placed(run: PlaybookRun) -> list[str]:
        return [row["clusterName"] for row in status(run)["placements"]]

    moved = wait_for(
        lambda: fleet.play([workload], policies=[movable]),
        lambda run: placed(run) == [fleet.lab.names[0]],
        what="the workload leaves",
        every=2,
    )
    assert status(moved)["evictedClusters"][0]["clusterName"] == lost
    fleet.karmada.patch(secret, {"data": {"token": token}})
    wait_for(lambda: unready(fleet.karmada), lambda names: not names, what="the cluster is Ready again")
    back = wait_for(
        lambda: fleet.play([workload], policies=[movable]), lambda run: len(placed(run)) == 2, what="the workload comes back", every=2
    )
    assert back.rc in (0, 2)


def test_an_api_server_that_is_no_karmada_is_named_and_nothing_is_written(fleet: FleetLab) -> None:
    kubeconfig = fleet.lab.lab.clusters[fleet.lab.names[0]].kubeconfig
    before, fleet.deployer = fleet.deployer, Path(kubeconfig)
    run = fleet.play([web("3")])
    fleet.deployer = before
    assert run.rc == 2 and "CM-FLEET-09" in codes(run), run.output


@pytest.mark.usefixtures("at_3")
def test_workloads_that_are_removed_leave_nothing_in_karmada(fleet: FleetLab) -> None:
    run = fleet.play([])
    assert run.rc == 0, run.output
    namespace = karmada_namespace(SHOP)
    assert fleet.images() == ["-", "-"]
    assert fleet.karmada.get(f"/api/v1/namespaces/{namespace}") is None
    assert fleet.karmada.get(f"/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/{namespace}") is None
    assert len(fleet.karmada.list(CLUSTERS)) == 2
    works = fleet.karmada.list("/apis/work.karmada.io/v1alpha1/works")
    assert [work for work in works if "impersonator" not in work["metadata"]["name"]] == []


def refusal(tag: str) -> list[dict[str, Any]]:
    """A rule of a cluster that refuses Deployments with one image, and its binding."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}
            ]
        },
        "validations": [{"expression": f"!object.spec.template.spec.containers[0].image.endsWith(':{tag}')", "message": "no second image"}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-second"}}
    bound = {"policyName": "no-second", "validationActions": ["Deny"]}
    return [
        {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    ]


def is_refused(api: LabApi) -> bool:
    """Return whether the rule holds by now."""
    labels = {"app": "x"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x:2"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    probe = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe", "namespace": "default"}, "spec": spec}
    try:
        api.create(probe)
    except ApiError:
        return True
    api.delete("/apis/apps/v1/namespaces/default/deployments/probe")
    return False
