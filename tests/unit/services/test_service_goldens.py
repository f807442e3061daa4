# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is written for a GlobalService, byte for byte, for a reader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.rows import in_one_test
from tests.testing.service_goldens import goldens, outcome


@in_one_test
@pytest.mark.parametrize(("name", "golden"), goldens().items(), ids=list(goldens()))
def test_the_golden_files_are_current(name: str, golden: dict[str, Any]) -> None:
    assert {key: golden[key] for key in ("writes", "wayBack")} == outcome(golden), f"{name}: python -m tests.testing.service_goldens"
    assert golden["writes"]
