# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The examples in the documentation of the actions are accepted as they stand."""

from __future__ import annotations

from importlib import import_module

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.items_action import ItemsAction

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
