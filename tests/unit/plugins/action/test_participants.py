# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who takes part: members that are silent, members that --limit leaves out, clusters that left, and topologies that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable
from tests.testing.facts_builders import NOW, cluster_facts, failure
from tests.testing.simulated_apply import SimulatedClusters
from tests.unit.plugins.action.conftest import World, mesh

FOUR = mesh("c1", "c2", "c3", "c4")


@pytest.fixture
def world(make_world: Any) -> World:
    made: World = make_world(*(cluster_facts(f"c{n}", version="1.20.0") for n in (1, 2, 3, 4)))
    return made


@pytest.fixture
def meshed(world: World) -> World:
    """All four are connected; what follows is counted anew."""
    assert "failed" not in world.run("mesh_connect", mesh=FOUR)
    world.contacted.clear()
    world.writes = 0
    return world


def shaped(**topology: Any) -> Mapping[str, Any]:
    return {"binding": {**FOUR["binding"], "topology": topology}}


def held(world: World) -> dict[str, str]:
    """The peers that each cluster holds, as the digits of their names."""
    every = world.clusters.facts()
    return {host: "".join(sorted(key[1:] for key in facts.clustermesh.keys if "." not in key)) for host, facts in every.items()}


def found(result: Mapping[str, Any], code: str) -> list[tuple[str, str]]:
    return [(f["severity"], f["cluster"]) for f in result["findings"] if f["code"] == code]


WHOLE = {"c1": "234", "c2": "134", "c3": "124", "c4": "123"}


def test_the_topology_can_be_changed_by_running_connect_again(meshed: World) -> None:
    hub = shaped(mode="HubAndSpoke", hubs=["c1"])
    result = meshed.run("mesh_connect", mesh=hub)
    assert (result["changed"], len(result["status"]["links"]), result["status"]["phase"]) == (True, 6, "Connected")
    assert held(meshed) == {"c1": "234", "c2": "1", "c3": "1", "c4": "1"}
    assert meshed.run("mesh_connect", mesh=hub)["changed"] is False
    assert meshed.run("mesh_connect", mesh=shaped(mode="Pairs", pairs=[["c1", "c2"], ["c3", "c4"]]))["status"]["phase"] == "Connected"
    assert held(meshed) == {"c1": "2", "c2": "1", "c3": "4", "c4": "3"}


def test_a_member_that_is_down_degrades_its_links_and_the_rest_is_completed(world: World) -> None:
    world.run("mesh_connect", mesh=mesh("c1", "c2", "c3"))
    world.failures = {"c3": failure("c3")}
    result = world.run("mesh_connect", mesh=FOUR)  # c4 joins while c3 is down
    assert (result["failed"], result["incomplete"], "No answer from 1 member (c3)" in result["msg"]) == (True, True, True)
    assert "failed" not in world.run("mesh_connect", mesh=FOUR, max_failures=1)
    assert result["status"]["phase"] == "Degraded"
    assert found(result, "CM-API-01") == [("remediable", "c3")]
    assert held(world) == {"c1": "234", "c2": "134", "c3": "12", "c4": "12"}
    unknown = {(row["cluster"], row["peer"]) for row in result["status"]["links"] if not row["ready"]}
    assert ("c3", "c1") in unknown and ("c1", "c4") not in unknown
    assert any("c3: the API server does not answer" in row["error"] for row in result["status"]["links"])
    world.failures = {}
    assert world.run("mesh_connect", mesh=FOUR)["status"]["phase"] == "Connected"
    assert held(world) == WHOLE


AWAY = "The management plane does not report it as ready (reason: Upgrading)."


def test_a_member_that_is_known_to_be_away_is_not_contacted_and_counts_as_silent(meshed: World) -> None:
    meshed.away = {"c3": AWAY}
    result = meshed.run("mesh_connect", mesh=FOUR)
    assert ("failed" in result, result["changed"], result["status"]["phase"]) == (False, False, "Degraded")
    assert (meshed.contacted, found(result, "CM-API-01"), held(meshed)) == ({"c1", "c2", "c4"}, [("remediable", "c3")], WHOLE)
    assert [f["summary"] for f in result["findings"] if f["cluster"] == "c3"] == [AWAY]
    assert any(f"c3: {AWAY.removesuffix('.')}" in row["error"] for row in result["status"]["links"])
    meshed.away = {}
    assert meshed.run("mesh_connect", mesh=FOUR)["status"]["phase"] == "Connected"


def test_a_member_that_is_away_and_was_never_connected_stops_the_first_connection(world: World) -> None:
    world.away = {"c4": AWAY}
    result = world.run("mesh_connect", mesh=FOUR)
    assert (result["failed"], world.writes, found(result, "CM-API-01")) == (True, 0, [("blocking", "c4")])


