# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the code decides, says and writes is what was recorded: see the README beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.testing.gate import left_to_the_deep_run
from tests.testing.texts import stop_inside

from .adapter import codes_beside_checks
from .content import PARTS, canonical, parts, placed
from .determinism import collector_off
from .families import FAMILIES
from .recording import FOLDER, differences, load, path

SHOWN = 5  # differences; the first one is the one to look at


LARGE = {"fleet-workloads", "meshes-mixed", "meshes-profiles", "meshes-topologies", "meshes-troubles", "trust-ca"}
"""Families that take seconds."""


@pytest.mark.parametrize("family", left_to_the_deep_run(list(FAMILIES), but=FAMILIES.keys() - LARGE))
def test_it_does_and_says_what_was_recorded(family: str) -> None:
    with collector_off():
        scenarios = FAMILIES[family]()
        now = parts(scenarios)
        differing = [part for part in PARTS if canonical(load(family, part)) != canonical(now[part])]
    for part in differing:
        recorded, found = load(family, part), now[part]
        pair = [placed(each, scenarios) for each in (recorded, found)] if part == "hashes" else (recorded, found)
        shown = "\n".join(f"  {place}" for place in islice(differences(*pair), SHOWN))
        pytest.fail(f"{path(family, part).name} differs from what is now, first in\n{shown}\nREADME.md says what to do.")


UNRECORDED = {
    "CM-LOCK-01": "needs the Lease of a server: tests/integration/test_lock.py",
    "CM-LOCK-02": "needs the Lease of a server: tests/integration/test_lock.py",
    "CM-RBAC-03": "is about no mesh: tests/unit/rbac/test_manifest.py, tests/integration/test_rights.py",
}
"""Codes that no scenario without a server can have, and why."""


def test_every_code_that_no_check_makes_is_recorded() -> None:
    """Those of checks have cases in tests/unit/checks/test_checks_catalogue.py."""
    recorded = {text for family in FAMILIES for text in _texts(load(family, "told"), set()) if re.fullmatch(r"CM-[A-Z]+-\d+", text)}
    assert set(codes_beside_checks()) - recorded == set(UNRECORDED)


def test_no_recorded_sentence_ends_inside_another_one() -> None:
    wrong = {f"{family}: {part}" for family in FAMILIES for text in _texts(load(family, "told"), set()) if (part := stop_inside(text))}
    assert wrong == set()


def _texts(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield the texts in a recording; what stands in several places of it is checked once."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)) and id(value) not in seen:
        seen.add(id(value))
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts(entry, seen)


def test_every_recording_belongs_to_a_family() -> None:
    assert set(FOLDER.iterdir()) == {path(family, part) for family in FAMILIES for part in PARTS}
