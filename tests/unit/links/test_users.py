# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""users.yaml keeps every character that is not ours."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.users import edit_users
from tests.testing.rows import one_test

CHART = "users:\n- name: remote-peer\n  role: remote\n"
HAND_WRITTEN = """\
# who may read this cluster
users:
  # the old one
  - name: remote-peer   # do not remove
    role: remote

  - {name: remote-other, role: remote}
# the end
"""


def test_a_user_is_added_below_the_charts_own() -> None:
    assert edit_users(CHART, add=["remote-c2"]) == CHART + "- name: remote-c2\n  role: remote\n"


@one_test("text", "users:", "users:\n", "users: []\n", "users: null\n", "users: ~\n", "")
def test_every_form_of_the_empty_list_takes_a_user(text: str) -> None:
    assert edit_users(text, add=["remote-c2"]) == "users:\n- name: remote-c2\n  role: remote\n"


def test_comments_and_layout_stay_when_users_come_and_go() -> None:
    added = edit_users(HAND_WRITTEN, add=["remote-c2", "remote-c3"])
    assert added == HAND_WRITTEN.replace(
        "# the end\n", "  - name: remote-c2\n    role: remote\n  - name: remote-c3\n    role: remote\n# the end\n"
    )
    assert edit_users(added, remove=["remote-c2", "remote-c3"]) == HAND_WRITTEN


def test_a_comment_beside_the_empty_list_stays() -> None:
    assert edit_users("users: [] # none yet\n", add=["a"]) == "users: # none yet\n- name: a\n  role: remote\n"


def test_a_list_in_flow_style_is_written_anew_with_the_same_users() -> None:
    text = edit_users("users: [{name: a, role: remote}]\nother: 1\n", add=["b"])
    assert yaml.safe_load(text) == {"users": [{"name": "a", "role": "remote"}, {"name": "b", "role": "remote"}], "other": 1}


def test_a_user_that_is_there_is_not_added_again_and_one_that_is_not_there_needs_no_removal() -> None:
    assert edit_users(CHART, add=["remote-peer"], remove=["remote-c9"]) == CHART


@pytest.mark.parametrize("text", ["users: 7\n", "users: {a: b}\n", "- a\n", "users:\n- a\n", "users: [\n"])
def test_what_is_no_list_of_users_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"users\.yaml"):
        edit_users(text, add=["a"])


_NAMES = st.lists(st.from_regex(r"remote-[a-z][a-z0-9]{0,5}", fullmatch=True), unique=True, max_size=6)


@given(_NAMES, _NAMES, st.sampled_from(["", "  ", "    "]), st.sampled_from(["", "# between\n", "\n"]))
def test_what_was_added_can_be_taken_out_again_without_a_trace(there: list[str], new: list[str], indent: str, between: str) -> None:
    block = "".join(f"{between}{indent}- role: remote\n{indent}  name: {name}\n" for name in there)
    text = f"users:\n{block}"
    added = edit_users(text, add=new)
    fresh = [name for name in new if name not in there]
    assert [user["name"] for user in yaml.safe_load(added)["users"] or ()] == [*there, *fresh]
    assert edit_users(added, remove=fresh) == text
