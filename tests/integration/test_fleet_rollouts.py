# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rollouts of every kind of workload on a real Karmada: restarts, what comes in between, clusters that die, copies that fall ill.

Each test has a workload of its own, and its first run removes that of the test before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace, member_name
from tests.integration.api_servers import ApiServers
from tests.integration.fleet_lab import IMAGE, SHOP, FleetLab, codes, status, web
from tests.integration.labs import KARMADA_ROLLOUTS
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import ApiError
from tests.testing.karmada_members import unready
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import equals, wait_for

pytestmark = [pytest.mark.lab(KARMADA_ROLLOUTS), pytest.mark.usefixtures("karmada_programs")]

T = TypeVar("T")
NAMESPACE: Final = karmada_namespace(SHOP)
LOCAL: Final = "local"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
REVISIONS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
REPLICA_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
HELD: Final = 600  # seconds for which a wave is watched: until the spec has none
# Karmada goes on with a lost cluster after pauses that grow: a StatefulSet came to it 50 s after it was back, and its status later.
PATIENT: Final = {"fleet_workload_wait_timeout": 240}


class Desk:
    """One workload, and the runs of playbooks that change it."""

    def __init__(self, fleet: FleetLab, name: str, kind: str = "Deployment") -> None:
        self.fleet, self.name, self.kind = fleet, name, kind
        self.first, self.second = fleet.lab.names

    def workload(self, tag: str, *, pause: int = 0, **more: Any) -> dict[str, Any]:
        """The workload, whose first wave is the first cluster and watched for ``pause`` seconds."""
        needed = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": LOCAL, "key": "A"}}}
        container = {"name": "web", "image": f"{IMAGE}:{tag}", "env": [needed]}
        rollout = {"waves": [{"clusters": [self.first]}], "pauseSeconds": pause}
        made = web(tag, name=self.name, kind=self.kind, template={"spec": {"containers": [container]}}, resources=[], rollout=rollout)
        if self.kind == "DaemonSet":
            del made["replicas"]
        return {**made, **more}

    def play(self, tag: str, *, playbook: str = "fleet", variables: Mapping[str, Any] | None = None, **more: Any) -> PlaybookRun:
        policies = more.pop("policies", [])
        return self.fleet.play([self.workload(tag, **more)], playbook=playbook, policies=policies, **(variables or {}))

    def operate(self, operation: str, number: str, tag: str, *, wait: bool = True, **more: Any) -> PlaybookRun:
        named = {f"fleet_workload_{option}": more.pop(option) for option in ("to_revision", "cluster") if option in more}
        asked = {"fleet_workload_name": self.name, "fleet_workload_operation": operation, "fleet_workload_operation_id": number, **named}
        return self.play(tag, playbook="fleet_rollout", variables={**asked, "fleet_workload_wait": wait}, **more)

    def deploy(self, tag: str, **more: Any) -> PlaybookRun:
        """The workload in both clusters, whole."""
        run = self.play(tag, variables=PATIENT, **more)
        assert (run.rc, self.images(), self.status(run)["phase"]) == (0, [tag, tag], "Available"), run.output
        return run

    def hold(self, tag: str) -> PlaybookRun:
        """A change in the first wave, which is done and watched."""
        run = self.watched(partial(self.play, tag, pause=HELD, variables={"fleet_workload_wait": False}))
        assert self.images()[0] == tag, run.output
        return run

    def watched(self, play: Callable[[], PlaybookRun]) -> PlaybookRun:
        """Run until the first wave is done."""
        return self.until(play, self.said, lambda said: "is done" in said, "the first wave is done")

    def until(
        self, play: Callable[[], PlaybookRun], part: Callable[[PlaybookRun], T], holds: Callable[[T], bool], what: str
    ) -> PlaybookRun:
        """Run until a part of the run holds, which is little enough for `wait_for` to see whether it changes; return the last run."""
        runs: list[PlaybookRun] = []

        def seen() -> T:
            runs[:] = [play()]
            return part(*runs)

        wait_for(seen, holds, what=what, every=0.5)
        return runs[0]

    def said(self, run: PlaybookRun) -> str:
        """What the status says of the rollout."""
        return str(self.status(run)["rollout"]["message"])

    def images(self) -> list[str]:
        return self.fleet.images(self.name, kind=self.kind)

    def status(self, run: PlaybookRun) -> dict[str, Any]:
        return status(run, self.name)

    def phase(self, run: PlaybookRun) -> str:
        return str(self.status(run)["phase"])

    def becomes_whole(self, tag: str) -> None:
        """See to it without a write that the workload becomes so."""
        self.until(partial(self.play, tag, playbook="fleet_status"), self.phase, equals("Available"), "the workload is whole")

    def rows(self, run: PlaybookRun) -> dict[str, dict[str, Any]]:
        return {row["clusterName"]: row for row in self.status(run)["placements"]}

    def pods(self, cluster: str) -> dict[str, str]:
        """Uids of the workload's pods in a cluster that are not ending -> the tag that each runs."""
        found = [pod for pod in self.fleet.lab.api(cluster).list(PODS) if pod["metadata"]["name"].startswith(f"{self.name}-")]
        return {
            pod["metadata"]["uid"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2]
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    def fall_ill(self, cluster: str) -> None:
        """Have no pod of the workload start in a cluster any more."""
        api = self.fleet.lab.api(cluster)
        api.delete(f"{CONFIG_MAPS}/{LOCAL}")
        for pod in api.list(PODS):
            if pod["metadata"]["name"].startswith(f"{self.name}-"):
                api.delete(f"{PODS}/{pod['metadata']['name']}", grace=0)

    def recover(self, cluster: str) -> None:
        self.fleet.lab.api(cluster).create(local())


def local() -> dict[str, Any]:
    """A ConfigMap that local users of a cluster made, and that pods of these tests need."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LOCAL, "namespace": NAMESPACE}, "data": {"A": "b"}}


@pytest.fixture(scope="module")
def api_servers(module_lab: MeshLab) -> Iterator[ApiServers]:
    with ApiServers(module_lab) as api_servers:
        yield api_servers


@pytest.fixture(scope="module")
def fleet(module_lab: MeshLab, api_servers: ApiServers, tmp_path_factory: pytest.TempPathFactory) -> FleetLab:
    """A tenant whose namespace is in both clusters, with the ConfigMap of local users."""
    fleet = FleetLab(module_lab, tmp_path_factory.mktemp("kubeconfigs"))
    Desk(fleet, "none").play("0", replicas=0)
    for name in fleet.lab.names:
        wait_for(partial(fleet.lab.api(name).create, local()), what=f"the namespace is in {name}", passing=(ApiError,))
    return fleet


@pytest.fixture(autouse=True)
def configured(fleet: FleetLab) -> None:
    """A test that failed while pods could not start leaves that to no other."""
    for name in fleet.lab.names:
        if fleet.lab.api(name).get(f"{CONFIG_MAPS}/{LOCAL}") is None:
            fleet.lab.api(name).create(local())


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_a_workload_of_each_kind_goes_out_in_waves_and_its_status_is_true(fleet: FleetLab, kind: str) -> None:
    desk, each = Desk(fleet, kind.lower(), kind), {"StatefulSet": 2, "DaemonSet": 1}[kind]
    new = desk.deploy("1")
    assert desk.status(new)["readyReplicas"] == 2 * each
    assert {name: row["replicas"] for name, row in desk.rows(new).items()} == {desk.first: each, desk.second: each}
    half = desk.hold("2")
    assert (desk.images(), desk.status(half)["phase"]) == (["2", "1"], "Progressing")
    assert {name: row["current"] for name, row in desk.rows(half).items()} == {desk.first: True, desk.second: False}
    desk.deploy("2")
    for cluster in fleet.lab.names:
        assert list(desk.pods(cluster).values()) == ["2"] * each
    assert not desk.play("2").changed
    desk.fall_ill(desk.second)
    read = partial(desk.play, "2", playbook="fleet_status")
    ill = desk.until(read, lambda run: desk.status(run)["readyReplicas"], equals(each), "the pods of the cluster do not count")
    assert (desk.phase(ill), desk.rows(ill)[desk.second]["health"]) == ("Degraded", "Unhealthy")
    desk.recover(desk.second)
    desk.becomes_whole("2")


def test_a_restart_gives_every_cluster_new_pods_wave_by_wave_and_once_per_id(fleet: FleetLab) -> None:
    desk = Desk(fleet, "restarted")
    desk.deploy("1")

    def pods() -> list[dict[str, str]]:
        return [desk.pods(cluster) for cluster in fleet.lab.names]

    old = pods()
    done = desk.operate("restart", "one", "1")
    asked = {"type": "Restart", "id": "one", "result": "Complete"}
    assert done.rc == 0 and asked.items() <= desk.status(done)["lastOperation"].items(), done.output
    new = pods()
    assert not any(before.keys() & after.keys() for before, after in zip(old, new, strict=True)) and desk.images() == ["1", "1"]
    twice = desk.operate("restart", "one", "1")
    assert (twice.rc, twice.changed, desk.play("1").changed, pods()) == (0, False, False, new), twice.output
    desk.watched(partial(desk.operate, "restart", "two", "1", wait=False, pause=HELD))
    half = pods()
    assert not half[0].keys() & new[0].keys() and half[1] == new[1], "the second wave waits"
    desk.deploy("1")
    whole = pods()
    assert whole[0] == half[0] and not whole[1].keys() & new[1].keys()


def test_a_change_in_mid_wave_begins_with_the_first_wave_and_later_ones_never_have_the_one_between(fleet: FleetLab) -> None:
    desk = Desk(fleet, "between")
    desk.deploy("1")
    desk.hold("2")
    assert desk.images() == ["2", "1"]
    half = desk.hold("3")
    assert (desk.images(), desk.status(half)["rollout"]["suspendedClusters"]) == (["3", "1"], [desk.second])
    assert (desk.status(half)["currentRevision"], desk.status(half)["updatedRevision"]) == (2, 3)
    desk.deploy("3")

    def had(cluster: str) -> set[str]:
        """Every tag that the cluster ever had; its own controllers keep a ReplicaSet of each."""
        found = [one for one in fleet.lab.api(cluster).list(REPLICA_SETS) if one["metadata"]["name"].startswith(f"{desk.name}-")]
        return {one["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")[2] for one in found}

    assert (had(desk.first), had(desk.second)) == ({"1", "2", "3"}, {"1", "3"})


@pytest.mark.parametrize("wave", [0, 1], ids=["its-own-wave", "a-later-wave"])
def test_a_cluster_that_dies_in_mid_wave_is_skipped_and_gets_the_change_when_it_is_back(
    fleet: FleetLab, api_servers: ApiServers, wave: int
) -> None:
    desk, lost = Desk(fleet, f"lost-{wave}"), fleet.lab.names[wave]
    desk.deploy("1")
    desk.hold("2")
    with api_servers.dead(lost):
        wait_for(lambda: unready(fleet.karmada), equals([member_name(SHOP, lost)]), what="Karmada knows that the cluster is lost")
        went_on = desk.play("2")
        now = desk.status(went_on)
        assert (went_on.rc, now["phase"], now["rollout"]["phase"]) == (2, "Degraded", "Complete"), went_on.output
        assert now["rollout"]["skippedClusters"] == [lost] and "CM-FLEET-10" in codes(went_on)
        assert (now["readyReplicas"], desk.rows(went_on)[lost]["clusterReady"]) == (2, False)
        api = fleet.lab.api(fleet.lab.names[1 - wave])
        live = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{desk.name}") or {}
        assert live["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":2")
    wait_for(lambda: unready(fleet.karmada), lambda names: not names, what="the cluster is back")
    wait_for(desk.images, equals(["2", "2"]), what="the cluster has the change")
    # Karmada's watches of it pause for up to a minute after several failures (client-go, reflector), and what it reports is as late; those
    # of a new process do not.
    fleet.lab.lab.kill_karmada("controller-manager")
    fleet.lab.lab.revive_karmada("controller-manager")
    desk.becomes_whole("2")


def test_old_revisions_go_and_none_that_a_rollback_needs(fleet: FleetLab) -> None:
    desk = Desk(fleet, "history")

    def kept(run: PlaybookRun) -> list[int]:
        """Numbers of the revisions, of which Karmada has those that the status names."""
        own = [one["revision"] for one in fleet.karmada.list(REVISIONS) if one["metadata"]["name"].startswith(f"{desk.name}-r")]
        assert sorted(own) == [row["number"] for row in desk.status(run)["revisions"]]
        return sorted(own)

    for tag in ("1", "2", "3", "4"):
        run = desk.deploy(tag, revisionHistoryLimit=1)
    assert kept(run) == [3, 4]
    refused = desk.operate("rollback", "too-far", "4", to_revision=1, revisionHistoryLimit=1)
    assert "CM-FLEET-05" in codes(refused) and "There is no revision 1; there are 3, 4." in refused.output
    assert (desk.images(), kept(refused)) == (["4", "4"], [3, 4])
    back = desk.operate("rollback", "near", "4", to_revision=3, revisionHistoryLimit=1)
    assert (back.rc, desk.images(), kept(back)) == (0, ["3", "3"], [3, 4, 5]), back.output
    assert kept(desk.deploy("6", revisionHistoryLimit=1)) == [5, 6]


def test_a_workload_leaves_a_cluster_where_it_is_ill_and_returns_with_the_next_revision(fleet: FleetLab) -> None:
    desk = Desk(fleet, "ill")
    rules = {"auto": True, "dwellSeconds": 10, "unhealthySeconds": 10, "minAvailablePercent": 50}
    policies = [{"name": "movable", "strategy": "FixedReplicas", "migration": rules}]
    more: dict[str, Any] = {"placementRef": {"name": "movable"}, "policies": policies}
    desk.deploy("1", **more)
    desk.fall_ill(desk.second)

    def round_(tag: str) -> PlaybookRun:
        return desk.play(tag, variables={"fleet_workload_wait": False}, **more)

    noticed = desk.until(partial(round_, "1"), desk.phase, equals("Degraded"), "the copy is ill")
    assert set(desk.rows(noticed)) == {*fleet.lab.names} and "evictedClusters" not in desk.status(noticed), "not at once"
    left = desk.until(partial(round_, "1"), lambda run: [*desk.rows(run)], equals([desk.first]), "the workload leaves")
    (evicted,) = desk.status(left)["evictedClusters"]
    assert (evicted["clusterName"], evicted["reason"]) == (desk.second, "Unhealthy")
    wait_for(desk.images, equals(["1", "-"]), what="the copy is gone from the cluster")
    desk.recover(desk.second)
    stays = desk.play("1", **more)
    assert (stays.rc, stays.changed, desk.images()) == (0, False, ["1", "-"]), "what made it ill may be the revision"
    back = desk.deploy("2", **more)
    assert "evictedClusters" not in desk.status(back)


def test_a_workload_leaves_a_cluster_by_request_and_comes_back_by_request(fleet: FleetLab) -> None:
    desk = Desk(fleet, "asked")
    policies = [{"name": "kept", "strategy": "FixedReplicas", "migration": {"dwellSeconds": 10, "minAvailablePercent": 100}}]
    more: dict[str, Any] = {"placementRef": {"name": "kept"}, "policies": policies}
    desk.deploy("1", **more)
    kept = desk.operate("evict", "one", "1", cluster=desk.second, **more)
    assert "CM-FLEET-06" in codes(kept) and "2 replicas would be left, and 4 are the least" in kept.output
    assert (desk.images(), desk.status(kept)["lastOperation"]["result"]) == (["1", "1"], "Accepted")
    policies[0]["migration"] = {"dwellSeconds": 10, "minAvailablePercent": 50}
    left = desk.play("1", **more)
    assert (left.rc, desk.status(left)["lastOperation"]["result"]) == (0, "Complete"), left.output
    wait_for(desk.images, equals(["1", "-"]), what="the copy is gone from the cluster")
    again = desk.play("1", **more)
    assert (again.rc, again.changed, [row["reason"] for row in desk.status(again)["evictedClusters"]]) == (0, False, ["Requested"])
    back = desk.operate("return", "two", "1", cluster=desk.second, **more)
    assert (back.rc, desk.images(), "evictedClusters" in desk.status(back)) == (0, ["1", "1"], False), back.output
