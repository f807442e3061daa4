# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the code decides, says and writes is what was recorded: see the README beside this file."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from .adapter import codes
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


def test_every_code_of_the_catalogue_is_recorded() -> None:
    recorded = {code for family in FAMILIES for code in re.findall(r'"(CM-[A-Z]+-\d+)"', canonical(load(family, "structure")))}
    assert set(codes()) - recorded == set(UNRECORDED)


def test_no_recorded_sentence_ends_inside_another_one() -> None:
    """A message is a sentence; as a part of another one it is a clause (base/errors.py), without a stop of its own."""
    wrong = [
        f"{family}, {name}{path}: {text[max(0, found.start() - 80) : found.end() + 10]}"
        for family in FAMILIES
        for name, sentences in load(family, "sentences").items()
        for path, text in sentences.items()
        if (found := re.search(r"(?<=\w)(\.\)|[.!?][;,:]|\.\.(?!\.))(?=\s|\.|$)", text))
    ]
    assert wrong == []


def test_every_recording_belongs_to_a_family() -> None:
    assert {path.name for path in FOLDER.glob("*.json.gz")} == {f"{family}.{part}.json.gz" for family in FAMILIES for part in PARTS}
