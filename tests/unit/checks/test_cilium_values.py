# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every value of cilium-config that Cilium accepts is known, and has the verdict of its row; no other value is taken for one of these."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.cilium_config import flag_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.cilium_values import (
    KEYS,
    ValueType,
    key_of,
    refused_values,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED, Minor
from tests.collection_path import CHECKOUT
from tests.lab.profiles.charts import CHARTS, COMMON_CONFIG
from tests.testing.facts_builders import cluster_facts, context_of
from tests.testing.properties import PROFILES
from tests.testing.rows import one_test
from tests.unit.checks.cilium_values import MINORS, PATCHES, TABLE, Row
from tests.unit.checks.cilium_verdicts import verdict

ENGINE: Final = CHECKOUT / "plugins" / "module_utils"
TABLES: Final = ("mesh/versions/cilium_values.py", "gather/harmless.py")
SPELLINGS: Final = {
    text: text in ("1", "t", "T", "TRUE", "true", "True")
    for text in ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"]
}
"""What strconv.ParseBool takes (go doc strconv ParseBool)."""
FLAGS: Final = tuple(name for name, rows in KEYS.items() if rows[-1].kind is ValueType.FLAG)


def release(minor: str) -> Minor:
    major, _dot, number = minor.partition(".")
    return Minor(int(major), int(number))


def tried(row: Row) -> tuple[str, ...]:
    """Return the minors of a row; but for the deep run the first and the last one, since each costs 4 ms."""
    return row.minors if settings().max_examples >= PROFILES["full"] else tuple(dict.fromkeys((row.minors[0], row.minors[-1])))


@one_test("key row", *[(key, row) for key, rows in TABLE.items() for row in rows])
def test_a_value_has_the_verdict_of_its_row(key: str, row: Row) -> None:
    for value in row.values:
        for minor in tried(row):
            found = verdict(minor, {key: value}, both=row.both, everywhere=row.everywhere)
            assert sorted(found) == sorted(row.verdict), f"{value!r} in {minor}"


def test_every_key_that_is_read_has_rows_for_every_minor_and_no_value_has_two() -> None:
    assert TABLE.keys() == KEYS.keys()
    assert tuple(map(str, SUPPORTED.minors)) == MINORS
    for key, rows in TABLE.items():
        cells = Counter(
            (value, minor, row.everywhere, *sorted(row.both.items())) for row in rows for value in row.values for minor in row.minors
        )
        assert [cell for cell, times in cells.items() if times > 1] == []
        assert {minor for minor in MINORS if key_of(key, release(minor))} <= {cell[1] for cell in cells}, key


def test_every_word_that_a_minor_accepts_has_a_row_and_only_these_are_not_refused() -> None:
    for key, rows in TABLE.items():
        for minor in MINORS:
            way = key_of(key, release(minor))
            if way is None or way.kind not in (ValueType.WORD, ValueType.WORDS):
                continue
            listed = {value: row for row in rows if minor in row.minors for value in row.values if value is not None and not row.both}
            accepted = {word for word, rule in way.words.items() if not rule or way.accepts(word, release(minor))}
            assert accepted <= listed.keys(), (key, minor)
            assert {value: "CM-CFG-04" in row.verdict for value, row in listed.items()} == {
                value: not way.accepts(value, release(minor)) for value in listed
            }


def test_cilium_accepts_what_its_charts_write() -> None:
    refused = {minor: refused_values({**COMMON_CONFIG, **chart.config}, release(str(minor))) for minor, chart in CHARTS.items()}
    assert refused == {str(minor): {} for minor in SUPPORTED.minors}


def test_a_minor_that_does_not_read_a_key_makes_nothing_of_it() -> None:
    for key, rows in TABLE.items():
        for minor in MINORS:
            if key_of(key, release(minor)) is None:
                assert {value for row in rows for value in row.values if verdict(minor, {key: value}, both=row.both)} == set(), (key, minor)


@pytest.mark.parametrize("default", [True, False])
def test_every_spelling_of_a_boolean_is_read_as_go_reads_it_and_no_other(default: bool) -> None:
    for key in FLAGS:
        minor = next(release(entry) for entry in reversed(MINORS) if key_of(key, release(entry)))
        read = {text: flag_of({key: text}, minor, key, default) for text in (*SPELLINGS, "yes", "tRUE", " true", "2", "")}
        assert read == {**dict.fromkeys(read, default), **SPELLINGS}, key


@given(st.sampled_from(FLAGS), st.sampled_from(MINORS), st.sampled_from((*SPELLINGS, "yes", "on", "")) | st.text(max_size=8))
def test_a_text_that_is_no_boolean_is_reported_and_only_such_a_text(key: str, minor: str, text: str) -> None:
    way = key_of(key, release(minor))
    words = ("true", "false") if way is not None and way.kind is ValueType.WORD else tuple(SPELLINGS)
    facts = cluster_facts(version=f"{minor}.{PATCHES[minor]}", config={key: text})
    codes = {finding.code for finding in run_checks(context_of(facts))}
    assert ("CM-CFG-04" in codes) == (way is not None and text not in words)


def test_every_key_of_the_table_is_read_and_only_by_the_functions_that_know_the_table() -> None:
    sources = {str(file.relative_to(ENGINE)): file.read_text(encoding="utf-8") for file in ENGINE.rglob("*.py")}
    code = "".join(text for file, text in sources.items() if file not in TABLES)
    named = {
        re.sub(r"\{[a-z]+\}", "[a-z0-9]+", text)
        for text in re.findall(r'"([a-z{][a-z0-9{}-]*-[a-z0-9{}-]+|ipam|kvstore|labels|mtu|tunnel)"', code)
    }
    assert [key for key in KEYS if key not in named and not any(re.fullmatch(name, key) for name in named if "[" in name)] == []
    taken = {
        (file, key)
        for file, text in sources.items()
        for key in re.findall(r'config(?: or \{\}\))?(?:\.get\(|\[)f?"([^"]+)"', text)
        if key in KEYS
    }
    assert taken == {("mesh/facts/cluster.py", "cluster-name"), ("mesh/facts/cluster.py", "cluster-id")}
