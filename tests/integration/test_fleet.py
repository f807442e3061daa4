# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Workloads come to clusters by a real Karmada: waves, rollback, refusals, lost clusters, hostile tenants, and a clean end."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import ANY

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace, member_name
from tests.demo_fleet.evidence import left_in_cluster, left_in_karmada
from tests.integration.fleet_lab import BANK, IMAGE, SHOP, FleetLab, codes, status, web
from tests.integration.labs import KARMADA
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError, LabApi
from tests.testing.karmada_hostile import REFUSALS, Attempt, attempts, right_objects
from tests.testing.karmada_members import CLUSTERS, unready
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = [pytest.mark.lab(KARMADA), pytest.mark.usefixtures("karmada_programs")]


@pytest.fixture(scope="module")
def fleet(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetLab]:
    yield FleetLab(module_lab, tmp_path_factory.mktemp("kubeconfigs"))


@pytest.fixture
def empty(fleet: FleetLab) -> FleetLab:
    """No workload in any cluster, whatever another test left."""
    if fleet.karmada.get(f"/api/v1/namespaces/{karmada_namespace(SHOP)}") is not None:
        run = fleet.play([])
        assert run.rc == 0, run.output
    assert fleet.images() == ["-", "-"]
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


@pytest.mark.usefixtures("empty")
def test_a_workload_comes_to_two_clusters_reports_and_leaves_nothing(fleet: FleetLab) -> None:
    """What the gate shows of a real Karmada, if its programs are at hand."""
    here = fleet.play([web("1")])
    assert (here.rc, fleet.images(), status(here)["readyReplicas"]) == (0, ["1", "1"], 4), here.output
    assert {row["clusterName"]: row["health"] for row in status(here)["placements"]} == dict.fromkeys(fleet.lab.names, "Healthy")
    gone = fleet.play([])
    own = [karmada_namespace(SHOP)]

    def left() -> list[str]:
        rows = [line for name in fleet.lab.names for line in left_in_cluster(name, fleet.lab.lab.clusters[name].kubeconfig, own)]
        return rows + left_in_karmada(fleet.lab.lab.karmada, own)

    assert (gone.rc, fleet.images()) == (0, ["-", "-"]), gone.output
    kept = [
        f"Namespace {own[0]} in {name}" for name in fleet.lab.names
    ]  # until the cluster leaves: local users may have put something beside
    wait_for(left, equals(kept), what="nothing of the workload is left in Karmada and the clusters")


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
    assert created.requests["karmada"] == 2 * one + 4 * 4, "a revision, a policy, a Deployment and a Service each, between two reads"
    assert fleet.play(workloads, "--check").requests["karmada"] == one
    for number in range(4):  # Karmada 1.18 keeps a Work of what is deleted before it has come to the clusters
        wait_for(partial(fleet.images, f"more-{number}"), lambda found: found == ["1", "1"], what=f"more-{number} is in both clusters")
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
        ({"strategy": "Spread", "spread": {"by": "zone", "min": 2}}, {"c1": ANY, "c2": ANY}),
        ({"strategy": "Spread", "spread": {"by": "zone", "min": 1, "max": 1}}, {"c1": 8}),
        ({"strategy": "Spread", "spread": {"by": "provider", "min": 1, "max": 1}}, {"c1": 8}),
        ({"strategy": "FixedReplicas", "requirements": [{"key": "region", "operator": "In", "values": ["eu-c2"]}]}, {"c2": 8}),
        ({"strategy": "FixedReplicas", "requirements": [{"key": "zone", "operator": "NotIn", "values": ["zone-c1"]}]}, {"c2": 8}),
        ({"strategy": "FixedReplicas", "requirements": [{"key": "tier", "operator": "In", "values": ["tier-c2"]}]}, {"c2": 8}),
        ({"strategy": "Spread", "requirements": [{"key": "tier", "operator": "NotIn", "values": ["tier-c2"]}]}, {"c1": 8}),
    ],
    ids=["weights", "region", "zones", "one-zone", "one-provider", "of-a-region", "of-no-zone", "with-a-label", "without-a-label"],
)
@pytest.mark.usefixtures("at_3")
def test_replicas_go_where_the_placement_says(fleet: FleetLab, policy: dict[str, Any], wanted: dict[str, int]) -> None:
    """With a spread, replicas stay where they are if the rule is met: Karmada divides only those that come or go."""
    run = fleet.play([web("3", replicas=8, placementRef={"name": "where"})], policies=[{"name": "where", **policy}])
    assert run.rc == 0, run.output
    placed = {row["clusterName"]: row["replicas"] for row in status(run)["placements"]}
    assert placed == wanted and sum(placed.values()) == 8


