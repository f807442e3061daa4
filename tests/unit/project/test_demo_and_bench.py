# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The demo's verdict and the benchmark's table say what was measured, nothing better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench.child import measured
from tests.bench.table import Target, as_data, as_text, rows, targets_text
from tests.demo.play import Desk, Run
from tests.demo.verdict import judge
from tests.lab.patience import scaled
from tests.testing.rows import one_test

PAIR = ("a", "b")
READY_BOTH = {"a": [{"name": "b", "ready": True}], "b": [{"name": "a", "ready": True}]}


def test_both_kvstoremesh_and_the_collection_agree() -> None:
    verdict = judge("edge", PAIR, READY_BOTH, "Connected")
    assert (verdict.good, verdict.text) == (True, "edge: Connected (2/2 clusters, 2/2 links ready)")


@one_test(
    "said phase text",
    ({}, "", "edge: not connected (0/2 clusters, 0/2 links ready)"),
    ({}, "Connected", "edge: not connected (0/2 clusters, 0/2 links ready)"),
    ({"a": [{"name": "b", "ready": True}]}, "Connected", "edge: not connected (1/2 clusters, 1/2 links ready)"),
    ({**READY_BOTH, "b": [{"name": "a", "ready": False}]}, "Connected", "edge: not connected (1/2 clusters, 1/2 links ready)"),
    ({**READY_BOTH, "b": [{"name": "x", "ready": True}]}, "Connected", "edge: not connected (1/2 clusters, 1/2 links ready)"),
    ({**READY_BOTH, "b": [{"name": "a", "ready": "yes"}]}, "Connected", "edge: not connected (1/2 clusters, 1/2 links ready)"),
    (READY_BOTH, "Degraded", "edge: not connected (2/2 clusters, 2/2 links ready; the collection reported Degraded)"),
    (READY_BOTH, "", "edge: not connected (2/2 clusters, 2/2 links ready; the collection reported no phase)"),
)
def test_one_missing_witness_is_enough_for_not_connected(said: dict[str, list[dict[str, Any]]], phase: str, text: str) -> None:
    verdict = judge("edge", PAIR, said, phase)
    assert (verdict.good, verdict.text) == (False, text)


def run(wall: float) -> Run:
    return Run(status=0, wall=wall, cpu=wall / 2, peak=int(wall * 1_000_000), mesh_result=None)


def test_the_table_compares_medians_with_the_first_kind_of_run() -> None:
    table = rows({"empty": [run(1), run(9), run(1.1)], "connect": [run(2), run(2.2), run(4)]}, {"connect": 3.0})
    assert [round(row.wall_ratio, 2) for row in table] == [1.0, 2.0]
    assert table[0].peak == 9_000_000
    text = as_text(table, {"connect": {"a": 20, "b": 26}}, 25)
    assert "<= 3x  met" in text
    assert "a 20, b 26  MISSED" in text
    assert as_data(table, {"connect": {"a": 20}}, 25)["rows"][1]["target"] == 3.0


@pytest.mark.slow
def test_what_a_playbook_publishes_arrives_with_its_cost() -> None:
    task = {"ansible.builtin.set_stats": {"data": {"mesh_result": {"schema": 1, "x": "{{ greeting }}"}}, "aggregate": False}}
    with Desk({"c1": Path("absent")}, {"greeting": "hello"}) as desk:
        desk.write("good.json", [{"hosts": "all", "gather_facts": False, "tasks": [task]}])
        desk.write("bad.json", [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.fail": None}]}])
        good, bad = desk.run("good.json", quiet=True), desk.run("bad.json", quiet=True)
        folder = desk.path
    assert (good.status, good.mesh_result) == (0, {"schema": 1, "x": "hello"})
    assert good.cpu > 0 and 0 < good.wall < scaled(60) and good.peak > 10_000_000
    assert (bad.status, bad.mesh_result) == (2, None)
    assert not folder.exists()


def test_a_target_is_reported_as_met_or_missed() -> None:
    text = targets_text([Target("requests", 23, 30), Target("seconds", 2.5, 2)])
    assert [line.split()[-1] for line in text.splitlines()[1:]] == ["met", "MISSED"]
    assert [Target("a", 2, 2).met, Target("a", 2.01, 2).met] == [True, False]


@pytest.mark.slow
def test_planning_is_measured_in_a_process_of_its_own() -> None:
    row = measured("planning_run", "plan", "3")
    assert (row["clusters"], row["links"]) == (3, 6)
    assert row["steps"] >= 6
    assert row["peak"] > 10_000_000
    assert set(row["seconds"]) == {"plan", "hash", "data"}
    assert measured("planning_run", "again", "3")["steps"] == 0
    assert measured("planning_run", "checks", "3")["findings"] == 0
