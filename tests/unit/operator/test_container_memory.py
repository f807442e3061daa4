# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The container's limit holds the sum of what all parts of the operator may take, and the operator says where it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from mesh_operator.base import container_memory
from mesh_operator.base.container_memory import MIB, memory_limit, memory_needed, memory_shortage
from mesh_operator.base.settings import Settings
from mesh_operator.runs import runner as runs
from mesh_operator.runs.confined.messages import VALUES
from mesh_operator.runs.confined.process import ANSWER_LIMIT
from mesh_operator.runs.run_events import LARGEST
from mesh_operator.source.resource_writer import AT_ONCE
from mesh_operator.statuses import item_statuses
from tests.collection_path import CHECKOUT

DEPLOY = CHECKOUT / "operator" / "deploy"
DEFAULT = memory_needed(Settings.max_runs, Settings.dry_run_memory)


def read(path: Path) -> Any:
    return load_yaml(path.read_text(encoding="utf-8"))


def quantity(text: str) -> int:
    [(number, unit)] = re.findall("^([0-9]+)(Mi|Gi)$", text)
    return int(number) * {"Mi": MIB, "Gi": 1024 * MIB}[unit]


def test_the_chart_s_limit_holds_the_sum_of_all_parts() -> None:
    values = read(DEPLOY / "chart" / "values.yaml")
    assert (values["maxRuns"], values["dryRunMemory"]) == (Settings.max_runs, Settings.dry_run_memory)
    assert quantity(values["resources"]["limits"]["memory"]) >= DEFAULT
    without_runs = container_memory.LEADER + container_memory.FORK_SERVER
    assert without_runs <= quantity(values["resources"]["requests"]["memory"]) <= quantity(values["resources"]["limits"]["memory"])
    assert (quantity(values["shmSizeLimit"]), quantity(values["tmpSizeLimit"])) == (container_memory.SHM, container_memory.TMP)


@pytest.mark.parametrize("folder", ["manifests", "kubernetes", "fleet"])
def test_the_manifests_have_that_limit_too(folder: str) -> None:
    text = (DEPLOY / folder / "3-operator.yaml").read_text(encoding="utf-8")
    [limit] = re.findall(r"limits:\n +memory: (\S+)", text)
    assert quantity(limit) >= DEFAULT


def test_each_part_is_what_its_limit_in_the_code_says() -> None:
    assert runs.LIMITS.memory == container_memory.RUN_PROCESS
    assert runs.settings_of_runs()["ANSIBLE_FORKS"] == str(container_memory.RUN_PROCESSES - 1)
    assert ANSWER_LIMIT == LARGEST
    # A value costs up to 232 bytes (a mapping with one key). An answer is read as bytes, text and values, beside the parts of a dry run;
    # while statuses are written there are its values, all parts, and those that are written with the one that is read.
    values, part = VALUES * 232, 3 * item_statuses.LARGEST + item_statuses.VALUES * 232
    assert 3 * LARGEST + values + item_statuses.WHOLE <= container_memory.ANSWER
    assert values + item_statuses.WHOLE + (AT_ONCE + 1) * part <= container_memory.ANSWER
    assert runs.LIMITS.file_size > item_statuses.WHOLE
    assert runs.LIMITS.file_size * Settings.max_runs <= container_memory.TMP


def test_the_page_has_the_parts_and_their_sum() -> None:
    page = (CHECKOUT / "docs" / "operator.md").read_text(encoding="utf-8").partition("**Memory.**")[2].partition("\n**")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")][2:]
    parts = {
        "the operator's process": container_memory.LEADER,
        "an answer or a result while it is read, for each of `maxRuns`": container_memory.ANSWER,
        "fork server": container_memory.FORK_SERVER,
        "a run, for each of `maxRuns`": container_memory.CLIENT + container_memory.RUN_PROCESSES * container_memory.RUN_PROCESS,
        "`shmSizeLimit`": container_memory.SHM,
        "`tmpSizeLimit`": container_memory.TMP,
        "sum, with `maxRuns` 2": DEFAULT,
    }
    assert {row[0]: row[1] for row in rows} == {name: f"{size // MIB} MiB" for name, size in parts.items()}


def test_a_dry_run_that_may_take_more_than_a_run_counts_in_its_place() -> None:
    assert memory_needed(3, 2000) - memory_needed(2, 2000) == container_memory.ANSWER + 2000 * MIB
    assert memory_needed(2, 1) == DEFAULT


def cgroups(folder: Path, own: str, files: dict[str, str]) -> int | None:
    for name, text in files.items():
        file = folder / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="ascii")
    (folder / "own").write_text(own, encoding="ascii")
    return memory_limit(folder / "cgroup", folder / "own")


V1 = "5:cpu,cpuacct:/x\n4:memory:/kubepods/pod1/c1\n1:name=systemd:/\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "1073741824"}, 1073741824),  # version 2, in a container
        ("0::/\n", {"memory.max": "max"}, None),
        ("0::/a/b\n", {"a/memory.max": "5000000", "a/b/memory.max": "max"}, 5000000),  # a service of systemd
        ("0::/a/b\n", {"a/memory.max": "5000000", "a/b/memory.max": "7000000"}, 5000000),
        (V1, {"memory/memory.limit_in_bytes": "1073741824"}, 1073741824),  # version 1, in a container
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        (
            V1,
            {"memory/kubepods/pod1/c1/memory.limit_in_bytes": "77777777", "memory/memory.limit_in_bytes": "9223372036854771712"},
            77777777,
        ),
        ("0::/\n", {}, None),
    ],
)
def test_the_limit_of_the_container_is_read_from_both_versions_of_cgroups(
    tmp_path: Path, own: str, files: dict[str, str], limit: int | None
) -> None:
    assert cgroups(tmp_path, own, files) == limit


def test_where_there_are_no_cgroups_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path, tmp_path / "absent") is None


def test_a_limit_below_the_sum_is_reported_at_the_start_with_what_to_do() -> None:
    assert memory_shortage(Settings.max_runs, Settings.dry_run_memory, None) == ""
    assert memory_shortage(Settings.max_runs, Settings.dry_run_memory, DEFAULT) == ""
    said = memory_shortage(Settings.max_runs, Settings.dry_run_memory, 1024 * MIB)
    assert "1024 MiB" in said and f"{DEFAULT // MIB} MiB" in said and "--max-runs" in said
