# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The examples of the gate are the same in every run, whatever was imported before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.testing import properties

CONSTANT = 31_415_926_535


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of a module that is not imported yet, with many numbers in it."""
    name = "a_module_with_numbers"
    (tmp_path / f"{name}.py").write_text(f"NUMBERS = [{', '.join(str(CONSTANT + number) for number in range(200))}]\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def examples() -> list[int]:
    found: list[int] = []

    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(st.integers())
    def draw(number: int) -> None:
        found.append(number)

    draw()
    return found


def test_what_is_imported_changes_no_example(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_get_local_constants", providers._get_local_constants)
    properties.repeat()
    before = examples()
    import_module(module)
    assert examples() == before and len(before) == 200
