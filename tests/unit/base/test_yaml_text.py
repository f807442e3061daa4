# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever YAML of others provokes in the parser is one error, and is absent where it is read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, compose_yaml, load_yaml, loader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import _config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users
from tests.testing.golden_files import PlainDumper
from tests.testing.lines_run import lines_run
from tests.testing.rows import one_test

HOSTILE = [
    *("!!int ''", "!!float ''", "!!bool hunter2", "!!timestamp hunter2", "[" * 500_000, "- " * 100_000, "{a: " * 100_000),
    "? {a: b}\n: c\n",
]
REFUSED = {
    "a: &x 1\nb: *x": "an alias",
    "a: *nothing": "an alias",
    "a: {<<: {b: 1}}": "a merge key",
    "!!merge x: {b: 1}": "a merge key",
    "[" * 33 + "]" * 33: "more than 32 levels",
    "- 1\n" * 20_000: "more than 20000 values",
    "- " + "1:" * 40 + "1": "a number of more than 64",
    "- 0x" + "f" * 100: "a number of more than 64",
    "- !!float " + "1" * 100: "a number of more than 64",
    "a" * (1 << 20) + "b": "longer than 1024 KiB",
}


@one_test("value", *HOSTILE)
def test_what_the_parser_does_not_bear_is_no_yaml(value: str) -> None:
    with pytest.raises(NotYaml) as caught:
        load_yaml(value)
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("value", HOSTILE[:4])
def test_it_is_absent_in_the_objects_of_peers(value: str) -> None:
    assert _config(f"endpoints: {value}\n".encode()) is None
    assert parse_users(f"users: {value}\n") == ({}, "users.yaml cannot be read: it is not YAML")


@pytest.mark.parametrize("text", REFUSED, ids=REFUSED.values())
def test_what_grows_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(NotYaml, match=REFUSED[text]):
        load_yaml(text)
    with pytest.raises(NotYaml, match=REFUSED[text]):
        compose_yaml(text)
    if "number" not in REFUSED[text]:  # a text of any length, where nothing is a number
        with pytest.raises(NotYaml, match=REFUSED[text]):
            load_yaml(text, "Base")


TOWERS = st.builds(
    lambda levels, width, merged: "\n".join(
        ["a0: &a0 {k: v}"]
        + [
            f"a{n}: &a{n} " + (f"{{<<: [{refs}]}}" if merged else f"[{refs}]")
            for n in range(1, levels)
            for refs in [", ".join([f"*a{n - 1}"] * width)]
        ]
    ),
    st.integers(2, 30),
    st.integers(1, 12),
    st.booleans(),
)


@given(text=TOWERS, kind=st.sampled_from(["Safe", "Base"]))
def test_a_tower_of_aliases_is_refused_at_its_first_one(text: str, kind: str) -> None:
    """Some hundred bytes of it would be gigabytes once they are merged, or hours once they are compared."""
    with pytest.raises(NotYaml, match="alias"):
        load_yaml(text, kind)


def test_deep_nesting_is_refused_at_once() -> None:
    """Python's scanner takes time quadratic in the number of brackets that are open, libyaml's loaders end the process."""

    def load(depth: int) -> None:
        with pytest.raises(NotYaml):
            load_yaml("[" * depth)

    assert lines_run(lambda: load(500_000)) < 2 * lines_run(lambda: load(5_000))


SCALARS = st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats(allow_nan=False) | st.text() | st.dates() | st.binary()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(value=VALUES, flow=st.sampled_from([True, False, None]))
def test_it_reads_what_pyyaml_reads(value: Any, flow: bool | None) -> None:
    written = yaml.dump(value, default_flow_style=flow, Dumper=PlainDumper)  # two equal dates may be one object, and an alias
    assert load_yaml(written) == yaml.safe_load(written) == value
    assert load_yaml(written, "Base") == yaml.load(written, loader("Base")) == yaml.load(written, yaml.BaseLoader)


def test_without_libyaml_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert loader.__wrapped__() is yaml.SafeLoader
