# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rollouts under every order of events: changes, kills between writes, lost clusters, pauses, operations, slow controllers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import settings, stateful
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import annotations_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.contents import TenantObject
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
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import FleetPlan, plan_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout import SETTLING
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.rollout_state import COMPLETE, STATE_ANNOTATION, state_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.status import workload_status
from tests.testing.karmada_model import KarmadaModel, Refused
from tests.testing.properties import examples

TENANT: Final = Tenant("shop", "default")
NAMES: Final = ("a", "b", "c")
KEY: Final = TenantObject("Deployment", "web")
CONF: Final = TenantObject("ConfigMap", "conf")
ZONES: Final = {"a": "north", "b": "south", "c": "south"}
TIERS: Final = {"a": "edge", "b": "edge", "c": "core"}
CLUSTERS: Final = {
    name: FleetCluster(name=name, member=member_name(TENANT, name), zone=ZONES[name], labels={"tier": TIERS[name]}) for name in NAMES
}
MEMBERS: Final = {cluster.member: {**TENANT.labels, **cluster.labels} for cluster in CLUSTERS.values()}
BY_NAME: Final = {name: CLUSTERS[name].member for name in NAMES}
ROUNDS: Final = 40
LONG: Final = 61  # seconds, after which a workload may leave a cluster or come back
MOVES: Final = Migration(auto=True, dwell=60, unhealthy=60)
ZONAL: Final = Spread("zone", 1, 1)
POLICIES: Final = (
    PlacementPolicy(name="movable", strategy="FixedReplicas", migration=MOVES),
    PlacementPolicy(name="linked", strategy="FixedReplicas", migration=MOVES, connected_in="edge"),
    PlacementPolicy(name="zonal", strategy="Spread", migration=MOVES, spread=ZONAL),
    PlacementPolicy(name="near", strategy="FixedReplicas", migration=MOVES, requirements=(ClusterRequirement("tier", "In", ("edge",)),)),
    PlacementPolicy(name="fixed", strategy="Spread", spread=ZONAL, connected_in="edge"),
)


def workload(serial: int, **more: Any) -> FleetWorkload:
    template = {"spec": {"containers": [{"name": "web", "image": f"web:{serial}"}]}}
    config = {"kind": "ConfigMap", "name": "conf", "data": {"A": f"{serial}"}}
    given = {"template": template, "resources": (config,), "service": {"ports": [{"port": 80}]}, "rollout": RolloutRules(batch_size=1)}
    return FleetWorkload(name="web", fleet="all", **{**given, **more})


def request_of(*workloads: FleetWorkload, names: Collection[str] = NAMES, connected: Collection[str] = NAMES) -> FleetRequest:
    fleets = {"all": Fleet(name="all", clusters=tuple(names))}
    return FleetRequest(
        tenant=TENANT,
        clusters=CLUSTERS,
        fleets=fleets,
        policies={policy.name: policy for policy in POLICIES},
        workloads={entry.name: entry for entry in workloads},
        connected={"edge": tuple(connected)},
    )


