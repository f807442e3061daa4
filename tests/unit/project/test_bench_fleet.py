# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of the fleet tells, from figures that were measured."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.bench import fleet

QUICK: Final = {"wall": 1.0, "cpu": 2.0, "peak": 90e6}


def found(**many: list[dict[str, float]]) -> dict[str, Any]:
    titles = (fleet.EMPTY, fleet.TEMPLATE, fleet.KARMADAS, fleet.READY, fleet.ENDED, fleet.COLD)
    rows = {fleet.CREATED: "created", fleet.EMPTY: "empty", fleet.CHECK: "check", fleet.AGAIN: "again", fleet.AWAY: "away"}
    return {
        "alone": {fleet.BARE: [1.0, 2.0, 6.0], **{title: [3.0, 4.0, 9.0] for title in titles}},
        "counts": {10: {"reads": 16, "writes": 50}, 40: {"reads": 16, "writes": 200}},
        "many": {fleet.BARE: [{"wall": 100.0}], **{title: many.get(key, [QUICK]) for title, key in rows.items()}},
        "engine": {"phases": {"observe": {"wall": 0.25}}, "reads": 16, "bytes": 440_000},
        "load": [0.1, 4.25],
        "size": vars(fleet.Size()),
    }


def test_half_of_the_runs_may_take_longer_than_the_targets() -> None:
    slow = [{**QUICK, "wall": wall} for wall in (170.0, 180.0, 400.0)]
    values = {target.title: (target.value, target.met) for target in fleet.targets(found(created=slow, check=slow))}
    assert list(values.values()) == [(4.0, True), (180.0, True), (180.0, False), (0, True), (5.0, True)]


@pytest.mark.parametrize(("few", "more", "met"), [(16, 17, [False, True]), (17, 16, [True, True])])
def test_one_read_more_for_more_workloads_is_missed(few: int, more: int, met: list[bool]) -> None:
    counted = {**found(), "counts": {10: {"reads": few, "writes": 50}, 40: {"reads": more, "writes": 200}}}
    assert [target.met for target in fleet.targets(counted)[-2:]] == met


def test_the_tables_have_least_median_and_most_and_the_ratio_to_karmada_alone() -> None:
    lines = fleet.as_text(found(created=[{**QUICK, "wall": wall} for wall in (110.0, 120.0, 150.0)])).splitlines()
    assert lines[0].startswith("one workload at a time, 3 of them, in 2 clusters")
    (ready,) = (line for line in lines if line.startswith(fleet.READY))
    assert ready.split()[-4:] == ["3.00", "4.00", "9.00", "2.00x"]
    (created,) = (line for line in lines if line.startswith(fleet.CREATED))
    assert created.split()[-6:] == ["110.00", "120.00", "150.00", "1.20x", "2.0", "90"]
    assert "observe 0.25 s; 16 reads; statuses of 0.4 MB" in lines[-4]
    assert "0.1, 4.2; Karmada's pace: wide" in lines[-1]
