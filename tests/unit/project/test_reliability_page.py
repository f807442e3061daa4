# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md names what the fault proxy can do, and the scenes that are tried."""

from __future__ import annotations

import re

from tests.collection_path import CHECKOUT
from tests.integration.faulted_runs import SCENES
from tests.testing.fault_proxy import FAULTS

PAGE = (CHECKOUT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_the_page_names_every_fault_and_every_scene() -> None:
    assert re.findall(r"(?m)^\| `([^`]+)` \|", PAGE.partition("## Faults")[2]) == list(FAULTS)
    assert re.findall(r"(?m)^\| ([a-z ]+) \| `[a-z]+` \|", PAGE) == list(SCENES)
