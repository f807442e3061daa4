# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/exit-statuses.md says of every playbook when it ends in 0 and when in 2."""

from __future__ import annotations

import re

from tests.collection_path import CHECKOUT


def test_every_playbook_has_a_row_and_every_row_a_playbook() -> None:
    text = (CHECKOUT / "docs/exit-statuses.md").read_text(encoding="utf-8")
    table = text.partition("## What each playbook is asked")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
    assert all(len([cell for cell in row.split(" | ") if cell.strip("| ")]) == 3 for row in rows), "a row does not say both"