def test_max_failures_counts_members_that_are_away(meshed: World) -> None:
    meshed.away, meshed.failures = {"c3": AWAY}, {"c4": failure("c4")}
    assert meshed.run("mesh_connect", mesh=FOUR, max_failures=1)["failed"] is True
    assert "failed" not in meshed.run("mesh_connect", mesh=FOUR, max_failures=2)


def test_everything_goes_from_those_that_are_not_away_and_what_is_left_is_reported(meshed: World) -> None:
    meshed.away = {"c3": AWAY}
    result = meshed.run("mesh_connect", mesh=FOUR, state="absent")
    assert "failed" not in result, result["msg"]
    assert (held(meshed), meshed.contacted) == ({"c1": "", "c2": "", "c3": "124", "c4": ""}, {"c1", "c2", "c4"})
    condition = result["status"]["conditions"][0]
    assert (condition["reason"], condition["message"]) == ("ClustersUnreachable", "Not observed, and left as they are: c3")


def test_a_cluster_that_left_and_is_away_is_forgotten_by_the_others(meshed: World) -> None:
    meshed.away = {"c3": AWAY}
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"))
    assert (result["status"]["phase"], found(result, "CM-TOPO-03")) == ("Connected", [("advisory", "c3")])
    assert (held(meshed), "c3" in meshed.contacted) == ({"c1": "24", "c2": "14", "c3": "124", "c4": "12"}, False)


def test_status_measures_without_those_that_are_away(meshed: World) -> None:
    meshed.away = {"c3": AWAY}
    result = meshed.run("mesh_status", mesh=FOUR)
    assert (result["status"]["phase"], meshed.contacted) == ("Degraded", {"c1", "c2", "c4"})


def test_links_among_those_that_answer_still_have_to_become_ready(meshed: World) -> None:
    meshed.failures = {"c3": failure("c3")}
    meshed.ready = False
    assert meshed.run("mesh_connect", mesh=FOUR, wait_timeout=0)["failed"] is True


def test_max_failures_counts_silent_members(meshed: World) -> None:
    meshed.failures = {host: failure(host) for host in ("c3", "c4")}
    assert "failed" not in meshed.run("mesh_connect", mesh=FOUR, max_failures=2)
    refused = meshed.run("mesh_connect", mesh=FOUR, max_failures=1)
    assert refused["failed"] is True
    assert found(refused, "CM-API-01") == [("blocking", "c3"), ("blocking", "c4")]
    assert "2 members do not answer, and max_failures allows 1." in {f["evidence"] for f in refused["findings"]}


def test_a_member_that_was_never_connected_and_is_silent_stops_the_run_unless_it_is_counted(world: World) -> None:
    world.failures = {"c4": failure("c4")}
    assert world.run("mesh_connect", mesh=FOUR)["failed"] is True
    assert world.writes == 0
    result = world.run("mesh_connect", mesh=FOUR, max_failures=1)
    assert ("failed" in result, result["status"]["phase"]) == (False, "Degraded")
    assert held(world) == {"c1": "23", "c2": "13", "c3": "12", "c4": ""}


def test_verify_ends_badly_where_a_member_that_the_mesh_holds_does_not_answer(meshed: World) -> None:
    meshed.failures = {"c3": failure("c3")}
    result = meshed.run("mesh_verify", mesh=FOUR, probe=False)
    assert (result["failed"], found(result, "CM-API-01")) == (True, [("blocking", "c3")])
    assert [f["evidence"] for f in result["findings"] if f["cluster"] == "c3"] == ["Nothing is known of it."]
    assert {key: result["eligibility"]["c3"][key] for key in ("eligible", "ready", "answer")} == {
        "eligible": False,
        "ready": False,
        "answer": "not_reached",
    }
    assert result["eligibility"]["c1"]["ready"] is True
    assert any(line.startswith("  c3  not reached, nothing is known of it") for line in meshed.output)
    allowed = meshed.run("mesh_verify", mesh=FOUR, probe=False, max_failures=1)
    assert ("failed" in allowed, found(allowed, "CM-API-01"), allowed["eligibility"]["c3"]["ready"]) == (
        False,
        [("remediable", "c3")],
        False,
    )
    assert "failed" not in meshed.run("mesh_verify", mesh=FOUR, probe=False, fail_on="never")


