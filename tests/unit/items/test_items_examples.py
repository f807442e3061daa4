# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the documentation of the actions shows is what they accept, and their options are those that are documented."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.model_parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.items_action import ITEMS, ItemsAction
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.spec import BREADTH, MESH, REPORT

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"
ACTIONS = ("mesh_items", "mesh_service", "mesh_policy", "mesh_exposure")
HOSTS = ["cluster-ffm-1", "cluster-ber-2"]


@pytest.mark.parametrize("name", ACTIONS)
def test_the_examples_are_accepted_as_they_stand(name: str) -> None:
    kinds = import_module(f"{PLUGINS}.action.{name}").ActionModule.KINDS
    tasks = yaml.safe_load(import_module(f"{PLUGINS}.modules.{name}").EXAMPLES)
    shown = [task[f"edge_portal.cilium_mesh.{name}"] for task in tasks]
    assert all(set(options) <= set(ItemsAction.SPEC) for options in shown)
    desired = desired_of(shown[0]["mesh"], parse(shown[0]["mesh"], HOSTS), kinds=kinds)
    assert desired.order
    assert desired.refused == ()


@pytest.mark.parametrize("name", ACTIONS)
def test_every_option_is_documented_with_its_default(name: str) -> None:
    fragments = import_module(f"{PLUGINS}.doc_fragments._mesh").ModuleDocFragment
    documented: dict[str, Any] = {}
    for part in ("DOCUMENTATION", "ITEMS", "ITEMS_BREADTH", "REPORT"):
        documented |= yaml.safe_load(getattr(fragments, part))["options"]
    listed = yaml.safe_load(import_module(f"{PLUGINS}.modules.{name}").DOCUMENTATION)["extends_documentation_fragment"]
    assert {f"edge_portal.cilium_mesh._mesh{part}" for part in ("", ".items", ".items_breadth", ".report")} <= set(listed)
    specs = {**MESH, **REPORT, **BREADTH, **ITEMS}
    assert set(documented) == set(specs)
    for option, spec in specs.items():
        told = {key: documented[option].get(key) for key in ("type", "default", "choices", "elements")}
        assert told == {key: spec.get(key) for key in told}, option
