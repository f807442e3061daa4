# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What no user sets is the same in a play and in the operator's dry run: options of actions and of runs have the same defaults."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import (
    ConnectOptions,
    FleetOptions,
    IdentityOptions,
    ItemsOptions,
    MembersOptions,
    Options,
)
from tests.testing.rows import one_test

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"
WHOLE = {"mesh_connect": ConnectOptions, "mesh_apply": ConnectOptions, "mesh_items": ItemsOptions}
"""Actions that have every option of the run, but for the purpose, which mesh_connect calls its state."""
SOME = {
    "fleet_rollout": FleetOptions,
    "fleet_workload": FleetOptions,
    "karmada_cluster": MembersOptions,
    "mesh_adopt": ConnectOptions,
    "mesh_ca": ConnectOptions,
    "mesh_fabric": Options,
    "mesh_identity": IdentityOptions,
    "mesh_plan": ConnectOptions,
    "mesh_verify": ConnectOptions,
}


@one_test("action options", *WHOLE.items(), *SOME.items())
def test_an_option_has_the_same_default_in_the_action_and_in_the_run(action: str, options: type[Options]) -> None:
    spec = import_module(f"{PLUGINS}.action.{action}").ActionModule.SPEC
    shared = [field.name for field in fields(options) if field.name in spec]
    assert shared
    if action in WHOLE:
        assert {field.name for field in fields(options)} - {"purpose"} <= set(spec)
    assert options.of({name: spec[name].get("default") for name in shared}) == options()


def test_every_kind_of_run_has_its_options_compared() -> None:
    assert set(Options.__subclasses__()) == {*WHOLE.values(), *SOME.values()} - {Options}
    assert [
        options.__name__ for options in Options.__subclasses__() if set(options.__annotations__) - {f.name for f in fields(options)}
    ] == []


def test_lists_of_a_task_become_immutable_values() -> None:
    assert ConnectOptions.of({"accept": ["CM-CIDR-01"], "report": False}, purpose="disconnect") == ConnectOptions(
        accept=("CM-CIDR-01",), purpose="disconnect"
    )