@pytest.mark.parametrize(
    ("action", "args"),
    [
        ("mesh_connect", {}),
        ("mesh_connect", {"check": True}),
        ("mesh_connect", {"state": "absent"}),
        ("mesh_ca", {}),
        ("mesh_ca", {"state": "renewed"}),
        ("mesh_identity", {}),
    ],
)
def test_a_run_in_which_a_member_was_silent_is_not_as_asked_unless_it_is_counted(meshed: World, action: str, args: Any) -> None:
    meshed.failures = {"c3": failure("c3")}
    result = meshed.run(action, mesh=FOUR, **args)
    assert (result["failed"], result.get("incomplete"), "No answer from 1 member (c3)" in result["msg"]) == (True, True, True), result
    assert "failed" not in meshed.run(action, mesh=FOUR, max_failures=1, **args)


def test_a_dead_member_is_taken_out_by_name_and_is_not_missed(meshed: World) -> None:
    meshed.failures = {"c3": failure("c3")}
    assert "failed" not in meshed.run("mesh_connect", mesh=FOUR, state="absent", clusters=["c3"])


def test_after_a_failed_write_the_links_are_measured_all_the_same(world: World) -> None:
    world.refusing = {"c4": Unreachable("The API server does not answer.", cluster="c4")}
    result = world.run("mesh_connect", mesh=FOUR, max_failures=1)
    assert result["failed"] is True
    assert "writing failed in c4" in result["msg"]
    assert result["status"]["phase"] == "Degraded"


def test_a_cluster_that_left_is_rid_of_its_links_on_both_sides(meshed: World) -> None:
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"))
    assert "failed" not in result, result["msg"]
    assert held(meshed) == {"c1": "24", "c2": "14", "c3": "", "c4": "12"}
    assert not meshed.clusters.facts()["c3"].registry.present
    assert result["requests"].keys() == {"c1", "c2", "c3", "c4"}
    meshed.contacted.clear()
    assert meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"))["changed"] is False
    assert meshed.contacted == {"c1", "c2", "c4"}, "a cluster that no member remembers is left alone"


def test_a_cluster_that_left_and_is_silent_is_forgotten_by_the_others_and_named(meshed: World) -> None:
    meshed.failures = {"c3": failure("c3")}
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"))
    assert (result["status"]["phase"], found(result, "CM-TOPO-03")) == ("Connected", [("advisory", "c3")])
    assert held(meshed) == {"c1": "24", "c2": "14", "c3": "124", "c4": "12"}
    meshed.failures = {}
    freed = meshed.run("mesh_connect", mesh=FOUR, state="absent", limit="c3", hosts=["c3"])  # as the finding says
    assert ("failed" in freed, held(meshed)["c3"]) == (False, "")


def test_the_plan_to_let_a_cluster_go_shows_its_diff(meshed: World) -> None:
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"), check=True, diff=True)
    assert any(entry["before_header"].startswith("c3/") for entry in result["diff"])
    assert (meshed.writes, held(meshed)) == (0, WHOLE)


def test_a_cluster_that_left_and_refuses_to_be_written_names_the_way_out(meshed: World) -> None:
    meshed.refusing = {"c3": Unreachable("The API server does not answer.", cluster="c3")}
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"))
    assert result["failed"] is True
    assert "--limit c3" in result["msg"]


def test_everything_goes_also_from_those_who_left(meshed: World) -> None:
    assert "failed" not in meshed.run("mesh_connect", mesh=mesh("c1", "c2", "c4"), state="absent")
    assert held(meshed) == dict.fromkeys(WHOLE, "")


@pytest.mark.parametrize("named", [[], ["c3"]])
def test_a_limit_takes_out_the_site_that_it_leaves_out_without_asking_it(meshed: World, named: list[str]) -> None:
    result = meshed.run("mesh_connect", mesh=FOUR, state="absent", clusters=named, limit="!c3", hosts=["c1", "c2", "c4"])
    assert "failed" not in result, result["msg"]
    assert held(meshed) == {"c1": "24", "c2": "14", "c3": "124", "c4": "12"}
    assert meshed.contacted == {"c1", "c2", "c4"}
    assert result["status"]["phase"] == "Connected"
    assert "not contacted, and left as they are: c3" in meshed.output


def test_a_limit_of_one_site_withdraws_everything_in_it_and_nothing_elsewhere(meshed: World) -> None:
    result = meshed.run("mesh_connect", mesh=FOUR, state="absent", limit="c1", hosts=["c1"])
    assert ("failed" in result, result["status"]) == (False, None)
    assert held(meshed) == {**WHOLE, "c1": ""}
    assert meshed.contacted == {"c1"}


def test_a_limit_of_two_sites_leaves_the_link_between_them(meshed: World) -> None:
    meshed.run("mesh_connect", mesh=FOUR, state="absent", limit="c1:c2", hosts=["c1", "c2"])
    assert held(meshed) == {**WHOLE, "c1": "2", "c2": "1"}


