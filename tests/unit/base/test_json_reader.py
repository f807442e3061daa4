# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The reader of foreign JSON: what it returns can be printed, copied and written again."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import parse_time
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import DEPTH_LIMIT, NotJson, load_json
from tests.testing.rows import in_one_test, one_test

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(document=DOCUMENTS)
def test_a_document_is_read_as_it_was_written(document: Any) -> None:
    assert load_json(json.dumps(document)) == document
    assert load_json(json.dumps(document, ensure_ascii=False).encode()) == document


@in_one_test
@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}"), ('["]",', "]"), ('{"[{":[', "]}")])
@pytest.mark.parametrize("noise", ["", "}{" * 500])
def test_nesting_is_bounded_whatever_brackets_stand_in_texts(open_: str, close: str, noise: str) -> None:
    levels = DEPTH_LIMIT // (2 if close == "]}" else 1)
    text = f'["{noise}",{open_ * (levels - 1)}1{close * (levels - 1)}]'
    assert copy.deepcopy(load_json(text)) and json.dumps(load_json(text)) and repr(load_json(text))
    for deeper in (levels + 1, 20 * levels, 2000 * levels):
        with pytest.raises(NotJson):
            load_json(f'["{noise}",{open_ * deeper}1{close * deeper}]')


@one_test("text", "", "{", "nul", "NaN", "[Infinity]", '{"a": -Infinity}', "9" * 5000, b"\xff", b"\xed\xa0\x80", "[1] [2]", "\ufeff{}")
def test_what_is_no_json_is_refused_without_quoting_it(text: str | bytes) -> None:
    with pytest.raises(NotJson) as caught:
        load_json(text)
    assert not str(text) or str(text) not in str(caught.value)


@one_test(
    "text value",
    (r'"\ud800"', "\ufffd"),
    (r'"\udfff x"', "\ufffd x"),
    (r'"\ud83d\ude00"', "\U0001f600"),
    (r'"\ude00\ud83d"', "\ufffd\ufffd"),
    (r'"\\ud800"', r"\ud800"),
    (r'"\\\ud800"', "\\\ufffd"),
)
def test_half_a_surrogate_pair_is_replaced_so_that_the_text_can_be_encoded(text: str, value: str) -> None:
    assert load_json(text) == value
    assert load_json(text).encode()


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00Z", "x"])
def test_a_time_outside_the_calendar_is_no_time(time: str) -> None:
    assert parse_time(time) is None
