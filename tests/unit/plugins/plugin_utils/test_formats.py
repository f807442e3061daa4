# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Each kind of value that a run shows has lines: those of every run in one place, the others with the actions that show them."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import get_args

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Defect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown, WorkloadsMeasured
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.mesh_action import MeshAction
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.shown_lines import lines_of
from tests.collection_path import CHECKOUT
from tests.testing.returned_keys import followed

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"
FOLDER = CHECKOUT / "plugins"


def actions() -> dict[str, type[MeshAction]]:
    names = sorted(path.stem for path in (FOLDER / "action").glob("*_*.py"))
    made = {name: import_module(f"{PLUGINS}.action.{name}").ActionModule for name in names}
    return {name: action for name, action in made.items() if issubclass(action, MeshAction)}


def shown_by(name: str) -> set[str]:
    """Names of the kinds of values that an action can show: what the functions make that it calls, and what these call."""
    kinds = {kind.__name__ for kind in get_args(Shown)}
    return {kind for _file, _within, names in followed(name, "mesh_action", "shown", "shown_lines") for kind in names & kinds}


def test_each_kind_of_value_has_lines_in_every_action_that_shows_it() -> None:
    everywhere = {
        node.cls.id
        for node in ast.walk(ast.parse(inspect.getsource(lines_of)))
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name)
    }
    special = {kind.__name__ for action in actions().values() for kind in action.FORMATS}
    assert everywhere | special == {kind.__name__ for kind in get_args(Shown)} and not everywhere & special
    for name, action in actions().items():
        own = {kind.__name__ for kind in action.FORMATS}
        assert shown_by(name) <= everywhere | own, name
    assert "ItemsMeasured" in shown_by("mesh_service") & shown_by("mesh_reconcile"), "it follows the calls"


def test_a_value_without_lines_is_a_defect() -> None:
    with pytest.raises(Defect, match="WorkloadsMeasured"):
        lines_of(WorkloadsMeasured("a/b", ()), {})
