# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the code decides, says and writes is what was recorded: see the README beside this file."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from tests.testing.texts import stop_inside

from .adapter import codes_beside_checks
from .families import FAMILIES
from .recording import FOLDER, PARTS, canonical, differences, load, parts

SHOWN = 5  # differences; the first one is the one to look at


LARGE = {"meshes-profiles", "meshes-topologies", "meshes-troubles", "trust-ca"}
"""Families that take seconds."""


@pytest.mark.parametrize("family", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in FAMILIES])
def test_it_does_and_says_what_was_recorded(family: str) -> None:
    found = parts(FAMILIES[family]())
    for part in PARTS:
        told = "\n".join(f"  {place}" for place in islice(differences(load(family, part), found[part]), SHOWN))
        assert not told, f"the {part} of {family} differ from what was recorded, first in\n{told}\nREADME.md says what to do."


UNRECORDED = {
    "CM-LOCK-01": "needs the Lease of a server: tests/integration/test_lock.py",
    "CM-LOCK-02": "needs the Lease of a server: tests/integration/test_lock.py",
}
"""Codes that no scenario without a server can have, and why."""


def test_every_code_that_no_check_makes_is_recorded() -> None:
    """Those of checks have cases in tests/unit/checks/test_checks_catalogue.py."""
    recorded = {code for family in FAMILIES for code in re.findall(r'"(CM-[A-Z]+-\d+)"', canonical(load(family, "structure")))}
    assert set(codes_beside_checks()) - recorded == set(UNRECORDED)


def test_no_recorded_sentence_ends_inside_another_one() -> None:
    wrong = [
        f"{family}, {name}{path}: {part}"
        for family in FAMILIES
        for name, sentences in load(family, "sentences").items()
        for path, text in sentences.items()
        if (part := stop_inside(text))
    ]
    assert wrong == []


def test_every_recording_belongs_to_a_family() -> None:
    assert {path.name for path in FOLDER.glob("*.json.gz")} == {f"{family}.{part}.json.gz" for family in FAMILIES for part in PARTS}
