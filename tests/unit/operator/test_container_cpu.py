# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What computes at the same time in the operator's container, and what the chart requests for it; a limit there is none."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from mesh_operator.base.settings import Settings
from mesh_operator.runs import runner as runs
from mesh_operator.runs.dry_runs import Bounds
from tests.collection_path import CHECKOUT

DEPLOY: Final = CHECKOUT / "operator" / "deploy"
LEADER: Final = 1000  # thousandths of a core: Python runs one thread of a process at a time
FORK_SERVER: Final = 0  # it forks while a worker waits for it, and sleeps otherwise
CHILD: Final = 1000  # a dry run has one process; of a run's two, one waits for the other
MOST: Final = LEADER + FORK_SERVER + Settings.max_runs * CHILD


def thousandths(quantity: str) -> int:
    [(number, unit)] = re.findall("^([0-9]+)(m?)$", quantity)
    return int(number) * (1 if unit else 1000)


def section() -> str:
    return (CHECKOUT / "docs" / "operator.md").read_text(encoding="utf-8").partition("**CPU.**")[2].partition("\n**")[0]


def resources() -> Any:
    return load_yaml((DEPLOY / "chart" / "values.yaml").read_text(encoding="utf-8"))["resources"]


def test_the_page_has_the_parts_and_their_sum() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section().split("\n\n")[1].splitlines() if line.startswith("| ")
    ][2:]
    parts = {
        "the operator's process": LEADER,
        "fork server": FORK_SERVER,
        "a dry run or a run, for each of `maxRuns`": CHILD,
        "sum, with `maxRuns` 2": MOST,
    }
    assert {row[0]: row[1] for row in rows} == {name: f"{cores // 1000}" for name, cores in parts.items()}


def test_a_run_has_one_task_at_a_time() -> None:
    assert runs.settings_of_runs()["ANSIBLE_FORKS"] == "1"


def test_the_chart_requests_what_the_page_says_and_has_no_limit() -> None:
    """A quota that a run has used up would stop the process with the Lease, too, for the rest of each period (cpu.cfs_quota_us)."""
    asked = resources()
    assert "cpu" not in asked["limits"] and thousandths(asked["requests"]["cpu"]) <= MOST
    assert f"requests `{asked['requests']['cpu']}`" in section() and f"`cpu: {MOST // 1000}`" in section()


@pytest.mark.parametrize("folder", ["manifests", "kubernetes", "fleet"])
def test_the_manifests_request_that_too(folder: str) -> None:
    text = (DEPLOY / folder / "3-operator.yaml").read_text(encoding="utf-8")
    assert re.findall(r"cpu: (\S+)", text) == [resources()["requests"]["cpu"]]


def test_the_page_says_how_much_a_dry_run_may_compute_where_the_operator_gets_its_request_alone() -> None:
    """All that may compute shares the request then, in equal parts, and the deadline of a dry run goes on."""
    share = thousandths(resources()["requests"]["cpu"]) / (1 + Settings.max_runs) / 1000
    assert f"{share * Bounds.deadline:.0f} seconds of processor time" in section()
