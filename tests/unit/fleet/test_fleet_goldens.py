# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What each row of the table of translations in docs/fleet.md becomes in Karmada, byte for byte, for a reader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.fleet_goldens import goldens, outcome, rows
from tests.testing.rows import in_one_test


@in_one_test
@pytest.mark.parametrize(("name", "golden"), goldens().items(), ids=list(goldens()))
def test_the_golden_files_are_current(name: str, golden: dict[str, Any]) -> None:
    assert golden["writes"] == outcome(golden), f"{name}: python -m tests.testing.fleet_goldens"
    assert golden["writes"]


def test_every_row_of_the_table_has_a_golden_file() -> None:
    assert len(rows()) > 10
    assert set(rows()) == {golden["row"] for golden in goldens().values()}
