# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever YAML of others provokes in the parser is one error, and is absent where it is read."""

from __future__ import annotations

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import _config
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users

HOSTILE = ["!!int ''", "!!float ''", "!!bool hunter2", "!!timestamp hunter2", "[" * 5_000, "? {a: b}\n: c\n"]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_the_parser_does_not_bear_is_no_yaml(value: str) -> None:
    with pytest.raises(NotYaml) as caught:
        load_yaml(value)
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("value", HOSTILE[:4])
def test_it_is_absent_in_the_objects_of_peers(value: str) -> None:
    assert _config(f"endpoints: {value}\n".encode()) is None
    assert parse_users(f"users: {value}\n") == ({}, "users.yaml is not YAML")


def test_yaml_is_read() -> None:
    assert load_yaml("a: [1, x]") == {"a": [1, "x"]}
