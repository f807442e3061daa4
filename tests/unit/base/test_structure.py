# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the reader of specs makes of the keywords of the kinds of fleets: mappings of any fields, lists by keys, enums that are no texts."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.structure import SchemaReader

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string", "maxLength": 5}
PORTS = {
    "type": "array",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer", "minimum": 1, "maximum": 9}, "protocol": {"type": "string", "default": "TCP"}},
    },
}
QUANTITY = {
    "x-kubernetes-int-or-string": True,
    "type": "integer",
    "minimum": 0,
    "maximum": 99,
    "maxLength": 32,
    "pattern": r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def read(schema: dict[str, Any], value: Any) -> tuple[Any, str]:
    problems = Problems()
    found = SchemaReader(problems).read(schema, value, "at")
    return found, "; ".join(problems.found)


def within(inner: dict[str, Any], value: Any) -> tuple[Any, str]:
    return read({"type": "object", "properties": {"x": inner}}, {"x": value})


@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_a_mapping_of_any_fields_comes_back_as_it_is(value: dict[str, Any]) -> None:
    assert read(OPEN, value) == (value, "")
    assert json.loads(json.dumps(value)) == value


def test_an_empty_mapping_stays_where_it_says_something() -> None:
    plain: dict[str, Any] = {"type": "object", "properties": {"y": TEXT}}
    assert within(plain, {}) == ({}, "")
    for says in (OPEN, {**plain, "keepEmpty": True}):
        assert within(says, {}) == ({"x": {}}, "")
    assert "at.x.y: is missing" in within({**plain, "required": ["y"]}, {})[1]
    assert within(OPEN, {"a": {}, "b": [], "c": None}) == ({"x": {"a": {}, "b": [], "c": None}}, "")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "must be a mapping"),
        ({1: "x"}, "at.1: the key must be a text"),
        ({"a": [{2: "x"}]}, "at.a[0].2: the key must be a text"),
        ({"a": datetime.date(2026, 1, 1)}, "at.a: must be a text, a number, true or false"),
        ({"a": b"x"}, "at.a: must be a text, a number, true or false"),
    ],
)
def test_what_json_cannot_say_is_refused_in_a_mapping_of_any_fields(value: Any, says: str) -> None:
    assert says in read(OPEN, value)[1]


def test_a_mapping_of_any_fields_ends_at_some_depth() -> None:
    deep: Any = "x"
    for _level in range(5000):
        deep = {"a": deep}
    assert "has more than 32 levels" in read(OPEN, deep)[1]


def test_a_key_of_a_list_is_there_once_with_its_defaults() -> None:
    assert read(PORTS, [{"port": 1}, {"port": 1, "protocol": "UDP"}])[1] == ""
    assert read(PORTS, [{"port": 1}, {"port": 1, "protocol": "TCP"}])[1] == 'at[1]: port "1" and protocol "TCP" is there twice'
    assert "twice" not in read(PORTS, [{"port": []}, {"port": []}, {"port": {}}, 1, 1])[1]


def test_an_entry_of_a_set_is_there_once() -> None:
    names = {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}
    assert read(names, ["a", "b"])[1] == ""
    assert read(names, ["a", "b", "a"])[1] == 'at[2]: "a" is there twice'
    assert read({**names, "x-kubernetes-list-type": "atomic"}, ["a", "a"])[1] == ""


def test_a_mapping_has_as_many_keys_as_it_may_and_they_are_texts() -> None:
    labels = {"type": "object", "maxProperties": 2, "additionalProperties": TEXT}
    assert read(labels, {"a": "b"}) == ({"a": "b"}, "")
    assert read(labels, {"a": "b", "c": "d", "e": "f"})[1] == "at: has more than 2 keys"
    assert "the key must be a text" in read(labels, {True: "b"})[1]


def test_a_switch_that_knows_one_position_takes_no_other() -> None:
    off = {"type": "boolean", "enum": [False]}
    assert read(off, False) == (False, "")
    assert read(off, True)[1] == "at: can only be false"
    assert "use one of false" in read(off, "no")[1]


@pytest.mark.parametrize("value", [1, 0, "1", "1.5Gi", "100m", "1e3", "0.5"])
def test_a_quantity_is_a_number_or_a_text(value: Any) -> None:
    assert read(QUANTITY, value) == (value, "")


@pytest.mark.parametrize(
    ("value", "says"), [(0.5, "put it in quotes"), (-1, "0 to 99"), ("-1", "a quantity"), ("", "a quantity"), (True, "0 to 99")]
)
def test_what_is_no_quantity_is_refused(value: Any, says: str) -> None:
    assert says in read(QUANTITY, value)[1]