class Rollouts(stateful.RuleBasedStateMachine):
    """One workload in three clusters, one cluster per wave."""

    def __init__(self) -> None:
        super().__init__()
        self.karmada = KarmadaModel(tenant=TENANT, members=MEMBERS)
        self.wanted = workload(1)
        self.names: Collection[str] = NAMES  # clusters of the fleet
        self.connected: Collection[str] = NAMES  # by the mesh "edge"
        self.serial = 1
        # By uid of the template and revision: members that ran it well at some time, and those that were not to have it meanwhile.
        self.settled: dict[tuple[str, int], set[str]] = {}
        self.absent: dict[tuple[str, int], set[str]] = {}

    @stateful.initialize()
    def begin(self) -> None:
        self.run()
        for _ in range(3):
            self.karmada.settle()
            self.run()

    def run(self, writes: int | None = None) -> None:
        """One run, ended after so many writes."""
        self.karmada.write(self.plan().plan.steps[:writes])

    def plan(self) -> FleetPlan:
        return plan_fleet(self.request(), self.karmada.facts(), "karmada")

    def request(self) -> FleetRequest:
        return request_of(self.wanted, names=self.names, connected=self.connected)

    @stateful.rule(writes=st.integers(0, 6))
    def a_run_is_killed(self, writes: int) -> None:
        self.run(writes)

    @stateful.rule()
    def a_run_ends(self) -> None:
        self.run()

    @stateful.rule(stale=st.integers(0, 6))
    def two_runs_at_once(self, stale: int) -> None:
        steps = self.plan().plan.steps
        self.run()
        try:
            self.karmada.write(steps[:stale])
        except Refused:
            return

    @stateful.rule(kinds=st.sets(st.sampled_from(("Deployment", "ConfigMap", "Service")), min_size=1))
    def the_detector_works(self, kinds: set[str]) -> None:
        self.karmada.detect(kinds)

    @stateful.rule(name=st.sampled_from(NAMES))
    def a_member_gets_templates(self, name: str) -> None:
        self.karmada.dispatch(BY_NAME[name])

    @stateful.rule(name=st.sampled_from(NAMES))
    def a_member_reports(self, name: str) -> None:
        self.karmada.report(BY_NAME[name])

    @stateful.rule()
    def everything_happens(self) -> None:
        self.karmada.settle()

    @stateful.rule(rounds=st.integers(1, 4))
    def all_goes_on(self, rounds: int) -> None:
        for _ in range(rounds):
            self.run()
            self.karmada.settle()

    @stateful.rule(writes=st.integers(0, 6), rounds=st.integers(0, 2))
    def a_change_is_killed_and_taken_up(self, writes: int, rounds: int) -> None:
        self.the_spec_changes(broken=False)
        for _ in range(rounds):
            self.run()
            self.karmada.settle()
        self.run(writes)
        self.karmada.settle()
        self.run()

    @stateful.rule(seconds=st.sampled_from((1, 30, 900)))
    def time_passes(self, seconds: int) -> None:
        self.karmada.wait(seconds)

    @stateful.rule(broken=st.booleans())
    def the_spec_changes(self, broken: bool) -> None:
        self.serial += 1
        if broken:
            self.karmada.broken.add(f"web:{self.serial}")
        self.is_wanted(self.serial)

    @stateful.rule()
    def the_spec_goes_back(self) -> None:
        self.is_wanted(1)

    def is_wanted(self, serial: int) -> None:
        new = workload(serial)
        self.wanted = replace(self.wanted, template=new.template, resources=new.resources)

    @stateful.rule(name=st.sampled_from(NAMES), kind=st.sampled_from(("ConfigMap", "Service", "Deployment")))
    def a_member_refuses_a_kind(self, name: str, kind: str) -> None:
        self.karmada.refusing[f"{BY_NAME[name]} {kind}"] = "admission webhook denied the request"

    @stateful.rule()
    def nothing_is_refused_any_more(self) -> None:
        self.karmada.refusing.clear()

    @stateful.rule(names=st.sets(st.sampled_from(NAMES)))
    def links_are_lost_or_come_back(self, names: set[str]) -> None:
        self.connected = sorted(names)

    @stateful.rule(pause=st.sampled_from((0, 30)))
    def waves_are_watched_or_not(self, pause: int) -> None:
        self.wanted = replace(self.wanted, rollout=replace(self.wanted.rollout, pause=pause))

    @stateful.rule(paused=st.booleans())
    def it_is_paused_or_resumed(self, paused: bool) -> None:
        self.wanted = replace(self.wanted, rollout=replace(self.wanted.rollout, paused=paused))

    @stateful.rule(size=st.sampled_from((0, 1, 2)))
    def waves_change(self, size: int) -> None:
        self.wanted = replace(self.wanted, rollout=replace(self.wanted.rollout, batch_size=size))

    @stateful.rule(is_global=st.booleans(), port=st.integers(80, 82))
    def its_service_is_another(self, is_global: bool, port: int) -> None:
        """A global one is in every cluster of the fleet."""
        more = {"global": True, "meshRef": {"name": "edge"}} if is_global else {}
        self.wanted = replace(self.wanted, service={"ports": [{"port": port}], **more})

    @stateful.rule()
    def it_is_restarted(self) -> None:
        self.serial += 1
        self.wanted = replace(self.wanted, operation=Operation("Restart", f"op-{self.serial}"))

    @stateful.rule(to=st.integers(1, 5))
    def it_is_rolled_back(self, to: int) -> None:
        self.serial += 1
        self.wanted = replace(self.wanted, operation=Operation("Rollback", f"op-{self.serial}", to))

    @stateful.rule(kind=st.sampled_from(("Evict", "Return")), name=st.sampled_from(NAMES))
    def it_is_asked_to_leave_or_to_come_back(self, kind: str, name: str) -> None:
        self.serial += 1
        self.wanted = replace(self.wanted, operation=Operation(kind, f"op-{self.serial}", cluster=name))

    @stateful.rule(name=st.sampled_from(NAMES))
    def a_member_dies(self, name: str) -> None:
        self.karmada.kill(BY_NAME[name])

    @stateful.rule(name=st.sampled_from(NAMES))
    def a_member_comes_back(self, name: str) -> None:
        self.karmada.revive(BY_NAME[name])

    @stateful.rule(count=st.integers(1, 5))
    def replicas_change(self, count: int) -> None:
        self.wanted = replace(self.wanted, replicas=count)

    @stateful.rule(names=st.sets(st.sampled_from(NAMES), min_size=1))
    def clusters_come_into_the_fleet_or_leave_it(self, names: set[str]) -> None:
        self.names = sorted(names)

    @stateful.rule(placement=st.sampled_from(("", *(policy.name for policy in POLICIES))))
    def it_may_move_or_stays(self, placement: str) -> None:
        self.wanted = replace(self.wanted, placement=placement)

    @stateful.rule(writes=st.integers(0, 6), rounds=st.integers(0, 2))
    def it_is_removed_by_a_run_that_is_killed_and_wanted_again(self, writes: int, rounds: int) -> None:
        for _ in range(rounds):
            self.karmada.write(plan_fleet(request_of(), self.karmada.facts(), "karmada").plan.steps)
            self.karmada.settle()
        self.karmada.write(plan_fleet(request_of(), self.karmada.facts(), "karmada").plan.steps[:writes])

    @stateful.rule()
    def a_template_is_deleted_by_hand(self) -> None:
        self.karmada.objects.pop(KEY.path(karmada_namespace(TENANT)), None)

    @stateful.invariant()
    def nothing_stands_outside_the_tenants_namespace(self) -> None:
        name = karmada_namespace(TENANT)
        for path in self.karmada.paths:
            assert f"/namespaces/{name}/" in path or path.endswith(f"/{name}")

    @stateful.invariant()
    def no_wave_begins_before_the_one_before_it_ran_well(self) -> None:
        """A member of a later wave has the revision only if all of the waves before have run it well, were lost, or were not to have it.

        Those are members outside the fleet, and those that the workload was asked to leave.
        """
        had = {member: self.copy_in(member) for member in MEMBERS}
        for member, copy in had.items():
            if self.karmada.image_in(member, KEY) not in self.karmada.broken:
                self.settled.setdefault(copy, set()).add(member)
        state, live = self.state(), self.karmada.objects.get(KEY.path(karmada_namespace(TENANT)))
        if state is None or state.phase == COMPLETE or live is None:
            return
        present = (live["metadata"]["uid"], state.revision)
        absent = self.absent.setdefault(present, set())
        absent |= {member for name, member in BY_NAME.items() if name not in self.names}
        absent |= {member for member, eviction in state.evicted.items() if eviction.reason == "Requested"}
        well = self.settled.get(present, set()) | set(self.karmada.since) | absent
        for place, wave in enumerate(state.waves):
            before = {member for earlier in state.waves[:place] for member in earlier}
            if any(had[member] == present for member in wave):
                assert before <= well

    def copy_in(self, member: str) -> tuple[str, int]:
        """What a member runs: numbers of revisions begin anew when a workload is made again, so the template's uid is a part of it."""
        found = self.karmada.running.get(member, {}).get(KEY)
        return (found["metadata"]["uid"] if found is not None else "", self.karmada.revision_in(member, KEY))

    def state(self) -> Any:
        policy = self.karmada.facts().policies.get("web")
        return state_of(annotations_of(policy).get(STATE_ANNOTATION, "")) if policy is not None else None

    def teardown(self) -> None:
        """In the end it is as wanted or the status says why not; and when nothing is in the way any more, it is as wanted."""
        self.rest()
        self.karmada.wait(self.wanted.rollout.deadline + 1)
        self.rest()
        self.it_is_as_wanted_or_the_status_says_why_not()
        for name in NAMES:
            self.karmada.revive(BY_NAME[name])
        self.karmada.refusing.clear()
        self.connected = NAMES
        if not self.fitting():
            self.names = NAMES
        self.rest()  # what was left because of its links is noted as Connected again
        self.karmada.wait(MOVES.dwell)
        self.karmada.broken.clear()
        self.wanted = replace(self.wanted, rollout=replace(self.wanted.rollout, paused=False))
        self.rest()
        evicted = self.status().get("evictedClusters", ())
        # The workload comes back with another revision, or when it is asked to.
        assert {entry["reason"] for entry in evicted} <= {"Unhealthy", "Requested"}
        self.it_is_as_wanted(evicted)

    def rest(self) -> None:
        """Let runs follow each other until none has anything to write, however long one waits."""
        for _ in range(ROUNDS):
            self.run()
            self.karmada.settle()
            self.karmada.wait(self.wanted.rollout.pause or SETTLING)
            if self.plan().plan.steps == ():
                self.karmada.wait(LONG)
                if self.plan().plan.steps == ():
                    return
        raise AssertionError(self.plan().plan.steps)

    def status(self) -> Mapping[str, Any]:
        return workload_status(self.request(), self.karmada.facts(), self.plan().decisions["web"]).status

    def fitting(self) -> set[str]:
        """Clusters of the fleet that meet the requirements of the placement."""
        return {name for name in self.names if self.wanted.placement != "near" or TIERS[name] == "edge"}

    def it_is_as_wanted_or_the_status_says_why_not(self) -> None:
        status = self.status()
        if status["phase"] == "Available":
            self.it_is_as_wanted(status.get("evictedClusters", ()))
            return
        ready = next(entry for entry in status["conditions"] if entry["type"] == "Ready")
        degraded = next(entry for entry in status["conditions"] if entry["type"] == "Degraded")
        homes = {row["clusterName"] for row in status["placements"]}
        dead = {name for name in self.names if BY_NAME[name] in self.karmada.dead}
        ill = {name for name in self.names if self.karmada.image_in(BY_NAME[name], KEY) in self.karmada.broken}
        said = f"{ready['message']} {degraded['message']}"
        assert ready["status"] == "False" and said.strip()
        phase = status.get("rollout", {}).get("phase", "Complete")
        if self.wanted.rollout.paused and phase != "Complete":
            assert (phase, ready["reason"]) == ("Paused", "RolloutPaused") and "Paused" in said
        elif dead & homes:
            assert degraded["reason"] == "ClusterNotReady" and all(name in said for name in dead & homes)
        elif ready["reason"] == "NoClusterFits":
            assert not self.fitting()
        elif ready["reason"] == "NoConnectedCluster":
            assert self.wanted.placement in ("linked", "fixed") and not set(self.connected) & set(self.names)
        elif degraded["reason"] == "Refused":
            assert self.karmada.refusing and any(f"{name}: " in degraded["message"] for name in homes)
        else:  # nothing else is in the way in this model
            assert status["phase"] == "Degraded" and ill and any(name in said for name in ill)

    def it_is_as_wanted(self, evicted: Sequence[Mapping[str, Any]] = ()) -> None:
        left = {entry["clusterName"] for entry in evicted}
        status = self.status()
        assert status["phase"] == "Available"
        chosen = {row["clusterName"] for row in status["placements"]}
        allowed = self.fitting() - left
        if self.wanted.placement in ("zonal", "fixed"):
            (zone,) = {ZONES[name] for name in chosen}
            allowed = {name for name in allowed if ZONES[name] == zone}
        linked = self.wanted.placement in ("linked", "fixed")
        assert allowed & set(self.connected if linked else NAMES) <= chosen <= allowed
        homes = {BY_NAME[name] for name in chosen}
        state = self.state()
        assert state.phase == COMPLETE and state.suspended == ()
        for member in MEMBERS:  # a dead one keeps what it had
            if member not in self.karmada.dead:
                assert self.karmada.revision_in(member, KEY) == (state.revision if member in homes else 0)
        assert not homes & self.karmada.dead
        self.its_service_is_where_it_should_be(homes)
        images = {self.karmada.image_in(member, KEY) for member in homes}
        if state.rollback is None:
            assert images == {self.wanted.template["spec"]["containers"][0]["image"]}
        if self.wanted.operation is not None:
            waits = self.wanted.operation.kind == "Evict" and any(
                note.code == "CM-FLEET-06" for note in self.plan().decisions["web"].findings
            )
            assert state.operation.id == self.wanted.operation.id
            assert state.operation.result in ("Complete", "Invalid", *(("Accepted",) if waits else ()))

    def its_service_is_where_it_should_be(self, homes: Collection[str]) -> None:
        """Where nothing refuses it; a rollback has the Service of its revision."""
        service = self.wanted.service
        assert service is not None
        key = TenantObject("Service", "web")
        for member in set(MEMBERS) - self.karmada.dead:
            found = self.karmada.running.get(member, {}).get(key)
            if f"{member} Service" in self.karmada.refusing:
                continue
            everywhere = bool(service.get("global")) and member in {BY_NAME[name] for name in self.names}
            assert (found is not None) == (everywhere or member in homes), member
            if found is not None and self.state().rollback is None:
                assert found["spec"]["ports"][0]["port"] == service["ports"][0]["port"]


def test_a_wave_does_not_wait_for_a_member_that_the_workload_was_asked_to_leave() -> None:
    """A restart is a revision of its own, and brings it back to no cluster."""
    rollouts = Rollouts()
    rollouts.begin()
    rollouts.it_is_asked_to_leave_or_to_come_back(kind="Evict", name="a")
    rollouts.all_goes_on(1)
    rollouts.it_is_restarted()
    for _ in range(8):
        rollouts.all_goes_on(1)
        rollouts.no_wave_begins_before_the_one_before_it_ran_well()
    assert [rollouts.copy_in(BY_NAME[name])[1] for name in NAMES] == [0, 2, 2]
    rollouts.teardown()


TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(examples(60), stateful_step_count=30)
