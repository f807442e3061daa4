# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rehearsals as users read them: which losses, in which order, what waits, who notices, and the gate of a pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.quorum import Copy, NotRecorded, record, recording
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import Registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import MARK
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.lost_peer import Seconds, delays, kept_for
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import KNOWN, Minor
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.exposure_losses import ExposureLosses, Fate
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.harm import Harm, Verdict, harms_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.loss import Loss, LossKind, each_loss, named_losses
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.notice import notices
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.rehearsal import (
    RehearsalInputs,
    Rehearsals,
    rehearse,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.stalls import StallInputs, WaitingPlan, stall_inputs
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.rehearsal_lines import rehearsal_lines
from tests.testing.exposure_world import cluster, clusters, desired, item, run
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.rows import one_test
from tests.testing.traffic_builders import scene, service, slice_facts, traffic

GLOBAL = {"service.cilium.io/global": "true"}
NOTHING = StallInputs(members=("c1", "c2", "c3"), answering=frozenset(("c1", "c2", "c3")), electorate=("c1", "c2", "c3"))


def gone(*members: str) -> Loss:
    return Loss(name=f"{', '.join(members)} gone", kind="members", members=frozenset(members))


def shop(**ready: Mapping[str, int]) -> Scene:
    """Global services by name, each with ready endpoints by cluster; all clusters have the Services."""
    hosts = ("c1", "c2", "c3")
    return scene(
        *(
            traffic(
                host,
                services=[service(name, annotations=GLOBAL) for name in ready],
                slices=tuple(slice_facts(name, ready=numbers.get(host, 0)) for name, numbers in ready.items()),
            )
            for host in hosts
        )
    )


def rehearsed(current: Scene, *losses: Loss, stalls: StallInputs = NOTHING, rows: int = 1000) -> Rehearsals:
    inputs = RehearsalInputs(scene=current, desired=Desired(mesh=current.mesh), stalls=stalls, mesh_check=300)
    return rehearse(inputs, losses or each_loss(current.mesh, tuple(LossKind)), rows=rows)


# Which losses


def test_each_member_each_pair_of_links_and_each_network_is_a_loss() -> None:
    mesh = shop(web={}).mesh
    assert [loss.name for loss in each_loss(mesh, (LossKind.MEMBERS, LossKind.LINKS))] == [
        "c1 is gone",
        "c2 is gone",
        "c3 is gone",
        "links c1 - c2 are cut",
        "links c1 - c3 are cut",
        "links c2 - c3 are cut",
    ]
    (first, *_rest) = each_loss(mesh, (LossKind.NETWORKS,))
    assert (first.dead_for("c1"), first.dead_for("c2"), first.dead_for("c3")) == (frozenset({"c2"}), frozenset({"c1"}), frozenset())


def test_named_losses_are_parsed_and_named_by_what_is_gone() -> None:
    mesh = shop(web={}).mesh
    site, cable = named_losses(
        [{"name": "Frankfurt", "members": ["c1", "c2"]}, {"links": [["c1", "c3"]], "networks": [["c3", "c2"]]}], mesh
    )
    assert (site.name, site.members) == ("Frankfurt", frozenset({"c1", "c2"}))
    assert (cable.name, cable.networks) == ("links c1 -> c3 are cut; networks c2 - c3 are cut", frozenset({("c2", "c3")}))
    assert not cable.reaches("c1", "c3") and cable.reaches("c3", "c1") and not cable.reaches("c2", "c3") and not cable.reaches("c3", "c2")


@one_test(
    "given said",
    ({"members": ["c1"]}, "must be a list of losses"),
    (["c1"], "must be a mapping with the keys name, members, links, networks"),
    ([{"members": ["c4"]}], '"c4" is no member of the mesh; its members are c1, c2, c3'),
    ([{"members": [7]}], "must be the inventory name of a member, not a number"),
    ([{"members": ["c1", "c2", "c3"]}], "are all members of the mesh"),
    ([{"links": [["c1"]]}], "must be a pair of inventory names, as [c1, c2]"),
    ([{"links": [["c1", "c1"]]}], '"c1" and "c1" have no links to each other in this mesh'),
    ([{"links": ["c1"]}], "must be a pair"),
    ([{"name": "nothing"}], "names nothing that is gone"),
    ([{"name": "a\nb", "members": ["c1"]}], "must be one printable line"),
    ([{"member": ["c1"]}], "did you mean members?"),
)
def test_a_loss_that_is_not_valid_is_refused_in_words(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        named_losses(given, shop(web={}).mesh)
    assert said in str(error.value)


# Rank, gate and lines


def test_losses_are_ranked_by_harm_and_summed_up() -> None:
    current = shop(only={"c2": 2}, both={"c1": 1, "c2": 1}, three={"c1": 1, "c2": 1, "c3": 1})
    found = rehearsed(current)
    assert [entry.loss.name for entry in found.ranked][:2] == ["c2 is gone", "network c1 - c2 is cut"]
    worst = found.ranked[0]
    assert worst.verdict is Verdict.OUTAGE
    # "only": c1 and c3 are cut off. "both": c1 has its own beside a dead one, c3 that of c1. "three": one dead one in each.
    assert dict(worst.numbers) == {Harm.SERVICE: 1, Harm.CLIENTS: 2, Harm.DEAD: 4, Harm.KEPT: 6}
    assert worst.summary.startswith("1 service without a backend (production/only); clients without a backend that answers: 2 times")
    assert found.to_dict()["verdicts"] == {"outage": 3, "degraded": 6, "stalled": 0, "unknown": 0, "none": 0}
    assert found.services == 3


def test_the_gate_names_the_losses_and_is_not_open_on_half_of_the_facts() -> None:
    current = shop(only={"c2": 2}, both={"c1": 1, "c2": 1})
    found = rehearsed(current, gone("c1"), gone("c2"))
    assert found.gate(()) == ""
    assert found.gate(harms_of(["exposure-without-cluster"])) == ""
    assert found.gate(harms_of(["service-without-backend"])) == (
        "1 of 2 losses would do what fail_on names: c2 gone: service-without-backend (1)."
    )
    silent = replace(found, unknown={"c3": "no answer"})
    assert "cannot be answered: nothing is known of c3" in silent.gate(harms_of(["exposure-without-cluster"]))


def test_members_that_are_silent_are_not_known() -> None:
    failure = ObserveFailure(host="c9", code="CM-API-01", message="no answer within 5 s")
    current = scene(traffic("c1"), traffic("c2"), members=("c9",), failures={"c9": failure})
    assert rehearsed(current, gone("c1")).to_dict()["unknown"] == [{"cluster": "c9", "reason": "no answer within 5 s"}]


def test_a_loss_is_harmless_only_where_all_that_it_concerns_is_known() -> None:
    failure = ObserveFailure(host="c9", code="CM-API-01", message="no answer within 5 s")
    current = scene(traffic("c1"), traffic("c2"), members=("c9",), failures={"c9": failure})
    found = {entry.loss.name: entry for entry in rehearsed(current).ranked}
    assert (found["links c1 - c2 are cut"].verdict, found["network c1 - c2 is cut"].verdict) == (Verdict.NONE, Verdict.NONE)
    for name in ("c1 is gone", "c9 is gone", "links c1 - c9 are cut", "network c2 - c9 is cut"):
        assert (found[name].verdict, found[name].summary) == (Verdict.UNKNOWN, "nothing is known of c9")
    harmed = scene(
        *(traffic(host, services=[service("web", annotations=GLOBAL)], slices=(slice_facts("web", ready=1),)) for host in ("c1", "c2")),
        members=("c9",),
        failures={"c9": failure},
    )
    (worst, *_others) = rehearsed(harmed, gone("c1")).ranked
    assert worst.verdict is Verdict.DEGRADED and worst.summary.endswith("; nothing is known of c9")


def test_a_harm_that_does_not_exist_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean service-without-backend"):
        harms_of(["service-without-backends"])
    assert harms_of(["dead-backends", "service-without-backend"]) == (Harm.SERVICE, Harm.DEAD)


def test_rows_are_listed_for_the_gravest_losses_and_the_others_say_how_many_they_left_out() -> None:
    current = shop(**{f"s{number}": {"c2": 1} for number in range(4)}, both={"c1": 1, "c2": 1})
    found = rehearsed(current, gone("c1"), gone("c2"), rows=3)
    assert [(entry.loss.name, len(entry.services), entry.omitted) for entry in found.ranked] == [("c2 gone", 3, 2), ("c1 gone", 0, 1)]


def test_lines_say_what_is_left_where_and_stay_few() -> None:
    current = shop(only={"c2": 2}, both={"c1": 1, "c2": 1})
    texts = [line.text for line in rehearsal_lines("edge-mesh-eu", rehearsed(current, gone("c2")))]
    assert "  production/both: 1 of 2 ready: 1 in c1" in texts
    assert "    clients in c1, c3: 2 live before, then 1 live + 1 dead; Cilium drops them never" in texts
    assert "    clients in c1, c3: 2 live before, then 2 dead; Cilium drops them never" in texts
    assert texts[-1] == "edge-mesh-eu: 1 loss rehearsed: 1 outage"
    many = shop(**{f"s{number}": {"c2": 1, "c1": 1} for number in range(50)})
    assert len(rehearsal_lines("edge-mesh-eu", rehearsed(many))) <= 120


# Exposures


def test_an_exposed_service_moves_to_its_standby_and_has_no_cluster_without_both() -> None:
    wanted = item(clusters={"primary": "c1", "standby": ["c2"]})
    current = run(clusters(*(cluster(host) for host in ("c1", "c2", "c3"))), wanted)
    losses = ExposureLosses(current, desired(current, wanted))
    (moved,) = losses.judge(gone("c1"))
    assert (moved.fate, moved.before, moved.after, moved.waits) == (Fate.MOVES, ("c1",), ("c2",), True)
    (out,) = losses.judge(gone("c1", "c2"))
    assert (out.fate, out.after) == (Fate.WITHOUT, ())
    assert losses.judge(gone("c3")) == ()


def test_the_service_that_an_exposure_made_is_no_global_service_of_its_own() -> None:
    """It is global as the one that it leads to, so that load balancers reach remote backends; the lab showed it as lost."""
    wanted = item(clusters={"primary": "c1", "standby": ["c2"]})
    world = clusters(*(cluster(host, services=[service(annotations=GLOBAL)]) for host in ("c1", "c2", "c3")))
    current = run(world, wanted)
    assert any(key != ("production", "nginx") for key in current.traffic["c1"].services)
    assert [entry.tally.lost for entry in rehearsed(current, gone("c1")).ranked] == [()]
    assert rehearsed(current, gone("c1")).services == 1


def test_an_exposed_service_in_all_clusters_has_fewer_and_a_broken_one_cannot_lose() -> None:
    wanted = item(clusters=["c1", "c2"])
    current = run(clusters(*(cluster(host) for host in ("c1", "c2", "c3"))), wanted)
    (fewer,) = ExposureLosses(current, desired(current, wanted)).judge(gone("c1"))
    assert (fewer.fate, fewer.before, fewer.after) == (Fate.FEWER, ("c1", "c2"), ("c2",))
    empty = run(clusters(*(cluster(host, ready=0) for host in ("c1", "c2", "c3"))), wanted)
    assert ExposureLosses(empty, desired(empty, wanted)).judge(gone("c1")) == ()


# What waits, and who notices


def test_a_majority_of_the_leases_a_roll_a_renewal_and_an_approval_wait_for_a_lost_member() -> None:
    pairs = [
        {"cluster": "c1", "peer": "c2", "expires": "2026-12-01T00:00:00Z", "due": True},
        {"cluster": "c2", "peer": "c3", "expires": "2026-10-01T00:00:00Z", "due": False},
        {"cluster": "c1", "peer": "c3", "expires": "2026-09-10T00:00:00Z", "due": True},
    ]
    waiting = WaitingPlan("0123456789abcdef", 4, frozenset({"c1", "c2"}))
    inputs = replace(NOTHING, rolling={"c1": "trust", "c3": "trust"}, pairs=pairs, waiting=waiting)
    one = {stall.harm: stall.text for stall in inputs.stalls(gone("c2"))}
    assert one.keys() == {Harm.ROLL, Harm.RENEWAL, Harm.APPROVAL}
    assert "c1 -> c2" in one[Harm.RENEWAL] and "c1 -> c3" not in one[Harm.RENEWAL]
    assert "plan 0123456789ab (4 steps) relies on c2" in one[Harm.APPROVAL]
    assert inputs.returns_until(gone("c2")) == "2026-10-01T00:00:00Z"
    two = {stall.harm: stall.text for stall in inputs.stalls(gone("c2", "c3"))}
    assert two[Harm.MAJORITY].startswith("1 of 3 members that have a say")
    links = Loss(name="cut", kind="links", links=frozenset({("c1", "c2")}))
    assert inputs.stalls(links) == (), "every run asks the API servers, and not the links"


class Copies:
    """Copies of the lease registry in the members that still answer."""

    def __init__(self, mesh: str, answering: Collection[str]) -> None:
        self.kept = {host: Copy(registry=Registry(mesh=mesh)) for host in answering}

    def read(self, host: str) -> Copy | None:
        return self.kept.get(host)

    def write(self, host: str, text: str, version: str) -> bool:
        self.kept[host] = replace(self.kept[host], text=text, version="1")
        return True


@given(st.integers(2, 7), st.data())
def test_leases_wait_exactly_when_the_protocol_finds_no_majority(members: int, data: st.DataObject) -> None:
    """The prediction is held against the protocol itself, which asks the members that are left."""
    hosts = tuple(f"c{number}" for number in range(1, members + 1))
    lost = data.draw(st.sets(st.sampled_from(hosts), min_size=1, max_size=members - 1))
    inputs = StallInputs(members=hosts, answering=frozenset(hosts), electorate=hosts)
    said = any(stall.harm is Harm.MAJORITY for stall in inputs.stalls(gone(*sorted(lost))))
    left = [host for host in hosts if host not in lost]
    asked = recording("mesh", lambda known: known, hosts, left, now=NOW)
    assert said is isinstance(record(Copies("mesh", left), asked, pause=lambda: None), NotRecorded)


def test_an_approved_plan_does_not_apply_once_a_member_that_it_relies_on_is_gone() -> None:
    """By the hash that the planner then makes, for each member of a mesh that is not connected yet."""
    facts = {host: cluster_facts(host, version="1.20.2") for host in ("c1", "c2", "c3")}
    mesh = mesh_of("c1", "c2", "c3")
    approved = plan_links(mesh, facts, PlanOptions(), NOW)
    waiting = WaitingPlan(approved.hash, len(approved.steps), frozenset(approved.relied_on) | {step.cluster for step in approved.steps})
    for lost in mesh.clusters:
        assert [stall.harm for stall in replace(NOTHING, waiting=waiting).stalls(gone(lost))] == [Harm.APPROVAL]
        left = {host: entry for host, entry in facts.items() if host != lost}
        assert plan_links(mesh, left, PlanOptions(), NOW).hash != approved.hash


def test_inputs_about_what_waits_come_from_the_facts() -> None:
    current = shop(web={})
    rolled = cluster_facts("c2", version="1.18.11")
    mark = '{"stage": "trust", "owner": "%s", "old": "o", "new": "n"}' % current.binding.owner  # noqa: UP031 - the text is full of braces
    rolled = replace(rolled, ca=replace(rolled.ca, annotations={MARK: mark}))
    found = stall_inputs(replace(current, facts={**current.facts, "c2": rolled}), (), None)
    assert (found.electorate, dict(found.rolling)) == (("c1", "c2", "c3"), {"c2": "trust"})


def test_who_notices_is_said_by_version() -> None:
    facts = {"c1": cluster_facts("c1", version="1.15.19"), "c3": cluster_facts("c3", version="1.20.2", kvstoremesh=False)}
    current = scene(traffic("c1"), traffic("c2"), traffic("c3"), facts=facts)
    found = {(entry.who, entry.clusters): entry for entry in notices(gone("c2"), current, [60, 40], 300)}
    assert found["kvstoremesh", ("c1",)].after == Seconds(20, 100)
    assert "20 to 25 s if connections are refused" in found["kvstoremesh", ("c1",)].how
    assert found["agents", ("c3",)].after == Seconds(60, 130)
    assert found["failover contract", ()].after == Seconds(0, 60)
    assert found["operator", ()].after == Seconds(0, 300)
    assert found["clients", ()].after == Seconds(0, 0)


@pytest.mark.parametrize("minor", KNOWN.minors)
def test_every_version_has_its_delays(minor: Minor) -> None:
    """Measured: 1.15.19 gives a peer that refuses up after 20 to 25 s, 1.20.2 after 128 s; a silent one after 86 to 100 s."""
    found = delays(minor)
    if minor < Minor(1, 16):
        assert found.refused.least <= 20 and found.refused.most >= 25
    else:
        assert found.refused.least <= 70 and found.refused.most >= 128
    assert found.silent.least <= 86 and found.silent.most >= 100
    assert kept_for(found.either, 60) == Seconds(found.either.least + 60, found.either.most + 60)
    assert kept_for(found.either, 0) is kept_for(found.either, None) is None
