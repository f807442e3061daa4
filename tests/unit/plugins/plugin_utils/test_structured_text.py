# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A mapping or list as a text of YAML: it is the value, or the refusal says what it is and where, and quotes nothing but a key."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.yaml_mapping import FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.structured_text import NotStructured, structured
from tests.testing.rows import one_test


def refused(text: str, kind: str = "dict") -> str:
    with pytest.raises(NotStructured) as caught:
        structured(text, kind, "dict" if kind == "list" else "")
    assert "canary" not in str(caught.value)
    return str(caught.value)


@one_test(
    "text kind elements value",
    ("a: [1, {b: x}]", "dict", "", {"a": [1, {"b": "x"}]}),
    ('{"a": true}', "dict", "", {"a": True}),
    ("namespace=shop name=web", "dict", "", "namespace=shop name=web"),
    (" \n", "dict", "", None),
    ("", "list", "str", None),
    ("# nothing", "dict", "", None),
    ("c1, c2", "list", "str", "c1, c2"),
    ("*", "list", "str", "*"),
    ("[c1, c2]", "list", "str", ["c1", "c2"]),
    ("- c1\n- c2\n", "list", "str", ["c1", "c2"]),
    ("- {a: 1}", "list", "dict", [{"a": 1}]),
)
def test_a_text_is_the_value_that_it_says_or_left_to_ansible(text: str, kind: str, elements: str, value: Any) -> None:
    assert structured(text, kind, elements) == value


@one_test(
    "text kind says",
    ("a: [canary\nb: }", "dict", "is a text that cannot be read as YAML, line 2, column 2: it is not YAML"),
    ("a: &x canary\nb: *x", "dict", "cannot be read as YAML, line 2, column 4: it has an alias, which is not accepted here"),
    ("a: 1\nb: {c: canary, d: 1, c: 2}", "dict", 'is a text of YAML in which "c" stands twice, again in line 2, column 22'),
    ("canary", "dict", "is a text of YAML that says a text, and not a mapping"),
    ("- canary", "dict", "is a text of YAML that says a list, and not a mapping"),
    ("a: canary", "list", "is a text of YAML that says a mapping, and not a list"),
    ("a: " + "[" * 40, "dict", "it is nested more than 32 levels deep"),
    ("a: 1\n---\nb: canary", "dict", "cannot be read as YAML, line 2, column 1"),
)
def test_what_is_refused_says_what_is_wrong_and_where(text: str, kind: str, says: str) -> None:
    assert says in refused(text, kind)


@given(st.text(max_size=30) | st.sampled_from(["!!int ''", "? {a: b}\n: c", "{[a]: 1, [a]: 2}", "a: !!binary x", "\ud800"]))
def test_any_text_is_a_mapping_or_refused_and_the_filter_never_fails(text: str) -> None:
    filtered = FilterModule().filters()["yaml_mapping"](text)
    try:
        found = structured(text, "dict")
    except NotStructured:
        assert filtered == {}
    else:
        assert filtered == (found if isinstance(found, dict) else {})


@given(
    st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3)))
)
def test_a_mapping_that_is_written_as_yaml_is_the_mapping(value: dict[str, Any]) -> None:
    read = structured(yaml.safe_dump(value), "dict")
    assert read == value


def test_the_filter_takes_mappings_as_they_are_and_nothing_else() -> None:
    yaml_mapping = FilterModule().filters()["yaml_mapping"]
    assert [yaml_mapping(value) for value in ({"a": 1}, None, [1], 7, "a: 1")] == [{"a": 1}, {}, {}, {}, {"a": 1}]
