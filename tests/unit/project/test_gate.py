# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The gate has its scenarios and no other test on servers, and gives a second chance to a moment of the machine alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.testing import gate, lab_proof, second_chance

MOST_SERVERS = 14
LIFE = "tests/integration/test_life.py::test_life"


def test_the_gate_collects_its_scenarios_alone_and_they_need_few_api_servers() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        gate.OPTION,
        "--collect-only",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-v",
        "tests/integration",
    ]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    functions = re.findall(r"<Function (\S+)>", done.stdout)
    assert sorted(functions) == sorted(
        scenario.partition("::")[2] for scenario in gate.scenarios() if scenario.startswith("tests/integration")
    )
    servers = re.search(r"(\d+) API servers in labs", done.stdout)
    assert servers is not None and 0 < int(servers[1]) <= MOST_SERVERS, done.stdout
    assert "Left to the deep run (make test-all): " in done.stdout


class Pytest:
    """Plays pytest: each run takes the next set of failures and writes it where pytest-xdist's controller does."""

    def __init__(self, *failures: Sequence[str]) -> None:
        self.failures = list(failures)
        self.asked: list[list[str]] = []
        self.wanted: list[list[str]] = []

    def __call__(self, arguments: Sequence[str], log: Path) -> int:
        place = log.parent / "cache" / "v" / "cache" / "lastfailed"
        self.wanted.append(sorted(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else [])
        self.asked.append(list(arguments))
        failed = self.failures[len(self.asked) - 1]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(dict.fromkeys(failed, True)), encoding="utf-8")
        return 1 if failed else 0


@pytest.mark.parametrize(
    "failed", [[], ["tests/unit/test_a.py::test_1"], ["tests/unit/test_a.py::test_1", LIFE], [f"{LIFE}{n}" for n in range(4)]]
)
def test_neither_a_green_run_nor_one_with_a_failed_unit_test_or_many_failures_goes_on(failed: list[str], tmp_path: Path) -> None:
    run = Pytest(failed)
    assert second_chance.main(["-x"], run, tmp_path / "logs") == (1 if failed else 0)
    assert len(run.asked) == 1 and run.asked[0][0] == "-x"


@pytest.mark.parametrize(("second", "status"), [([], 0), ([LIFE], 1)])
def test_who_failed_on_servers_runs_again_alone_by_its_id_without_the_group(
    second: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Pytest([f"{LIFE}@operator", f"{LIFE}[a@b]@lab-three"], second)
    assert second_chance.main(["--numprocesses", "3"], run, tmp_path / "logs") == status
    assert run.wanted[1] == [LIFE, f"{LIFE}[a@b]"]
    assert run.asked[1][: len(run.asked[0])] == run.asked[0] and run.asked[1][-len(second_chance.ALONE) :] == list(second_chance.ALONE)
    said = capsys.readouterr().out
    assert (f"UNSTEADY: {LIFE} failed" in said) is (status == 0)
    assert (f"Failed twice, of 2 that failed once: {LIFE}" in said) is (status == 1)


@pytest.mark.parametrize("part", [["--shard", "2/4", "--junitxml=a.xml"], ["--shard=2/4", "--junit-xml", "a.xml"]])
def test_who_failed_in_a_part_of_the_deep_run_runs_again_in_no_part_and_leaves_the_report_of_all(part: list[str], tmp_path: Path) -> None:
    run = Pytest([LIFE], [])
    assert second_chance.main(["--numprocesses", "3", *part, "-x"], run, tmp_path / "logs") == 0
    assert run.asked[0][: 3 + len(part)] == ["--numprocesses", "3", *part, "-x"]
    assert run.asked[1][:3] == ["--numprocesses", "3", "-x"] and not {"2/4", "a.xml"} & {*run.asked[1]}
    assert not any("shard" in str(each) or "xml" in str(each) for each in run.asked[1])


def test_an_interrupted_run_is_not_taken_for_failed_tests(tmp_path: Path) -> None:
    assert second_chance.main([], lambda arguments, log: 2, tmp_path / "logs") == 2


FLAKY = """\
from pathlib import Path
import pytest
MARK = Path(__file__).with_name("ran")
@pytest.mark.xdist_group("servers")
def test_moment():
    ran, _ = MARK.exists(), MARK.touch()
    assert ran
@pytest.mark.xdist_group("servers")
def test_good():
    assert not Path(__file__).with_name("good").exists(), "it passed, so it is not run again"
    Path(__file__).with_name("good").touch()
"""
GROUPS = """\
def pytest_collection_modifyitems(config, items):
    if getattr(config.option, "loadgroup", False):
        from tests.collection_path import link
        link()
        from tests.integration.labs import name_groups
        name_groups(items)
"""
"""As tests/integration/conftest.py does. Who names no groups is spared the imports of the lab, which take longer than the tests."""


@pytest.mark.slow
def test_with_a_real_pytest_only_what_failed_runs_again_and_both_logs_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tests" / "integration"
    folder.mkdir(parents=True)
    (folder / "test_flaky.py").write_text(FLAKY, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(GROUPS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {CHECKOUT}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / "logs"
    assert second_chance.main(["--numprocesses", "1", "--dist", "loadgroup", "-p", "no:randomly"], logs=logs) == 0
    assert "1 failed, 1 passed" in (logs / "first.log").read_text(encoding="utf-8")
    assert "1 passed" in (logs / "second.log").read_text(encoding="utf-8")


def test_the_tests_of_the_lab_count_as_passed_until_a_file_of_the_lab_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_proof, "CHECKOUT", tmp_path)
    monkeypatch.setattr(lab_proof, "PROOF", tmp_path / "proof.txt")
    monkeypatch.setattr(lab_proof, "FOLDERS", (tmp_path,))
    (tmp_path / "lab.py").write_text("a = 1\n", encoding="utf-8")
    assert not lab_proof.is_proven()
    lab_proof.write()
    assert lab_proof.is_proven()
    (tmp_path / "lab.py").write_text("a = 2\n", encoding="utf-8")
    assert not lab_proof.is_proven()
    (tmp_path / "lab.py").write_text("a = 1\n", encoding="utf-8")
    (tmp_path / "more.py").write_text("", encoding="utf-8")
    assert not lab_proof.is_proven()
