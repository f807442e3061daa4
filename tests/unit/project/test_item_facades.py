# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Modules, roles and playbooks of items of one kind are those of their rows."""

from __future__ import annotations

from tests.collection_path import CHECKOUT
from tests.testing.item_facades import files, rows


def test_every_file_of_the_facades_is_current() -> None:
    stale = [path.relative_to(CHECKOUT) for path, text in files().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: make generated"


def test_every_action_of_items_has_a_row() -> None:
    actions = (CHECKOUT / "plugins" / "action").glob("*.py")
    of_items = {path.stem for path in actions if "(ItemsAction)" in path.read_text(encoding="utf-8")}
    assert of_items == {row["module"] for row in rows()}
