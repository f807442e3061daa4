# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A fabric says what its bindings say: never more, never something newer, and the worst of it first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.conditions import timestamp
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.fabric import (
    BindingRow,
    age_findings,
    fabric_status,
    identity_findings,
)
from tests.testing.facts_builders import NOW, cluster_facts


def status(
    phase: str = "Connected", *hosts: str, ready: bool = True, proof: str | None = "2026-09-01T11:59:30Z", **more: Any
) -> dict[str, Any]:
    pairs = [(a, b) for a in hosts for b in hosts if a != b]
    return {
        "phase": phase,
        "lastSyncTime": timestamp(NOW),
        "meshStatus": [{"clusterName": host, "connected": ready} for host in hosts],
        "links": [{"cluster": a, "peer": b, "ready": ready, "lastProof": {"time": proof} if proof else None} for a, b in pairs],
        "conditions": [{"type": "Ready", "status": str(ready), "message": "c2 -> c3: tls"}],
        **more,
    }


def row(name: str, phase: str = "Connected", *hosts: str, **more: Any) -> BindingRow:
    return BindingRow(name=name, clusters=hosts, status=status(phase, *hosts, **more))


def mesh(name: str, *hosts: str) -> Mesh:
    return Mesh(binding=Binding(name=name, cluster_refs=hosts))


def test_a_fabric_of_connected_bindings_is_connected() -> None:
    found = fabric_status("europe", [row("one", "Connected", "c1", "c2"), row("two", "Connected", "c2", "c3")], now=NOW)
    assert (found["phase"], found["lastSyncTime"]) == ("Connected", timestamp(NOW))
    assert found["counts"] == {
        "bindings": {"total": 2, "connected": 2},
        "clusters": {"total": 3, "connected": 3},
        "links": {"total": 4, "ready": 4},
    }
    assert [(c["type"], c["status"], c["reason"]) for c in found["conditions"]] == [
        ("Ready", "True", "AllBindingsConnected"),
        ("Degraded", "False", "AllBindingsConnected"),
    ]
    assert [entry["message"] for entry in found["bindings"]] == ["", ""]


def test_a_cluster_in_two_bindings_is_connected_only_when_it_is_in_both() -> None:
    found = fabric_status("europe", [row("one", "Connected", "c1", "c2"), row("two", "Degraded", "c2", "c3", ready=False)], now=NOW)
    assert found["phase"] == "Degraded"
    assert found["counts"]["clusters"] == {"total": 3, "connected": 1}
    assert found["bindings"][1]["message"] == "c2 -> c3: tls"
    assert found["conditions"][0]["message"] == "two: Degraded"


WORST_FIRST = ("Error", "Degraded", "Connecting", "Pending", "Connected")  # as docs/fabric.md orders them


@given(st.lists(st.sampled_from([*WORST_FIRST, "", "Terminating"]), max_size=6))
def test_the_phase_is_that_of_the_worst_binding_and_not_knowing_is_never_connected(phases: list[str]) -> None:
    found = fabric_status("europe", [row(f"b{n}", phase, "c1", "c2") for n, phase in enumerate(phases)], now=NOW)
    known = [phase if phase in WORST_FIRST else "Pending" for phase in phases] or ["Pending"]
    assert found["phase"] == next(phase for phase in WORST_FIRST if phase in known)
    assert (found["phase"] == "Connected") == (bool(phases) and set(phases) == {"Connected"})
    assert (found["conditions"][0]["status"] == "True") == (found["phase"] == "Connected")
    assert found["counts"]["bindings"] == {"total": len(phases), "connected": phases.count("Connected")}


def test_the_age_is_that_of_the_oldest_part() -> None:
    old = row("old", "Connected", "c1", "c2", proof="2026-09-01T08:00:00+02:00", lastSyncTime="2026-09-01T06:00:00Z")
    unproven = row("unproven", "Connected", "c3", "c4", proof=None)
    found = fabric_status("europe", [row("new", "Connected", "c5", "c6"), old, unproven], now=NOW)
    assert found["lastSyncTime"] == "2026-09-01T06:00:00Z"
    assert found["lastProof"] == {"oldest": "2026-09-01T08:00:00+02:00", "newest": "2026-09-01T11:59:30Z", "missing": 2}
    assert fabric_status("europe", [old, BindingRow(name="unknown")], now=NOW)["lastSyncTime"] == ""


def test_times_of_conditions_stay_while_nothing_changes() -> None:
    rows = [row("one", "Connected", "c1", "c2")]
    first = fabric_status("europe", rows, now=NOW)
    later = fabric_status("europe", rows, now=NOW + timedelta(hours=1), previous=first)
    assert later["conditions"] == first["conditions"]
    broken = fabric_status("europe", [row("one", "Error", "c1", "c2")], now=NOW + timedelta(hours=1), previous=first)
    assert broken["conditions"][0]["lastTransitionTime"] == timestamp(NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    "handed_in",
    [
        None,
        {},
        {"phase": 7},
        {"phase": "Connected"},
        {"phase": "Error", "links": "all", "meshStatus": [1], "conditions": {}, "lastSyncTime": 1},
    ],
)
def test_a_status_of_any_shape_claims_nothing_that_it_does_not_hold(handed_in: Any) -> None:
    found = fabric_status("europe", [BindingRow(name="one", clusters=("c1", "c2"), status=handed_in)], now=NOW)
    assert found["counts"]["clusters"] == {"total": 2, "connected": 0}
    assert found["counts"]["links"] == {"total": 0, "ready": 0}
    assert found["lastProof"] == {"oldest": None, "newest": None, "missing": 0}


def test_peers_of_one_cluster_with_one_id_are_found_over_bindings() -> None:
    facts = {host: cluster_facts(host) for host in ("c1", "c2", "c3")} | {"c9": cluster_facts("c9", config={"cluster-id": "1"})}
    found = identity_findings([mesh("one", "c1", "c2"), mesh("two", "c2", "c9"), mesh("three", "c3", "c9")], facts)
    assert [(f.code, f.cluster, f.peer) for f in found] == [("CM-FAB-01", "c1", "c9")]
    assert "id 1" in found[0].summary and "peers of c2" in found[0].summary


def test_what_a_binding_shows_by_itself_is_left_to_verify() -> None:
    facts = {"c1": cluster_facts("c1"), "c2": cluster_facts("c2"), "c9": cluster_facts("c9", config={"cluster-id": "1"})}
    assert identity_findings([mesh("one", "c1", "c2", "c9")], facts) == []
    assert (
        identity_findings([mesh("one", "c1", "c2"), mesh("two", "c2", "c9")], {"c1": facts["c1"]}) == []
    )  # of a silent one nothing is said


def test_an_old_status_is_named_and_a_fresh_one_is_not() -> None:
    old = BindingRow(name="old", status={"phase": "Connected", "lastSyncTime": timestamp(NOW - timedelta(minutes=16))})
    untimed = BindingRow(name="untimed", status={"phase": "Connected"})
    rows = [row("fresh", "Connected", "c1", "c2"), BindingRow(name="unmeasured"), old, untimed]
    found = list(age_findings(rows, NOW))
    assert [(f.code, f.severity.value) for f in found] == [("CM-FAB-02", "advisory")] * 2
    assert "old is 16 minutes old" in found[0].summary and "untimed is without a time" in found[1].summary
