# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter in a template gives the namespace that the engine writes into, and says what is wrong with its arguments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.filter.karmada_namespace import DOCUMENTATION, RETURN, FilterModule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import karmada_namespace as name_of

karmada_namespace = FilterModule().filters()["karmada_namespace"]
WORDS = st.from_regex(r"[a-z]([a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def test_the_documented_sample_is_what_the_documented_example_returns() -> None:
    assert karmada_namespace("shop") == yaml.safe_load(RETURN)["_value"]["sample"]


@given(WORDS, WORDS)
def test_it_is_the_namespace_of_the_engine(workspace: str, namespace: str) -> None:
    assert karmada_namespace(workspace, namespace=namespace) == name_of(Tenant(workspace, namespace))


@pytest.mark.parametrize("workspace", ["", "a b", "x" * 64, "-", None, 7])
def test_a_wrong_workspace_is_named(workspace: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="the input is not a workspace"):
        karmada_namespace(workspace)


@pytest.mark.parametrize("namespace", ["", "A", "a.b", None, 7])
def test_a_wrong_namespace_is_named(namespace: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="Use the name of a namespace"):
        karmada_namespace("shop", namespace)


def test_every_argument_is_documented() -> None:
    options = set(yaml.safe_load(DOCUMENTATION)["options"]) - {"_input"}
    code = karmada_namespace.__code__
    assert options == set(code.co_varnames[1 : code.co_argcount])
