# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the deep run knows of how long groups take is what reports say, and is of groups that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.integration import labs
from tests.testing.group_weights import measured, read

NAMED = {"operator", "other-operator", "real-policies-of-users"}  # groups that files of tests/integration name themselves
FULL = "lab-full-"  # of the full matrix, which tests/integration/test_connect.py makes


def test_every_recorded_group_exists() -> None:
    """A lab or a file that got another name would begin last, and its shard take longer than the others, without a word."""
    pooled = {f"lab-{lab.name}" for lab in vars(labs).values() if isinstance(lab, labs.Shared)}
    unknown = {group for group in read() if not (group in pooled | NAMED or group.startswith(FULL) or (CHECKOUT / group).is_file())}
    assert not unknown, "python -m tests.testing.group_weights writes the record anew"
    assert pooled & read().keys() and read().keys() >= NAMED


def report(place: Path, *tests: tuple[str, float]) -> Path:
    cases = "".join(f'<testcase classname="tests.a" name="{name}" time="{seconds}" />' for name, seconds in tests)
    place.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    return place


def test_a_group_weighs_what_its_tests_take_in_all_reports(tmp_path: Path) -> None:
    one = report(tmp_path / "1.xml", ("test_a[1@2]@lab-a]", 20.4), ("test_b@lab-a", 20), ("test_c@tests/unit/test_c.py", 4))
    two = report(tmp_path / "2.xml", ("test_d@lab-d", 100), ("test_e@lab-a", 10.2))
    assert list(measured((one, two)).items()) == [("lab-d", 100), ("lab-a", 51)]


def test_a_report_of_a_run_without_groups_is_refused(tmp_path: Path) -> None:
    place = report(tmp_path / "1.xml", ("test_a", 20))
    with pytest.raises(ValueError, match=r"1\.xml is of a run without groups: test_a names none"):
        measured([place])
