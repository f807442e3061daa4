# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every number has a range, in its documentation, and is refused outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.schemas import SPECS as FLEET_SPECS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.schemas import SPECS
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.arguments import HANDED
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.spec import option_problems, spec_of
from tests.testing.options import bounds_of, modules
from tests.testing.rows import one_test

NUMBERS = [
    (module, name) for module, options in modules().items() for name, option in options.items() if option["type"] in ("int", "float")
]


def problems(module: str, name: str, value: Any, *variables: str) -> list[str]:
    return option_problems(module, spec_of(module), {name: value}, variables)


@one_test("module name", *NUMBERS)
def test_a_number_is_taken_at_its_bounds_and_refused_beyond(module: str, name: str) -> None:
    option = spec_of(module)[name]
    least, most = option["minimum"], option["maximum"]
    assert {key: option[key] for key in ("minimum", "maximum", "above") if key in option} == bounds_of(modules()[module][name])
    step = 1 if option["type"] == "int" else 0.01
    assert [problems(module, name, value) for value in (least, most, option.get("default"), None)] == [[]] * 4
    for value in (least - step, most + step, -(10**9), 10**9):
        assert problems(module, name, value) == [f"{name} is {value}; use {least} to {most}"]


RELATED = [(module, name, spec_of(module)[name]["above"]) for module, name in NUMBERS if "above" in spec_of(module)[name]]


LIVES = {"certificate_days": "renew_before_days", "ca_days": "renew_before_days", "token_hours": "renew_before_hours"}
"""Lifetimes, and how long before its end each is renewed."""


def test_what_ends_lives_longer_than_the_time_before_its_end_in_which_it_is_renewed() -> None:
    """Otherwise each run would renew it again."""
    with_both = {
        (module, name, other) for module, options in modules().items() for name, other in LIVES.items() if {name, other} <= set(options)
    }
    assert set(RELATED) == with_both
    renewed = {(module, name) for module, options in modules().items() for name in options if name.startswith("renew_before_")}
    assert renewed == {(module, other) for module, _name, other in with_both}


@pytest.mark.parametrize(("module", "name", "other"), RELATED)
def test_a_number_that_has_to_exceed_another_one_is_refused_unless_it_does(module: str, name: str, other: str) -> None:
    def found(value: int, limit: int | None, *variables: str) -> list[str]:
        return option_problems(module, spec_of(module), {name: value, other: limit}, variables)

    assert found(31, 30) == found(31, None) == []
    for value in (29, 30):
        assert found(value, 30) == [f"{name} is {value}; it must be more than {other}, which is 30"]
    variable = HANDED[module][other][0] if other in HANDED.get(module, {}) else ""
    assert not variable or found(30, 30, variable) == [f"{name} is 30; it must be more than {other} ({variable}), which is 30"]


def test_a_float_that_is_no_number_is_refused() -> None:
    assert problems("mesh_verify", "probe_timeout", float("nan")) == ["probe_timeout is nan; use 0.1 to 60.0"]


@one_test("module name", *[(module, name) for module, options in HANDED.items() for name in options])
def test_the_message_names_the_variable_that_a_role_or_playbook_read(module: str, name: str) -> None:
    for variable in HANDED[module][name]:
        [message] = problems(module, name, 10**9, variable)
        assert message.startswith(f"{name} ({variable}) is 1000000000; use ")


def schemas(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "integer" or schema.get("x-kubernetes-int-or-string"):
            yield path, schema
        for key, inner in schema.items():
            yield from schemas(inner, f"{path}.{key}")


EVERY_NUMBER = [entry for specs in (SPECS, FLEET_SPECS) for kind, spec in specs.items() for entry in schemas(spec, kind)]


@one_test("path schema", *EVERY_NUMBER)
def test_every_number_of_an_item_has_a_range(path: str, schema: Any) -> None:
    assert {"minimum", "maximum"} <= set(schema) or "pattern" in schema, path


def test_an_option_that_stands_for_a_field_of_a_resource_has_the_range_of_the_field() -> None:
    """Two ranges of one number would let a task ask for what the API server refuses."""
    fields = {path.rpartition(".")[2]: schema for path, schema in EVERY_NUMBER}
    found = {
        (module, name): (bounds_of(option), {key: fields[field][key] for key in ("minimum", "maximum")})
        for module, options in modules().items()
        for name, option in options.items()
        if (field := re.sub("_([a-z])", lambda match: match[1].upper(), name)) in fields and bounds_of(option)
    }
    assert ("fleet_rollout", "to_revision") in found
    assert {name for name, (own, of_field) in found.items() if own != of_field} == set()