@pytest.mark.usefixtures("empty")
def test_without_weights_a_cluster_gets_as_much_as_it_has_room_for(fleet: FleetLab) -> None:
    """Karmada reads the room for pods off the nodes. A cluster that has little left gets little."""
    first, second = fleet.lab.names
    by_room = {"name": "by-room", "strategy": "Weighted"}
    with little_room(fleet, second, "12"):
        run = fleet.play([web("1", replicas=8, placementRef={"name": "by-room"})], policies=[by_room])
    placed = {row["clusterName"]: row["replicas"] for row in status(run)["placements"]}
    assert (run.rc, sum(placed.values())) == (0, 8) and placed[first] > placed.get(second, 0), run.output


@pytest.mark.usefixtures("empty")
def test_what_is_beside_a_workload_comes_to_the_cluster_that_has_room_for_the_workload(fleet: FleetLab) -> None:
    """The cluster that comes first by name has no room for pods; a ConfigMap needs none."""
    full, roomy = sorted(fleet.lab.names, key=partial(member_name, SHOP))
    one = {"name": "one", "strategy": "Spread", "spread": {"by": "cluster", "min": 1, "max": 1}}
    workload = web("1", placementRef={"name": "one"})
    with little_room(fleet, full, "0"):
        run = fleet.play([workload], policies=[one])
        assert (run.rc, list(homes(fleet).values())) == (0, [{roomy}] * 3), run.output
        again = fleet.play([workload], policies=[one])
        assert (again.rc, again.changed) == (0, False), again.output
    everywhere = fleet.play([{**workload, "placementRef": {"name": "all"}}], policies=[{"name": "all", "strategy": "FixedReplicas"}])
    assert (everywhere.rc, list(homes(fleet).values())) == (0, [{full, roomy}] * 3), everywhere.output
    back = fleet.play([workload], policies=[one])
    assert back.rc == 0, back.output
    wait_for(lambda: [*homes(fleet).values()], lambda rows: rows in ([{full}] * 3, [{roomy}] * 3), what="all of it is in one cluster")


def homes(fleet: FleetLab) -> dict[str, set[str]]:
    """The clusters that have each object of the workload."""
    paths = {"deployments": "apis/apps/v1", "configmaps": "api/v1", "services": "api/v1"}
    names = {"deployments": "web", "configmaps": "conf", "services": "web"}
    namespace = f"namespaces/{karmada_namespace(SHOP)}"
    return {
        plural: {name for name in fleet.lab.names if fleet.lab.api(name).get(f"/{root}/{namespace}/{plural}/{names[plural]}") is not None}
        for plural, root in paths.items()
    }


@contextmanager
def little_room(fleet: FleetLab, cluster: str, pods: str) -> Iterator[None]:
    """Have room for so many pods on the node of a cluster, and Karmada know it."""
    api = fleet.lab.api(cluster)
    (node,) = api.list("/api/v1/nodes")
    path, before = f"/api/v1/nodes/{node['metadata']['name']}/status", node["status"]["allocatable"]
    api.patch(path, {"status": {"allocatable": {"pods": pods}}})
    try:
        wait_for(partial(room, fleet, cluster), equals(pods), what="Karmada knows how little room there is")
        yield
    finally:
        api.patch(path, {"status": {"allocatable": before}})
        wait_for(partial(room, fleet, cluster), equals(before["pods"]), what="Karmada knows that all the room is there again")


def room(fleet: FleetLab, cluster: str) -> str:
    """The pods for which the nodes of a cluster have room in all, as Karmada has it."""
    found = fleet.karmada.get(f"{CLUSTERS}/{member_name(SHOP, cluster)}") or {}
    return str(found["status"]["resourceSummary"]["allocatable"]["pods"])


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
    wanted = [web("4", resources=[conf, own])]
    fleet.play(wanted, fleet_workload_wait=False)
    refused = wait_for(
        lambda: fleet.play(wanted, playbook="fleet_status"), lambda run: "CM-FLEET-08" in codes(run), what="the cluster refuses it", every=1
    )
    said = "ConfigMap own exists in the cluster already and was not made by the fleet; delete or rename it."
    assert said in str(status(refused)) and status(refused)["phase"] == "Degraded"
    assert (api.get(path) or {})["data"] == {"a": "x"}
    api.delete(path)
    wait_for(
        lambda: status(fleet.play(wanted, playbook="fleet_status")), lambda now: now["phase"] == "Available", what="all is well", every=1
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

    def works() -> list[str]:
        names = [work["metadata"]["name"] for work in fleet.karmada.list("/apis/work.karmada.io/v1alpha1/works")]
        return [name for name in names if "impersonator" not in name]

    wait_for(works, lambda found: found == [], what="Karmada has removed its Works, which it does after the objects")


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
