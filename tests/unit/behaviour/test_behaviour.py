# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the code decides, says and writes is what was recorded: see the README beside this file."""

from __future__ import annotations

from itertools import islice

import pytest

from .families import FAMILIES
from .recording import FOLDER, PARTS, differences, load, parts

SHOWN = 5  # differences; the first one is the one to look at


@pytest.mark.parametrize("family", FAMILIES)
def test_it_does_and_says_what_was_recorded(family: str) -> None:
    found = parts(FAMILIES[family]())
    for part in PARTS:
        told = "\n".join(f"  {place}" for place in islice(differences(load(family, part), found[part]), SHOWN))
        assert not told, f"the {part} of {family} differ from what was recorded, first in\n{told}\nREADME.md says what to do."


def test_every_recording_belongs_to_a_family() -> None:
    assert {path.name for path in FOLDER.glob("*.json.gz")} == {f"{family}.{part}.json.gz" for family in FAMILIES for part in PARTS}
