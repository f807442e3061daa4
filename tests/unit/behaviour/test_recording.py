# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A recording says all that was recorded, and little of it changes where little changes."""

from __future__ import annotations

import difflib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .content import canonical, parts, placed
from .recording import read, text

# Few values, so that much of it is equal; and every character that a file can hold.
STRINGS = st.sampled_from(["connect to c2", "the peers' names resolve", "c1", "no", "1.16", "<<", "", "a: b", "x #y", "{}"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=40
)
SCALARS = STRINGS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4), max_leaves=30)
SCENARIOS = st.dictionaries(STRINGS, DATA, max_size=4)


@given(SCENARIOS)
def test_what_is_written_is_read_in_its_order(data: dict[str, Any]) -> None:
    assert canonical(read(text(data))) == canonical(data)


@given(SCENARIOS, SCENARIOS)
def test_what_was_written_before_changes_only_anchors(data: dict[str, Any], before: dict[str, Any]) -> None:
    assert canonical(read(text(data, text(before)))) == canonical(data)
    assert text(data, text(data)) == text(data)


def _scenario(why: str, *hosts: str) -> dict[str, Any]:
    steps = [{"wave": 1, "cluster": host, "verb": "apply", "object": "Secret kube-system/cilium-ca", "why": why} for host in hosts]
    return {"plan": {"steps": steps}, "output": [f"|  wave 1  {host}  {why}" for host in hosts]}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the lines of the recording that are gone, and those that are new."""
    one = text(parts(before)["told"])
    lines = list(difflib.ndiff(one.splitlines(), text(parts(after)["told"], one).splitlines()))
    return [line[2:] for line in lines if line.startswith("- ")], [line[2:] for line in lines if line.startswith("+ ")]


WHY = "record the leases of names and ids"


def test_a_sentence_that_is_worded_otherwise_is_one_line() -> None:
    names = [f"scenario {number}" for number in range(20)]
    gone, new = _changed(
        {name: _scenario(WHY, "c1", name) for name in names},
        {name: _scenario("write down the leases of each name", "c1", name) for name in names},
    )
    assert (len(gone), len(new)) == (1, 1)
    assert "write down the leases of each name" in new[0]


def test_a_new_scenario_changes_no_other_one() -> None:
    before = {f"scenario {number}": _scenario(f"{WHY} {number}", "c1", "c2") for number in range(20)}
    gone, new = _changed(
        before, {"a new one": {"something else entirely": [1, 2]}, **before, "and another": _scenario("a new reason, which is long", "c1")}
    )
    assert gone == []
    assert new[0].startswith("a new one:")


def test_a_hash_is_held_wherever_it_stands_and_named_by_its_place() -> None:
    one, other = ({"scenario": {"connect": {"writes": [{"sha256": digit * 64}]}}} for digit in "ab")
    assert parts(one)["told"] == parts(other)["told"] == {"scenario": {"connect": {"writes": [{"sha256": "\u2026"}]}}}
    assert parts(one)["hashes"] != parts(other)["hashes"]
    assert placed(parts(one)["hashes"], one)["scenario"]["connect"]["/writes/0/sha256"] == "aaa"


def test_texts_of_lines_and_lines_that_end_with_a_text_are_split() -> None:
    found = parts(
        {
            "s": {
                "why": WHY,
                "output": [f"|  c1  {WHY} (c1, c2)"],
                "file": "one: two three four five\nsix",
                "state": '{"a":[1,2,3,4,5,6,7,8,9,10]}',
            }
        }
    )
    assert found["told"]["s"] == {
        "why": WHY,
        "output": [["|  c1  ", WHY, " (c1, c2)"]],
        "file": ["|", "one: two three four five", "six"],
        "state": {"json": {"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}},
    }
