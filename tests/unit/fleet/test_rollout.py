# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a tenant sees of a rollout: waves, pauses, stalls, restarts and rollbacks, lost clusters and evictions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import annotations_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import REVISION_ANNOTATION, TenantObject
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.evictions import evictions_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import (
    ClusterRequirement,
    Fleet,
    FleetCluster,
    FleetRequest,
    FleetWorkload,
    Migration,
    Operation,
    PlacementPolicy,
    RolloutRules,
    Spread,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.placement import Candidates
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import FleetPlan, plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout import SETTLING, situation_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout_state import (
    NO_OPERATION,
    REMEMBERED,
    STATE_ANNOTATION,
    RolloutState,
    state_of,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from tests.testing.karmada_model import KarmadaModel, Refused
from tests.testing.rows import one_test

TENANT = Tenant("shop", "default")
KEY = TenantObject("Deployment", "web")
NAMES = ("a", "b", "c")
ZONES = {"a": "north", "b": "south", "c": "south"}
MIGRATING = PlacementPolicy(name="movable", strategy="FixedReplicas", migration=Migration(auto=True, dwell=60, unhealthy=60))


@dataclass
class Story:
    """One workload in three clusters, and what happens to it."""

    karmada: KarmadaModel
    wanted: FleetWorkload
    requirements: tuple[ClusterRequirement, ...] = ()  # of the policy "fixed"
    policies: dict[str, PlacementPolicy] = field(default_factory=dict)  # further ones
    connected: Collection[str] | None = NAMES  # by the mesh "edge"; None: nothing is known of it
    gone: bool = False

    def request(self) -> FleetRequest:
        clusters = {
            name: FleetCluster(name=name, member=member(name), labels=self.karmada.members[member(name)], zone=ZONES[name])
            for name in NAMES
        }
        fixed = PlacementPolicy(name="fixed", strategy="FixedReplicas", requirements=self.requirements)
        fleets = {"all": Fleet(name="all", clusters=NAMES)}
        return FleetRequest(
            tenant=TENANT,
            clusters=clusters,
            fleets=fleets,
            policies={"movable": MIGRATING, "fixed": fixed, **self.policies},
            connected={"edge": tuple(self.connected)} if self.connected is not None else {},
            workloads={} if self.gone else {"web": self.wanted},
        )

    def plan(self) -> FleetPlan:
        return plan_fleet(self.request(), self.karmada.facts(), "karmada")

    def run(self, writes: int | None = None) -> None:
        self.karmada.write(self.plan().plan.steps[:writes])

    def rounds(self, count: int = 1) -> None:
        for _ in range(count):
            self.run()
            self.karmada.settle()

    def long_rounds(self, count: int) -> None:
        """Rounds with so much time between them that nothing has to be watched any longer."""
        for _ in range(count):
            self.rounds()
            self.karmada.wait(SETTLING)

    def change(self, image: str) -> None:
        self.wanted = replace(self.wanted, template=template(image))

    def rules(self, **rules: Any) -> None:
        self.wanted = replace(self.wanted, rollout=replace(self.wanted.rollout, **rules))

    def operate(self, *operation: Any) -> None:
        self.wanted = replace(self.wanted, operation=Operation(*operation))

    def images(self) -> str:
        """The tags that the clusters run, in the order of their names."""
        return " ".join(self.karmada.image_in(member(name), KEY).removeprefix("web:") or "-" for name in NAMES)

    def status(self) -> Mapping[str, Any]:
        return workload_status(self.request(), self.karmada.facts(), self.plan().decisions["web"]).status

    def condition(self, kind: str) -> tuple[str, str]:
        found = next(entry for entry in self.status()["conditions"] if entry["type"] == kind)
        return found["status"], found["reason"]

    def condition_message(self, kind: str) -> str:
        return str(next(entry for entry in self.status()["conditions"] if entry["type"] == kind)["message"])

    def homes(self, kind: str = "Deployment") -> str:
        """The clusters that have the object of that kind."""
        copies = self.karmada.running
        return "".join(name for name in NAMES if any(key.kind == kind for key in copies.get(member(name), {})))

    def finding_lines(self) -> list[str]:
        """Codes and sentences of the findings."""
        found = workload_status(self.request(), self.karmada.facts(), self.plan().decisions["web"]).findings
        return [f"{entry.code} {entry.summary}" for entry in found]


def member(name: str) -> str:
    return member_name(TENANT, name)


def template(image: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "web", "image": image}]}}


@pytest.fixture
def story() -> Story:
    """A workload that runs everywhere, with one cluster per wave."""
    wanted = FleetWorkload(name="web", fleet="all", template=template("web:1"), rollout=RolloutRules(batch_size=1))
    story = Story(KarmadaModel(tenant=TENANT, members={member(name): TENANT.labels for name in NAMES}), wanted)
    story.rounds(2)
    return story


def test_the_first_rollout_goes_everywhere_at_once_and_is_then_available(story: Story) -> None:
    assert story.images() == "1 1 1"
    story.rounds()
    assert story.status()["phase"] == "Available"
    assert story.plan().plan.empty


