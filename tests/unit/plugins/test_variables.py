# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A misspelled variable is refused with the one that was meant, and every variable that the documentation names is accepted."""

from __future__ import annotations

import itertools
import re

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import HOST_VARIABLES
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.variables import KNOWN, unknown_variables
from tests.collection_path import CHECKOUT
from tests.testing.options import SETUPS, own_names, playbook_variables
from tests.testing.rows import one_test

PAGE = (CHECKOUT / "docs" / "variables.md").read_text(encoding="utf-8").partition("## Variables of playbooks")[2]
DOCUMENTED = sorted(set(re.findall(r"(?m)^\| `(\w+)` \|", PAGE)))
INVENTORY = sorted(set(re.findall(r"(?m)^\| `(cilium_mesh_\w+)` \|", (CHECKOUT / "docs" / "inventory.md").read_text(encoding="utf-8"))))
NAMES = [*DOCUMENTED, *INVENTORY]


def one_letter_less(name: str) -> set[str]:
    return {name[:place] + name[place + 1 :] for place in range(len(name))} - set(KNOWN)


def test_the_pages_name_every_variable() -> None:
    assert set(playbook_variables()) <= set(DOCUMENTED)
    assert set(INVENTORY) == set(HOST_VARIABLES)


def test_every_documented_variable_and_every_result_of_our_own_is_accepted() -> None:
    assert unknown_variables(dict.fromkeys([*NAMES, *own_names()]), {"c1": NAMES}) == []


@one_test("name", *NAMES)
def test_every_variable_with_a_letter_less_is_refused_with_the_right_name(name: str) -> None:
    for wrong in sorted(one_letter_less(name)):
        [message] = unknown_variables({wrong: 1}, {})
        said, _, meant = message.partition("; did you mean ")
        assert said == f"variable {wrong} is not known" and name in meant.removesuffix("?").split(" or "), message


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("cilium_mesh_stat", "cilium_mesh_state"), ("mesh_conect_wait", "mesh_connect_wait"), ("mesh_connect_wiat", "mesh_connect_wait")],
)
def test_what_people_mistyped_is_refused(wrong: str, meant: str) -> None:
    assert unknown_variables({wrong: False}, {}) == [f"variable {wrong} is not known; did you mean {meant}?"]


@one_test(
    "words", *itertools.product(("mesh", "mesh_apply", "mesh_reconcile"), ("hash", "plan_hash", "approve_refused", "fail_on_changes"))
)
def test_what_keeps_a_run_from_writing_is_never_ignored_under_a_half_remembered_name(words: tuple[str, str]) -> None:
    """A run with ``mesh_hash`` wrote what was not approved."""
    [message] = unknown_variables({"_".join(words): "65f66ea7cb67"}, {})
    assert message == f"variable {'_'.join(words)} is not known; did you mean cilium_mesh_{words[1]}?"


def test_a_variable_of_a_host_is_named_with_its_host() -> None:
    found = unknown_variables({}, {"c1": ["cilium_mesh_kubeconfg"], "c2": ["cilium_mesh_kubeconfg"], "c3": ["other"]})
    assert found == ["variable cilium_mesh_kubeconfg of host c1 and 1 more is not known; did you mean cilium_mesh_kubeconfig?"]


def test_names_of_others_are_let_pass() -> None:
    for name in ("ansible_host", "my_mesh_connect_wait", "_cilium_mesh_state", "cilium", "mesh", "network_policies", "globals"):
        assert unknown_variables({name: 1}, {"c1": [name]}) == [], name
    assert unknown_variables({"cilium_mesh_mine": {"changed": False, "failed": False}}, {}) == []  # a registered result


def test_names_that_only_begin_alike_can_be_declared() -> None:
    mine = {"network_policy_enabled": True, "cilium_mesh_site": "eu"}
    assert len(unknown_variables(mine, {})) == 2
    assert unknown_variables(mine, {"c1": ["network_policy_enabled"]}, ["network_policy_enabled", "cilium_mesh_s*"]) == []
    with pytest.raises(InvalidInput, match="is not a list of names"):
        unknown_variables(mine, {}, "network_policy_enabled")


@pytest.mark.parametrize("playbook", SETUPS)
def test_a_playbook_without_actions_of_the_collection_lists_its_variables(playbook: str) -> None:
    play = yaml.safe_load((CHECKOUT / "playbooks" / f"{playbook}.yml").read_text(encoding="utf-8"))[0]
    (block,) = (task["block"] for task in play["tasks"])
    (lists,) = (task["vars"] for task in block if f"{playbook}_read" in task.get("vars", {}))
    facts = {name for task in block for name in task.get("ansible.builtin.set_fact", {})}
    assert set(lists[f"{playbook}_read"]) == {name for name in playbook_variables() if name.startswith(f"{playbook}_")}
    assert set(lists[f"{playbook}_own"]) == {*play["vars"], *lists, *facts}
