# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tests of one lab run in one worker, one after the other, and the longest lab begins first."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.collection_path import CHECKOUT
from tests.integration.labs import outside_of_shard, place_in_groups, shared
from tests.testing.rows import one_test
from tests.testing.shard import Shard

QUICK, LONG = shared("quick", clusters=2), shared("long", clusters=3)
WEIGHTS = {"lab-quick": 10, "lab-long": 90}


class Item(SimpleNamespace):
    """What is needed of a collected test."""

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.mark)


def item(nodeid: str, *marks: pytest.MarkDecorator) -> Any:
    return Item(nodeid=nodeid, marks=[mark.mark for mark in marks])


def test_the_longest_lab_begins_and_every_other_file_is_a_group_of_its_own() -> None:
    items = [
        item("tests/unit/test_a.py::test_1"),
        item("tests/integration/test_b.py::test_1", pytest.mark.lab(QUICK)),
        item("tests/integration/test_b.py::test_2", pytest.mark.lab(LONG, use=2)),
        item("tests/unit/test_a.py::test_2"),
        item("tests/integration/test_c.py::test_1", pytest.mark.xdist_group("own")),
        item("tests/integration/test_c.py::test_2", pytest.mark.lab(LONG)),
    ]
    place_in_groups(items, WEIGHTS)
    found = [(entry.nodeid.rpartition("/")[2], entry.get_closest_marker("xdist_group").args[0]) for entry in items]
    assert found == [
        ("test_b.py::test_2", "lab-long"),
        ("test_c.py::test_2", "lab-long"),
        ("test_b.py::test_1", "lab-quick"),
        ("test_a.py::test_1", "tests/unit/test_a.py"),
        ("test_a.py::test_2", "tests/unit/test_a.py"),
        ("test_c.py::test_1", "own"),
    ]


@pytest.mark.slow
def test_workers_are_given_whole_groups() -> None:
    """Of this file, in two workers: what pytest-xdist prints shows the group at the end of each id, and one worker for all."""
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    files = ["tests/unit/project/test_groups.py", "tests/integration/test_pool.py"]  # the second one for its conftest.py
    done = subprocess.run([*command, *files, "-k", "longest_lab or named_twice"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = re.findall(r"\[(gw\d)\] .* PASSED \S+::(\w+)(@\S+)?", done.stdout)
    assert len(found) == 2 and {group for _, _, group in found} == {"@tests/unit/project/test_groups.py"}, done.stdout
    assert len({worker for worker, _, _ in found}) == 1


def test_a_lab_may_be_named_twice_with_equal_options() -> None:
    """So that two workers have something to do: such labs are two groups."""
    items = [
        item(f"tests/integration/test_b.py::test_{n}", pytest.mark.lab(lab)) for n, lab in enumerate((QUICK, shared("other", clusters=2)))
    ]
    place_in_groups(items, WEIGHTS)
    assert [entry.get_closest_marker("xdist_group").args[0] for entry in items] == ["lab-quick", "lab-other"]


def test_each_test_is_in_one_shard_with_all_others_of_its_group() -> None:
    items = [
        *(item(f"tests/integration/test_b.py::test_{n}", pytest.mark.lab((QUICK, LONG)[n % 2])) for n in range(6)),
        *(item(f"tests/unit/test_{n}.py::test_{m}") for n in range(5) for m in range(3)),
    ]
    place_in_groups(items, WEIGHTS)
    shards = [[entry.nodeid for entry in items if entry not in outside_of_shard(items, WEIGHTS, Shard(n, 3))] for n in (1, 2, 3)]
    assert sorted(test for shard in shards for test in shard) == sorted(entry.nodeid for entry in items)
    assert all(shards)
    groups = [{entry.get_closest_marker("xdist_group").args[0] for entry in items if entry.nodeid in shard} for shard in shards]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 7


@one_test("shard", "", "0/3", "4/3", "2", "2/", "a/b", "1/3/5")
def test_what_is_no_shard_is_refused(shard: str) -> None:
    with pytest.raises(ValueError, match="There is no shard"):
        Shard.parse(shard)


def test_in_the_gate_a_test_can_have_the_lab_of_others() -> None:
    tests = [item("tests/integration/test_b.py::test_1", pytest.mark.lab(QUICK, gate=LONG))]
    place_in_groups(tests, WEIGHTS, gate=True)
    assert tests[0].get_closest_marker("xdist_group").args[0] == "lab-long"
