# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever YAML of others provokes in the parser is one error, and is absent where it is read."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, load_yaml, loader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import _config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users
from tests.lab.patience import scaled

HOSTILE = [
    "!!int ''",
    "!!float ''",
    "!!bool hunter2",
    "!!timestamp hunter2",
    "[" * 500_000,
    "- " * 100_000,
    "{a: " * 100_000,
    "? {a: b}\n: c\n",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_the_parser_does_not_bear_is_no_yaml(value: str) -> None:
    with pytest.raises(NotYaml) as caught:
        load_yaml(value)
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("value", HOSTILE[:4])
def test_it_is_absent_in_the_objects_of_peers(value: str) -> None:
    assert _config(f"endpoints: {value}\n".encode()) is None
    assert parse_users(f"users: {value}\n") == ({}, "users.yaml is not YAML")


def test_deep_nesting_is_refused_at_once() -> None:
    """Python's scanner takes time quadratic in the number of brackets that are open, libyaml's loaders end the process."""
    before = process_time()
    with pytest.raises(NotYaml):
        load_yaml("[" * 500_000)
    assert process_time() - before < scaled(0.3)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates() | st.binary()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(value=VALUES, flow=st.sampled_from([True, False, None]))
def test_it_reads_what_pyyaml_reads(value: Any, flow: bool | None) -> None:
    written = yaml.safe_dump(value, default_flow_style=flow)
    assert load_yaml(written) == yaml.safe_load(written) == value
    assert yaml.load(written, loader("Base")) == yaml.load(written, yaml.BaseLoader)


def test_without_libyaml_python_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert loader.__wrapped__() is yaml.SafeLoader and loader().__name__ == "SafeLoader"
