# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""RETURN of each module is made from docs/returns.yml and the schema of results, and names what its action returns, and nothing else."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path

import pytest

from tests.testing.returned_keys import COMMON, returned_keys
from tests.testing.returns import MODULES, entries, files, hold_to_documentation, source
from tests.testing.rows import in_one_test, one_test

NAMES = sorted(path.stem for path in MODULES.glob("*_*.py"))


@in_one_test
@pytest.mark.parametrize(("path", "text"), sorted(files().items()), ids=lambda value: getattr(value, "stem", ""))
def test_return_of_a_module_is_current(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run: make generated"


@one_test("module", *NAMES)
def test_a_module_documents_every_key_that_its_action_returns_and_no_other(module: str) -> None:
    assert set(entries(module, source())) - COMMON == returned_keys(module)


def test_every_text_is_used_and_every_group_names_modules() -> None:
    given = source()
    named = {name for names in given["modules"] for name in names.split()}
    used = {
        (said or {}).get("is", key) if not isinstance(said, str) else key
        for keys in given["modules"].values()
        for key, said in keys.items()
    }
    assert (named, used | {*given["every"]}) == ({*NAMES}, {*given["keys"]})


def test_a_text_that_is_missing_or_of_no_field_is_refused() -> None:
    given = source()
    without, cut, more = (deepcopy(given) for _ in range(3))
    del without["keys"]["reach"], cut["keys"]["reach"]["contains"]["notes"]
    more["keys"]["reach"]["contains"]["colour"] = "Of nothing."
    for changed, said in (
        (without, "no text of reach, which mesh_reach returns"),
        (cut, "no text of mesh_reach: reach.notes"),
        (more, "no mesh_reach: reach.colour"),
    ):
        with pytest.raises(AssertionError, match=re.escape(said)):
            entries("mesh_reach", changed)


def test_a_result_with_more_than_the_documentation_is_refused() -> None:
    found = {"changed": False, "findings": [{"code": "CM-API-01"}], "status": None, "plan": {"hash": "", "steps": []}}
    assert hold_to_documentation("mesh_verify", found) is found
    with pytest.raises(AssertionError, match=r"mesh_verify returns: findings\.colour, status$"):
        hold_to_documentation("mesh_verify", {**found, "findings": [{"colour": "red"}], "status": {"phase": "Connected"}})