def test_a_limit_that_leaves_out_a_site_that_does_not_leave_is_refused(meshed: World) -> None:
    result = meshed.run("mesh_connect", mesh=FOUR, state="absent", clusters=["c3"], limit="!c4", hosts=["c1", "c2", "c3"])
    assert "leaves out c4, which would keep links" in result["msg"]
    assert meshed.writes == 0 and not meshed.contacted


def test_connect_with_a_limit_brings_those_inside_up_to_date_and_keeps_what_they_hold_for_the_others(meshed: World) -> None:
    result = meshed.run("mesh_connect", mesh=FOUR, limit="c1:c2", hosts=["c1", "c2"])
    assert ("failed" in result, result["changed"], meshed.contacted) == (False, False, {"c1", "c2"})
    assert held(meshed) == WHOLE
    assert result["status"]["phase"] == "Connected"
    assert meshed.output[-1] == "edge-mesh-eu: Connected (2/2 clusters, 6/6 links ready; not asked: c3, c4)"
    assert [cluster for _, cluster in found(result, "CM-TOPO-02")] == [""]


def test_a_first_connection_of_one_cluster_is_refused_and_of_two_out_of_four_is_not(world: World) -> None:
    refused = world.run("mesh_connect", mesh=FOUR, limit="c1", hosts=["c1"])
    assert "leaves c1 without a peer to be linked with" in refused["msg"]
    assert world.writes == 0
    assert "failed" not in world.run("mesh_connect", mesh=FOUR, limit="c1:c2", hosts=["c1", "c2"])
    assert held(world) == {"c1": "2", "c2": "1", "c3": "", "c4": ""}


def test_spokes_without_their_hub_are_no_first_connection(world: World) -> None:
    result = world.run("mesh_connect", mesh=shaped(mode="HubAndSpoke", hubs=["c1"]), limit="!c1", hosts=["c2", "c3", "c4"])
    assert result["failed"] is True and world.writes == 0


def test_status_with_a_limit_expects_only_the_links_between_those_that_were_asked(meshed: World) -> None:
    result = meshed.run("mesh_status", mesh=FOUR, expected="Connected", limit="!c4", hosts=["c1", "c2", "c3"])
    assert "failed" not in result, result["msg"]
    assert (result["status"]["phase"], meshed.contacted) == ("Connected", {"c1", "c2", "c3"})
    assert {row["stage"] for row in result["status"]["links"] if row["cluster"] == "c4"} == {"not_asked"}
    assert [row.get("asked", True) for row in result["status"]["meshStatus"]] == [True, True, True, False]
    shown = [" ".join(line.split()) for line in meshed.output]
    assert "c4 - - - not asked" in shown and "c4 -> c1 not asked - -" in shown
    assert not any("no answer" in line for line in shown)
    meshed.ready = False
    assert meshed.run("mesh_status", mesh=FOUR, expected="Connected", limit="!c4", hosts=["c1", "c2", "c3"])["failed"] is True


def test_verify_with_a_limit_observes_those_inside(meshed: World) -> None:
    result = meshed.run("mesh_verify", mesh=FOUR, probe=False, limit="c1", hosts=["c1"])
    assert ("failed" in result, meshed.contacted) == (False, {"c1"})
    assert {f["cluster"] for f in result["findings"]} <= {"c1", ""}
    assert {host: row["answer"] for host, row in result["eligibility"].items()} == {
        "c1": "observed",
        **dict.fromkeys(("c2", "c3", "c4"), "not_asked"),
    }
    assert "  c2  not asked" in meshed.output


def test_the_way_out_frees_several_one_at_a_time(meshed: World) -> None:
    meshed.refusing = {host: Unreachable("The API server does not answer.", cluster=host) for host in ("c3", "c4")}
    result = meshed.run("mesh_connect", mesh=mesh("c1", "c2"))
    assert "--limit c3, then --limit c4" in result["msg"]


@pytest.mark.parametrize("check", [True, False])
def test_users_of_a_former_member_that_cannot_be_read_stop_a_disconnect_before_the_first_write(make_world: Any, check: bool) -> None:
    world: World = make_world(*(cluster_facts(f"c{n}", version="1.20.0", auth_mode="migration") for n in (1, 2, 3, 4)))
    world.run("mesh_connect", mesh=FOUR)
    every = world.clusters.facts()
    broken = replace(every["c3"].users, users={}, problem="it is not YAML", text="[")
    world.clusters = SimulatedClusters({**every, "c3": replace(every["c3"], users=broken)}, NOW)
    world.writes = 0
    result = world.run("mesh_connect", mesh=mesh("c1", "c2", "c4"), state="absent", check=check)
    assert (result["failed"], result["changed"], world.writes) == (True, False, 0)
    assert found(result, "CM-USER-02") == [("blocking", "c3")]
