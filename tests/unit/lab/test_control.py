# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Commands to a lab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import control
from tests.lab.control import LabError
from tests.unit.lab.asynchronous import in_loop


async def handler(verb: str, args: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    if verb == "wait":
        yield {"progress": "one"}
        yield {"progress": "two"}
        yield {"result": "ready"}
    elif verb == "status":
        yield {"result": args}
    elif verb == "cut":
        yield {"error": "there is no cluster 'c9'"}
    elif verb == "break":
        raise KeyError("cluster")


@in_loop
async def test_answers_progress_and_errors_come_back_however_long_the_folders_name_is(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    server = await control.serve(folder, handler)
    said: list[str] = []
    assert await asyncio.to_thread(control.call, folder, "wait", on_progress=said.append) == "ready"
    assert said == ["one", "two"]
    assert await asyncio.to_thread(control.call, folder, "status", {"a": 1}) == {"a": 1}
    for verb, text in (("cut", "no cluster 'c9'"), ("break", "KeyError"), ("silent", "ended before it answered")):
        with pytest.raises(LabError, match=text):
            await asyncio.to_thread(control.call, folder, verb)
    server.close()


def test_a_lab_that_does_not_run_is_named_with_the_way_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no lab runs.*tests.lab up"):
        control.call(tmp_path, "status")
    with pytest.raises(LabError, match="no lab runs"):
        control.call(tmp_path / "absent", "status")
    (tmp_path / "other").mkdir()
    with pytest.raises(LabError, match=r"name one that does with --name \(other\), or start one"):
        control.call(tmp_path / "absent", "status")
    assert control.beside(tmp_path / "other") == []
