# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Memory and time of the operator's own process while it gets the answers of dry runs and writes statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from mesh_operator.base import container_memory
from mesh_operator.statuses.item_statuses import LARGEST, WHOLE
from tests.lab.patience import scaled


def measured(*size: str) -> list[dict[str, Any]]:
    """What each turn took that an operator made of such a mesh, in a process of its own."""
    path = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "tests.testing.measured_answer", *size]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300, env={**os.environ, "PYTHONPATH": path})
    turns: list[dict[str, Any]] = json.loads(said.stdout.splitlines()[-1])
    return turns


@pytest.mark.slow
@pytest.mark.parametrize("size", [("2000", "0", "64"), ("0", "2000", "64"), ("fleet", "2000", "64")])
def test_two_thousand_items_of_64_clusters_cost_the_operator_little_memory_and_time(size: tuple[str, ...]) -> None:
    """As values these statuses are up to 130 MiB, and to make and compare them takes five seconds."""
    turns = measured(*size)
    print(turns)
    assert sum(turn["written"] for turn in turns) == 2000 and turns[-1]["written"] == turns[-1]["later"] == 0
    assert max(turn["grown"] for turn in turns) < 64 * 1024 * 1024
    assert max(turn["cpu"] for turn in turns) < 3.0
    assert max(turn["pause"] for turn in turns) < scaled(1.0), "no other thread of the operator waits for it"


@pytest.mark.slow
def test_an_answer_as_large_as_may_be_takes_no_more_memory_than_the_container_has_for_it() -> None:
    [turn] = measured("hostile")
    print(turn)
    assert turn["written"] == WHOLE // LARGEST - 1 and turn["grown"] < container_memory.ANSWER