def test_a_change_goes_out_wave_by_wave(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    seen = [story.images()]
    for _ in range(6):
        story.rounds()
        if story.images() != seen[-1]:
            seen.append(story.images())
    assert seen == ["1 1 1", "2 1 1", "2 2 1", "2 2 2"]
    assert story.status()["rollout"]["phase"] == "Complete"
    assert [entry["number"] for entry in story.status()["revisions"]] == [1, 2]


def test_a_revision_is_made_before_the_template_is_written(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    assert [step.object.split()[0] for step in story.plan().plan.steps] == ["ControllerRevision", "PropagationPolicy"]


def test_the_template_waits_until_karmada_shows_the_suspension(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    for _ in range(3):
        story.run()
        for name in NAMES:
            story.karmada.dispatch(member(name))
    assert (story.images(), story.status()["rollout"]["phase"]) == ("1 1 1", "Preparing")
    story.karmada.wait(601)
    assert story.status()["rollout"]["phase"] == "Stalled"
    story.karmada.settle()
    story.rounds()
    assert story.images() == "2 1 1"


@pytest.mark.parametrize("writes", range(4))
def test_a_run_that_is_killed_after_any_write_lets_no_second_wave_begin(story: Story, writes: int) -> None:
    story.rounds()
    story.karmada.broken.add("web:2")
    story.change("web:2")
    story.run()
    story.karmada.settle()
    story.run(writes)
    story.karmada.settle()
    story.run()
    story.karmada.settle()
    assert story.images() == "2 1 1"


def test_pods_that_do_not_become_ready_stop_in_the_first_wave_and_stall(story: Story) -> None:
    story.rounds()
    story.karmada.broken.add("web:2")
    story.change("web:2")
    story.rounds(6)
    assert story.images() == "2 1 1"
    story.karmada.wait(601)
    status = story.status()
    assert (status["phase"], status["rollout"]["phase"]) == ("Degraded", "Stalled")
    assert story.condition("Degraded") == ("True", "RolloutStalled")
    said = {row["clusterName"]: row.get("message", "") for row in status["placements"]}
    assert "1 of 1" in said["a"] and "ready" in said["a"] and "wave" in said["b"] and "wave" in said["c"]
    story.change("web:3")
    story.rounds(8)
    assert story.images() == "3 3 3"


def test_a_report_about_the_template_before_does_not_end_a_wave(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    story.rounds(1)
    story.run()
    for _ in range(3):
        story.karmada.detect()
        story.karmada.report(member("a"))
        story.run()
    assert story.status()["rollout"]["wave"] == 1


def test_a_wave_is_watched_for_the_pause(story: Story) -> None:
    story.rounds()
    story.rules(pause=60)
    story.change("web:2")
    story.rounds(6)
    assert story.images() == "2 1 1"
    story.karmada.wait(61)
    story.rounds(2)
    assert story.images() == "2 2 1"


def test_a_paused_rollout_stays_and_goes_on(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    story.rounds(2)
    story.rules(paused=True)
    story.rounds(4)
    assert (story.images(), story.status()["rollout"]["phase"]) == ("2 1 1", "Paused")
    story.change("web:3")
    story.rounds(3)
    assert story.images() == "2 1 1"
    story.rules(paused=False)
    story.rounds(8)
    assert story.images() == "3 3 3"


def test_a_change_in_mid_rollout_begins_with_the_first_wave_again(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    story.rounds(3)
    assert story.images() == "2 2 1"
    story.change("web:3")
    seen = [story.images()]
    for _ in range(6):
        story.rounds()
        if story.images() != seen[-1]:
            seen.append(story.images())
    assert seen == ["2 2 1", "3 2 1", "3 3 1", "3 3 3"]


def test_a_lost_cluster_is_skipped_and_named(story: Story) -> None:
    story.rounds()
    story.karmada.kill(member("b"))
    story.change("web:2")
    story.rounds(7)
    assert story.images() == "2 1 2"
    status = story.status()
    assert (status["rollout"]["phase"], status["rollout"]["skippedClusters"]) == ("Complete", ["b"])
    assert (status["phase"], story.condition("Degraded")) == ("Degraded", ("True", "ClusterNotReady"))
    story.karmada.revive(member("b"))
    story.rounds(2)
    assert (story.images(), story.status()["phase"]) == ("2 2 2", "Available")


def test_a_rollout_without_any_cluster_that_proves_it_does_not_complete(story: Story) -> None:
    story.rounds()
    for name in NAMES:
        story.karmada.kill(member(name))
    story.change("web:2")
    story.rounds(8)
    assert story.status()["rollout"]["phase"] == "Rolling"


def test_two_runs_at_once_do_not_both_write(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    late = story.plan().plan.steps
    story.run()
    with pytest.raises(Refused):
        story.karmada.write(late)
    with pytest.raises(Refused):
        story.karmada.write(late[1:])


def test_a_restart_is_done_once_per_id_and_by_waves(story: Story) -> None:
    story.rounds()
    story.operate("Restart", "monday")
    story.rounds(2)
    restarted = [story.karmada.revision_in(member(name), KEY) for name in NAMES]
    assert restarted == [2, 1, 1]
    story.rounds(6)
    assert story.status()["lastOperation"] == {"type": "Restart", "id": "monday", "revision": 2, "result": "Complete", "message": ""}
    story.rounds(3)
    assert story.plan().plan.empty


def test_a_rollback_restores_a_revision_until_the_spec_changes(story: Story) -> None:
    story.rounds()
    story.change("web:2")
    story.rounds(8)
    story.operate("Rollback", "back", 1)
    story.rounds(8)
    assert story.images() == "1 1 1"
    assert story.status()["lastOperation"]["result"] == "Complete"
    assert story.status()["currentRevision"] == 3
    assert "content of revision 1" in story.status()["rollout"]["message"]
    story.rounds(2)
    assert story.plan().plan.empty
    story.change("web:4")
    story.rounds(8)
    assert story.images() == "4 4 4"
    assert "content of" not in story.status()["rollout"]["message"]


def test_a_pause_shows_before_there_is_anything_to_hold(story: Story) -> None:
    story.rounds()
    for rules in ({"paused": True}, {}):
        story.wanted = replace(story.wanted, hold=None if rules else True)
        story.rules(**(rules or {"paused": False}))
        story.rounds(2)
        assert story.status()["phase"] == "Available" and "paused" in story.status()["rollout"]["message"]
    story.wanted = replace(story.wanted, hold=False)
    story.rounds(2)
    assert "paused" not in story.status()["rollout"]["message"]


def test_a_rollback_in_mid_rollout_takes_the_new_content_back(story: Story) -> None:
    story.rounds()
    story.karmada.broken.add("web:2")
    story.change("web:2")
    story.rounds(3)
    story.operate("Rollback", "back", 1)
    story.rounds(8)
    assert (story.images(), story.status()["phase"]) == ("1 1 1", "Available")


def test_a_rollback_to_a_revision_that_is_not_there_changes_nothing_and_says_which_are(story: Story) -> None:
    story.rounds()
    story.operate("Rollback", "back", 9)
    story.rounds(3)
    assert story.images() == "1 1 1"
    assert story.status()["lastOperation"]["message"] == "There is no revision 9; there are 1."
    found = workload_status(story.request(), story.karmada.facts(), story.plan().decisions["web"]).findings
    assert [entry.code for entry in found] == ["CM-FLEET-05"]


@pytest.mark.parametrize("others", [1, REMEMBERED, REMEMBERED + 5])
def test_an_id_is_carried_out_once_also_when_others_came_after_it(story: Story, others: int) -> None:
    story.rounds()
    ids = [f"day-{number}" for number in range(others + 1)]
    for identifier in ids:
        story.operate("Restart", identifier)
        story.rounds(9)
    before = [story.karmada.revision_in(member(name), KEY) for name in NAMES]
    for identifier in ids[-REMEMBERED - 1 :]:
        story.operate("Restart", identifier)
        story.rounds(3)
    assert [story.karmada.revision_in(member(name), KEY) for name in NAMES] == before == [others + 2] * 3
    noted = next(annotations_of(found)[STATE_ANNOTATION] for path, found in story.karmada.objects.items() if path.endswith("policies/web"))
    state = state_of(noted)
    assert state is not None and len(state.earlier) == min(others, REMEMBERED) and story.finding_lines() == []


def test_an_id_that_was_used_for_another_operation_is_refused_with_what_it_was(story: Story) -> None:
    story.rounds()
    story.operate("Restart", "x")
    story.rounds(9)
    story.operate("Rollback", "y", 1)
    story.rounds(9)
    for operation, said in ((("Rollback", "x", 1), "Restart"), (("Rollback", "y", 2), "Rollback 1"), (("Restart", "y"), "Rollback 1")):
        story.operate(*operation)
        story.rounds(3)
        assert story.images() == "1 1 1" and story.plan().plan.empty
        (line,) = story.finding_lines()
        assert f"The id {operation[1]} was used for {said}, and each id is carried out once: give" in line and "CM-FLEET-05" in line


def test_old_revisions_go_and_the_present_one_never_does(story: Story) -> None:
    story.wanted = replace(story.wanted, history_limit=2)
    for image in range(2, 7):
        story.change(f"web:{image}")
        story.rounds(8)
    assert [entry["number"] for entry in story.status()["revisions"]] == [4, 5, 6]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"content": {"kind": "Deployment", "template": {}}},
        {"content": {"kind": "ClusterRole", "template": template("web:9")}},
        {"content": {"kind": "Deployment", "template": template("web:9"), "service": {}}},
        {"content": {"kind": "Deployment", "template": template("web:9"), "resources": [{"kind": "ClusterRoleBinding", "name": "x"}]}},
        {"content": {"kind": "Deployment", "template": template("web:9"), "resources": [{"kind": "ConfigMap", "name": "../x"}]}},
    ],
)
def test_a_revision_that_cannot_be_rendered_is_none_and_keeps_its_number(story: Story, data: dict[str, Any]) -> None:
    story.rounds()
    name = {"name": "web-r2", "labels": TENANT.labels_of("web"), "uid": "u", "resourceVersion": "1"}
    path = f"/apis/apps/v1/namespaces/{karmada_namespace(TENANT)}/controllerrevisions/web-r2"
    story.karmada.objects[path] = {"metadata": name, "revision": 2, "data": data}
    story.operate("Rollback", "back", 2)
    story.rounds(2)
    assert (story.images(), story.status()["lastOperation"]["result"]) == ("1 1 1", "Invalid")
    story.change("web:2")
    story.rounds(8)
    assert (story.images(), [entry["number"] for entry in story.status()["revisions"]]) == ("2 2 2", [1, 3])


@one_test(
    "change part left",
    ({"revision": 10**9}, "revision", None),
    ({"phase": "Rolling"}, "phase", None),
    ({"phase": "Preparing"}, "phase", None),
    ({"phase": "Rolling", "waves": [["a"]], "wave": 2}, "wave", None),
    ({"phase": "Rolling", "waves": [["a"]], "wave": 1}, "suspended", ()),
    ({"operation": {"id": "x", "result": "Lost"}}, "operation", NO_OPERATION),
    ({"earlier": {"a": "Restart", "b": 7}}, "earlier", {"a": "Restart"}),
    ({"rollback": {"to": -1, "spec": "x"}}, "rollback", None),
    ({"waveStarted": "soon"}, "wave_started", ""),
    ({"unhealthy": {"a": "soon", "b": "2026-11-01T00:00:00Z"}}, "unhealthy", {"b": "2026-11-01T00:00:00Z"}),
)
def test_a_state_that_another_program_wrote_is_in_its_ranges_or_none(change: dict[str, Any], part: str, left: Any) -> None:
    found = state_of(json.dumps({"revision": 1, "phase": "Complete", **change}))
    assert (getattr(found, part) if found is not None else None) == left


def test_replicas_change_without_a_revision_and_without_waves(story: Story) -> None:
    story.rounds()
    story.wanted = replace(story.wanted, replicas=4)
    story.rounds(2)
    assert (story.status()["replicas"], story.status()["updatedRevision"], story.status()["phase"]) == (12, 1, "Available")


def test_a_state_that_someone_destroyed_is_taken_up_from_what_runs(story: Story) -> None:
    story.rounds()
    for path, found in story.karmada.objects.items():
        if "/propagationpolicies/" in path:
            for key in [key for key in annotations_of(found) if key.endswith("/rollout")]:
                found["metadata"]["annotations"][key] = "{"
    story.rounds(2)
    assert (story.status()["phase"], story.images()) == ("Available", "1 1 1")
    live = story.karmada.objects[KEY.path(karmada_namespace(TENANT))]
    assert annotations_of(live)[REVISION_ANNOTATION] == "1"


def test_a_workload_leaves_a_lost_cluster_after_the_dwell_time_and_comes_back_after_it(story: Story) -> None:
    story.wanted = replace(story.wanted, placement="movable")
    story.rounds(2)
    story.karmada.kill(member("b"))
    story.karmada.wait(59)
    story.rounds(2)
    assert sorted(row["clusterName"] for row in story.status()["placements"]) == ["a", "b", "c"]
    story.karmada.wait(2)
    story.rounds(2)
    status = story.status()
    assert sorted(row["clusterName"] for row in status["placements"]) == ["a", "c"]
    assert [(row["clusterName"], row["reason"]) for row in status["evictedClusters"]] == [("b", "ClusterNotReady")]
    assert status["phase"] == "Available"
    story.karmada.revive(member("b"))
    story.rounds(2)
    assert len(story.status()["placements"]) == 2
    story.karmada.wait(61)
    story.rounds(3)
    assert (len(story.status()["placements"]), story.status()["phase"]) == (3, "Available")


def test_no_more_clusters_are_left_than_the_rules_permit(story: Story) -> None:
    story.wanted = replace(story.wanted, placement="movable")
    story.rounds(2)
    story.karmada.kill(member("a"))
    story.karmada.kill(member("b"))
    story.karmada.wait(61)
    story.rounds(4)
    assert len(story.status()["evictedClusters"]) == 1
    found = workload_status(story.request(), story.karmada.facts(), story.plan().decisions["web"]).findings
    assert "CM-FLEET-06" in [entry.code for entry in found]


def test_a_workload_that_is_unhealthy_everywhere_stays_where_it_is(story: Story) -> None:
    story.wanted = replace(story.wanted, placement="movable", rollout=RolloutRules())
    story.rounds(2)
    story.karmada.broken.add("web:2")
    story.change("web:2")
    story.rounds(3)
    story.karmada.wait(61)
    story.rounds(3)
    assert "evictedClusters" not in story.status()


def test_a_workload_leaves_a_cluster_where_alone_it_is_unhealthy_and_comes_back_with_another_revision(story: Story) -> None:
    story.wanted = replace(story.wanted, placement="movable", rollout=RolloutRules())
    story.rounds(2)
    story.karmada.broken.add(f"{member('c')} web:2")
    story.change("web:2")
    story.rounds(3)
    story.karmada.wait(61)
    story.rounds(3)
    assert [row["clusterName"] for row in story.status()["evictedClusters"]] == ["c"]
    story.karmada.wait(3600)
    story.rounds(2)
    assert (story.images(), story.status()["phase"]) == ("2 2 -", "Available")
    story.change("web:3")
    story.rounds(4)
    assert (story.images(), story.status()["phase"]) == ("3 3 3", "Available")


def test_no_cluster_is_left_if_fewer_replicas_than_the_minimum_would_stay(story: Story) -> None:
    story.wanted = replace(story.wanted, placement="movable", replicas=4)
    story.rounds(2)
    facts = story.karmada.facts()
    assert facts.bindings[KEY.binding].replicas
    rules = replace(MIGRATING.migration, min_available_percent=90)
    situation = situation_of(facts, story.wanted)
    ill = {
        name: replace(placed, health="Unhealthy", ready=2)
        for name, placed in facts.bindings[KEY.binding].placed.items()
        if name == member("a")
    }
    binding = replace(facts.bindings[KEY.binding], placed={**facts.bindings[KEY.binding].placed, **ill})
    long_ago = (facts.now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = replace(situation.state or RolloutState(), unhealthy={member("a"): long_ago})
    permitted = Candidates(clusters=tuple(FleetCluster(name=name, member=member(name)) for name in NAMES))
    found = evictions_of(rules, replace(situation, binding=binding), state, permitted)
    assert not found.state.evicted
    assert "8 replicas would be left, and 11 are the least" in found.notes[0]
    lenient = evictions_of(replace(rules, min_available_percent=50), replace(situation, binding=binding), state, permitted)
    assert set(lenient.state.evicted) == {member("a")}


def test_a_global_service_is_in_every_cluster_of_the_fleet_and_stays_when_the_workload_moves(story: Story) -> None:
    """A Service that Karmada did not bring would be in the way of a workload that comes."""
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    story.karmada.members[member("a")] = {**TENANT.labels, "tier": "edge"}
    story.requirements = (ClusterRequirement("tier", "In", ("edge",)),)
    story.wanted = replace(story.wanted, service=service, placement="fixed")
    story.long_rounds(8)
    assert (story.homes(), story.homes("Service"), story.status()["phase"]) == ("a", "abc", "Available")
    assert story.plan().plan.empty
    story.wanted = replace(story.wanted, service={"ports": [{"port": 80}]})
    story.rounds(8)
    assert (story.homes("Service"), sorted(story.karmada.facts().policies)) == ("a", ["web"])
    story.wanted = replace(story.wanted, service=service)
    story.rounds(8)
    assert story.homes("Service") == "abc"
    story.gone = True
    story.rounds(3)
    assert (story.homes(), story.homes("Service"), story.karmada.facts().policies) == ("", "", {})


def test_clusters_of_clients_get_a_changed_global_service_when_all_clusters_with_the_workload_have_it(story: Story) -> None:
    """A port that is wrong would else be wrong for every client with the first wave."""
    for name in "ab":
        story.karmada.members[member(name)] = {**TENANT.labels, "tier": "edge"}
    story.requirements = (ClusterRequirement("tier", "In", ("edge",)),)
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    story.wanted = replace(story.wanted, service=service, placement="fixed")
    story.long_rounds(8)
    story.wanted = replace(story.wanted, service={**service, "ports": [{"port": 81}]})
    seen = [ports(story)]
    for _ in range(10):
        story.long_rounds(1)
        if ports(story) != seen[-1]:
            seen.append(ports(story))
    assert seen == [(80, 80, 80), (81, 80, 80), (81, 81, 81)]
    assert (story.status()["phase"], story.plan().plan.empty) == ("Available", True)


def test_a_client_that_is_not_ready_does_not_stop_a_rollout(story: Story) -> None:
    story.karmada.members[member("a")] = story.karmada.members[member("b")] = {**TENANT.labels, "tier": "edge"}
    story.requirements = (ClusterRequirement("tier", "In", ("edge",)),)
    service = {"ports": [{"port": 80}], "global": True, "meshRef": {"name": "edge"}}
    story.wanted = replace(story.wanted, service=service, placement="fixed")
    story.long_rounds(8)
    story.karmada.kill(member("c"))
    story.change("web:2")
    story.long_rounds(10)
    assert (story.images(), story.status()["phase"]) == ("2 2 -", "Available")


def ports(story: Story) -> tuple[int, ...]:
    key = TenantObject("Service", "web")
    return tuple(story.karmada.running[member(name)][key]["spec"]["ports"][0]["port"] for name in NAMES)


CONFIG = {"kind": "ConfigMap", "name": "conf", "data": {"A": "1"}}
CONF = TenantObject("ConfigMap", "conf")


@pytest.fixture
def pair(story: Story) -> Story:
    """The same with a ConfigMap and a Service beside it, complete."""
    story.wanted = replace(story.wanted, resources=(CONFIG,), service={"ports": [{"port": 80}]})
    story.long_rounds(12)
    assert story.status()["phase"] == "Available"
    return story


def configured(story: Story, value: str, image: str) -> None:
    story.wanted = replace(story.wanted, resources=({**CONFIG, "data": {"A": value}},), template=template(image))


def values(story: Story) -> str:
    """What the ConfigMap says in each cluster."""
    return " ".join(str(story.karmada.running[member(name)][CONF].get("data", {}).get("A")) for name in NAMES)


@pytest.mark.parametrize("kind", ["ConfigMap", "Service"])
def test_a_wave_waits_for_every_object_of_the_workload(pair: Story, kind: str) -> None:
    pair.karmada.refusing[f"{member('a')} {kind}"] = "admission webhook denied the request"
    configured(pair, "2", "web:2")
    pair.long_rounds(8)
    assert pair.images() == "2 1 1"
    status = pair.status()
    assert (status["phase"], status["rollout"]["wave"]) == ("Degraded", 1) and f"a ({kind} " in status["rollout"]["message"]
    pair.karmada.wait(601)
    assert pair.status()["rollout"]["phase"] == "Stalled"
    pair.karmada.refusing.clear()
    pair.long_rounds(10)
    assert (pair.images(), values(pair), pair.status()["phase"]) == ("2 2 2", "2 2 2", "Available")


@pytest.mark.parametrize("late", ["ConfigMap", "Service", "Deployment"])
def test_the_templates_wait_until_karmada_shows_the_suspension_of_every_object(pair: Story, late: str) -> None:
    """Karmada changes one ResourceBinding after the other, and may be slow with any of them."""
    configured(pair, "2", "web:2")
    for _ in range(3):
        pair.run()
        pair.karmada.detect({"Deployment", "Service", "ConfigMap"} - {late})
        for name in NAMES:
            pair.karmada.dispatch(member(name))
    assert (pair.images(), values(pair), pair.status()["rollout"]["phase"]) == ("1 1 1", "1 1 1", "Preparing")
    pair.karmada.settle()
    pair.rounds()
    assert (pair.images(), values(pair)) == ("2 1 1", "2 1 1")


@pytest.mark.parametrize("writes", range(6))
def test_a_run_that_is_killed_between_two_templates_lets_no_second_wave_begin(pair: Story, writes: int) -> None:
    pair.karmada.broken.add("web:2")
    configured(pair, "2", "web:2")
    pair.run()
    pair.karmada.settle()
    pair.run(writes)
    pair.karmada.settle()
    pair.long_rounds(3)
    assert (pair.images(), values(pair)) == ("2 1 1", "2 1 1")


def test_a_wave_with_a_change_beside_the_workload_is_watched_as_reports_of_it_name_no_generation(pair: Story) -> None:
    configured(pair, "2", "web:2")
    pair.rounds(4)
    assert (pair.images(), pair.status()["rollout"]["message"]) == ("2 1 1", f"Wave 1 of 3 is done, and watched for {SETTLING} s.")
    pair.karmada.wait(SETTLING)
    pair.rounds(2)
    assert pair.images() == "2 2 1"
    pair.change("web:3")  # the ConfigMap stays as it is
    pair.rounds(8)
    assert pair.images() == "3 3 3"


@pytest.mark.parametrize("key", [KEY, CONF])
def test_a_template_that_another_program_deletes_before_the_first_wave_comes_back_and_stops_nothing(pair: Story, key: TenantObject) -> None:
    configured(pair, "2", "web:2")
    pair.run()
    del pair.karmada.objects[key.path(karmada_namespace(TENANT))]
    pair.karmada.settle()
    pair.long_rounds(14)
    assert (pair.images(), values(pair), pair.status()["phase"]) == ("2 2 2", "2 2 2", "Available")


def test_a_workload_whose_config_has_not_arrived_is_not_available(pair: Story) -> None:
    del pair.karmada.bindings[CONF]
    row = next(row for row in pair.status()["placements"] if row["clusterName"] == "b")
    assert pair.status()["phase"] == "Progressing" and "ConfigMap conf" in row["message"]
    pair.rounds(2)
    assert pair.status()["phase"] == "Available"


def meshed(story: Story, **migration: Any) -> None:
    rules = Migration(**{"auto": True, "dwell": 60, "unhealthy": 60, "max_evictions": 2, "min_available_percent": 30, **migration})
    story.policies["linked"] = PlacementPolicy(name="linked", strategy="FixedReplicas", connected_in="edge", migration=rules)
    story.wanted = replace(story.wanted, placement="linked")
    story.rounds(6)


def test_a_cluster_that_is_not_connected_gets_no_workload(story: Story) -> None:
    story.gone = True
    story.rounds(3)
    story.gone, story.connected = False, ("a", "b")
    meshed(story)
    assert (story.homes(), story.status()["phase"]) == ("ab", "Available")
    story.connected = NAMES
    story.rounds(3)
    assert (story.homes(), story.status()["phase"]) == ("abc", "Available")


@pytest.mark.parametrize("connected", [(), ("c",), ("b", "c")])
def test_without_migration_a_workload_stays_where_it_is_when_links_are_lost_and_the_run_says_so(
    story: Story, connected: tuple[str, ...]
) -> None:
    meshed(story, auto=False)
    story.connected = connected
    story.karmada.wait(3600)
    story.rounds(4)
    assert (story.homes(), story.status()["phase"]) == ("abc", "Available")
    said = [line for line in story.finding_lines() if "NotConnected" in line]
    assert [line.split()[0] for line in said] == ["CM-FLEET-06"] * (3 - len(connected))
    assert all("migration.auto" in line for line in said) and "web: a is kept" in said[0]
    story.change("web:2")
    story.rounds(12)
    assert story.images() == "2 2 2", "what it has it keeps, and changes go there too"


@pytest.mark.parametrize("auto", [False, True])
def test_a_mesh_of_which_nothing_is_known_moves_nothing_and_is_named_once(story: Story, auto: bool) -> None:
    """An operator that reads no ClusterMeshBindings, or one that was restarted, must not take links for lost."""
    meshed(story, auto=auto)
    story.connected = None
    for _ in range(3):
        story.rounds(2)
        story.karmada.wait(3600)
    assert (story.homes(), story.status()["phase"], "evictedClusters" in story.status()) == ("abc", "Available", False)
    (said,) = story.finding_lines()
    assert said.startswith("CM-FLEET-06") and "ClusterMeshBinding edge does not exist, or this run was not given" in said
    story.gone = True
    story.rounds(3)
    story.gone = False
    story.rounds(3)
    assert (story.homes(), story.status()["phase"]) == ("", "Pending")
    assert "edge does not exist, or this run was not given" in story.condition_message("Ready")


def test_a_workload_leaves_a_cluster_that_is_not_connected_for_the_dwell_time_and_comes_back_after_it(story: Story) -> None:
    meshed(story)
    story.connected = ("a", "c")
    story.rounds(2)
    story.karmada.wait(59)
    story.rounds(2)
    assert story.homes() == "abc"
    story.karmada.wait(2)
    story.rounds(2)
    assert (story.homes(), story.status()["phase"]) == ("ac", "Available")
    assert [(row["clusterName"], row["reason"]) for row in story.status()["evictedClusters"]] == [("b", "NotConnected")]
    story.karmada.wait(3600)
    story.rounds(2)
    assert story.homes() == "ac"
    story.connected = NAMES
    story.rounds(2)
    story.karmada.wait(59)
    story.rounds(2)
    assert story.homes() == "ac"
    story.karmada.wait(2)
    story.rounds(3)
    assert (story.homes(), story.status()["phase"], "evictedClusters" in story.status()) == ("abc", "Available", False)


def test_links_that_come_and_go_move_nothing(story: Story) -> None:
    meshed(story)
    for _ in range(6):
        story.connected = ("a", "c")
        story.rounds(2)
        story.karmada.wait(50)
        story.connected = NAMES
        story.rounds(2)
        story.karmada.wait(50)
    assert (story.homes(), "evictedClusters" in story.status()) == ("abc", False)


@pytest.mark.parametrize(
    ("rules", "connected", "left"),
    [
        pytest.param({}, (), 0, id="none is better"),
        pytest.param({}, ("c",), 2, id="both may be left"),
        pytest.param({"max_evictions": 1}, ("c",), 1, id="one is the budget"),
        pytest.param({"min_available_percent": 100}, ("b", "c"), 0, id="all replicas are the least"),
    ],
)
def test_the_rules_of_an_eviction_hold_for_links_too(story: Story, rules: dict[str, Any], connected: tuple[str, ...], left: int) -> None:
    meshed(story, **rules)
    story.connected = connected
    story.rounds(2)
    for _ in range(4):
        story.karmada.wait(61)
        story.rounds(2)
    assert len(story.homes()) == 3 - left and set(connected) <= set(story.homes())
    kept = [line for line in story.finding_lines() if "CM-FLEET-06" in line]
    assert len(kept) == 3 - len(connected) - left


def zoned(story: Story, least: int, most: int, **migration: Any) -> None:
    rules = Migration(**{"auto": True, "dwell": 60, "unhealthy": 60, **migration})
    story.policies["zones"] = PlacementPolicy(name="zones", strategy="Spread", spread=Spread("zone", least, most), migration=rules)
    story.wanted = replace(story.wanted, placement="zones")
    story.rounds(6)


def test_a_workload_in_one_zone_moves_to_another_when_its_zone_is_lost_and_stays_there(story: Story) -> None:
    zoned(story, 1, 1)
    assert story.homes() == "a"
    story.karmada.kill(member("a"))
    story.karmada.wait(59)
    story.rounds(2)
    assert story.homes() == "a"
    story.karmada.wait(2)
    story.rounds(3)
    assert (story.homes().replace("a", ""), story.status()["phase"]) == ("bc", "Available")
    story.karmada.revive(member("a"))
    story.karmada.wait(3600)
    story.rounds(4)
    assert (story.homes(), story.status()["phase"]) == ("bc", "Available"), "a zone that has it keeps it"


def test_a_zone_that_is_lost_keeps_the_workload_without_migration(story: Story) -> None:
    zoned(story, 1, 1, auto=False)
    story.karmada.kill(member("a"))
    story.karmada.wait(3600)
    story.rounds(3)
    assert [row["clusterName"] for row in story.status()["placements"]] == ["a"] and story.status()["phase"] == "Degraded"


def test_a_new_workload_goes_to_a_zone_that_is_ready(story: Story) -> None:
    story.gone = True
    story.rounds(3)
    story.karmada.kill(member("a"))
    story.gone = False
    zoned(story, 1, 1)
    assert (story.homes(), story.status()["phase"]) == ("bc", "Available")


def test_no_cluster_is_left_if_the_spread_would_not_be_met_without_it(story: Story) -> None:
    zoned(story, 2, 0)
    story.karmada.kill(member("a"))
    story.karmada.wait(3600)
    story.rounds(3)
    assert "evictedClusters" not in story.status()
    assert [line for line in story.finding_lines() if "the others are in 1 zone, and the spread asks for 2" in line]


def test_what_is_beside_a_workload_goes_where_the_scheduler_put_the_workload(story: Story) -> None:
    """The scheduler would put a ConfigMap, which needs no room, where it comes first by name."""
    story.gone = True
    story.rounds(3)
    story.gone = False
    first, second = sorted(map(member, NAMES))[:2]
    story.karmada.full = {first}
    spread = Spread("cluster", 1, 1)
    story.policies["one"] = PlacementPolicy(name="one", strategy="Spread", spread=spread, migration=Migration(auto=True, dwell=60))
    story.wanted = replace(story.wanted, placement="one", resources=(CONFIG,), service={"ports": [{"port": 80}]})
    story.long_rounds(4)
    (home,) = [name for name in NAMES if member(name) == second]
    assert [story.homes(kind) for kind in ("Deployment", "ConfigMap", "Service")] == [home] * 3
    assert (story.status()["phase"], story.plan().plan.empty) == ("Available", True)
    story.karmada.kill(second)
    story.karmada.wait(61)
    story.long_rounds(4)
    story.karmada.revive(second)
    story.karmada.settle()
    moved = story.homes()
    assert len(moved) == 1 and moved != home and [story.homes(kind) for kind in ("ConfigMap", "Service")] == [moved] * 2
    configured(story, "2", "web:2")
    story.long_rounds(6)
    assert story.status()["phase"] == "Available" and story.karmada.running[member(moved)][CONF]["data"] == {"A": "2"}
    story.wanted = replace(story.wanted, placement="")
    story.long_rounds(6)
    assert [story.homes(kind) for kind in ("Deployment", "ConfigMap", "Service")] == ["abc"] * 3
    assert sorted(story.karmada.facts().policies) == ["web"] and story.status()["phase"] == "Available"


def test_a_change_of_a_workload_that_no_cluster_has_room_for_is_written(story: Story) -> None:
    story.policies["one"] = PlacementPolicy(name="one", strategy="Spread", spread=Spread("cluster", 1, 1))
    story.gone = True
    story.rounds(3)
    story.gone = False
    story.karmada.unfit = "Unschedulable"
    story.wanted = replace(story.wanted, placement="one", resources=(CONFIG,))
    story.long_rounds(3)
    configured(story, "2", "web:2")
    story.long_rounds(4)
    assert story.status()["phase"] == "Pending"
    story.karmada.unfit = ""
    story.long_rounds(6)
    assert (story.status()["phase"], len(story.homes("ConfigMap")), "2" in story.images()) == ("Available", 1, True)


def evicting(story: Story, replicas: int = 2, **migration: Any) -> None:
    rules = Migration(**{"min_available_percent": 50, "dwell": 60, **migration})
    story.policies["kept"] = PlacementPolicy(name="kept", strategy="FixedReplicas", migration=rules)
    story.wanted = replace(story.wanted, placement="kept", replicas=replicas)
    story.rounds(3)


def asked(story: Story, kind: str, identifier: str, cluster: str) -> str:
    """Asks for an operation, and returns its result after some rounds."""
    story.wanted = replace(story.wanted, operation=Operation(kind, identifier, cluster=cluster))
    story.rounds(3)
    return str(story.status()["lastOperation"]["result"])


@pytest.mark.parametrize("auto", [False, True])
def test_a_cluster_is_left_by_request_until_the_return_is_asked_for(story: Story, auto: bool) -> None:
    evicting(story, auto=auto)
    assert (asked(story, "Evict", "op-1", "b"), story.homes(), story.status()["phase"]) == ("Complete", "ac", "Available")
    assert [(row["clusterName"], row["reason"]) for row in story.status()["evictedClusters"]] == [("b", "Requested")]
    story.karmada.wait(3600)
    story.change("web:2")
    story.rounds(8)
    assert (story.images(), story.plan().plan.empty) == ("2 - 2", True)
    assert (asked(story, "Return", "op-2", "b"), story.homes(), "evictedClusters" in story.status()) == ("Complete", "abc", False)
    assert (asked(story, "Evict", "op-2", "b"), story.homes()) == ("Complete", "abc"), "once per id"


def test_an_eviction_by_request_waits_for_the_rules_and_says_so(story: Story) -> None:
    evicting(story, min_available_percent=100)
    assert (asked(story, "Evict", "op-1", "b"), story.homes()) == ("Accepted", "abc")
    assert [
        line
        for line in story.finding_lines()
        if "CM-FLEET-06" in line and "b is kept in spite of Requested: 4 replicas would be left" in line
    ]
    evicting(story, min_available_percent=50)
    story.rounds(2)
    assert (story.status()["lastOperation"]["result"], story.homes()) == ("Complete", "ac")


def test_an_eviction_by_request_is_not_counted_and_never_leaves_the_last_good_cluster(story: Story) -> None:
    evicting(story, auto=True, max_evictions=1)
    assert (asked(story, "Evict", "op-1", "b"), story.homes()) == ("Complete", "ac")
    story.karmada.kill(member("a"))
    story.karmada.wait(61)
    story.rounds(3)
    assert [row["clusterName"] for row in story.status()["placements"]] == ["c"]
    assert asked(story, "Evict", "op-2", "c") == "Accepted"
    assert [line for line in story.finding_lines() if "c is kept in spite of Requested: no other cluster" in line]


@pytest.mark.parametrize("kind", ["Evict", "Return"])
def test_an_operation_on_a_cluster_that_the_placement_has_not_is_invalid_and_says_which_it_has(story: Story, kind: str) -> None:
    evicting(story)
    assert (asked(story, kind, "op-1", "nowhere"), story.homes()) == ("Invalid", "abc")
    assert "nowhere is none of the clusters that the placement permits: a, b, c." in story.status()["lastOperation"]["message"]
    assert [line for line in story.finding_lines() if line.startswith("CM-FLEET-05")]


def test_all_workloads_of_a_tenant_share_a_budget_of_evictions(story: Story) -> None:
    """The first by name use it, and a return gives it back."""
    more = {f"more-{number}": replace(story.wanted, name=f"more-{number}", placement="movable") for number in range(3)}
    story.wanted = replace(story.wanted, placement="movable")

    def rounds(count: int) -> FleetPlan:
        for _ in range(count):
            request = replace(story.request(), workloads={**more, "web": story.wanted}, max_evictions=2)
            made = plan_fleet(request, story.karmada.facts(), "karmada")
            story.karmada.write(made.plan.steps)
            story.karmada.settle()
        return made

    rounds(4)
    story.karmada.kill(member("b"))
    story.karmada.wait(61)
    decisions = rounds(4).decisions
    left = [name for name, decision in decisions.items() if decision.target and decision.target.turn.state.evicted]
    assert left == ["more-0", "more-1"]
    said = {name: decision.findings[0].summary for name, decision in decisions.items() if decision.findings}
    assert list(said) == ["more-2", "web"] and "the workloads of the tenant have left clusters 2 times already, of at most 2" in said["web"]
    story.karmada.revive(member("b"))
    story.karmada.wait(61)
    assert not any(decision.target and decision.target.turn.state.evicted for decision in rounds(4).decisions.values())


def test_a_workload_that_is_unhealthy_in_its_zone_moves_to_another(story: Story) -> None:
    zoned(story, 1, 1)
    assert story.homes() == "a"
    story.karmada.broken.add(f"{member('a')} web:2")
    story.change("web:2")
    story.rounds(3)
    story.karmada.wait(61)
    story.rounds(4)
    assert (story.homes(), story.status()["phase"]) == ("bc", "Available")


@pytest.mark.parametrize("auto", [False, True])
def test_a_workload_is_somewhere_rather_than_nowhere(story: Story, auto: bool) -> None:
    """The clusters to which it went leave the fleet."""
    evicting(story, auto=auto)
    assert (asked(story, "Evict", "op-1", "a"), story.homes()) == ("Complete", "bc")
    story.requirements = (ClusterRequirement("tier", "In", ("edge",)),)
    story.karmada.members[member("a")] = {**TENANT.labels, "tier": "edge"}
    story.policies["kept"] = replace(story.policies["kept"], requirements=story.requirements)
    story.rounds(4)
    assert (story.homes(), story.status()["phase"]) == ("a", "Available")
